//! What comes out of the join, for timelines.

use crate::record::{ApiCall, Detail, GpuOp, Ticks};
use crate::totals::Function;

/// Where a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The operating system's number of the thread.
    pub thread: u32,
    /// Node of the lineage tree; [`OUTSIDE`](super::OUTSIDE) outside of any span.
    pub node: u32,
    /// When; 0 where that was not noted.
    pub at: Ticks,
    /// The number of the call of a span that it was made in; 0 where that was not noted.
    pub call: u64,
}

/// First start and last end of what an instance of a range launched on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the numbers are those of the operations
pub struct StreamSpan {
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub start: u64,
    pub end: u64,
}

/// What is joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// An operation, with its launch where that is known.
    Operation(GpuOp, Option<Launch>),
    /// A call that the program made: none that the runtime makes of the driver, and none of the profiler's. With the
    /// operating system's number of its thread; 0 where that is not known.
    Call(ApiCall, u32),
    /// A detail that the program caused, with its launch where that is known: of a node of a graph that was cloned, the
    /// launch of the first creation.
    Detail(Detail, Option<Launch>),
    /// An instance of a range on a thread's stack with work on the GPU, when it is over and its work has come. Where
    /// more may come, of a graph or of a kernel that runs for long: a minute or two after the last that came. At the
    /// bound on instances, earlier. What comes after that is another projection.
    Projection {
        /// Interned domain and name.
        label: u32,
        /// Number of instances with launches that it is nested in.
        level: u32,
        /// By the stream that the work ran on.
        streams: Vec<StreamSpan>,
    },
}

/// A call of the API, where it was made, and whether it counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct MadeCall {
    pub(super) call: ApiCall,
    /// The operating system's number of its thread; 0 where that is not known.
    pub(super) thread: u32,
    /// Where it was noted: the node.
    pub(super) node: Option<u32>,
    /// Whether it is of the window.
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
