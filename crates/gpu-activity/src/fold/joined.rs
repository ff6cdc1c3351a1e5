//! Records of a GPU, joined with the calls that launched them.

use crate::record::{Api, ApiCall, GpuOp, Ticks};

/// The node of the lineage tree that stands for no span.
pub const OUTSIDE: u32 = 0;

/// Where a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The operating system's number of the thread.
    pub thread: u32,
    /// Node of the lineage tree; [`OUTSIDE`] outside of any span.
    pub node: u32,
    /// Time of the call; 0 if it was not noted.
    pub at: Ticks,
    /// Number of the span's call in which it was made; 0 if it was not noted.
    pub call: u64,
}

/// Where a node was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Capture {
    /// The spans around the creation of the node, as a node of the lineage tree; [`UNKNOWN`] where it was created
    /// before measuring began, or was forgotten.
    pub span: u32,
    /// The spans around the creation of its graph. What a tree shows below a replay are the spans between both.
    pub base: u32,
}

/// Stands for the span of a node whose creation was not seen.
pub const UNKNOWN: u32 = u32::MAX;

impl Capture {
    /// Of a node whose creation was not seen.
    pub(crate) const UNKNOWN: Self = Self { span: UNKNOWN, base: UNKNOWN };
}

/// What one place captured of a graph: numbers of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) kernels: u32,
    pub(crate) copies: u32,
    pub(crate) sets: u32,
    pub(crate) others: u32,
}

/// How an operation belongs to a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OfGraph<'a> {
    /// It does not.
    No,
    /// It is a node of a graph.
    Node(Capture),
    /// It is a whole graph, with these parts.
    Whole(&'a [(Capture, Part)]),
}

/// An operation that ran at a known time, joined with its launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation<'a> {
    pub(crate) op: &'a GpuOp,
    /// Its launch, if known.
    pub(crate) launch: Option<Launch>,
    /// Slot of the innermost instance around the launch; [`NO_SLOT`](super::NO_SLOT) for none.
    pub(crate) instance: u32,
    /// Slots of the start/end ranges around the launch, sorted.
    pub(crate) within: &'a [u32],
    /// The graph that it is, or is a node of.
    pub(crate) graph: OfGraph<'a>,
    /// Whether it is the first of its launch.
    pub(crate) is_first: bool,
    /// Whether it belongs to the window. If not, it was over or launched before.
    pub(crate) of_window: bool,
}

/// A call that the program made to the API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MadeCall {
    pub(crate) call: ApiCall,
    /// The operating system's number of its thread; 0 where that is not known.
    pub(crate) thread: u32,
    /// The node in which it was noted.
    pub(crate) node: Option<u32>,
    /// Whether it belongs to the window.
    pub(crate) of_window: bool,
}

impl MadeCall {
    pub(crate) fn function(&self) -> (Api, u32) {
        (self.call.api, self.call.function)
    }

    pub(crate) fn duration(&self) -> u64 {
        self.call.end.saturating_sub(self.call.start)
    }
}
