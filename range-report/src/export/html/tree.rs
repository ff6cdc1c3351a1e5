//! The phase tree as a list, from which the page makes a table and the flame graphs.

use serde::Serialize;

use super::texts::{LONGEST, presentable};
use crate::analysis::Phases;
use crate::report::Column;
use crate::report::calls::percentile;
use crate::summary::schema::Figures;
use crate::summary::{GpuWork, Quantile, Summary, TreeNode};
use crate::text::names::label_or_none;

/// The largest number of nodes. Further ones are counted.
const MOST_NODES: usize = 200_000;

/// A node, in the order of printing.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(super) struct Node {
    depth: usize,
    name: String,
    calls: u64,
    instances: u64,
    total: u64,
    own: u64,
    /// Flags for the marks at the calls, the share of the parent, and the own time.
    #[serde(skip_serializing_if = "is_not")]
    polled: bool,
    #[serde(skip_serializing_if = "is_not")]
    beside: bool,
    #[serde(skip_serializing_if = "is_not")]
    blocked: bool,
    /// Whether it ran outside of its parent, so that its total is no share of the parent's.
    #[serde(skip_serializing_if = "is_not")]
    elsewhere: bool,
    /// The average of the other calls, if one call is shown separately.
    #[serde(skip_serializing_if = "Option::is_none")]
    others_mean: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    awaited: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    awaited_own: Option<u64>,
    /// Quantiles that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quantiles: Vec<Written>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_own: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<Work>,
    /// Figures of additional columns after the page's own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    appended: Vec<Option<u64>>,
}

/// The header of a quantile, and its time; a list marks one from a histogram.
#[derive(Debug, PartialEq, Serialize)]
#[serde(untagged)]
enum Written {
    Exact(String, f64),
    About(String, [f64; 1]),
}

#[derive(Debug, PartialEq, Serialize)]
struct Work {
    busy: u64,
    busy_own: u64,
    sum: u64,
    operations: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde requires this signature
fn is_not(marked: &bool) -> bool {
    !marked
}

/// All nodes, parents before their children, and the number of omitted nodes. GPU work outside of any range comes last,
/// without CPU time.
pub(super) fn nodes(summary: &Summary, phases: &Phases, appended: &[(usize, Column)]) -> (Vec<Node>, usize) {
    let all = phases.all();
    let kept = 0..all.len().min(MOST_NODES);
    let mut nodes: Vec<Node> = kept.map(|index| of(phases, index, appended)).collect();
    if let Some(gpu) = &summary.gpu {
        nodes.extend(elsewhere("(outside any range)", &gpu.outside));
        nodes.extend(elsewhere("(launch not known)", &gpu.unmatched));
    }
    (nodes, all.len().saturating_sub(MOST_NODES))
}

/// The name of a phase on the page.
pub(super) fn name_of(node: &TreeNode) -> String {
    let name = label_or_none(node.domain.as_deref(), &node.name);
    presentable(&name, LONGEST).into_owned()
}

fn of(phases: &Phases, index: usize, appended: &[(usize, Column)]) -> Node {
    let phase = &phases.all()[index];
    let node = phase.node;
    Node {
        depth: phase.depth,
        name: name_of(node),
        calls: node.calls,
        instances: node.instances,
        total: node.total_ns,
        own: node.self_ns,
        polled: phase.is_polled(),
        beside: phase.beside,
        blocked: phase.is_blocked(),
        elsewhere: phases.ran_elsewhere(index),
        others_mean: phase.mean_ns().filter(|_| phase.one_call),
        awaited: node.awaited_ns,
        awaited_own: node.awaited_self_ns,
        quantiles: node.quantiles.iter().filter(|quantile| quantile.ns.is_finite()).map(written).collect(),
        stream_total: node.stream_total_ns,
        stream_own: node.stream_self_ns,
        gpu: node.gpu.as_ref().map(|work| Work {
            busy: work.total.busy_ns,
            busy_own: work.own.busy_ns,
            sum: work.total.sum_ns,
            operations: work.total.operations,
        }),
        appended: appended.iter().map(|(place, _)| node.shown().get(*place).copied().flatten()).collect(),
    }
}

fn written(quantile: &Quantile) -> Written {
    let header = percentile(quantile.q);
    if quantile.exact { Written::Exact(header, quantile.ns) } else { Written::About(header, [quantile.ns]) }
}

fn elsewhere(name: &str, work: &GpuWork) -> Option<Node> {
    (work.operations > 0).then(|| Node {
        name: name.to_owned(),
        gpu: Some(Work { busy: work.busy_ns, busy_own: work.busy_ns, sum: work.sum_ns, operations: work.operations }),
        ..Node::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_before_their_children() {
        let node = |name: &str, children| TreeNode { name: name.to_owned(), children, ..TreeNode::default() };
        let tree = vec![node("a", vec![node("b", vec![node("c", vec![])]), node("d", vec![])]), node("", vec![])];
        let summary = Summary { tree, ..Summary::default() };
        let (nodes, left_out) = nodes(&summary, &Phases::of(&summary), &[]);
        let seen: Vec<(usize, &str)> = nodes.iter().map(|node| (node.depth, node.name.as_str())).collect();
        assert_eq!(seen, [(0, "a"), (1, "b"), (2, "c"), (1, "d"), (0, "None")]);
        assert_eq!(left_out, 0);
    }

    #[test]
    fn very_deep_trees_are_listed() {
        let mut tree = TreeNode::default();
        for _ in 0..5_000 {
            tree = TreeNode { children: vec![tree], ..TreeNode::default() };
        }
        let summary = Summary { tree: vec![tree], ..Summary::default() };
        assert_eq!(nodes(&summary, &Phases::of(&summary), &[]).0.len(), 5_001);
    }
}
