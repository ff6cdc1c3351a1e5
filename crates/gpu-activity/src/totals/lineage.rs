//! Work and calls by node of the lineage tree.

use super::figures::{self, Function, NodeTotals};
use super::intervals::Busy;
use crate::fold::MadeCall;
use crate::record::{GpuOp, Work};
use range_model::stats::{Keyed, Lean, order};
use range_model::{GpuWork, MemoryWork};

/// Stands in place of a node for operations without a known launch.
pub(crate) const UNMATCHED: u32 = u32::MAX;

/// Intervals for which room is kept from one drain to the next.
const MOST_ROOM: usize = 1 << 15;

fn add_memory(work: &mut GpuWork, more: MemoryWork) {
    match work.memory.binary_search_by_key(&more.kind, |known| known.kind) {
        Ok(at) => {
            if let Some(known) = work.memory.get_mut(at) {
                known.operations = known.operations.saturating_add(more.operations);
                known.sum_ns = known.sum_ns.saturating_add(more.sum_ns);
                known.bytes = known.bytes.saturating_add(more.bytes);
            }
        }
        Err(at) => work.memory.insert(at, more),
    }
}

/// Adds work to other work, busy times too.
pub fn add_work(sum: &mut GpuWork, more: &GpuWork) {
    sum.operations = sum.operations.saturating_add(more.operations);
    sum.sum_ns = sum.sum_ns.saturating_add(more.sum_ns);
    sum.busy_ns = sum.busy_ns.saturating_add(more.busy_ns);
    more.memory.iter().for_each(|&memory| add_memory(sum, memory));
}

fn with_busy(mut work: GpuWork, busy: &Busy) -> GpuWork {
    work.busy_ns = busy.sum();
    work
}

#[derive(Clone, Debug, Default)]
struct Node {
    parent: u32,
    own: GpuWork,
    own_busy: Busy,
    /// The busy time of the whole subtree; `None` while the node alone has work.
    total_busy: Option<Busy>,
    calls: Keyed<Function, (u64, u64)>,
}

/// The interval of an operation that is in no union yet.
#[derive(Clone, Copy, Debug)]
struct Interval {
    start: u64,
    end: u64,
    node: u32,
    device: u32,
}

/// All active nodes and their ancestors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lineage {
    nodes: Vec<Option<Box<Node>>>,
    unmatched: GpuWork,
    unmatched_busy: Busy,
    total_busy: Busy,
    /// Intervals of one drain. They are added in order of their starts, so that unions lose nothing whatever the order
    /// in the drain.
    waiting: Vec<Interval>,
}

impl Lineage {
    /// Makes a node with its ancestors. Returns node 0 for a node that is not in the tree. A parent with a higher
    /// number than its child counts as none.
    pub(crate) fn place(&mut self, node: u32, parents: &[u32]) -> u32 {
        let place = if (node as usize) < parents.len() { node } else { 0 };
        let mut node = place;
        loop {
            if self.nodes.len() <= node as usize {
                self.nodes.resize(node as usize + 1, None);
            }
            let parent = parents.get(node as usize).copied().filter(|&parent| parent < node).unwrap_or(0);
            match self.nodes.get_mut(node as usize) {
                Some(empty @ None) => *empty = Some(Box::new(Node { parent, ..Node::default() })),
                _ => return place,
            }
            if node == 0 {
                return place;
            }
            node = parent;
        }
    }

    fn node(&mut self, node: u32) -> Option<&mut Node> {
        self.nodes.get_mut(node as usize)?.as_deref_mut()
    }

    /// Counts an operation in an existing node, or as [`UNMATCHED`]. Its interval waits, because the busy time needs
    /// operations in order.
    pub(crate) fn add(&mut self, node: u32, op: &GpuOp, duration: u64) {
        let work = match self.nodes.get_mut(node as usize) {
            Some(Some(node)) => &mut node.own,
            _ => &mut self.unmatched,
        };
        work.operations = work.operations.saturating_add(1);
        work.sum_ns = work.sum_ns.saturating_add(duration);
        if let Work::Memory(memory) = op.work {
            add_memory(work, MemoryWork::new(memory.kind, 1, duration, memory.bytes));
        }
        self.waiting.push(Interval { start: op.start, end: op.end, node, device: op.device });
    }

    /// Counts an API call in an existing node.
    pub(crate) fn call(&mut self, node: u32, made: &MadeCall) {
        if let Some(node) = self.node(node) {
            figures::add(&mut node.calls, made);
        }
    }

    /// Adds the waiting intervals to the unions of their nodes and of all ancestors.
    pub(crate) fn drained(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        order::by_key(&mut waiting, |interval| (interval.start, interval.end));
        for &Interval { start, end, node, device } in &waiting {
            self.total_busy.add(device, start, end);
            if node == UNMATCHED {
                self.unmatched_busy.add(device, start, end);
                continue;
            }
            let mut above = node;
            while let Some(at) = self.node(above) {
                if above == node {
                    at.own_busy.add(device, start, end);
                    if let Some(total) = &mut at.total_busy {
                        total.add(device, start, end);
                    }
                } else {
                    at.total_busy.get_or_insert_with(|| at.own_busy.clone()).add(device, start, end);
                }
                if above == 0 {
                    break;
                }
                above = at.parent;
            }
        }
        waiting.clear();
        waiting.shrink_to(MOST_ROOM);
        self.waiting = waiting;
    }

    /// Active nodes, the work of all operations, and the unmatched work.
    pub(crate) fn totals(&self) -> (Keyed<u32, NodeTotals>, GpuWork, GpuWork) {
        if !self.waiting.is_empty() {
            let mut drained = self.clone();
            drained.drained();
            return drained.totals();
        }
        let own = |node: &Option<Box<Node>>| node.as_ref().map_or_else(GpuWork::default, |node| node.own.clone());
        let mut sums: Vec<GpuWork> = self.nodes.iter().map(own).in_vec();
        for at in (1..sums.len()).rev() {
            let parent = self.nodes.get(at).and_then(Option::as_ref).map(|node| node.parent as usize);
            let (above, below) = sums.split_at_mut(at);
            if let (Some(above), Some(below)) = (parent.and_then(|parent| above.get_mut(parent)), below.first()) {
                add_work(above, below);
            }
        }
        let mut all = sums.first().cloned().unwrap_or_default();
        add_work(&mut all, &self.unmatched);
        let mut nodes = Keyed::default();
        for ((at, node), sums) in (0..).zip(&self.nodes).zip(sums) {
            let Some(node) = node.as_ref().filter(|node| sums.operations > 0 || !node.calls.is_empty()) else {
                continue;
            };
            let own = with_busy(node.own.clone(), &node.own_busy);
            let total = with_busy(sums, node.total_busy.as_ref().unwrap_or(&node.own_busy));
            nodes.row_or(at, || NodeTotals { own, total, calls: node.calls.clone() });
        }
        (nodes, with_busy(all, &self.total_busy), with_busy(self.unmatched.clone(), &self.unmatched_busy))
    }
}
