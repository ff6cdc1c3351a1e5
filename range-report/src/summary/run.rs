//! One run of a process.

#[cfg(feature = "serde")]
use super::flat_tree;
use super::gpu::{ActivityLosses, GpuActivity, NodeWork};
use super::openacc::OpenAccStats;
use super::times::{Quantile, RangeStyle, Times};

/// One row of the range statistics: every instance of one name in one domain and style.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RangeStats {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// Push/pop or start/end.
    pub style: RangeStyle,
    /// Durations.
    pub times: Times,
}

impl RangeStats {
    /// The row of a push/pop range in the default domain. Other fields can be set afterwards:
    ///
    /// ```
    /// use range_report::summary::{RangeStats, RangeStyle, Times};
    ///
    /// let mut row = RangeStats::new("step", Times::new(10, 1_000));
    /// row.style = RangeStyle::StartEnd;
    /// assert_eq!((row.label(), row.times.instances), ("step".to_owned(), 10));
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>, times: Times) -> Self {
        Self { domain: None, name: name.into(), style: RangeStyle::PushPop, times }
    }

    /// The name as Nsight Systems shows it: `domain:name`, or the bare name in the default domain.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.domain {
            Some(domain) => format!("{domain}:{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// The calls of one name: each is one use of a span that is a future, or that is entered more than once.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CallStats {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the span.
    pub name: String,
    /// Calls whose future was dropped without a poll, or long after its last poll, as an abort does. A future that a
    /// timeout cancels was polled right before, and looks finished. They are in all other figures too.
    pub cancelled: u64,
    /// Latencies: from the creation of the span to its end. An instance is a call that has ended.
    pub latency: Times,
    /// Time during which an instance of the call was open on some thread.
    pub busy_ns: u64,
    /// The rest of the latency: nothing of the call ran.
    pub awaited_ns: u64,
    /// `awaited_ns` without the time during which a child call was alive: what these calls themselves waited for.
    pub awaited_self_ns: u64,
}

impl CallStats {
    /// Calls in the default domain that were busy all the time.
    #[must_use]
    pub fn new(name: impl Into<String>, latency: Times) -> Self {
        Self { name: name.into(), busy_ns: latency.total_ns, latency, ..Self::default() }
    }

    /// The name as [`RangeStats::label`] gives it.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.domain {
            Some(domain) => format!("{domain}:{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// One node of the phase tree: the spans of one name under one parent.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TreeNode {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// Spans created.
    pub calls: u64,
    /// Times entered and exited; the span of a future is entered once per poll.
    pub instances: u64,
    /// Sum of all durations. In a row of recursion deeper than the tree ([`Losses::recursive_rows`]) nested time counts
    /// once: the total is at most the sum of the self times of that recursion's rows and the rows below, on each
    /// thread.
    pub total_ns: u64,
    /// `total_ns` without the ranges that ran directly above these on the same thread.
    pub self_ns: u64,
    /// The part of `self_ns` in which these spans only waited for their children: other threads ran them meanwhile, or
    /// they were futures that were awaited. An estimate; 0 where none is known.
    #[cfg_attr(feature = "serde", serde(default))]
    pub blocked_ns: u64,
    /// Longest instance; 0 where it is not known.
    #[cfg_attr(feature = "serde", serde(default))]
    pub max_ns: u64,
    /// Durations of instances, at the quantiles that were asked for; empty where none were.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub quantiles: Vec<Quantile>,
    /// Time that all calls of futures in this row waited: their latency without the time during which an instance was
    /// open. `None` if no call was a future.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub awaited_ns: Option<u64>,
    /// `awaited_ns` without the time during which a child call was alive.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub awaited_self_ns: Option<u64>,
    /// Stream time of these instances; if they were not timed themselves, that of the nodes below. `None` if nothing
    /// was timed.
    pub stream_total_ns: Option<u64>,
    /// `stream_total_ns` without that of the children.
    pub stream_self_ns: Option<u64>,
    /// The GPU work of these spans, as CUPTI recorded it. `None` if CUPTI did not record.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub gpu: Option<NodeWork>,
    /// First entry of such a span, from the start of the window: the order of siblings. Where no entry has ended, the
    /// first creation.
    pub first_ns: u64,
    /// Children, in order of first entry.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub children: Vec<TreeNode>,
}

impl TreeNode {
    /// A node without figures and children.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

/// One row of the category sums.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CategoryStats {
    /// Value of `nvtx.category`: its name, or the number in decimal digits.
    pub category: String,
    /// Durations of all instances in this category, nested ones counted inclusively.
    pub times: Times,
}

impl CategoryStats {
    /// The row of a category.
    #[must_use]
    pub fn new(category: impl Into<String>, times: Times) -> Self {
        Self { category: category.into(), times }
    }
}

/// A range that was still open when the summary was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OpenRange {
    /// Name as [`RangeStats::label`] gives it.
    pub label: String,
    /// Name of the thread it is open on; of a start/end range, of the thread that began it.
    pub thread: String,
    /// Push/pop; or start/end, for a span with `nvtx.lifetime` that has not been closed.
    pub style: RangeStyle,
    /// Whether it was popped by the finish, and so counted up to then ("cut").
    pub cut: bool,
    /// How many such ranges: lifetimes of one name and thread are counted together, push/pop ranges are listed one by
    /// one.
    pub count: u64,
}

impl OpenRange {
    /// One push/pop range that is open and was not cut.
    #[must_use]
    pub fn new(label: impl Into<String>, thread: impl Into<String>) -> Self {
        Self { label: label.into(), thread: thread.into(), style: RangeStyle::PushPop, cut: false, count: 1 }
    }
}

/// Stream times that are missing in the window: since the profiler was built, or since its last reset. All zero in a
/// clean run, and where no stream was named. Each profiler counts its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct StreamLosses {
    /// Pairs of events that were recorded but not read.
    pub pending: u64,
    /// Entries or exits during a capture of their stream: nothing is recorded into a graph.
    pub captured: u64,
    /// Entries or exits on a stream that was gone, or that the driver refused.
    pub refused: u64,
    /// Pairs that were dropped, because their stream had too many unread ones.
    pub dropped: u64,
    /// Pairs that could not be read, because their context failed or is gone.
    pub unreadable: u64,
}

/// One row of stream time: the instances of one name on one stream, timed there with CUDA events, idle included.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct StreamStats {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// The stream: its device, and its number among the named streams there.
    pub stream: String,
    /// Stream times.
    pub times: Times,
    /// Instances that took no longer than an empty pair of events: nothing was enqueued.
    pub empty: u64,
    /// The time of an empty pair of events on that device, in nanoseconds: a stream time of that size means nothing. 0
    /// where it is not known.
    pub floor_ns: u64,
}

impl StreamStats {
    /// The row of a range in the default domain.
    #[must_use]
    pub fn new(name: impl Into<String>, stream: impl Into<String>, times: Times) -> Self {
        Self { domain: None, name: name.into(), stream: stream.into(), times, empty: 0, floor_ns: 0 }
    }
}

/// What was not measured, or not as the program wrote it. All zero and empty in a clean run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Losses {
    /// Instances that were closed and opened again because a range below them was exited first.
    pub split_instances: u64,
    /// Exits on a thread that had no such range open.
    pub stray_exits: u64,
    /// Ranges open at the time of the summary.
    pub open: Vec<OpenRange>,
    /// Values of `nvtx.name` that exceeded the limit on distinct names; the spans kept their own names. Names of ranges
    /// that other code makes, too, which are then `(other)`.
    pub names_over_limit: u64,
    /// Values of `nvtx.category` that exceeded the same limit: they have no rows.
    #[cfg_attr(feature = "serde", serde(default))]
    pub categories_over_limit: u64,
    /// Spans for which the tree had no room, by the limit on nodes or on depth; they are in a `(more)` row.
    pub nodes_over_limit: u64,
    /// Rows of the tree that include all deeper levels of a recursion, because the tree has 64 levels.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recursive_rows: u64,
    /// Rows whose durations were not all kept because the sample budget was spent: their median is unknown.
    pub rows_without_median: u64,
    /// What could not be timed on the GPU.
    pub streams: StreamLosses,
    /// GPU records that are missing.
    pub activity: ActivityLosses,
    /// Spans that could not be followed: entered while their thread was being torn down, or beyond the bounds on
    /// threads.
    pub spans_dropped: u64,
}

/// What spans took of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ThreadStats {
    /// Time in which a span was open on the thread.
    pub in_spans_ns: u64,
    /// The part of it that kept the thread from other tasks: polls of futures with all that they call, and spans that
    /// no future is below. `None` where the thread polled no future.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub in_polls_ns: Option<u64>,
}

impl ThreadStats {
    /// A thread that polled no future.
    #[must_use]
    pub const fn new(in_spans_ns: u64) -> Self {
        Self { in_spans_ns, in_polls_ns: None }
    }
}

/// The process a summary was taken in, and the run it is a part of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Command line, arguments joined by blanks.
    pub command: String,
    /// Name of the machine; empty where it is not known.
    pub host: String,
    /// Number of this process among those of its run: the first of `OMPI_COMM_WORLD_RANK`, `SLURM_PROCID` and `RANK` in
    /// the environment that is a number. `None` where there is none.
    pub rank: Option<u32>,
    /// When the profiler was built: nanoseconds since 1970 in UTC; 0 where it is not known.
    pub started_unix_ns: u64,
    /// What the processes of one run have in common: `TRACING_GPU_RUN_ID` in the environment, else `SLURM_JOB_ID`.
    /// Where there is neither, the start in seconds and the process id: then each process is a run of its own.
    pub run_id: String,
}

impl Process {
    /// The process in few words: `rank 3`, or `host:pid` where it has no rank.
    ///
    /// ```
    /// let mut process = range_report::Process::default();
    /// process.pid = 42;
    /// process.host = "node7".to_owned();
    /// assert_eq!(process.label(), "node7:42");
    /// process.rank = Some(3);
    /// assert_eq!(process.label(), "rank 3");
    /// ```
    #[must_use]
    pub fn label(&self) -> String {
        match self.rank {
            Some(rank) => format!("rank {rank}"),
            None => format!("{}:{}", self.host, self.pid),
        }
    }
}

/// Everything measured in one window of one process.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Summary {
    /// Where it was taken.
    pub process: Process,
    /// Length of the window: since the profiler was built, or since the last reset. The last window ends before the
    /// files are written.
    pub elapsed_ns: u64,
    /// Time of the window in which no span was open, at the least: exact where all spans ran on one thread, by push
    /// and pop, and none was awaited. `None` where it is not known, as where a span is still open.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub outside_ns: Option<u64>,
    /// The threads that spans ran on, by `in_spans_ns` descending. One that ended and one that began later may be one
    /// here.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub threads: Vec<ThreadStats>,
    /// Range statistics, by total time descending, then by label.
    pub ranges: Vec<RangeStats>,
    /// Stream times, by total time descending, then by name and stream.
    pub stream_ranges: Vec<StreamStats>,
    /// Root phases, in order of first entry. Serialised as a flat list of nodes, each with its `depth`, in the order of
    /// printing.
    #[cfg_attr(feature = "serde", serde(with = "flat_tree"))]
    pub tree: Vec<TreeNode>,
    /// Calls of futures, by `awaited_self_ns` descending, then by total latency descending, then by label.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub calls: Vec<CallStats>,
    /// Kernels, copies and API calls; `None` where CUPTI did not record them.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub gpu: Option<GpuActivity>,
    /// Events of an OpenACC runtime, by total time descending, then by label.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub openacc: Vec<OpenAccStats>,
    /// Sums over `nvtx.category`, by total time descending, then by name.
    pub categories: Vec<CategoryStats>,
    /// What was lost or changed.
    pub losses: Losses,
    /// What makes the rows say more, one sentence each: printed right below the tree's verdict, else among the notes.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub advice: Vec<String>,
    /// Lines that explain how the figures were obtained, or why something is missing: one sentence each.
    pub notes: Vec<String>,
    /// If no range was recorded, the cause, if known: the text after "No range was recorded: ".
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub empty_because: Option<String>,
}
