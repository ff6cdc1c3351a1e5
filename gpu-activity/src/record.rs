//! What CUPTI reports, and what threads log of their launches: the input of the attribution.

use range_report::RangeStyle;
pub use range_report::timeline::{
    Api, Detail, Details, EventRecord, GraphNode, Kernel, Memory, MemoryOperation, NewGraph, NewStream, Overhead,
    OverheadKind, StreamKind, Wait, WaitKind, Work,
};

/// An operation that ran on a GPU. Times are nanoseconds of the clock that [`ApiCall`]s are stamped with; 0 where CUPTI
/// had none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuOp {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Number of the API call that launched it. All operations of one graph launch have the same.
    pub correlation: u32,
    /// Number of the device.
    pub device: u32,
    /// Number of the context.
    pub context: u32,
    /// Number of the stream.
    pub stream: u32,
    /// 0 outside of graphs.
    pub graph_node: u64,
    /// What it does.
    pub work: Work,
}

impl GpuOp {
    /// Whether it has a time.
    pub(crate) fn is_timed(&self) -> bool {
        self.start != 0 && self.end >= self.start
    }
}

/// A call of the CUDA API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiCall {
    /// The API that it belongs to.
    pub api: Api,
    /// CUPTI's number of the function (cbid).
    pub function: u32,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// CUPTI's number of the thread: of use for telling threads apart, not the operating system's.
    pub thread: u32,
    /// Its number, which the operations that it launched have too.
    pub correlation: u32,
    /// What it returned, 0 for success.
    pub result: u32,
}

/// A moment on the clock of the program's spans, in ticks of that clock.
pub type Ticks = u64;

/// Number of an instance of a range that launched something; unique in the process, never 0.
pub type InstanceId = u64;

/// An instance of a range on a thread, noted when something is launched in it for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its number.
    pub id: InstanceId,
    /// The instance directly below it on the thread's stack, for a start/end range the innermost there that began
    /// before it; 0 for none.
    pub parent: InstanceId,
    /// Interned domain and name.
    pub label: u32,
    /// How it is opened and closed.
    pub style: RangeStyle,
    /// When it began.
    pub start: Ticks,
}

/// What a thread notes, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant names its fields in a sentence
pub enum Note {
    /// An instance that something is about to be launched in. What began on the thread before it, and is open, has been
    /// noted before.
    Began(Instance),
    /// That instance is over.
    Ended { instance: InstanceId, end: Ticks },
    /// That start/end range ended on another thread than it began on, or where it could not be measured: it counts
    /// nowhere. Noted in the log of the thread that it began on, by whichever thread ended it.
    Left { instance: InstanceId },
    /// An API call that enqueues work, or that is counted for its span. It is in all start/end ranges that were noted
    /// to begin on the thread and not to end, too.
    Called {
        correlation: u32,
        /// Node of the lineage tree; 0 outside of any span.
        node: u32,
        /// The innermost instance of the thread's stack; 0 for none.
        instance: InstanceId,
        /// Whether it launches a graph, whose operations may come long after one another.
        graph: bool,
        /// When, where a timeline is written; else 0.
        at: Ticks,
        /// The number of the call of a span that it was made in, where a timeline is written and that is known; else 0.
        call: u64,
        /// Whether operations are to be expected of it; if not, it is only looked up for API calls.
        enqueues: bool,
    },
    /// A call of the profiler's own, to be left out of all tables.
    Own { correlation: u32 },
}
