//! Records of a GPU, joined with the calls that launched them.

use crate::join::OfGraph;
use crate::record::{Api, ApiCall, GpuOp, Ticks};

/// Where a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The operating system's number of the thread.
    pub thread: u32,
    /// Node of the lineage tree; [`OUTSIDE`](crate::join::OUTSIDE) outside of any span.
    pub node: u32,
    /// Time of the call; 0 if it was not noted.
    pub at: Ticks,
    /// Number of the span's call in which it was made; 0 if it was not noted.
    pub call: u64,
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
