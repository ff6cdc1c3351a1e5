//! Graphs, and the spans that captured their nodes.

use std::collections::VecDeque;

use range_model::stats::{Keyed, Lean};

use crate::fold::{Capture, OfGraph, Part};
use crate::graph::{GraphChange, NodeKind};
use crate::record::GpuOp;

#[derive(Clone, Copy, Debug)]
struct Node {
    capture: Capture,
    kind: NodeKind,
    is_clone: bool,
}

#[derive(Debug, Default)]
struct Graph {
    /// The spans in which it was created; `None` before measuring.
    base: Option<u32>,
    nodes: Vec<Node>,
    /// Once it is executable, its parts.
    parts: Option<Vec<(Capture, Part)>>,
    /// Whether another graph is embedded in it, which may be the body of a condition.
    has_inner: bool,
    /// Then its latest replays, in order: one begins after another.
    replays: VecDeque<Replay>,
    /// Whether earlier ones were forgotten.
    forgot_replays: bool,
}

#[derive(Clone, Copy, Debug)]
struct Replay {
    correlation: u32,
    /// When its first operation began.
    start: u64,
}

impl Graph {
    fn ran(&mut self, op: &GpuOp) {
        // Ids wrap around.
        let place =
            self.replays.binary_search_by_key(&0, |replay| replay.correlation.wrapping_sub(op.correlation) as i32);
        match place {
            Ok(place) => {
                if let Some(replay) = self.replays.get_mut(place) {
                    replay.start = replay.start.min(op.start);
                }
            }
            Err(place) => {
                self.replays.insert(place, Replay { correlation: op.correlation, start: op.start });
                if self.replays.len() == REPLAYS {
                    self.replays.pop_front();
                    self.forgot_replays = true;
                }
            }
        }
    }
}

/// Tenths of a second in a period: a minute.
pub(super) const PERIOD: u32 = 600;

/// Fewer replays than this are remembered by graph with another one in it: 64 kB.
pub(super) const REPLAYS: usize = 1 << 12;

/// Graphs by number, with a bound on the number of all their nodes: 12 bytes each.
#[derive(Debug, Default)]
pub(super) struct GraphNodes {
    graphs: Keyed<u32, Graph>,
    nodes: usize,
    /// Executable graphs that ended in this period, and in the one before.
    ended: [Vec<u32>; 2],
    /// Number of nodes without room.
    pub(super) forgotten: u64,
}

const fn graph_of(node: u64) -> u32 {
    (node >> 32) as u32
}

const fn place_of(node: u64) -> usize {
    (node & 0xffff_ffff) as usize
}

impl GraphNodes {
    /// Takes a change. At most `limit` nodes are kept.
    pub(super) fn change(&mut self, change: &GraphChange, limit: usize) {
        match *change {
            GraphChange::Created { graph, span } => self.graphs.row(graph).base = Some(span),
            GraphChange::Node { node, span, kind } => {
                let base = self.graphs.row(graph_of(node)).base.unwrap_or(span);
                self.put(node, Node { capture: Capture { span, base }, kind, is_clone: false }, limit);
            }
            GraphChange::Cloned { node, original } => {
                let (capture, kind) = match (self.node(original), self.node(node)) {
                    (Some(original), _) => (original.capture, original.kind),
                    (None, own) => (Capture::UNKNOWN, own.map_or(NodeKind::Other, |own| own.kind)),
                };
                self.put(node, Node { capture, kind, is_clone: true }, limit);
            }
            GraphChange::Embedded { graph, into } => {
                let embedded = self.graphs.get_mut(&graph).map(|graph| std::mem::take(&mut graph.nodes));
                let embedded = embedded.unwrap_or_default();
                self.graphs.row(into).has_inner = true;
                self.nodes -= embedded.len();
                for node in embedded {
                    let place = self.graphs.row(into).nodes.len() as u64;
                    self.put(u64::from(into) << 32 | place, node, limit);
                }
            }
            GraphChange::Instantiated { graph } => {
                let graph = self.graphs.row(graph);
                let nodes = graph.nodes.iter().filter(|node| node.is_clone && node.kind != NodeKind::Child);
                graph.parts = Some(parts(nodes));
            }
            // Records of the replays of an executable graph may come later.
            GraphChange::Ended { graph } => match self.graphs.get(&graph).map(|graph| graph.parts.is_some()) {
                Some(true) => self.ended[0].push(graph),
                Some(false) => self.forget(graph),
                None => {}
            },
        }
    }

    fn forget(&mut self, graph: u32) {
        let graph = self.graphs.remove(&graph);
        self.nodes -= graph.map_or(0, |graph| graph.nodes.len());
    }

    /// A period of a minute or two is over: forgets the graphs that had ended before it.
    pub(super) fn next_period(&mut self) {
        let [of_this, of_last] = std::mem::take(&mut self.ended);
        self.ended[1] = of_this;
        of_last.into_iter().for_each(|graph| self.forget(graph));
    }

    fn node(&self, node: u64) -> Option<&Node> {
        self.graphs.get(&graph_of(node))?.nodes.get(place_of(node))
    }

    /// Keeps a node at its place. Places that are skipped become unknown.
    fn put(&mut self, node: u64, kept: Node, limit: usize) {
        let (nodes, place) = (&mut self.graphs.row(graph_of(node)).nodes, place_of(node));
        let missing = (place + 1).saturating_sub(nodes.len());
        if self.nodes + missing > limit {
            self.forgotten += 1;
            return;
        }
        self.nodes += missing;
        let unknown = Node { capture: Capture::UNKNOWN, kind: NodeKind::Other, is_clone: false };
        nodes.resize(nodes.len() + missing, unknown);
        if let Some(known) = nodes.get_mut(place) {
            *known = kept;
        }
    }

    /// How an operation belongs to a graph: by its node, or by the number of a whole graph.
    pub(super) fn of(&self, op: &GpuOp) -> OfGraph<'_> {
        match op.graph() {
            Some(graph) => {
                OfGraph::Whole(self.graphs.get(&graph).and_then(|graph| graph.parts.as_deref()).unwrap_or(&[]))
            }
            None if op.graph_node == 0 => OfGraph::No,
            None => OfGraph::Node(self.node(op.graph_node).map_or(Capture::UNKNOWN, |node| node.capture)),
        }
    }

    /// Takes an operation with a launch.
    pub(super) fn ran(&mut self, op: &GpuOp) {
        if op.graph_node != 0
            && op.is_timed()
            && let Some(graph) = self.graphs.get_mut(&graph_of(op.graph_node))
            && graph.has_inner
        {
            graph.ran(op);
        }
    }

    /// The correlation id of the last known replay that had begun when this operation of the graph did, 0 if there is
    /// none. CUPTI before 13.5 gives no correlation id to kernels in the body of a condition.
    pub(super) fn replay(&self, op: &GpuOp) -> u32 {
        let Some(graph) = self.graphs.get(&graph_of(op.graph_node)) else { return 0 };
        let later = graph.replays.partition_point(|replay| replay.start <= op.start);
        // A graph may begin with the condition.
        let first = if graph.forgot_replays { None } else { graph.replays.front() };
        later.checked_sub(1).map_or(first, |last| graph.replays.get(last)).map_or(0, |replay| replay.correlation)
    }
}

/// Numbers of nodes by place of capture, in order.
fn parts<'a>(nodes: impl Iterator<Item = &'a Node>) -> Vec<(Capture, Part)> {
    let mut parts: Keyed<Capture, Part> = Keyed::default();
    for node in nodes {
        let part = parts.row(node.capture);
        *match node.kind {
            NodeKind::Kernel => &mut part.kernels,
            NodeKind::Copy => &mut part.copies,
            NodeKind::Set => &mut part.sets,
            NodeKind::Child | NodeKind::Other => &mut part.others,
        } += 1;
    }
    parts.into_iter().in_vec()
}
