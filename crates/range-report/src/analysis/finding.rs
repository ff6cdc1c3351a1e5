//! A finding: what is concluded of a run, and the figures that prove it.

use range_model::summary::IdleCause;

/// Declares the kinds of findings: the name of each, which never changes, and its evidence.
macro_rules! kinds {
    ($(
        $(#[doc = $about:literal])+
        $Kind:ident = $name:literal { $($(#[doc = $field_about:literal])+ $field:ident: $Field:ty,)* }
    )+) => {
        /// What a finding is about. More kinds may come.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FindingKind {
            $($(#[doc = $about])+ $Kind,)+
        }

        impl FindingKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$Kind),+];

            /// The name in JSON; it never changes.
            ///
            /// ```
            /// assert_eq!(range_report::FindingKind::MostAwaited.name(), "most_awaited");
            /// ```
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Kind => $name,)+
                }
            }
        }

        /// The figures of a finding that only its kind has. Times are nanoseconds.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "kind", content = "evidence"))]
        #[non_exhaustive]
        pub enum Evidence {
            $(
                $(#[doc = $about])+
                #[cfg_attr(feature = "serde", serde(rename = $name))]
                #[non_exhaustive]
                $Kind { $($(#[doc = $field_about])+ $field: $Field,)* },
            )+
        }

        impl Evidence {
            /// The kind of finding that has this evidence.
            #[must_use]
            pub const fn kind(&self) -> FindingKind {
                match self {
                    $(Self::$Kind { .. } => FindingKind::$Kind,)+
                }
            }
        }
    };
}

kinds! {
    /// The calls of a phase waited themselves, where more time was awaited than run. At stake is all that they waited,
    /// of all that was awaited.
    MostAwaited = "most_awaited" {
        /// The phase that they perhaps waited for, as [`Finding::node`] has it.
        perhaps_for: Option<usize>,
        /// Whether they waited mostly for GPU work that they had launched.
        for_gpu_work: bool,
    }
    /// Threads that poll futures were busy for nearly all of the run, so a wait may be one for a free thread. At stake
    /// is the mean time that each was busy, of the run.
    BusyThreads = "busy_threads" {
        /// How many were busy.
        busy: usize,
        /// How many poll futures.
        polling: usize,
    }
    /// A phase ran for long itself. At stake is its own time without a first call that took most of it, and without
    /// waiting for its children; of all such time.
    MostOwnTime = "most_own_time" {}
    /// Much time is in phases that are too small to be printed. At stake is their time, of all time in spans.
    ManySmallPhases = "many_small_phases" {
        /// How many they are.
        phases: usize,
    }
    /// One call took more than half of the time of all calls of a phase. At stake is what it took longer than the
    /// others.
    OneLongCall = "one_long_call" {
        /// How long it took.
        longest_ns: u64,
        /// How long the others took on average.
        others_mean_ns: u64,
        /// Whether it was a warm-up: the first call. Then the order of phases leaves it out.
        is_warm_up: bool,
        /// Which call of its thread it was, from 1 on; `None` where it is not known.
        number: Option<u64>,
        /// When it began, from the start of the window; `None` where it is not known.
        start_ns: Option<u64>,
    }
    /// A span made calls of other spans wait, which were followed. At stake is what all their waits owe to it, of the
    /// time of all waits that were followed.
    WaitsFor = "waits_for" {
        /// How many names the waiting calls have.
        waiters: usize,
        /// Waits of which the largest part is owed to the span.
        waits: u64,
        /// The longest part of a wait that is owed to it.
        longest_ns: u64,
    }
    /// The waits of a phase end right after a range of another name does, far more often than by chance: inferred. At
    /// stake is the time of these waits, of all that the phase waited itself.
    WaitsAfter = "waits_after" {
        /// How many waits ended so.
        waits: u64,
        /// Of how many that are as long.
        of_waits: u64,
        /// How many of them would by chance.
        by_chance: u64,
    }
    /// Threads were off the CPU for much of a range's own time: sampled. At stake is that time, of the range's own.
    OffCpu = "off_cpu" {
        /// How often a thread was seen off the CPU there.
        samples: u64,
        /// The time in the system call that took most of it.
        in_call_ns: u64,
    }
    /// Much of the run was in no range. At stake is that time, of the run.
    OutsideRanges = "outside_ranges" {
        /// Whether that is all such time: else it is a bound, because threads or calls may overlap.
        exact: bool,
    }
    /// Calls that live as long as the run and wait for work: nothing is at stake.
    LongLoop = "long_loop" {
        /// How many they are.
        calls: u64,
        /// How long they lived on average.
        life_ns: u64,
        /// How long each of them awaited work on average.
        awaited_self_ns: u64,
    }
    /// A phase launched work that kept the GPU busy for long. At stake is that time, of all time in which the GPU was
    /// busy.
    MostBusyTime = "most_busy_time" {}
    /// A phase took long on its stream. At stake is its own stream time, of that of all phases.
    MostStreamTime = "most_stream_time" {}
    /// How busy the GPU was in the range that stands for the run, or in the whole run. At stake is the rest of the
    /// time.
    GpuUse = "gpu_use" {
        /// The time in which it ran anything.
        busy_ns: u64,
        /// Instances of the range; 1 for the run.
        instances: u64,
        /// Operations in it.
        operations: u64,
        /// Their durations.
        operations_ns: u64,
        /// What it waited for longest; `None` where that was not followed, or the GPU was busy.
        cause: Option<IdleCause>,
        /// How long.
        cause_ns: Option<u64>,
        /// The part of the busy time in which ranks waited for others in collective operations; `None` where that is
        /// not known.
        waiting_ns: Option<u64>,
    }
    /// A rank was late for collective operations, in which the others waited for it. At stake is how long each of them
    /// waited on average, of the run.
    LateRank = "late_rank" {
        /// Its place in [`Lateness::late`](range_model::summary::Lateness::late).
        row: usize,
        /// For how many operations it was the last.
        operations: u64,
        /// The number of such operations that were judged.
        of_operations: u64,
        /// By how much, in the median.
        late_ns: u64,
        /// How many other ranks waited for it.
        others: u64,
        /// How long each of them waited on average.
        each_ns: u64,
        /// How long all ranks together waited for it.
        waited_ns: u64,
        /// How much longer than the others it was in the range and the state that the sentence names; `None` where it
        /// names none.
        cause_ns: Option<u64>,
    }
    /// Calls of the CUDA API failed. At stake is the time in them.
    FailedCalls = "failed_calls" {
        /// How many, of the range and the code that have most of them.
        calls: u64,
        /// What they returned.
        code: u32,
        /// How many failed in all.
        all: u64,
    }
    /// The GPU was idle while the host launched. At stake is that time, of the time from the first operation to the
    /// last; the same of all kinds down to `gpu_idle_for`.
    LaunchBound = "launch_bound" {
        /// Idle times of all causes in the range.
        gaps: u64,
        /// The longest of them.
        longest_ns: u64,
        /// When that began, from the start of the profiler.
        longest_at_ns: u64,
    }
    /// The GPU was idle because the host waits for it again and again.
    SyncLoop = "sync_loop" {
        /// Calls in the range that wait.
        calls: u64,
        /// The time in them.
        calls_ns: u64,
        /// Instances of the range that made them; 0 for no range.
        instances: u64,
    }
    /// The GPU was idle because the host allocates or releases memory again and again.
    AllocationLoop = "allocation_loop" {
        /// Calls in the range that allocate or release.
        calls: u64,
        /// The time in them.
        calls_ns: u64,
        /// Instances of the range that made them; 0 for no range.
        instances: u64,
    }
    /// The GPU was idle while code was loaded.
    FirstCalls = "first_calls" {
        /// Idle times of all causes in the range.
        gaps: u64,
        /// The longest of them.
        longest_ns: u64,
        /// When that began, from the start of the profiler.
        longest_at_ns: u64,
    }
    /// The GPU had nothing to do because the host ran other code.
    HostPhase = "host_phase" {
        /// Idle times of all causes in the range.
        gaps: u64,
        /// The longest of them.
        longest_ns: u64,
        /// When that began, from the start of the profiler.
        longest_at_ns: u64,
    }
    /// The GPU was idle for another cause in one range; or outside of ranges, in the loop of one.
    GpuIdleFor = "gpu_idle_for" {
        /// Why.
        cause: IdleCause,
        /// Idle times of all causes in the range. With the cause "no work", those outside of ranges in the whole run,
        /// of which some may be before and after the loop; the longest, too.
        gaps: u64,
        /// The longest of them.
        longest_ns: u64,
        /// When that began, from the start of the profiler.
        longest_at_ns: u64,
    }
    /// Asynchronous copies from or to pageable memory held the host up. At stake is the time in these calls.
    PageableCopies = "pageable_copies" {
        /// How many.
        copies: u64,
        /// What they copied.
        bytes: u64,
    }
    /// Operations waited for others because one of the two is on the legacy default stream. At stake is the time in
    /// which any waited.
    DefaultStream = "default_stream" {
        /// Operations that waited.
        operations: u64,
    }
    /// Operations of a span ran while operations of other spans, of other requests, were ready behind them. At stake is
    /// the time for which these waited, of all such time.
    Interference = "interference" {
        /// Operations that waited behind it.
        operations: u64,
        /// How many spans launched them.
        waiters: usize,
        /// The longest time for which one of them waited behind it.
        longest_ns: u64,
    }
    /// Copies took long, and no kernel ran beside most of them. At stake is the time of copies alone, or that of
    /// kernels, if that is less.
    NoOverlap = "no_overlap" {
        /// The time of copies and sets.
        copy_ns: u64,
        /// The part in which a kernel ran.
        overlap_ns: u64,
        /// How often a copy came next after a kernel.
        turns: u64,
    }
    /// There are many copies of one kind, and they are small. At stake is the sum of their durations.
    SmallCopies = "small_copies" {
        /// How many.
        copies: u64,
        /// Their size on average.
        mean_bytes: u64,
    }
    /// Ranges were open at the end.
    OpenRanges = "open_ranges" {
        /// How many they were.
        ranges: u64,
        /// Whether they were ended there and counted up to then; else they are not counted.
        cut: bool,
    }
    /// Something was not measured, or not as the program wrote it.
    Loss = "loss" {
        /// Its name in [`Losses`](range_model::Losses).
        figure: &'static str,
        /// How often.
        count: u64,
    }
    /// Work for the GPU was launched outside of any range. At stake is the time in which it kept the GPU busy.
    LaunchedOutside = "launched_outside" {
        /// Kernels, copies and sets.
        operations: u64,
    }
    /// Rows have no median, because the memory for durations was used up.
    NoMedian = "no_median" {
        /// How many rows.
        rows: u64,
    }
    /// Instances with a stream time in which nothing was enqueued.
    EmptyStreamTimes = "empty_stream_times" {
        /// How many they were.
        instances: u64,
    }
}

impl FindingKind {
    /// Whether it can be switched off (`FindingKinds`): not where it is about what was not measured.
    ///
    /// ```
    /// use range_report::FindingKind;
    ///
    /// assert!(FindingKind::SmallCopies.can_be_off() && !FindingKind::Loss.can_be_off());
    /// ```
    #[must_use]
    pub const fn can_be_off(self) -> bool {
        !matches!(self, Self::OpenRanges | Self::Loss | Self::LaunchedOutside | Self::NoMedian | Self::EmptyStreamTimes)
    }

    /// What the sentence begins with where one phase is compared with others.
    pub(crate) const fn lead(self) -> &'static str {
        match self {
            Self::MostAwaited => "most time awaited: ",
            Self::MostOwnTime => "most time of its own: ",
            Self::LongLoop => "as long as the run: ",
            Self::MostBusyTime => "GPU: most busy time of its own: ",
            Self::MostStreamTime => "GPU: most stream time of its own: ",
            _ => "",
        }
    }
}

/// What is concluded of a run: what costs time and where, the figures that prove it, and what can be done.
///
/// ```
/// use range_report::{FindingKind, SummaryExt as _};
/// use range_model::{Summary, TreeNode};
///
/// let mut step = TreeNode::new("step");
/// (step.calls, step.instances, step.total_ns, step.self_ns) = (10, 10, 5_000, 5_000);
/// let mut summary = Summary::default();
/// summary.tree = vec![step];
/// let findings = summary.findings();
/// assert_eq!(findings[0].kind(), FindingKind::MostOwnTime);
/// assert_eq!((findings[0].at_stake_ns, findings[0].span.as_slice()), (5_000, &["step".to_owned()][..]));
/// assert_eq!(findings[0].sentence, "most time of its own: step 5.000 us (100.0%)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// The figures that only this kind of finding has.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub evidence: Evidence,
    /// The phase: the names of the ranges from the root of the tree down to it, as
    /// [`RangeStats::label`](range_model::RangeStats::label) gives them. Empty where the finding is one of the whole
    /// run.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub span: Vec<String>,
    /// The place of the phase among all nodes of the tree in the order of printing, which is also their order in JSON.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub node: Option<usize>,
    /// The time that the finding is about, in nanoseconds; 0 where it costs no time, or that is not known.
    pub at_stake_ns: u64,
    /// The time that it is a part of, in nanoseconds.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub of_ns: Option<u64>,
    /// The finding in plain words, with its figures.
    pub sentence: String,
    /// The one thing to do, where it is known.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub advice: Option<String>,
}

impl Finding {
    /// A finding of the whole run that costs no time.
    pub(super) fn of_run(evidence: Evidence, sentence: String) -> Self {
        Self { evidence, span: Vec::new(), node: None, at_stake_ns: 0, of_ns: None, sentence, advice: None }
    }

    /// What it is about.
    #[must_use]
    pub const fn kind(&self) -> FindingKind {
        self.evidence.kind()
    }
}
