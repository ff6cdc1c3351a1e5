//! The join's output for timelines.

use crate::record::{ApiCall, Detail, GpuOp, Ticks};
use crate::totals::Function;

/// Where a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The operating system's number of the thread.
    pub thread: u32,
    /// Node of the lineage tree; [`OUTSIDE`](super::OUTSIDE) outside of any span.
    pub node: u32,
    /// Time of the call; 0 if it was not noted.
    pub at: Ticks,
    /// Number of the span's call in which it was made; 0 if it was not noted.
    pub call: u64,
}

/// First start and last end of an instance's work on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the numbers are those of the operations
pub struct StreamSpan {
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub start: u64,
    pub end: u64,
}

/// A joined event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An operation, with its launch if known.
    Operation(GpuOp, Option<Launch>),
    /// A call of the program (neither a driver call made by the runtime nor a call of the profiler), with the operating
    /// system's number of its thread; 0 if that is not known.
    Call(ApiCall, u32),
    /// A detail that the program caused, with its launch if known. The launch of a cloned graph node is that of the
    /// first original.
    Detail(Detail, Option<Launch>),
    /// An instance of a range on a thread's stack with GPU work, once the instance is over and its work has arrived. If
    /// more work may arrive (of a graph or a long kernel), a minute or two after the last arrival; at the bound on
    /// instances, earlier. Later work makes another projection.
    Projection {
        /// Interned domain and name.
        label: u32,
        /// Number of instances with launches around it.
        level: u32,
        /// Its work by stream.
        streams: Vec<StreamSpan>,
    },
}

/// A call of the API, with its place, and whether it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct MadeCall {
    pub(super) call: ApiCall,
    /// The operating system's number of its thread; 0 where that is not known.
    pub(super) thread: u32,
    /// The node in which it was noted.
    pub(super) node: Option<u32>,
    /// Whether it belongs to the current window.
    pub(super) counts: bool,
}

impl MadeCall {
    pub(super) fn function(&self) -> Function {
        (self.call.api, self.call.function)
    }

    pub(super) fn duration(&self) -> u64 {
        self.call.end.saturating_sub(self.call.start)
    }
}
