//! Records of CUPTI, and threads' logs of their launches: the input of the attribution.

use range_model::RangeStyle;
pub use range_model::timeline::{
    Api, Detail, Details, EventRecord, Kernel, Memory, MemoryOperation, NewStream, Overhead, OverheadKind, StreamKind,
    Wait, WaitKind, Work,
};

/// An operation that ran on a GPU. Times are nanoseconds of the clock of [`ApiCall`]s; 0 if CUPTI had none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuOp {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Correlation id of the API call that launched it. All operations of one graph launch share it.
    pub correlation: u32,
    /// Number of the device.
    pub device: u32,
    /// Number of the context.
    pub context: u32,
    /// Number of the stream.
    pub stream: u32,
    /// Number of the graph node; 0 outside of graphs.
    pub graph_node: u64,
    /// What it does.
    pub work: Work,
}

impl GpuOp {
    /// The number of the graph, if it is a whole one.
    pub(crate) fn graph(&self) -> Option<u32> {
        if let Work::Graph(graph) = self.work { Some(graph) } else { None }
    }

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
    /// CUPTI's number of the thread. It distinguishes threads, but is not the operating system's number.
    pub thread: u32,
    /// Its correlation id, which the operations that it launched share.
    pub correlation: u32,
    /// What it returned, 0 for success.
    pub result: u32,
}

/// A moment on the clock of the program's spans, in ticks.
pub type Ticks = u64;

/// Number of a range instance with launches; unique in the process, never 0.
pub type InstanceId = u64;

/// An instance of a range on a thread, noted at the first launch in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Its number.
    pub id: InstanceId,
    /// The instance directly below it on the thread's stack; for a start/end range the innermost one there that began
    /// before it; 0 for none.
    pub parent: InstanceId,
    /// Interned domain and name.
    pub label: u32,
    /// How it is opened and closed.
    pub style: RangeStyle,
    /// When it began.
    pub start: Ticks,
}

/// A note of a thread, in the thread's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each variant names its fields in a sentence
pub enum Note {
    /// An instance in which something is about to be launched. Open instances that began earlier on the thread have
    /// been noted before.
    Began(Instance),
    /// The instance has ended.
    Ended { instance: InstanceId, end: Ticks },
    /// The start/end range ended on another thread than it began on, or where it could not be measured, and counts
    /// nowhere. Whichever thread ended it, the log of the thread on which it began has the note.
    Left { instance: InstanceId },
    /// An API call that enqueues work or counts for its span. It is also inside all start/end ranges that are open in
    /// the thread's notes.
    Called {
        correlation: u32,
        /// Node of the lineage tree; 0 outside of any span.
        node: u32,
        /// The innermost instance on the thread's stack; 0 for none.
        instance: InstanceId,
        /// Whether it launches a graph, whose operations may arrive long after one another.
        graph: bool,
        /// Its time, if a timeline is written; else 0.
        at: Ticks,
        /// Number of the span's call in which it was made, if a timeline is written and it is known; else 0.
        call: u64,
        /// Whether operations of this call are expected. If not, only records of API calls look the call up.
        enqueues: bool,
    },
    /// A call of the profiler, which all tables leave out.
    Own { correlation: u32 },
}
