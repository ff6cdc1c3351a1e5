//! Looks up what the parts know of names and rows.

use std::sync::Arc;

use nvtx_rs::text::sanitize;
use tracing_core::Metadata;

use crate::core::record::CallIdentity;
use crate::core::session::catalog::CategoryName;
use crate::core::session::front_end::crate_of;
use crate::core::span::site::site_key;
use crate::core::thread::known::{Known, Lookup};
use crate::own_stack::on_own_stack;
use crate::parts::row_file::thread::call_rows_in_file;
use crate::parts::values::span::misread::Misread;
use crate::parts::values::span::values::{Category, KNOWN_NAMES};

/// Bytes of text memory that are kept for the next span.
const SPARE_TEXTS: usize = 4096;

impl Known {
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
        if let Some(label) = self.parts.recent_split_labels.get(recent, value) {
            return Some(label);
        }
        let sanitized = sanitize(value);
        let labels = self.parts.split_labels.row((site, field));
        let label = match labels.get(&*sanitized) {
            Some(&label) => label,
            None => {
                let label = lookup.session.split_label(metadata, field, &sanitized)?;
                labels.insert(Box::from(&*sanitized), label);
                label
            }
        };
        self.parts.recent_split_labels.insert(recent, value, label);
        Some(label)
    }

    /// Whether no span of this call site has had a value in a field that names spans by default.
    pub(crate) fn is_perhaps_unsplit(&self, metadata: &'static Metadata<'static>) -> bool {
        (0..KNOWN_NAMES.len()).all(|field| !self.parts.split_labels.contains_key(&(site_key(metadata), field)))
    }

    /// Notes that a span had such a value: see [`is_perhaps_unsplit`](Self::is_perhaps_unsplit).
    pub(crate) fn know_split(&mut self, metadata: &'static Metadata<'static>) {
        self.parts.split_labels.row((site_key(metadata), 0));
    }

    /// Number of a category; 0 beyond the limit.
    pub(crate) fn category(&mut self, lookup: &Lookup<'_>, category: Category<'_>) -> u32 {
        match category {
            Category::Number(number) => self.known_category(lookup, CategoryName::Number(number)),
            Category::Text(text) => self.parts.recent_categories.get(0, text).unwrap_or_else(|| {
                let number = self.known_category(lookup, CategoryName::Text(Arc::from(&*sanitize(text))));
                if number != 0 {
                    self.parts.recent_categories.insert(0, text, number);
                }
                number
            }),
        }
    }

    fn known_category(&mut self, lookup: &Lookup<'_>, name: CategoryName) -> u32 {
        if let Some(&category) = self.parts.categories.get(&name) {
            return category;
        }
        let category = lookup.session.category(name.clone());
        if category != 0 {
            // A category beyond the limit is not cached, so it counts each time.
            self.parts.categories.insert(name, category);
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
        if self.parts.misread.insert((site_key(metadata), misread.field.as_ptr().addr()), ()) {
            lookup.session.parts.misread.tell(site_key(metadata), metadata, misread, value);
        }
    }

    /// The number of the row of the calls of a node and label on this thread; `None` if there is no room.
    pub(crate) fn call_row(
        &mut self,
        lookup: &Lookup<'_>,
        (node, label): (u32, u32),
        metadata: Option<&'static Metadata<'static>>,
    ) -> Option<u32> {
        if let Some(row) = self.parts.call_rows.get(&(node, label)) {
            return Some(*row);
        }
        let source = metadata.map_or("", |metadata| crate_of(metadata.target()));
        let identity = CallIdentity { node, label, source };
        let row = on_own_stack(|| {
            let index = lookup.call_rows.push(identity, || {
                if self.parts.spare_call_rows.is_empty() {
                    self.parts.spare_call_rows = call_rows_in_file(lookup.session)?;
                }
                self.parts.spare_call_rows.split_off_first()
            })?;
            let row = lookup.call_rows.get(index as usize)?;
            lookup.session.log_call_row(std::ptr::from_ref(row).addr(), identity);
            Some(index)
        })?;
        self.parts.call_rows.insert((node, label), row);
        Some(row)
    }

    /// Memory for reading a span's texts.
    pub(crate) fn scratch(&mut self) -> String {
        std::mem::take(&mut self.parts.texts)
    }

    /// Keeps text memory for the next span.
    pub(crate) fn keep_texts(&mut self, mut texts: String) {
        texts.clear();
        texts.shrink_to(SPARE_TEXTS);
        self.parts.texts = texts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::session::Session;
    use crate::core::thread::gate::Gate;
    use crate::core::thread::rows::Rows;
    use crate::parts::thread::CallRows;

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
        assert!(known.parts.categories.is_empty());
        assert_eq!(session.with_names(|names| names.catalog.categories_over_limit), 6);
    }

    #[test]
    fn what_one_span_had_many_of_is_not_held_by_the_next() {
        let mut known = Known::default();
        known.keep_texts("0123456789".repeat(1_000));
        let kept = known.scratch();
        assert!(kept.is_empty() && kept.capacity() <= SPARE_TEXTS);
    }
}
