//! The tree of many processes, in the form that one is printed from.

use crate::{MergedSummary, RangeLabel, RangeStats, TreeNode};

/// The ranges, of which the tree names lifetimes.
pub(super) fn ranges(merged: &MergedSummary) -> Vec<RangeStats> {
    let ranges = merged.ranges.iter().map(|range| (range.key.clone(), range.all.clone()));
    ranges.map(|(RangeLabel { domain, name, style }, times)| RangeStats { domain, name, style, times }).collect()
}

/// Roots, from the flat list in the order of printing.
pub(super) fn nested(merged: &MergedSummary) -> Vec<TreeNode> {
    // From the last to the first: what is below a node waits when it comes, the nearest on top.
    let mut waiting: Vec<(usize, TreeNode)> = Vec::new();
    for node in merged.tree.iter().rev() {
        let (key, all) = (&node.key, &node.all);
        let mut children = Vec::new();
        while waiting.last().is_some_and(|(depth, _)| *depth > key.depth) {
            children.extend(waiting.pop().map(|(_, child)| child));
        }
        let node = TreeNode {
            domain: key.domain.clone(),
            name: key.name.clone(),
            calls: all.calls,
            instances: all.instances,
            total_ns: all.total_ns,
            self_ns: all.self_ns,
            blocked_ns: all.blocked_ns,
            max_ns: all.max_ns,
            quantiles: Vec::new(),
            awaited_ns: all.awaited_ns,
            awaited_self_ns: all.awaited_self_ns,
            stream_total_ns: all.stream_total_ns,
            stream_self_ns: all.stream_self_ns,
            gpu: all.gpu.clone(),
            first_ns: all.first_ns,
            children,
        };
        waiting.push((key.depth, node));
    }
    waiting.into_iter().rev().map(|(_, root)| root).collect()
}
