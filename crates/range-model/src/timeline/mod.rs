//! The items of a timeline, as [sinks](Sink) receive them: single ranges, calls, marks, operations and CUDA calls.
//!
//! All times are nanoseconds from the start of the profiler, on one clock for host and device.
//!
//! Spans and their calls have numbers that are unique in a run: no call has the number of another call, or of a span
//! other than its own. The first call of a span has the span's number. 0 means unknown. A request consists of the
//! ranges and operations, on all threads and streams, from which the chain of [`Range::parent`] and [`Call::parent`]
//! leads to the request's call.

mod detail;
pub(crate) mod fold;
mod gpu;
mod slight;

use std::io;

pub use detail::{
    Detail, Details, EventRecord, MemoryOperation, NewStream, Overhead, OverheadKind, PlacedDetail, StreamKind, Wait,
    WaitKind,
};
pub use gpu::{Api, ApiCalls, ApiRecords, Graphs, Kernel, Memory, Work, graph_name};
pub use slight::is_slight;
#[doc(hidden)]
pub use slight::{SLIGHT, plain_function};

use crate::summary::{IdleCause, MemoryKind, Process, RangeStyle, Summary};

/// The value of `nvtx.payload`, or of a span's own field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A signed integer.
    Integer(i64),
    /// An unsigned integer.
    Unsigned(u64),
    /// A floating-point number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(&'a str),
}

/// One instance of a range. Ranges of a thread arrive in order of their ends: children before their parents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Range<'a> {
    /// The operating system's number of the thread on which it was opened.
    pub thread: u32,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// How it is opened and closed.
    pub style: RangeStyle,
    /// Domain; `None` for the default one.
    pub domain: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// Number of ranges below it on its thread's stack.
    pub depth: u32,
    /// Its category, if it has one.
    pub category: Option<&'a str>,
    /// 0xAARRGGBB.
    pub color: Option<u32>,
    /// Its payload, if it has one.
    pub payload: Option<Value<'a>>,
    /// Fields of the span.
    pub fields: &'a [(&'static str, Value<'a>)],
    /// For a start/end range that ended on another thread: that thread.
    pub end_thread: Option<u32>,
    /// Whether it was open at the end, and cut there.
    pub cut: bool,
    /// How long its thread surely ran meanwhile.
    pub on_cpu_ns: u64,
    /// How long its thread surely did not run meanwhile.
    pub off_cpu_ns: u64,
    /// Number of its span.
    pub span: u64,
    /// Number of the call that it is an instance of.
    pub call: u64,
    /// Number of the call in which this one runs: the call of the innermost open range of its thread or, if that range
    /// is of an ancestor of the span, the call of the parent at creation.
    pub parent: u64,
}

/// A call: one use of a span, from its creation to its close. It is an item only if it differs from its one instance:
/// if the span was entered several times, as a future is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call<'a> {
    /// Its number.
    pub call: u64,
    /// Number of its span.
    pub span: u64,
    /// Number of the call in which it runs, as in [`Range::parent`].
    pub parent: u64,
    /// The operating system's number of the thread on which it was created.
    pub thread: u32,
    /// When it was created.
    pub start: u64,
    /// When it was closed.
    pub end: u64,
    /// Domain; `None` for the default one.
    pub domain: Option<&'a str>,
    /// Name of its ranges.
    pub name: &'a str,
    /// Fields of the span.
    pub fields: &'a [(&'static str, Value<'a>)],
    /// How it ended.
    pub ending: Ending,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Its span was closed.
    #[default]
    Closed,
    /// Its span was dropped while it waited.
    Cancelled,
    /// It was open at the end, and cut there.
    Cut,
}

/// A batch serves a call: its span follows from that of the call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Link {
    /// Number of the batch's call.
    pub batch: u64,
    /// Number of the call that it serves.
    pub served: u64,
    /// What part of the batch that call has, relative to the others.
    pub weight: f64,
}

/// A part of a call's wait, and the span to which it is owed. [`Summary::waits`] has the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallWait<'a> {
    /// Number of the call.
    pub call: u64,
    /// When it began.
    pub start: u64,
    /// When it ended: the span let the call go on, or the next one in a queue.
    pub end: u64,
    /// Domain of the span; `None` for the default one.
    pub domain: Option<&'a str>,
    /// Name of the span. `None` if the call was woken from no span: by a timer, a device, the end of a task.
    pub by: Option<&'a str>,
    /// Whether the call was ready, and the span ran on its thread.
    pub is_for_worker: bool,
}

/// A moment: an event of `tracing`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark<'a> {
    /// The operating system's number of its thread.
    pub thread: u32,
    /// When it happened.
    pub at: u64,
    /// Domain; `None` for the default one.
    pub domain: Option<&'a str>,
    /// Its message.
    pub text: &'a str,
    /// 1 error, 2 warn, 3 info, 4 debug, 5 trace.
    pub level: u8,
    /// Fields of the event, without its message.
    pub fields: &'a [(&'static str, Value<'a>)],
}

/// An operation on a GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation<'a> {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Number of the device.
    pub device: u32,
    /// Number of the context.
    pub context: u32,
    /// Number of the stream.
    pub stream: u32,
    /// Number of the API call that launched it.
    pub correlation: u32,
    /// Its node of a graph; 0 outside of graphs.
    pub graph_node: u64,
    /// What it does.
    pub work: Work,
    /// Readable name of the kernel; empty for copies and sets.
    pub kernel: &'a str,
    /// Its symbol.
    pub symbol: &'a str,
    /// Thread and time of its launch, if known.
    pub launch: Option<(u32, u64)>,
    /// Name of the span that launched it.
    pub span: Option<&'a str>,
    /// Labels of the spans of the tree around its launch (`domain:name`), from the root down to that span.
    pub path: &'a [String],
    /// For a node of a graph, labels of the spans that captured it, from those around its graph down; empty if they are
    /// not known.
    pub captured: &'a [String],
    /// Number of the call that launched it.
    pub call: u64,
}

/// A call of the CUDA API that the program made, not one that the runtime made to the driver.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApiCall<'a> {
    /// The API that it belongs to.
    pub api: Api,
    /// Name of the function.
    pub name: &'a str,
    /// The operating system's number of its thread.
    pub thread: u32,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Its correlation id, which the operations that it launched share.
    pub correlation: u32,
    /// What it returned, 0 for success.
    pub result: u32,
}

/// A range with GPU work, projected onto a stream of that work: from the start of the first operation there to the end
/// of the last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Projection<'a> {
    /// Number of the device.
    pub device: u32,
    /// Number of the context.
    pub context: u32,
    /// Number of the stream.
    pub stream: u32,
    /// When its first operation there began.
    pub start: u64,
    /// When its last operation there ended.
    pub end: u64,
    /// Domain of the range; `None` for the default one.
    pub domain: Option<&'a str>,
    /// Name of the range.
    pub name: &'a str,
    /// Number of ranges around it.
    pub level: u32,
}

/// A part of the time in which a device was idle between two operations. Each part has one cause and one range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTime<'a> {
    /// Number of the device.
    pub device: u32,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Why.
    pub cause: IdleCause,
    /// The thread that launched the operation, or the one whose range was open for it. The idle time is charged to the
    /// innermost range of that thread at `charged_at`. `None` if the launch is not known.
    pub thread: Option<u32>,
    /// Its start; on the way from a wait to the next launch, when the wait began.
    pub charged_at: u64,
    /// The operation that ended the whole idle time.
    pub ended_by: OperationName<'a>,
}

/// Name of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationName<'a> {
    /// The short name of its kernel.
    Kernel(&'a str),
    /// The kind of copy or set that it is.
    Memory(MemoryKind),
}

/// Anything that a timeline shows.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Item<'a> {
    /// A thread that has ranges or marks.
    Thread {
        /// The operating system's number of the thread.
        thread: u32,
        /// Its name.
        name: &'a str,
    },
    /// A device that has operations.
    Device {
        /// Its number.
        device: u32,
        /// Its name.
        name: &'a str,
    },
    /// An instance of a range.
    Range(Range<'a>),
    /// A call of a span.
    Call(Call<'a>),
    /// A mark.
    Mark(Mark<'a>),
    /// An operation on a GPU.
    Operation(Operation<'a>),
    /// A call of the CUDA API.
    ApiCall(ApiCall<'a>),
    /// A range, projected onto a stream.
    Projection(Projection<'a>),
    /// A detail that a fold asks for.
    Detail(PlacedDetail<'a>),
    /// Time in which a device was idle. It comes only where a page is written, too.
    Idle(IdleTime<'a>),
    /// A part of a call's wait. It may come before the call's item.
    Wait(CallWait<'a>),
    /// What a batch serves. It may come before or after the items of both.
    Link(Link),
}

/// What receives a timeline: a file in some format, or what a program makes of it. Items arrive in no order across
/// threads and devices. Each thread and device has been announced before ([`Item::Thread`], [`Item::Device`]). All
/// functions are called on one thread at a time.
pub trait Sink: Send {
    /// Called before everything else.
    ///
    /// # Errors
    ///
    /// If it cannot be written. The sink then receives nothing more, and the error is reported at the end.
    fn begin(&mut self, process: &Process) -> io::Result<()>;

    /// Writes one item, in the order of recording.
    ///
    /// # Errors
    ///
    /// As for `begin`.
    fn item(&mut self, item: &Item<'_>) -> io::Result<()>;

    /// Ends a batch of items: everything written so far remains if the process is killed.
    ///
    /// # Errors
    ///
    /// As for `begin`.
    fn flush(&mut self) -> io::Result<()>;

    /// Takes the summary of a window that ends now, where files of windows are asked for. The last one comes before the
    /// end, whose summary is that of the whole run.
    ///
    /// # Errors
    ///
    /// As for `begin`.
    fn window(&mut self, _: &Summary) -> io::Result<()> {
        Ok(())
    }

    /// Ends the timeline, in which `lost` items are missing.
    ///
    /// # Errors
    ///
    /// As for `begin`.
    fn end(&mut self, summary: &Summary, lost: u64) -> io::Result<()>;
}
