//! Records of GPU work other than operations and calls. Each kind is recorded only if a fold asks for it.

/// Kinds of details: what a fold asks for.
///
/// ```
/// use range_model::timeline::Details;
///
/// let asked = Details::WAITS.and(Details::EVENTS);
/// assert!(asked.has(Details::EVENTS) && !asked.has(Details::MEMORY) && Details::NONE.is_empty());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Details(u8);

impl Details {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// [`Wait`]s.
    pub const WAITS: Self = Self(1);
    /// The waits of streams for events alone, from the first one on: a program without such waits does not pay for
    /// records of them.
    pub const EVENT_WAITS: Self = Self(1 << 6);
    /// [`EventRecord`]s.
    pub const EVENTS: Self = Self(1 << 1);
    /// The same with [`EventRecord::at`], which costs each record more.
    pub const EVENT_TIMES: Self = Self(1 << 4);
    /// [`MemoryOperation`]s.
    pub const MEMORY: Self = Self(1 << 2);
    /// [`NewStream`]s.
    pub const STREAMS: Self = Self(1 << 3);
    /// [`Overhead`]s.
    pub const OVERHEADS: Self = Self(1 << 5);
    /// Each kind, with the name of its records.
    pub const EACH: [(Self, &str); 5] = [
        (Self::WAITS, "synchronisations"),
        (Self::EVENTS, "event records"),
        (Self::MEMORY, "allocations and releases of memory"),
        (Self::STREAMS, "creations of streams"),
        (Self::OVERHEADS, "overheads"),
    ];

    /// These kinds and others.
    #[must_use]
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether any of `kinds` is among them.
    #[must_use]
    pub const fn has(self, kinds: Self) -> bool {
        self.0 & kinds.0 != 0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// A detail. Contexts, streams, devices and correlation ids are numbered like those of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Detail {
    /// A thread or a stream waits.
    Wait(Wait),
    /// An event is recorded on a stream.
    Event(EventRecord),
    /// Memory is allocated or released.
    Memory(MemoryOperation),
    /// A stream is created.
    Stream(NewStream),
    /// The tracing library, or the driver, takes time for itself.
    Overhead(Overhead),
}

/// A thread waits for a GPU, or a stream for an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The waiting and the awaited side.
    pub kind: WaitKind,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Number of the API call.
    pub correlation: u32,
    /// Number of the context.
    pub context: u32,
    /// Number of the waiting or awaited stream, if any.
    pub stream: Option<u32>,
    /// Number of the awaited event, if any.
    pub event: Option<u32>,
    /// The awaited [`EventRecord::record`]; 0 if unknown.
    pub record: u64,
}

/// The waiting and the awaited side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitKind {
    /// An unknown kind.
    #[default]
    Unknown,
    /// A thread waits for an event.
    Event,
    /// A stream waits for an event.
    StreamForEvent,
    /// A thread waits for a stream.
    Stream,
    /// A thread waits for a context.
    Context,
}

/// An event is recorded on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRecord {
    /// Time at which the stream reached it; 0 if unknown.
    pub at: u64,
    /// Number of the API call.
    pub correlation: u32,
    /// Number of the context.
    pub context: u32,
    /// Number of the stream.
    pub stream: u32,
    /// Number of the event.
    pub event: u32,
    /// Number of this record of the event, which its [`Wait`]s share; 0 if unknown.
    pub record: u64,
    /// Its node of a graph; 0 outside of graphs, and if unknown.
    pub graph_node: u64,
}

/// Memory is allocated or released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryOperation {
    /// Time of the operation.
    pub at: u64,
    /// First address.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// Number of the API call.
    pub correlation: u32,
    /// Number of the device.
    pub device: u32,
    /// Number of the context.
    pub context: u32,
    /// Number of the stream, if the operation is stream-ordered.
    pub stream: Option<u32>,
    /// Whether it is released.
    pub is_release: bool,
    /// The kind of memory, as [`Memory::source`](super::Memory::source).
    pub kind: u8,
}

/// A stream is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewStream {
    /// Number of the API call.
    pub correlation: u32,
    /// Number of the context.
    pub context: u32,
    /// Number of the stream.
    pub stream: u32,
    /// Its priority: lower numbers go first.
    pub priority: i32,
    /// Its relation to the default stream.
    pub kind: StreamKind,
}

/// The relation of a stream to the default stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamKind {
    /// Unknown.
    #[default]
    Unknown,
    /// Each waits for the other.
    Blocking,
    /// Neither waits.
    NonBlocking,
    /// It is the default stream.
    Default,
}

/// The tracing library, or the driver, takes time for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overhead {
    /// The purpose.
    pub kind: OverheadKind,
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Number of the API call in which it was taken; 0 if unknown.
    pub correlation: u32,
}

/// The purpose of the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum OverheadKind {
    /// Something else.
    #[default]
    Other,
    /// The driver compiles a kernel.
    Compiler,
    /// Records are handed over.
    Flush,
    /// Code is instrumented.
    Instrumentation,
    /// The tracing library creates or frees its resources.
    Resources,
    /// A module is loaded.
    ModuleLoading,
    /// A function is loaded at its first launch.
    FunctionLoading,
    /// The queue of a GPU has no room.
    QueueFull,
    /// The tracing library asks for memory for records.
    BufferRequest,
}

impl Detail {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Details {
        match self {
            Self::Wait(_) => Details::WAITS,
            Self::Event(_) => Details::EVENTS,
            Self::Memory(_) => Details::MEMORY,
            Self::Stream(_) => Details::STREAMS,
            Self::Overhead(_) => Details::OVERHEADS,
        }
    }

    /// Number of the API call that produced it.
    #[must_use]
    pub const fn correlation(&self) -> u32 {
        match self {
            Self::Wait(Wait { correlation, .. })
            | Self::Event(EventRecord { correlation, .. })
            | Self::Memory(MemoryOperation { correlation, .. })
            | Self::Stream(NewStream { correlation, .. })
            | Self::Overhead(Overhead { correlation, .. }) => *correlation,
        }
    }

    /// The same detail with its times on another clock. 0 stays, because it is no time.
    #[must_use]
    pub fn on_clock(mut self, moment: impl Fn(u64) -> u64) -> Self {
        let convert = |time: &mut u64| *time = if *time == 0 { 0 } else { moment(*time) };
        match &mut self {
            Self::Wait(Wait { start, end, .. }) | Self::Overhead(Overhead { start, end, .. }) => {
                convert(start);
                convert(end);
            }
            Self::Event(EventRecord { at, .. }) | Self::Memory(MemoryOperation { at, .. }) => convert(at),
            Self::Stream(_) => {}
        }
        self
    }
}

/// A detail, and the place of its call. Files of timelines do not show it.
#[derive(Clone, Debug, PartialEq)]
pub struct PlacedDetail<'a> {
    /// The detail.
    pub detail: Detail,
    /// Thread and time of the call, if known.
    pub launch: Option<(u32, u64)>,
    /// Name of the span that made it.
    pub span: Option<&'a str>,
    /// Number of the call of a span that made it.
    pub call: u64,
}
