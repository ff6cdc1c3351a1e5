//! Call sites whose spans are named by default by the values of a known field, while there are few values.
//!
//! At one value more, or with too many nodes, the call site becomes whole: its spans take its own name from then on,
//! and summaries merge the counts of its values into that one row. Each call site has labels of its own, which identify
//! its rows. So a row of another call site with the same text stays as it is.

use std::borrow::Cow;
use std::sync::atomic::Ordering::Relaxed;

use nvtx_rs::text::sanitize;
use parking_lot::MutexGuard;
use range_report::stats::{Keyed, Lean, Named};
use tracing_core::Metadata;

use super::split::Split;
use super::{Names, Session};
use crate::span::site::site_key;
use crate::span::values::KNOWN_NAMES;

/// The largest number of values of a call site that have rows of their own.
const MOST_VALUES: usize = 32;
/// The largest number of nodes of a call site's values. A recursion has one for each path of values, and would fill the
/// tree.
const MOST_NODES: usize = 1_024;

/// Labels and nodes of a summary that were merged into others.
#[derive(Default)]
pub(crate) struct Joined {
    labels: Keyed<u32, u32>,
    nodes: Vec<u32>,
}

impl Joined {
    /// Whether nothing was merged.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    pub(crate) fn label(&self, label: u32) -> u32 {
        self.labels.get(&label).copied().unwrap_or(label)
    }

    pub(crate) fn node(&self, node: u32) -> u32 {
        self.nodes.get(node as usize).copied().unwrap_or(node)
    }
}

impl Session {
    /// Number of call sites that became whole.
    pub(crate) fn whole_sites(&self) -> u32 {
        self.whole_sites.load(Relaxed)
    }

    /// Label of a span of this call site, by the value of a known field, given by its index. `None` if the call site is
    /// whole, or beyond the limit on names made at run time.
    pub(crate) fn split_label(&self, metadata: &'static Metadata<'static>, field: usize, value: &str) -> Option<u32> {
        let mut names = self.names.lock();
        let Names { catalog, sites, splits, split_labels, .. } = &mut *names;
        let key = site_key(metadata);
        let site = sites.get(&key).filter(|site| site.is_split)?;
        let new = || Split { plain: site.label, labels: Named::default(), nodes: 0, is_whole: false };
        let split = splits.row_or(key, new);
        let value = (field, Box::from(value));
        if let Some(&label) = split.labels.get(&value) {
            return Some(label);
        }
        if split.labels.len() < MOST_VALUES {
            let plain = catalog.label_of(site.label).map_or("", |label| &label.name);
            let label = catalog.label_alone(site.domain, &name(plain, &value))?;
            split.labels.insert(value, label);
            split_labels.row_or(label, || metadata);
            return Some(label);
        }
        self.join(names, metadata, Some(value));
        None
    }

    /// Counts a new node with this label.
    pub(super) fn count_split_node(&self, mut names: MutexGuard<'_, Names>, label: u32) {
        let Some(&metadata) = names.split_labels.get(&label) else { return };
        let Some(split) = names.splits.get_mut(&site_key(metadata)).filter(|split| !split.is_whole) else { return };
        split.nodes += 1;
        if split.nodes > MOST_NODES {
            self.join(names, metadata, None);
        }
    }

    /// Merges the counts of this call site's values into one row. The last value may have had no row.
    fn join(
        &self,
        mut names: MutexGuard<'_, Names>,
        metadata: &'static Metadata<'static>,
        more: Option<(usize, Box<str>)>,
    ) {
        let Some(split) = names.splits.get_mut(&site_key(metadata)) else { return };
        split.is_whole = true;
        let values: Vec<_> = split.labels.keys().cloned().chain(more).in_vec();
        self.make_whole(&mut names, metadata);
        drop(names);
        let values = values.iter().filter_map(|(field, value)| Some((*KNOWN_NAMES.get(*field)?, &**value)));
        self.samples.fill(metadata, values);
    }

    /// The fields that name spans: the chosen ones, or else those that split a call site.
    pub(crate) fn naming_fields(&self) -> Vec<String> {
        if let Some(chosen) = &self.fields.name_from {
            return chosen.clone();
        }
        let names = self.names.lock();
        let mut fields = Vec::new();
        for (place, field) in KNOWN_NAMES.iter().enumerate() {
            let has_named = |split: &Split| !split.is_whole && split.labels.keys().any(|&(of, _)| of == place);
            if names.splits.values().any(has_named) {
                fields.push((*field).to_owned());
            }
        }
        fields
    }

    /// The first spans of this call site had no value at creation. Makes it whole, unless others had a value.
    pub(crate) fn settle_split(&self, metadata: &'static Metadata<'static>) {
        let mut names = self.names.lock();
        if !names.splits.contains_key(&site_key(metadata)) {
            self.make_whole(&mut names, metadata);
        }
    }

    /// Gives spans of this call site its own name from now on.
    fn make_whole(&self, names: &mut Names, metadata: &'static Metadata<'static>) {
        if let Some(site) = names.sites.get_mut(&site_key(metadata)).filter(|site| site.is_split) {
            site.is_split = false;
            site.is_sampled = !site.own_values && self.statistics;
            self.whole_sites.fetch_add(1, Relaxed); // while the names are locked
        }
    }
}

/// The name of a span with this value.
fn name<'a>(plain: &str, (field, value): &'a (usize, Box<str>)) -> Cow<'a, str> {
    match field {
        0 => Cow::Borrowed(value),
        _ => Cow::Owned(sanitize(&format!("{plain}: {value}")).into_owned()),
    }
}

impl Names {
    /// Merges labels, in a copy of the names: labels of whole call sites become the call site's name, and others their
    /// text.
    pub(crate) fn join_splits(&mut self) -> Joined {
        let mut labels = Keyed::default();
        for split in self.splits.values() {
            for &label in split.labels.values() {
                let to = if split.is_whole { split.plain } else { self.catalog.shared_label(label) };
                labels.row_or(label, || to);
            }
        }
        let nodes = if labels.is_empty() { Vec::new() } else { self.catalog.relabel(&labels) };
        Joined { labels, nodes }
    }
}

#[cfg(test)]
pub(crate) mod tests;
