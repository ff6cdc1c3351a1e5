//! Calls of futures: rows of all threads to what a summary says of them.

use std::collections::BTreeMap;

use range_report::stats::Distribution;
use range_report::summary::CallStats;

use super::{label_shown, label_text, times};
use crate::clock::Rate;
use crate::record::RangeKey;
use crate::session::Names;
use crate::thread::row::RowCopy;

/// The calls of one node, in ticks.
#[derive(Clone, Default)]
pub(super) struct NodeCalls {
    label: u32,
    latency: Distribution,
    busy: u128,
    cancelled: u64,
    /// Time that a call awaited what is no call.
    awaited_self: u128,
    /// Calls that ended as spans do that are kept and entered again and again.
    kept: u64,
}

impl NodeCalls {
    pub(super) fn awaited(&self) -> u128 {
        self.latency.total.saturating_sub(self.busy)
    }

    pub(super) fn awaited_self(&self) -> u128 {
        self.awaited_self.min(self.awaited())
    }

    fn merge(&mut self, other: &Self) {
        self.latency.merge(&other.latency);
        self.busy += other.busy;
        self.cancelled += other.cancelled;
        self.awaited_self += other.awaited_self;
    }
}

/// By node, without those whose spans are not futures but kept: a model's layers, an executor's systems.
pub(super) fn by_node(rows: &[(RangeKey, RowCopy)]) -> BTreeMap<u32, NodeCalls> {
    let mut nodes: BTreeMap<u32, NodeCalls> = BTreeMap::new();
    for (key, row) in rows.iter().filter(|(_, row)| row.times.count > 0) {
        let node = nodes.entry(row.node).or_default();
        node.label = key.label;
        if key.is_calls() {
            node.latency.merge(&row.times);
            node.busy += u128::from(row.nested);
            node.cancelled += row.calls;
        } else {
            node.awaited_self += row.times.total;
            node.kept += row.calls;
        }
    }
    nodes.retain(|_, node| node.kept <= node.latency.count / 2);
    nodes
}

/// A row a name, those first that awaited most themselves.
pub(super) fn stats(nodes: &BTreeMap<u32, NodeCalls>, names: &Names, rate: Rate, asked: &[f64]) -> Vec<CallStats> {
    let mut merged: BTreeMap<String, NodeCalls> = BTreeMap::new();
    for node in nodes.values() {
        let all = merged
            .entry(label_shown(names, node.label))
            .or_insert_with(|| NodeCalls { label: node.label, ..NodeCalls::default() });
        all.merge(node);
    }
    let rows = merged.values().filter_map(|calls| {
        let (domain, name) = label_text(names, calls.label)?;
        let mut row = CallStats::new(name, times(&calls.latency, rate, asked));
        row.domain = domain;
        row.cancelled = calls.cancelled;
        row.busy_ns = rate.ns(calls.busy);
        row.awaited_ns = rate.ns(calls.awaited());
        row.awaited_self_ns = rate.ns(calls.awaited_self());
        Some(row)
    });
    let mut rows: Vec<CallStats> = rows.collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.awaited_self_ns, row.latency.total_ns)));
    rows
}
