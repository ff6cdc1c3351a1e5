//! The phase tree as a list, from which the page makes a table and the flame graphs.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::texts::{LONGEST, presentable};
use range_model::names::label_or_none;
use range_model::summary::schema::Figures;
use range_model::summary::{GpuWork, Quantile, Summary, TreeNode};
use range_report::page::Column;
use range_report::page::Phases;
use range_report::page::percentile;
use range_report::page::{Captured, captured, replayed as replayed_in};

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
    /// Whether it is no phase, but what was captured in one, below the phase that replays it.
    #[serde(skip_serializing_if = "is_not")]
    captured: bool,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    busy: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    busy_own: Option<u64>,
    operations: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde requires this signature
fn is_not(marked: &bool) -> bool {
    !marked
}

/// The largest number of nodes of captured work below a phase that replays it.
const MOST_CAPTURED: usize = 1_000;

/// All nodes, parents before their children, and the number of omitted nodes. GPU work outside of any range comes last,
/// without CPU time. Of captured work there are at most as many nodes.
pub(super) fn nodes(summary: &Summary, phases: &Phases, appended: &[(usize, Column)]) -> (Vec<Node>, usize) {
    let all = phases.all();
    let kept = 0..all.len().min(MOST_NODES);
    let mut replayed: FxHashMap<Option<usize>, Vec<Captured>> = FxHashMap::default();
    let mut room = MOST_NODES;
    let has_row = |index: Option<usize>| index.is_none_or(|index| kept.contains(&index));
    for (index, graphs) in replayed_in(phases, summary.gpu.as_ref()).filter(|(index, _)| has_row(*index)) {
        let rows = captured(graphs, MOST_CAPTURED);
        if rows.len() > room {
            break;
        }
        room -= rows.len();
        replayed.insert(index, rows);
    }
    let mut nodes = Vec::new();
    for index in kept {
        nodes.push(of(phases, index, appended));
        let depth = phases.all()[index].depth + 1;
        nodes.extend(replayed.remove(&Some(index)).into_iter().flatten().map(|row| captured_node(row, depth)));
    }
    if let Some(gpu) = &summary.gpu {
        if let Some(outside) = elsewhere("(outside any range)", &gpu.outside) {
            nodes.push(outside);
            nodes.extend(replayed.remove(&None).into_iter().flatten().map(|row| captured_node(row, 1)));
        }
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
        captured: false,
        others_mean: phase.mean_ns().filter(|_| phase.has_warm_up),
        awaited: node.awaited_ns,
        awaited_own: node.awaited_self_ns,
        quantiles: node.quantiles.iter().filter(|quantile| quantile.ns.is_finite()).map(written).collect(),
        stream_total: node.stream_total_ns,
        stream_own: node.stream_self_ns,
        gpu: node.gpu.as_ref().map(|work| Work {
            busy: Some(work.total.busy_ns),
            busy_own: Some(work.own.busy_ns),
            operations: work.total.operations,
        }),
        appended: appended.iter().map(|(place, _)| node.shown().get(*place).copied().flatten()).collect(),
    }
}

fn written(quantile: &Quantile) -> Written {
    let header = percentile(quantile.q);
    if quantile.exact { Written::Exact(header, quantile.ns) } else { Written::About(header, [quantile.ns]) }
}

fn captured_node(row: Captured, depth: usize) -> Node {
    let gpu = Work { busy: row.sum_ns, busy_own: row.own_ns, operations: row.nodes };
    let name = presentable(&row.name, LONGEST).into_owned();
    Node { depth: depth + row.depth, name, captured: true, gpu: Some(gpu), ..Node::default() }
}

fn elsewhere(name: &str, work: &GpuWork) -> Option<Node> {
    (work.operations > 0).then(|| Node {
        name: name.to_owned(),
        gpu: Some(Work { busy: Some(work.busy_ns), busy_own: Some(work.busy_ns), operations: work.operations }),
        ..Node::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use range_model::{CapturedWork, GpuActivity, GraphWork, NodeWork};

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
    fn captured_work_stands_below_the_phase_that_replays_it() {
        let part = |name, kernels, ns| CapturedWork { kernels, timed: kernels, sum_ns: ns, ..CapturedWork::new(name) };
        let graphs = GraphWork { replays: 2, captured: vec![part("a > b", 4, 30)], ..GraphWork::default() };
        let mut replay = TreeNode::new("replay");
        let gpu = NodeWork { graphs: graphs.clone(), ..NodeWork::new(GpuWork::default(), GpuWork::default()) };
        (replay.gpu, replay.children) = (Some(gpu), vec![TreeNode::new("copy")]);
        let outside = GpuWork { operations: 4, ..GpuWork::default() };
        let gpu = GpuActivity { outside, outside_graphs: graphs, ..GpuActivity::default() };
        let summary = Summary { tree: vec![replay], gpu: Some(gpu), ..Summary::default() };
        let (nodes, _) = nodes(&summary, &Phases::of(&summary), &[]);
        let seen: Vec<(usize, &str, bool)> =
            nodes.iter().map(|node| (node.depth, &*node.name, node.captured)).collect();
        let below = [(1, "[a]", true), (2, "[b]", true)];
        let expected = [&[(0, "replay", false)], &below[..], &[(1, "copy", false), (0, "(outside any range)", false)]];
        assert_eq!(seen, [&expected.concat()[..], &below].concat());
        assert_eq!(nodes[2].gpu, Some(Work { busy: Some(30), busy_own: Some(30), operations: 4 }));
        assert_eq!(nodes[1].gpu, Some(Work { busy: Some(30), busy_own: None, operations: 4 }));
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
