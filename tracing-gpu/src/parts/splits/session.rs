//! Call sites whose spans are named by default by the values of a known field, while there are few values.
//!
//! At one value more, or with too many nodes, the call site becomes whole: its spans take its own name from then on,
//! and summaries merge the counts of its values into that one row. Each call site has labels of its own, which identify
//! its rows. So a row of another call site with the same text stays as it is.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::atomic::Ordering::Relaxed;

use nvtx_rs::text::sanitize;
use parking_lot::MutexGuard;
use range_model::RangeStats;
use range_model::stats::{Keyed, Lean, Named, order};
use tracing_core::Metadata;

use crate::core::session::joined::Joined;
use crate::core::session::{Names, Session};
use crate::core::span::site::site_key;
use crate::parts::session::OfNames;
use crate::parts::splits::session::split::Split;
use crate::parts::values::span::values::KNOWN_NAMES;

/// The largest number of values of a call site that have rows of their own.
const MOST_VALUES: usize = 32;
/// The largest number of nodes of a call site's values. A recursion has one for each path of values, and would fill the
/// tree.
const MOST_NODES: usize = 1_024;

/// The number of a call site's first spans without a value at creation after which it is whole.
const MOST_UNSPLIT: u32 = 64;
/// The largest number of call sites with advice.
const MOST_ADVICE: usize = 2;

impl Session {
    /// Number of call sites that became whole.
    pub(crate) fn whole_sites(&self) -> u32 {
        self.parts.whole_sites.load(Relaxed)
    }

    /// Label of a span of this call site, by the value of a known field, given by its index. `None` if the call site is
    /// whole, or beyond the limit on names made at run time.
    pub(crate) fn split_label(&self, metadata: &'static Metadata<'static>, field: usize, value: &str) -> Option<u32> {
        let mut names = self.names.lock();
        let Names { catalog, sites, parts: OfNames { splits, split_labels, .. }, .. } = &mut *names;
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
        split.is_whole = true;
        self.make_whole(&mut names, metadata);
        None
    }

    /// Counts a new node with this label.
    pub(crate) fn count_split_node(&self, mut names: MutexGuard<'_, Names>, label: u32) {
        let Some(&metadata) = names.parts.split_labels.get(&label) else { return };
        let Some(split) = names.parts.splits.get_mut(&site_key(metadata)).filter(|split| !split.is_whole) else {
            return;
        };
        split.nodes += 1;
        if split.nodes > MOST_NODES {
            split.is_whole = true;
            self.make_whole(&mut names, metadata);
        }
    }

    /// How to get rows for the values of call sites that became whole, for those that took longest: the field with most
    /// values.
    pub(crate) fn advice(&self, ranges: &[RangeStats]) -> Vec<String> {
        let names = self.names.lock();
        let count = |split: &Split, field: usize| split.labels.keys().filter(|(of, _)| *of == field).count();
        let names_by =
            |field: usize| names.parts.splits.values().any(|split| !split.is_whole && count(split, field) > 0);
        let time = |name: &str| ranges.iter().filter(|row| row.name == name).map(|row| row.times.total_ns).total();
        let mut whole: Vec<(u128, &str, usize, bool)> = Vec::new();
        for split in names.parts.splits.values().filter(|split| split.is_whole) {
            let field = (0..KNOWN_NAMES.len()).largest_by(|field| count(split, *field));
            if let Some((label, field)) = names.catalog.label_of(split.plain).zip(field) {
                whole.push((time(&label.name), &label.name, field, split.labels.len() == MOST_VALUES));
            }
        }
        order::by_key(&mut whole, |&(time, name, field, _)| (Reverse(time), name, field));
        let sentence = |(_, name, field, has_many): (u128, &str, usize, bool)| {
            let fields = KNOWN_NAMES.iter().enumerate().filter(|(known, _)| *known == field || names_by(*known));
            let fields = fields.map(|(_, name)| *name).in_vec();
            let known = KNOWN_NAMES.get(field)?;
            let what = if has_many {
                format!("field `{known}` has too many values for a row each")
            } else {
                format!("the values of field `{known}` have too many rows in the tree")
            };
            let (all, list) = (fields.join("+"), fields.join("\", \""));
            Some(format!(
                "`{name}`: {what}. TRACING_GPU=name_from={all}, or .name_from([\"{list}\"]) of the builder, splits it."
            ))
        };
        whole.into_iter().filter_map(sentence).take(MOST_ADVICE).in_vec()
    }

    /// Counts a span of this call site without a value at creation. Returns whether it was one too many: then the call
    /// site is whole, unless others had a value.
    pub(crate) fn count_unsplit(&self, metadata: &'static Metadata<'static>) -> bool {
        let mut names = self.names.lock();
        let count = names.parts.unsplit.row(site_key(metadata));
        *count += 1;
        let is_enough = *count >= MOST_UNSPLIT;
        if is_enough && !names.parts.splits.contains_key(&site_key(metadata)) {
            self.make_whole(&mut names, metadata);
        }
        is_enough
    }

    /// Gives spans of this call site its own name from now on.
    fn make_whole(&self, names: &mut Names, metadata: &'static Metadata<'static>) {
        if let Some(site) = names.sites.get_mut(&site_key(metadata)).filter(|site| site.is_split) {
            site.is_split = false;
            self.parts.whole_sites.fetch_add(1, Relaxed); // while the names are locked
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
        for split in self.parts.splits.values() {
            for &label in split.labels.values() {
                let to = if split.is_whole { split.plain } else { self.catalog.shared_label(label) };
                labels.row_or(label, || to);
            }
        }
        let nodes = if labels.is_empty() { Vec::new() } else { self.catalog.relabel(&labels) };
        Joined::new(labels, nodes)
    }
}

pub(crate) mod split;
#[cfg(test)]
pub(crate) mod tests;
