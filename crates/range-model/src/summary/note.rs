//! Notes: how the figures of a summary were obtained, and why some are missing.

/// A note on a run: its kind, and its figures. `NoteExt` of the crate `range-report` makes its sentence.
///
/// In JSON it is an object: `kind` is the name of the variant, and the figures are beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "merge", derive(PartialOrd, Ord))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Note {
    /// A line of foreign origin: from a file of an older version, or from the caller.
    Text {
        /// The line.
        text: String,
    },
    /// Several processes have the same note.
    Shared {
        /// The note of each.
        note: Box<Self>,
        /// Number of processes.
        processes: u64,
    },

    // Processes and their ends.
    /// The process is a forked child of the measured one.
    Forked,
    /// The process did not write its summary at its end, so that data may be missing.
    Unfinished {
        /// How it ended.
        cut: ProcessCut,
    },
    /// Some processes of a run did not write their summaries at their ends.
    UnfinishedProcesses {
        /// How they ended.
        cut: ProcessCut,
        /// Their number.
        count: u64,
        /// Number of all processes of the run.
        of: u64,
        /// Names of the first ones, which begin with process ids, and their commands if these differ.
        names: Vec<(String, Option<String>)>,
        /// The command, if all have the same.
        command: Option<String>,
    },
    /// Some processes of a run left nothing of their measurements.
    SilentProcesses {
        /// Their number.
        count: u64,
        /// Number of all processes of the run.
        of: u64,
        /// Names of the first ones, which begin with process ids, and their commands if these differ.
        names: Vec<(String, Option<String>)>,
        /// The command, if all have the same.
        command: Option<String>,
    },
    /// Some processes left no whole page, so that a joined page lacks their timelines.
    PagesMissing {
        /// Their number.
        missing: u64,
        /// Number of all processes.
        of: u64,
    },
    /// Collective operations of NCCL that are not compared between ranks.
    CollectivesNotCompared {
        /// Their number.
        operations: u64,
        /// Number of operations that are compared.
        compared: u64,
    },

    // The GPU.
    /// CUPTI could not be used, so that no work on the GPU was recorded.
    CuptiUnavailable {
        /// The reason, from CUPTI or the system.
        reason: String,
    },
    /// CUPTI recorded the work on the GPU.
    Cupti {
        /// Name, version and path of the library.
        library: String,
        /// The newest CUDA that the driver supports: 12040 is 12.4.
        driver: i32,
        /// Kinds of records that this library lacks.
        left_out: Vec<String>,
        /// Whether graphs may be older than the recording, so that they are recorded by their nodes.
        has_earlier_graphs: bool,
        /// Whether calls that only query or set something are left out.
        without_queries: bool,
    },
    /// The program measured work on the GPU itself.
    TimedByProgram {
        /// Names of the devices.
        devices: Vec<String>,
    },
    /// Another profiler in the process gets no records of CUPTI.
    CuptiTaken {
        /// Its name.
        profiler: String,
    },
    /// For nodes of CUDA graphs it is not known which span captured them.
    GraphNodesOverLimit {
        /// Their number.
        nodes: u64,
    },
    /// Several processes in one file used one GPU.
    GpuShared,
    /// Kernels that are not in the report `kernel_exec`, because their launches are not known.
    KernelsWithoutLaunch {
        /// Their number.
        kernels: u64,
    },
    /// Operations that are not wholly in the report `interference`, because their records came too late.
    InterferenceLate {
        /// Their number.
        operations: u64,
    },
    /// Operations that are not wholly in the report `interference`, because of too many pairs of spans.
    InterferenceOverLimit {
        /// Their number.
        operations: u64,
    },
    /// Operations that are not wholly in the report `interference`, because they waited for too long.
    InterferenceCut {
        /// Their number.
        operations: u64,
    },
    /// Calls of helper threads that could belong to either of two ranges.
    ContestedCalls {
        /// Number of calls into CUDA.
        calls: u64,
        /// Name of the helper thread.
        helper: String,
        /// The two ranges.
        between: [String; 2],
    },

    // Streams, timed by events.
    /// No span was entered under a named stream.
    NoNamedStream,
    /// The process is a forked child of the one that named the streams.
    StreamTimesForked,
    /// Streams are not timed, because the driver cannot be used.
    StreamTimesWithoutDriver {
        /// The reason, from the system.
        reason: String,
    },
    /// Streams are not timed, because the driver refused.
    StreamTimesOff {
        /// The driver's error.
        error: i32,
    },
    /// The driver refused some calls that time a span.
    StreamTimesRefused {
        /// The driver's last error.
        error: i32,
    },
    /// A device whose streams are timed.
    StreamTimes {
        /// Number of the device.
        device: i32,
        /// Its name.
        name: String,
        /// The newest CUDA that the driver supports: 12040 is 12.4.
        driver: Option<i32>,
        /// Time of an empty pair of events in nanoseconds, if it could be measured.
        floor_ns: Option<u64>,
        /// The driver's error, if not.
        error: i32,
    },

    // Timelines.
    /// The figures were concluded from a timeline.
    Concluded,
    /// The timeline was cut.
    TimelineCut {
        /// Place of the cut, in bytes.
        byte: u64,
    },
    /// Items that are missing in the timeline, or incomplete, because its memory was full.
    TimelineFull {
        /// Number of ranges, events and GPU operations.
        items: u64,
    },
    /// Records of one kind that were dropped because the timeline's memory was full.
    DetailsDropped {
        /// Their number.
        records: u64,
        /// Their kind, as a plural.
        what: String,
    },

    // Ranges of other code, and tools.
    /// NVTX belongs to another profiler, so that no ranges were sent to a tool.
    NvtxTaken,
    /// NVTX ranges of other code go to the tool that a variable names.
    ForeignRangesToTool,
    /// NVTX ranges of other code belong to another profiler.
    ForeignRangesTaken,
    /// NVTX calls of signal handlers, which are in no table.
    SignalHandlerCalls {
        /// Their number.
        calls: u64,
    },
    /// Events of OpenACC that are in no row.
    OpenAccLost {
        /// Number of events that did not end.
        unended: u64,
        /// Number of events that did not start.
        unbegun: u64,
        /// Number of events at too many places.
        over_limit: u64,
        /// Number of events of threads that were ending.
        of_ending_threads: u64,
    },
    /// Pushes of metrics that failed, or did not end.
    MetricsNotPushed {
        /// Number of pushes.
        pushes: u64,
        /// Number of pushes that failed.
        failed: u64,
        /// The last error, from the network or the receiver.
        reason: String,
        /// Seconds for which the last push was awaited in vain.
        awaited_s: Option<u64>,
    },

    // Spans and calls.
    /// Further layers or subscribers of the profiler, which measured nothing.
    FurtherLayers {
        /// Their number.
        layers: u64,
    },
    /// Spans that the filter rejected.
    Rejected {
        /// The filter; empty if it lets nothing through.
        filter: String,
        /// The crates with the most rejected call sites.
        crates: Vec<RejectedCrate>,
        /// Number of further crates.
        more_crates: u64,
        /// A filter that measures more.
        advised: Option<AdvisedFilter>,
        /// Whether spans of TRACE are among the rejected ones.
        has_trace: bool,
    },
    /// A field of a span that is unknown.
    UnknownField {
        /// The field.
        field: String,
        /// The span's name.
        span: String,
        /// File and line of the call site.
        place: Option<String>,
    },
    /// A field of a span whose value is invalid.
    MisreadField {
        /// The field.
        field: String,
        /// The span's name.
        span: String,
        /// File and line of the call site.
        place: Option<String>,
        /// The value, shortened.
        value: String,
        /// The values that the field accepts.
        accepted: String,
    },
    /// Further call sites have unknown fields, or invalid values.
    FurtherFields,
    /// A span's guard was held across `.await`.
    MisnestedGuard {
        /// The span's name.
        span: String,
        /// File and line of the call site.
        place: Option<String>,
        /// Number of drops out of order.
        out_of_order: u64,
        /// Number of drops on another thread.
        elsewhere: u64,
    },
    /// Calls that have waited for long and have not ended.
    StillWaiting {
        /// Their number.
        calls: u64,
        /// Their name.
        name: String,
        /// The longest wait so far, in nanoseconds.
        longest_ns: u64,
    },
    /// Spans that ran on threads without an open range.
    AtTheRoot {
        /// Name of the span with the most calls.
        name: String,
        /// Number of other spans.
        others: u64,
    },
    /// Spans whose calls were not followed, because too many were open.
    CallsOverLimit {
        /// Number of spans.
        spans: u64,
    },
    /// Calls whose waits for GPU work are not known.
    CallStatesCut {
        /// Their number.
        calls: u64,
    },
    /// Calls of CUDA's API that came too late for the state in CUDA.
    CallStatesLate {
        /// Their number.
        calls: u64,
    },
    /// Links by `follows_from` that are in no figure.
    LinksLost {
        /// Their number.
        links: u64,
    },
    /// Spans with a share of a batch that are no calls of futures.
    SharesWithoutRow {
        /// Number of spans.
        spans: u64,
    },
    /// Parts of waits that are in no row, because too many pairs of names wait.
    WaitsOverLimit {
        /// Their number.
        parts: u64,
    },
    /// Too many names wait for each other to know the p99 of calls without these waits.
    ShorterCallsOverLimit,

    // The clock and names.
    /// The rate of the clock was corrected between two summaries.
    ClockCorrected {
        /// Millionths of the rate.
        ppm: u64,
    },
    /// Rows whose names were cut.
    NamesCut {
        /// Their number.
        rows: u64,
        /// Size of the longest name.
        bytes: u64,
    },
    /// A kind of a newer version, whose text is not known.
    Unknown,
}

/// How a process ended that did not write its summary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "merge", derive(PartialOrd, Ord))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ProcessCut {
    /// At once; its ranges are counted to the end.
    Exact,
    /// At once; its rows may be a second old.
    Snapshot,
    /// It could not write any more from some moment on: the reason, from the system.
    Refused(String),
    /// It has not ended.
    Running,
}

/// The rejected spans of a crate; see [`Note::Rejected`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "merge", derive(PartialOrd, Ord))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(not(feature = "_literals"), non_exhaustive)]
pub struct RejectedCrate {
    /// Name of the crate, or of the NVTX domain.
    pub name: String,
    /// Number of call sites.
    pub call_sites: u64,
    /// Name of the span at the first one; `None` for NVTX ranges.
    pub first: Option<String>,
}

/// A filter that measures rejected spans; see [`Note::Rejected`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "merge", derive(PartialOrd, Ord))]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(not(feature = "_literals"), non_exhaustive)]
pub struct AdvisedFilter {
    /// The filter.
    pub filter: String,
    /// Number of rejected call sites that it measures.
    pub measured: u64,
    /// Number of all rejected call sites.
    pub of: u64,
}

/// Notes as read from a file. A newer version may have other kinds, or other figures.
#[cfg(feature = "serde")]
pub(super) fn read<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Note>, D::Error> {
    use serde::Deserialize as _;

    #[derive(serde::Deserialize)]
    #[serde(untagged)]
    enum Read {
        Known(Note),
        Unknown(serde::de::IgnoredAny),
    }

    let read = Vec::<Read>::deserialize(from)?.into_iter();
    let notes = read.map(|read| match read {
        Read::Known(note) => note,
        Read::Unknown(_) => Note::Unknown,
    });
    Ok(notes.collect())
}
