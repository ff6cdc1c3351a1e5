//! What CUPTI reports and what threads note of their launches: the words that the GPU's side of the profiler speaks in.

use crate::clock::Ticks;
use crate::summary::{MemoryKind, RangeStyle};

/// An operation that ran on a GPU. Times are nanoseconds of the clock that [`ApiCall`]s are stamped with; 0 where CUPTI had none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuOp {
    pub start: u64,
    pub end: u64,
    /// Number of the API call that launched it. All operations of one graph launch have the same.
    pub correlation: u32,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    /// 0 outside of graphs.
    pub graph_node: u64,
    pub work: Work,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Kernel(Kernel),
    /// A copy, or with [`MemoryKind::Set`] a set.
    Memory(Memory),
}

/// A kernel's execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Number of its name; see `gpu::cupti::names`.
    pub name: u32,
    pub grid: [i32; 3],
    pub block: [i32; 3],
    pub registers: u16,
    pub static_shared: i32,
    pub dynamic_shared: i32,
}

/// A copy or a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub kind: MemoryKind,
    pub bytes: u64,
    /// CUPTI's memory kinds: 1 pageable, 2 pinned, 3 device, 4 array, 5 managed, 6 and 7 static. For a set only `destination`.
    pub source: u8,
    pub destination: u8,
    /// The value of a set.
    pub value: u32,
}

/// Which API a call belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Api {
    Driver,
    Runtime,
}

/// A call of the CUDA API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiCall {
    pub api: Api,
    /// CUPTI's number of the function (cbid).
    pub function: u32,
    pub start: u64,
    pub end: u64,
    /// CUPTI's number of the thread: of use for telling threads apart, not the operating system's.
    pub thread: u32,
    pub correlation: u32,
    pub result: u32,
}

/// Number of an instance of a range that launched something; unique in the process, never 0.
pub type InstanceId = u64;

/// An instance of a range on a thread, noted when something is launched in it for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance {
    pub id: InstanceId,
    /// The instance directly below it on the thread's stack, for a start/end range the innermost there that began before it; 0 for none.
    pub parent: InstanceId,
    /// Interned domain and name.
    pub label: u32,
    pub style: RangeStyle,
    pub start: Ticks,
}

/// What a thread notes, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// An instance that something is about to be launched in. What began on the thread before it, and is open, has been noted before.
    Began(Instance),
    /// That instance is over.
    Ended { instance: InstanceId, end: Ticks },
    /// That start/end range ended on another thread than it began on, or where it could not be measured: it counts nowhere. Noted in the log of the thread that it
    /// began on, by whichever thread ended it.
    Left { instance: InstanceId },
    /// An API call that enqueues work, or that is counted for its span. It is in all start/end ranges that were noted to begin on the thread and
    /// not to end, too.
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
        /// Whether operations are to be expected of it; if not, it is only looked up for API calls.
        enqueues: bool,
    },
    /// A call of the profiler's own, to be left out of all tables.
    Own { correlation: u32 },
}
