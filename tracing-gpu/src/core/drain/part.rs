//! What each capability adds to a summary: its part, and what it gets for it.

use range_model::stats::Keyed;
use range_model::{Losses, Summary, TreeNode};

use super::cursor::Reader;
use super::totals::{NodeTotals, ThreadRows};
use crate::clock::{Rate, Ticks};
use crate::core::session::Names;
use crate::core::session::joined::Joined;
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;
use crate::parts::drain::nodes::NodeCalls;

/// A capability that has figures in a summary. Its functions are called in the order in which they stand here, on one
/// thread. A part keeps its own lists, renames their labels and nodes, and has its own rows, losses and notes.
pub(crate) trait Part {
    /// Copies what a thread has of the present window.
    fn copy(&mut self, _: &'static ThreadState, _: &mut Reader<'_>) {}

    /// Copies what no thread has, once all threads were copied.
    fn read(&mut self, _: &mut Reader<'_>) {}

    /// Renames labels and nodes after some names became one.
    fn join(&mut self, _: &Joined) {}

    /// Whether nodes must stay as they are, because its figures cannot move to other ones.
    fn keeps_nodes(&self) -> bool {
        false
    }

    /// Moves the figures of each node to the one that stands for it now.
    fn fold(&mut self, _: &dyn Fn(&mut u32)) {}

    /// Adds to the sums of nodes.
    fn count(&mut self, _: &mut Nodes, _: &Names) {}

    /// Whether a node of the tree has figures of this part.
    fn has(&self, _: u32) -> bool {
        false
    }

    /// Adds the figures of a node of the tree. It has its children.
    fn show(&self, _: u32, _: &mut TreeNode, _: &Nodes, _: Rate) {}

    /// Adds losses since the start of the profiler's window: a cursor takes away those that it has read.
    fn lose(&self, _: &mut Losses) {}

    /// Adds rows and notes. The summary has ranges, categories, the tree and losses.
    fn finish(&mut self, run: &Run<'_>, reader: &mut Reader<'_>, summary: &mut Summary);
}

/// The sums of all nodes, by their numbers.
pub(crate) struct Nodes {
    pub(crate) totals: Vec<NodeTotals>,
    /// The calls of futures.
    pub(crate) calls: Keyed<u32, NodeCalls>,
}

impl Nodes {
    pub(crate) fn get_mut(&mut self, node: u32) -> Option<&mut NodeTotals> {
        self.totals.get_mut(node as usize)
    }
}

/// What was read, for all parts.
pub(crate) struct Run<'a> {
    pub(crate) engine: &'static Engine,
    pub(crate) all_threads: &'a [&'static ThreadState],
    /// Start of the profiler's window, and of what the summary answers for.
    pub(crate) window: Ticks,
    pub(crate) from: Ticks,
    pub(crate) now: Ticks,
    pub(crate) rate: Rate,
    pub(crate) names: &'a Names,
    pub(crate) joined: &'a Joined,
    pub(crate) threads: &'a [ThreadRows<'a>],
    pub(crate) nodes: &'a Nodes,
    /// Additional quantiles.
    pub(crate) asked: &'a [f64],
}
