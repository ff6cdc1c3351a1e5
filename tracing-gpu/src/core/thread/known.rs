//! A thread's cache of numbers and places, so that the profiler's lock is needed only for new ones.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use nvtx_rs::text::sanitize;
use range_model::stats::{Keyed, Named};
use rustc_hash::{FxBuildHasher, FxHashMap};
use tracing_core::Metadata;

use super::gate::Gate;
use super::row::RowIdentity;
use super::rows::{CallRows, Rows};
use crate::core::record::{CallIdentity, Place, RangeKey};
use crate::core::session::Session;
use crate::core::session::catalog::CategoryName;
use crate::core::session::front_end::crate_of;
use crate::core::span::site::{Site, site_key};
use crate::own_stack::on_own_stack;
use crate::parts::thread::{CallRow, Category, KNOWN_NAMES, Misread, call_rows_in_file, rows_in_file};
use range_model::RangeStyle;

/// Sources for cache misses: the thread's session, which may call a tool, and the thread's own rows.
pub(crate) struct Lookup<'a> {
    pub(crate) session: &'static Session,
    pub(crate) thread: u32,
    pub(crate) gate: &'a Gate,
    pub(crate) rows: &'a Rows,
    pub(crate) call_rows: &'a CallRows,
}

/// Cached numbers of one thread. Only this thread takes their lock.
#[derive(Debug, Default)]
pub(crate) struct Known {
    sites: FxHashMap<u64, Site>,
    labels: Keyed<u32, Named<Box<str>, u32>>,
    recent_labels: Recent,
    /// For each call site and index of a field that names spans by default: the names, by the values of the field.
    split_labels: Keyed<(u64, usize), Named<Box<str>, u32>>,
    recent_split_labels: Recent,
    /// The session's number of whole call sites when `sites` were looked up.
    whole_sites: u32,
    categories: Named<CategoryName, u32>,
    recent_categories: Recent,
    /// Call sites and fields with an invalid value that was reported.
    misread: Keyed<(u64, usize), ()>,
    /// By parent, label and style, like the nodes of the catalog.
    nodes: Keyed<(u32, u32, RangeStyle), u32>,
    rows: Keyed<(u32, RangeKey), u32>,
    /// By node and label.
    call_rows: Keyed<(u32, u32), u32>,
    /// Unused rows of the file for calls.
    spare_call_rows: &'static [CallRow],
    /// Places by parent and call site (or a stand-in), for those beyond the cache.
    places: FxHashMap<(u32, u64), Place>,
    /// Numbers of open ranges without a span that are not on the stack, by domain. There is no entry with 0.
    pub(crate) untracked: Keyed<u32, u64>,
    /// Memory for the texts of the next span.
    texts: String,
}

/// Limit on cached places; beyond it each is looked up anew. A filtered call site has a place under each parent.
const PLACES: usize = 1 << 16;
/// Bytes of text memory that are kept for the next span.
const SPARE_TEXTS: usize = 4096;

/// The most recently used run-time names, by their text. The maps behind this cache have a collision-resistant hash,
/// which costs more than the rest of a lookup. Here a collision only causes a lookup in those maps.
#[derive(Debug, Default)]
struct Recent(Vec<Option<(u64, Box<str>, u32)>>);

/// Number of cached names, and the largest length of each in bytes.
const RECENT: usize = 32;
const RECENT_BYTES: usize = 256;

impl Recent {
    fn place(domain: u64, name: &str) -> usize {
        FxBuildHasher.hash_one((domain, name)) as usize % RECENT
    }

    fn get(&self, domain: u64, name: &str) -> Option<u32> {
        let (known_domain, known, number) = self.0.get(Self::place(domain, name))?.as_ref()?;
        (*known_domain == domain && **known == *name).then_some(*number)
    }

    fn insert(&mut self, domain: u64, name: &str, number: u32) {
        if name.len() > RECENT_BYTES {
            return;
        }
        self.0.resize_with(RECENT, || None);
        if let Some(entry) = self.0.get_mut(Self::place(domain, name)) {
            *entry = Some((domain, name.into(), number));
        }
    }
}

impl Known {
    /// The facts about a call site.
    pub(crate) fn site(&mut self, lookup: &Lookup<'_>, metadata: &'static Metadata<'static>) -> Site {
        let whole_sites = lookup.session.whole_sites();
        if std::mem::replace(&mut self.whole_sites, whole_sites) != whole_sites {
            self.sites.retain(|_, site| !site.is_split);
        }
        *self
            .sites
            .entry(site_key(metadata))
            .or_insert_with(|| lookup.gate.while_closed(|| lookup.session.site(metadata)))
    }

    /// Number of a name made at run time; `None` beyond the limit on such names.
    pub(crate) fn run_time_label(&mut self, lookup: &Lookup<'_>, domain: u32, name: &str) -> Option<u32> {
        if let Some(label) = self.recent_labels.get(domain.into(), name) {
            return Some(label);
        }
        let sanitized = if name.is_empty() { "(unnamed)".into() } else { sanitize(name) };
        let labels = self.labels.row(domain);
        let label = match labels.get(&*sanitized) {
            Some(&label) => label,
            None => {
                let label = lookup.session.run_time_label(domain, &sanitized)?;
                labels.insert(Box::from(&*sanitized), label);
                label
            }
        };
        self.recent_labels.insert(domain.into(), name, label);
        Some(label)
    }

    /// Number of the name from the value of a known field, given by its index. `None` if the call site has too many
    /// values, or beyond the limit on names made at run time.
    pub(crate) fn split_label(
        &mut self,
        lookup: &Lookup<'_>,
        metadata: &'static Metadata<'static>,
        (field, value): (usize, &str),
    ) -> Option<u32> {
        // The key of a field is one of the next addresses, which no other call site has.
        let (site, recent) = (site_key(metadata), site_key(metadata) + field as u64);
        if let Some(label) = self.recent_split_labels.get(recent, value) {
            return Some(label);
        }
        let sanitized = sanitize(value);
        let labels = self.split_labels.row((site, field));
        let label = match labels.get(&*sanitized) {
            Some(&label) => label,
            None => {
                let label = lookup.session.split_label(metadata, field, &sanitized)?;
                labels.insert(Box::from(&*sanitized), label);
                label
            }
        };
        self.recent_split_labels.insert(recent, value, label);
        Some(label)
    }

    /// Whether no span of this call site has had a value in a field that names spans by default.
    pub(crate) fn is_perhaps_unsplit(&self, metadata: &'static Metadata<'static>) -> bool {
        (0..KNOWN_NAMES.len()).all(|field| !self.split_labels.contains_key(&(site_key(metadata), field)))
    }

    /// Notes that a span had such a value: see [`is_perhaps_unsplit`](Self::is_perhaps_unsplit).
    pub(crate) fn know_split(&mut self, metadata: &'static Metadata<'static>) {
        self.split_labels.row((site_key(metadata), 0));
    }

    /// Number of a category; 0 beyond the limit.
    pub(crate) fn category(&mut self, lookup: &Lookup<'_>, category: Category<'_>) -> u32 {
        match category {
            Category::Number(number) => self.known_category(lookup, CategoryName::Number(number)),
            Category::Text(text) => self.recent_categories.get(0, text).unwrap_or_else(|| {
                let number = self.known_category(lookup, CategoryName::Text(Arc::from(&*sanitize(text))));
                if number != 0 {
                    self.recent_categories.insert(0, text, number);
                }
                number
            }),
        }
    }

    fn known_category(&mut self, lookup: &Lookup<'_>, name: CategoryName) -> u32 {
        if let Some(&category) = self.categories.get(&name) {
            return category;
        }
        let category = lookup.session.category(name.clone());
        if category != 0 {
            // A category beyond the limit is not cached, so it counts each time.
            self.categories.insert(name, category);
        }
        category
    }

    /// Reports an invalid value, the first time that this thread sees one of that call site and field.
    pub(crate) fn misread(
        &mut self,
        lookup: &Lookup<'_>,
        metadata: &'static Metadata<'static>,
        misread: Misread,
        value: &str,
    ) {
        // A call site has one copy of each field name, so the address identifies it, and no text is hashed.
        if self.misread.insert((site_key(metadata), misread.field.as_ptr().addr()), ()) {
            lookup.session.parts.misread.tell(site_key(metadata), metadata, misread, value);
        }
    }

    /// Node of a range under a parent.
    pub(crate) fn node(&mut self, lookup: &Lookup<'_>, parent: u32, key: RangeKey) -> u32 {
        *self.nodes.row_or((parent, key.label, key.style), || lookup.session.node(parent, key))
    }

    /// The place of a node and key on this thread. The first call makes the row. `metadata` is `None` for ranges
    /// without a span, which have no call site.
    pub(crate) fn place(
        &mut self,
        lookup: &Lookup<'_>,
        node: u32,
        key: RangeKey,
        metadata: Option<&'static Metadata<'static>>,
    ) -> Place {
        if let Some(&row) = self.rows.get(&(node, key)) {
            return Place::new(node, row);
        }
        let identity = || {
            let nvtx = metadata.map(|_| lookup.gate.while_closed(|| lookup.session.nvtx_range(key)));
            RowIdentity { key, domain: lookup.session.domain_of_label(key.label), nvtx, metadata }
        };
        let (session, thread) = (lookup.session, lookup.thread);
        let new_row = || {
            let index = lookup.rows.push(node, identity, |rows| rows_in_file(session, thread, rows))?;
            session.log_row(thread, index, node, key);
            Some(index)
        };
        let Some(index) = on_own_stack(new_row) else { return Place::NONE };
        self.rows.insert((node, key), index);
        Place::new(node, index)
    }

    /// The number of the row of the calls of a node and label on this thread; `None` if there is no room.
    pub(crate) fn call_row(
        &mut self,
        lookup: &Lookup<'_>,
        (node, label): (u32, u32),
        metadata: Option<&'static Metadata<'static>>,
    ) -> Option<u32> {
        if let Some(row) = self.call_rows.get(&(node, label)) {
            return Some(*row);
        }
        let source = metadata.map_or("", |metadata| crate_of(metadata.target()));
        let identity = CallIdentity { node, label, source };
        let row = on_own_stack(|| {
            let index = lookup.call_rows.push(identity, || {
                if self.spare_call_rows.is_empty() {
                    self.spare_call_rows = call_rows_in_file(lookup.session)?;
                }
                self.spare_call_rows.split_off_first()
            })?;
            let row = lookup.call_rows.get(index as usize)?;
            lookup.session.log_call_row(std::ptr::from_ref(row).addr(), identity);
            Some(index)
        })?;
        self.call_rows.insert((node, label), row);
        Some(row)
    }

    /// The cached place of a call site, or of a stand-in, under a parent.
    pub(crate) fn child(&self, parent: u32, site: u64) -> Option<Place> {
        self.places.get(&(parent, site)).copied()
    }

    pub(crate) fn know_child(&mut self, parent: u32, site: u64, place: Place) {
        if self.places.len() >= PLACES {
            self.places.clear();
        }
        self.places.insert((parent, site), place);
    }

    /// Memory for reading a span's texts.
    pub(crate) fn scratch(&mut self) -> String {
        std::mem::take(&mut self.texts)
    }

    /// Keeps text memory for the next span.
    pub(crate) fn keep_texts(&mut self, mut texts: String) {
        texts.clear();
        texts.shrink_to(SPARE_TEXTS);
        self.texts = texts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_beyond_the_bound_are_not_kept_and_count_each_time() {
        let session: &'static Session = Box::leak(Box::new(Session::new_inert())); // has no room for names
        let (gate, rows, call_rows) = (Gate::closed(), Rows::new(), CallRows::new());
        let lookup = &Lookup { session, thread: 0, gate: &gate, rows: &rows, call_rows: &call_rows };
        let mut known = Known::default();
        for number in [1, 2, 1] {
            assert_eq!(known.category(lookup, Category::Number(number)), 0);
            assert_eq!(known.category(lookup, Category::Text(&number.to_string())), 0);
        }
        assert!(known.categories.is_empty());
        assert_eq!(session.with_names(|names| names.catalog.categories_over_limit), 6);
    }

    #[test]
    fn names_that_meet_in_one_place_are_told_apart() {
        let mut recent = Recent::default();
        let names: Vec<String> = (0..200).map(|number| format!("layer {number}")).collect();
        for _ in 0..2 {
            for (number, name) in names.iter().enumerate() {
                assert!(recent.get(1, name).is_none_or(|known| known == number as u32), "{name}");
                recent.insert(1, name, number as u32);
                assert_eq!((recent.get(1, name), recent.get(2, name)), (Some(number as u32), None));
            }
        }
        assert_eq!(recent.0.len(), RECENT);
        recent.insert(1, &"x".repeat(RECENT_BYTES + 1), 7);
        assert_eq!(recent.get(1, &"x".repeat(RECENT_BYTES + 1)), None, "not what is long");
    }

    #[test]
    fn what_one_span_had_many_of_is_not_held_by_the_next() {
        let mut known = Known::default();
        known.keep_texts("0123456789".repeat(1_000));
        let kept = known.scratch();
        assert!(kept.is_empty() && kept.capacity() <= SPARE_TEXTS);
    }
}
