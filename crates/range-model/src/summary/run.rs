//! One run of a process.

use std::cmp::Reverse;

use super::collectives::{CommunicatorStats, Lateness};
#[cfg(feature = "serde")]
use super::flat_tree;
use super::gpu::{ActivityLosses, GpuActivity, NodeWork};
use super::idle::GpuIdle;
use super::interference::InterferenceStats;
use super::kernel_exec::{KernelExecStats, RangeExecStats};
use super::machine::Machine;
#[cfg(feature = "serde")]
use super::note;
use super::note::Note;
use super::off_cpu::OffCpuStats;
use super::openacc::OpenAccStats;
#[cfg(feature = "serde")]
use super::schema::absent;
use super::schema::{Join, Shown, Since, figures};
use super::times::{Quantile, RangeStyle, Times};
use super::waits::WaitStats;
use crate::names::in_domain;
use crate::stats::Lean;

figures! {
    /// One row of the range statistics: every instance of one name in one domain and style.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct RangeStats {
        /// NVTX domain; `None` for the default domain.
        domain: Option<String>;
        /// Name of the range.
        name: String;
        /// Push/pop or start/end.
        style: RangeStyle;
        /// Durations.
        times: Times;
    }
}

impl RangeStats {
    /// The row of a push/pop range in the default domain. Other fields can be set afterwards:
    ///
    /// ```
    /// use range_model::summary::{RangeStats, RangeStyle, Times};
    ///
    /// let mut row = RangeStats::new("step", Times::new(10, 1_000));
    /// row.style = RangeStyle::StartEnd;
    /// assert_eq!((row.label(), row.times.instances), ("step".to_owned(), 10));
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>, times: Times) -> Self {
        Self { name: name.into(), times, ..Self::default() }
    }

    /// The name as Nsight Systems shows it: `domain:name`, or the bare name in the default domain.
    #[must_use]
    pub fn label(&self) -> String {
        in_domain(self.domain.as_deref(), &self.name)
    }
}

figures! {
    /// The calls of one name: each is one use of a span that is a future, or that is entered more than once.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct CallStats {
        /// NVTX domain; `None` for the default domain.
        domain: Option<String>;
        /// Name of the span.
        name: String;
    }
    /// Calls of one name in all processes, as in [`CallStats`].
    #[derive(Clone, Debug, Default, PartialEq)]
    figures CallTotals {
        /// Calls whose future was dropped without a poll, or long after its last poll, as an abort does. A future that
        /// a timeout cancels was polled right before, and looks finished. They are in all other figures too. `None`
        /// where that is not known of too many calls.
        #[serde(default)]
        cancelled: Option<u64> = total => "Cancelled";
        /// Latencies: from the creation of the span to its end. An instance is a call that has ended.
        latency: Times = joined;
        /// Time during which an instance of the call was open on some thread. The thread may have run or been blocked:
        /// in a lock, a system call, a sleep, or because another one had its processor.
        busy_ns: u64 = sum => "On Thread (ns)";
        /// The rest of the latency until the last poll: no instance of the call was open.
        awaited_ns: u64 = sum => "Awaited (ns)";
        /// `awaited_ns` without the time during which a child call was alive: what these calls themselves waited for.
        awaited_self_ns: u64 = sum => "Awaited Self (ns)";
        /// Latency after the last poll: a child call, or another handle of the span, kept the span from closing.
        #[serde(default)]
        outlived_ns: u64 = sum => "Outlived (ns)";
        /// What all latencies together are made of; `None` where it is not known.
        #[serde(default, skip_serializing_if = "absent")]
        states: Option<CallStates> = joined
            => "In CUDA (ns)", "On CPU (ns)", "Off CPU (ns)", "Ready (ns)", "Child Call (ns)", "GPU Work (ns)",
            "Otherwise (ns)";
        /// The slowest of a hundred or more calls; `None` for fewer.
        #[serde(default, skip_serializing_if = "absent")]
        slowest: Option<SlowestCalls> = joined;
        /// Batches that served these calls: spans that follow from theirs. A batch counts once for each call. `None`
        /// for none; so are the next two.
        #[serde(default, skip_serializing_if = "absent")]
        batches: Option<u64> = sum => "Batches";
        /// Time of the latencies in which such a batch was open: from its first entry to its last exit.
        #[serde(default, skip_serializing_if = "absent")]
        in_batch_ns: Option<u64> = sum => "In Batch (ns)";
        /// Estimate: the running time of each batch, divided among the calls that it served, equally or by the field
        /// `gpu.weight` of their spans.
        #[serde(default, skip_serializing_if = "absent")]
        share_ns: Option<u64> = sum => "Share~ (ns)";
        /// Estimate: the durations of the GPU operations that each batch launched, divided in the same way. `None` for
        /// none, or if no report asked for it.
        #[serde(default, skip_serializing_if = "absent")]
        gpu_share_ns: Option<u64> = sum => "GPU Share~ (ns)";
    }
}

figures! {
    /// The slowest hundredth of the calls of one name, and those that took about as long as the fastest of them. Of
    /// several processes, those of each.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct SlowestCalls {
        /// How many they are.
        calls: u64 = sum;
        /// Sum of their latencies.
        latency_ns: u64 = sum;
        /// What these are made of.
        states: CallStates = joined;
    }
}

/// In CUDA, on and off the CPU, ready, and the kinds of waits.
impl Shown for Option<CallStates> {
    fn show(&self, figures: &mut Vec<Option<u64>>) {
        let of: [fn(&CallStates) -> u64; 7] = [
            |states| states.in_cuda_ns,
            |states| states.on_cpu_ns,
            |states| states.off_cpu_ns,
            |states| states.ready_ns,
            |states| states.child_call_ns,
            |states| states.gpu_work_ns,
            |states| states.otherwise_ns,
        ];
        figures.extend(of.map(|of| self.as_ref().map(of)));
    }
}

impl CallStats {
    /// Calls in the default domain that were on a thread all the time, and none of which was cancelled.
    #[must_use]
    pub fn new(name: impl Into<String>, latency: Times) -> Self {
        Self { name: name.into(), cancelled: Some(0), busy_ns: latency.total_ns, latency, ..Self::default() }
    }

    /// The name as [`RangeStats::label`] gives it.
    #[must_use]
    pub fn label(&self) -> String {
        in_domain(self.domain.as_deref(), &self.name)
    }
}

figures! {
    /// What the latencies of calls are made of. At each moment a call is in one state, the first of these that applies;
    /// so they add up to the latencies, but for rounding when runs are merged.
    ///
    /// Processor time is read where a range took at least some 50 us, and not if the profiler shall not
    /// ([`on_cpu`](https://docs.rs/tracing-gpu/latest/tracing_gpu/struct.ProfilerBuilder.html#method.on_cpu)).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct CallStates {
        /// An instance was open, and its thread was in a call of CUDA's API, enqueuing or waiting, on the CPU or not.
        /// Known where `gpu_work_ns` is.
        #[serde(default)]
        in_cuda_ns: u64 = sum;
        /// An instance was open, and its thread surely ran.
        on_cpu_ns: u64 = sum;
        /// An instance was open, and its thread surely did not run: a lock, a system call, a sleep, or another thread
        /// had its processor.
        off_cpu_ns: u64 = sum;
        /// An instance was open, and it is not known whether its thread ran.
        on_thread_ns: u64 = sum;
        /// New and not polled yet; or woken and not polled yet, where `follow` or tokio tells when.
        ready_ns: u64 = sum;
        /// A call that was created in it was alive.
        child_call_ns: u64 = sum;
        /// No call that was created in it was alive, and an operation on a GPU was queued or running that was launched
        /// in it. Known where CUPTI recorded the GPU's work and a report asked for its order (`why`, `interference`,
        /// `idle` or a page); else such waits are in `otherwise_ns`.
        #[serde(default)]
        gpu_work_ns: u64 = sum;
        /// Another wait; also the time in which it was ready, where nothing tells who was woken.
        otherwise_ns: u64 = sum;
        /// After its last poll.
        outlived_ns: u64 = sum;
    }
}

figures! {
    /// One node of the phase tree: the spans of one name under one parent.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct TreeNode {
        /// NVTX domain; `None` for the default domain.
        domain: Option<String>;
        /// Name of the range.
        name: String;
    }
    /// What a node of the phase tree amounts to, as in [`TreeNode`].
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    figures NodeTotals {
        /// Spans created.
        calls: u64 = sum => "Calls";
        /// Times entered and exited; the span of a future is entered once per poll.
        instances: u64 = sum => "Instances";
        /// Sum of all durations. In a row of recursion deeper than the tree ([`Losses::recursive_rows`]) nested time
        /// counts once: the total is at most the sum of the self times of that recursion's rows and the rows below, on
        /// each thread.
        total_ns: u64 = sum => "Total Time (ns)";
        /// `total_ns` without the ranges that ran directly above these on the same thread.
        self_ns: u64 = sum => "Self Time (ns)";
        /// The part of `self_ns` in which these spans only waited for their children: other threads ran them meanwhile,
        /// or they were futures that were awaited. An estimate; 0 where none is known.
        #[serde(default)]
        blocked_ns: u64 = sum;
        /// The part of `total_ns` in which the thread surely ran. What is neither this nor `off_cpu_ns` is not known:
        /// instances of less than some 50 us, and what lies between two readings.
        #[serde(default)]
        on_cpu_ns: u64 = sum => "On CPU (ns)" if known;
        /// The part of `total_ns` in which the thread surely did not run: a lock, a system call, a sleep, or another
        /// thread had its processor.
        #[serde(default)]
        off_cpu_ns: u64 = sum => "Off CPU (ns)" if known;
        /// Longest instance; 0 where it is not known.
        #[serde(default)]
        max_ns: u64 = most => "Max (ns)" if known;
        /// Which instance is the longest; `None` where it is not known.
        #[serde(default, skip_serializing_if = "absent")]
        longest: Option<LongestInstance> = joined;
        /// Time that all calls of futures in this row waited: their latency without the time during which an instance
        /// was open. `None` if no call was a future.
        #[serde(default, skip_serializing_if = "absent")]
        awaited_ns: Option<u64> = sum => "Awaited (ns)";
        /// `awaited_ns` without the time during which a child call was alive.
        #[serde(default, skip_serializing_if = "absent")]
        awaited_self_ns: Option<u64> = sum => "Awaited Self (ns)";
        /// Stream time of these instances; if they were not timed themselves, that of the nodes below. `None` if
        /// nothing was timed.
        stream_total_ns: Option<u64> = sum => "Stream Total (ns)";
        /// `stream_total_ns` without that of the children.
        stream_self_ns: Option<u64> = sum => "Stream Self (ns)";
        /// The GPU work of these spans, as CUPTI recorded it. `None` if CUPTI did not record.
        #[serde(default, skip_serializing_if = "absent")]
        gpu: Option<NodeWork> = joined => "GPU Busy (ns)", "GPU Self Busy (ns)";
        /// First entry of such a span, from the start of the window: the order of siblings. Where no entry has ended,
        /// the first creation.
        first_ns: u64 = least;
    }
    apart {
        /// Durations of instances, at the quantiles that were asked for; empty where none were.
        #[serde(default, skip_serializing_if = "absent")]
        quantiles: Vec<Quantile>;
    }
    nested {
        /// Children, in order of first entry.
        #[serde(default, skip_serializing_if = "absent")]
        children: Vec<TreeNode> => WrittenNode, ReadNode;
    }
}

figures! {
    /// The longest instance of a node. `number` and `of` count on its thread, `number` in the order of ends.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct LongestInstance {
        /// Its length.
        ns: u64;
        /// Its start, from the start of the window.
        start_ns: u64;
        /// Whether it was the first there: since the start of the profiler, or its last reset.
        is_first: bool;
        /// Which of the instances it was, from 1 on; `None` where it is not known, as beyond 16,384.
        #[serde(default, skip_serializing_if = "absent")]
        number: Option<u64>;
        /// How many instances there were.
        of: u64;
    }
}

impl Join for LongestInstance {
    fn join(parts: &[&Self]) -> Self {
        parts.iter().largest_by(|longest| (longest.ns, Reverse(longest.start_ns))).map_or_else(Self::default, |it| **it)
    }
}

/// Its number is that of the whole.
impl Since for LongestInstance {
    fn since(&self, _before: &Self) -> Self {
        *self
    }
}

impl TreeNode {
    /// A node without figures and children.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

figures! {
    /// One row of the category sums.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct CategoryStats {
        /// Value of `nvtx.category`: its name, or the number in decimal digits.
        category: String;
        /// Durations of all instances in this category, nested ones counted inclusively.
        times: Times;
    }
}

impl CategoryStats {
    /// The row of a category.
    #[must_use]
    pub fn new(category: impl Into<String>, times: Times) -> Self {
        Self { category: category.into(), times }
    }
}

figures! {
    /// A range that was still open when the summary was taken.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct OpenRange {
        /// Name as [`RangeStats::label`] gives it.
        label: String;
        /// Name of the thread it is open on; of a start/end range, of the thread that began it.
        thread: String;
        /// Push/pop; or start/end, for a span with `nvtx.lifetime` that has not been closed.
        style: RangeStyle;
        /// Whether it was popped by the finish, and so counted up to then ("cut").
        cut: bool;
        /// How many such ranges: lifetimes of one name and thread are counted together, push/pop ranges are listed one
        /// by one.
        count: u64;
    }
}

impl OpenRange {
    /// One push/pop range that is open and was not cut.
    #[must_use]
    pub fn new(label: impl Into<String>, thread: impl Into<String>) -> Self {
        Self { label: label.into(), thread: thread.into(), style: RangeStyle::PushPop, cut: false, count: 1 }
    }
}

figures! {
    /// Stream times that are missing in the window: since the profiler was built, or since its last reset. All zero in
    /// a clean run, and where no stream was named. Each profiler counts its own.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct StreamLosses {
        /// Pairs of events that were recorded but not read.
        pending: u64 = sum;
        /// Entries or exits during a capture of their stream: nothing is recorded into a graph.
        captured: u64 = sum;
        /// Entries or exits on a stream that was gone, or that the driver refused.
        refused: u64 = sum;
        /// Pairs that were dropped, because their stream had too many unread ones.
        dropped: u64 = sum;
        /// Pairs that could not be read, because their context failed or is gone.
        unreadable: u64 = sum;
    }
}

figures! {
    /// One row of stream time: the instances of one name on one stream, timed there with CUDA events, idle included.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct StreamStats {
        /// NVTX domain; `None` for the default domain.
        domain: Option<String>;
        /// Name of the range.
        name: String;
        /// The stream: its device, and its number among the named streams there.
        stream: String;
    }
    /// Stream times of one range in all processes, as in [`StreamStats`].
    #[derive(Clone, Debug, Default, PartialEq)]
    figures StreamTimes {
        /// Stream times.
        times: Times = joined;
        /// Instances that took no longer than an empty pair of events: nothing was enqueued.
        empty: u64 = sum;
        /// The time of an empty pair of events on that device, in nanoseconds: a stream time of that size means
        /// nothing. 0 where it is not known. Of several devices the largest.
        floor_ns: u64 = most;
    }
}

impl StreamStats {
    /// The row of a range in the default domain.
    #[must_use]
    pub fn new(name: impl Into<String>, stream: impl Into<String>, times: Times) -> Self {
        Self { name: name.into(), stream: stream.into(), times, ..Self::default() }
    }
}

figures! {
    /// What was not measured, or not as the program wrote it. All zero and empty in a clean run.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Losses {
        /// Instances that were closed and opened again because a range below them was exited first.
        split_instances: u64 = sum;
        /// Exits on a thread that had no such range open.
        stray_exits: u64 = sum;
        /// Ranges open at the time of the summary.
        open: Vec<OpenRange> = listed;
        /// Values of `nvtx.name` that exceeded the limit on distinct names; the spans kept their own names. Names of
        /// ranges that other code makes, too, which are then `(other)`.
        names_over_limit: u64 = sum;
        /// Values of `nvtx.category` that exceeded the same limit: they have no rows.
        #[serde(default)]
        categories_over_limit: u64 = sum;
        /// Spans for which the tree had no room, by the limit on nodes or on depth; they are in a `(more)` row.
        nodes_over_limit: u64 = sum;
        /// Rows of the tree that include all deeper levels of a recursion, because the tree has 64 levels.
        #[serde(default)]
        recursive_rows: u64 = sum;
        /// Rows whose durations were not all kept because the sample budget was spent: their median is unknown.
        rows_without_median: u64 = sum;
        /// What could not be timed on the GPU.
        streams: StreamLosses = joined;
        /// GPU records that are missing.
        activity: ActivityLosses = joined;
        /// Spans that could not be followed: entered while their thread was being torn down, or beyond the bounds on
        /// threads.
        spans_dropped: u64 = sum;
    }
}

figures! {
    /// What spans took of one thread.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct ThreadStats {
        /// Time in which a span was open on the thread.
        in_spans_ns: u64;
        /// The part of it that kept the thread from other tasks: polls of futures with all that they call, and spans
        /// that no future is below. `None` where the thread polled no future.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_polls_ns: Option<u64>;
    }
}

impl ThreadStats {
    /// A thread that polled no future.
    #[must_use]
    pub const fn new(in_spans_ns: u64) -> Self {
        Self { in_spans_ns, in_polls_ns: None }
    }
}

figures! {
    /// The process a summary was taken in, and the run it is a part of.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Process {
        /// Process id.
        #[serde(default)]
        pid: u32;
        /// Command line, arguments joined by blanks.
        #[serde(default)]
        command: String;
        /// Name of the machine; empty where it is not known.
        #[serde(default)]
        host: String;
        /// Number of this process among those of its run: the first of `OMPI_COMM_WORLD_RANK`, `SLURM_PROCID` and
        /// `RANK` in the environment that is a number. `None` where there is none.
        #[serde(default)]
        rank: Option<u32>;
        /// When the profiler was built: nanoseconds since 1970 in UTC; 0 where it is not known.
        #[serde(default)]
        started_unix_ns: u64;
        /// What the processes of one run have in common: `TRACING_GPU_RUN_ID` in the environment, else `SLURM_JOB_ID`.
        /// Where there is neither, the start in seconds and the process id: those of the command `tracing-gpu` for all
        /// processes that it measures; without it, each process is a run of its own.
        #[serde(default)]
        run_id: String;
    }
}

impl Process {
    /// The process in few words: `rank 3`, or `host:pid` where it has no rank.
    ///
    /// ```
    /// let mut process = range_model::Process::default();
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

figures! {
    /// Everything measured in one window of one process.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Summary {
        /// Where it was taken.
        process: Process;
        /// The machine of a whole run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        machine: Option<Machine>;
        /// Length of the window: since the profiler was built, or since the last reset. The last window ends before the
        /// files are written.
        elapsed_ns: u64;
        /// When the window ended: nanoseconds since 1970 in UTC. `None` for a whole run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended_unix_ns: Option<u64>;
        /// Time of the window in which no span was open, at the least: exact where all spans ran on one thread, by push
        /// and pop, and none was awaited. `None` where it is not known, as where a span is still open.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outside_ns: Option<u64>;
        /// The threads that spans ran on, by `in_spans_ns` descending. One that ended and one that began later may be
        /// one here.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        threads: Vec<ThreadStats>;
        /// Range statistics, by total time descending, then by label.
        ranges: Vec<RangeStats>;
        /// Stream times, by total time descending, then by name and stream.
        stream_ranges: Vec<StreamStats>;
        /// Root phases, in order of first entry. Serialised as a flat list of nodes, each with its `depth`, in the
        /// order of printing.
        #[serde(with = "flat_tree")]
        tree: Vec<TreeNode>;
        /// Calls of futures, by `awaited_self_ns` descending, then by total latency descending, then by label.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<CallStats>;
        /// Kernels, copies and API calls; `None` where CUPTI did not record them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gpu: Option<GpuActivity>;
        /// Why the devices were idle; `None` where no report asked for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idle: Option<GpuIdle>;
        /// Kernels from launch to end, by average total time descending; empty where no report asked for them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kernel_exec: Vec<KernelExecStats>;
        /// The same by range, by total time descending.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        range_exec: Vec<RangeExecStats>;
        /// What threads waited for inside of ranges, by time descending: sampled. Empty where nobody sampled.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        off_cpu: Vec<OffCpuStats>;
        /// Who ended the waits of calls, by time descending.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        waits: Vec<WaitStats>;
        /// Whose operations on a GPU made operations of others wait, by time descending. Empty where no report asked
        /// for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        interference: Vec<InterferenceStats>;
        /// Collective operations of NCCL, by communicator. Empty where there were none, and where no report asked why
        /// the devices were idle.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        communicators: Vec<CommunicatorStats>;
        /// Which ranks were late for collective operations: of several processes as one. `None` of one process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lateness: Option<Lateness>;
        /// Events of an OpenACC runtime, by total time descending, then by label.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        openacc: Vec<OpenAccStats>;
        /// Sums over `nvtx.category`, by total time descending, then by name.
        categories: Vec<CategoryStats>;
        /// What was lost or changed.
        losses: Losses;
        /// What makes the rows say more, one sentence each: printed right below the tree's verdict, else among the
        /// notes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        advice: Vec<String>;
        /// How the figures were obtained, or why something is missing: the kind and figures of each note.
        #[serde(
            default,
            rename = "note_figures",
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "note::read"
        )]
        notes: Vec<Note>;
        /// If no range was recorded, the cause, if known: the text after "No range was recorded: ".
        #[serde(default, skip_serializing_if = "Option::is_none")]
        empty_because: Option<String>;
    }
}
