//! A thread's cache of numbers and places, so that the profiler's lock is needed only for new ones.

use nvtx_rs::text::sanitize;
use range_model::stats::{Keyed, Named};
use rustc_hash::FxHashMap;
use tracing_core::Metadata;

use super::gate::Gate;
use super::recent::Recent;
use super::row::RowIdentity;
use super::rows::Rows;
use crate::core::record::{Place, RangeKey};
use crate::core::session::Session;
use crate::core::span::site::{Site, site_key};
use crate::own_stack::on_own_stack;
use crate::parts::thread::known::OfKnown;
use crate::parts::thread::{CallRows, rows_in_file};
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
    /// By parent, label and style, like the nodes of the catalog.
    nodes: Keyed<(u32, u32, RangeStyle), u32>,
    rows: Keyed<(u32, RangeKey), u32>,
    /// Places by parent and call site (or a stand-in), for those beyond the cache.
    places: FxHashMap<(u32, u64), Place>,
    pub(crate) parts: OfKnown,
}

/// Limit on cached places; beyond it each is looked up anew. A filtered call site has a place under each parent.
const PLACES: usize = 1 << 16;

impl Known {
    /// The facts about a call site.
    pub(crate) fn site(&mut self, lookup: &Lookup<'_>, metadata: &'static Metadata<'static>) -> Site {
        if self.parts.are_sites_old(lookup.session) {
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
}
