//! What a thread has met before: so that the profiler's lock is taken the first time only.

use std::collections::HashMap;
use std::sync::atomic::Ordering::{Relaxed, Release};

use rustc_hash::FxHashMap;
use tracing_core::Metadata;

use super::catalog::CategoryName;
use super::row::RowIdentity;
use super::shard::Shard;
use super::site::{Site, site_key};
use crate::record::{Place, RangeKey};
use crate::summary::RangeStyle;

/// Numbers that one thread has asked for. Behind a lock of the shard's own that only this thread takes.
#[derive(Debug, Default)]
pub(super) struct Known {
    sites: FxHashMap<u64, Site>,
    labels: HashMap<u32, HashMap<Box<str>, u32>>,
    categories: HashMap<CategoryName, u32>,
    /// By parent, label and style: the catalog's rule for what is one node.
    nodes: FxHashMap<(u32, u32, RangeStyle), u32>,
    rows: FxHashMap<(u32, RangeKey), u32>,
    /// Places of call sites, and of what stands for one, under their parents: for those that the cache has no room for.
    places: FxHashMap<(u32, u64), Place>,
}

/// Places that are known before they are all looked up anew: a filtered call site has one under each parent.
const PLACES: usize = 1 << 16;

impl Shard {
    /// The place of a call site, or what stands for one, under a parent, if it was looked up before.
    pub(super) fn known_place(&self, parent: u32, site: u64) -> Option<Place> {
        self.known.lock().places.get(&(parent, site)).copied()
    }

    pub(super) fn know_place(&self, parent: u32, site: u64, place: Place) {
        let places = &mut self.known.lock().places;
        if places.len() >= PLACES {
            places.clear();
        }
        places.insert((parent, site), place);
    }

    /// What is known of a call site.
    pub(crate) fn site(&self, metadata: &'static Metadata<'static>) -> Site {
        let mut known = self.known.lock();
        *known.sites.entry(site_key(metadata)).or_insert_with(|| self.closed(|| self.core.site(metadata)))
    }

    /// Number of a name made at run time; `None` beyond the bound on such names.
    pub(crate) fn run_time_label(&self, domain: u32, name: &str) -> Option<u32> {
        let mut known = self.known.lock();
        let labels = known.labels.entry(domain).or_default();
        if let Some(&label) = labels.get(name) {
            return Some(label);
        }
        let label = self.core.run_time_label(domain, name)?;
        labels.insert(Box::from(name), label);
        Some(label)
    }

    /// Number of a category.
    pub(crate) fn category(&self, name: CategoryName) -> u32 {
        let mut known = self.known.lock();
        if let Some(&category) = known.categories.get(&name) {
            return category;
        }
        let category = self.core.category(name.clone());
        if category != 0 {
            known.categories.insert(name, category); // what is beyond the bound on categories is no more kept here, and counts each time
        }
        category
    }

    /// Node of a range under a parent.
    pub(crate) fn node(&self, parent: u32, key: RangeKey) -> u32 {
        let mut known = self.known.lock();
        *known.nodes.entry((parent, key.label, key.style)).or_insert_with(|| self.core.node(parent, key))
    }

    /// The place of a node and key on this thread, with a row of its own from the first time on.
    pub(crate) fn place(&self, node: u32, key: RangeKey, metadata: &'static Metadata<'static>) -> Place {
        let mut known = self.known.lock();
        if let Some(&row) = known.rows.get(&(node, key)) {
            return Place::new(node, row);
        }
        let index = self.row_count.load(Relaxed);
        let Some(row) = self.rows.get_or_grow(index as usize) else { return Place::NONE };
        let nvtx = self.closed(|| self.core.nvtx_range(key));
        row.identify(node, RowIdentity { key, metadata, nvtx });
        self.row_count.store(index + 1, Release); // pairs with `rows`: a reader that counts the row sees its identity
        known.rows.insert((node, key), index);
        Place::new(node, index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::core::Core;

    #[test]
    fn categories_beyond_the_bound_are_not_kept_and_count_each_time() {
        let shard = Shard::new(Core::inert(), 0); // which has room for none
        let over = || shard.core.with_names(|names| names.catalog.categories_over_limit);
        let before = over();
        for number in [1, 2, 1] {
            assert_eq!(shard.category(CategoryName::Number(number)), 0);
        }
        assert!(shard.known.lock().categories.is_empty() && over() - before >= 3); // other tests have the same core
    }
}
