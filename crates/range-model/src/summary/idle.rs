//! Why the devices were idle: each moment between two operations has one cause and one span.

use super::schema::{figures, lists};
use crate::stats::order;

figures! {
    /// Why the devices of a run were not busy, in the window of the summary.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GpuIdle {
        /// Devices that ran anything, by their numbers.
        devices: Vec<DeviceIdle> = joined;
        /// The idle time of all devices by the span that was open in the thread that launched the operation which
        /// ended it, by time descending, then by name.
        spans: Vec<SpanIdle> = joined;
        /// What the devices did while ranges were open, by the time that they were busy.
        ranges: Vec<RangeUse> = joined;
        /// What in the spans of one name holds up the host or a device, or failed, by time descending.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<SpanCalls> = joined;
        /// Operations whose records came so late that the time before them had a cause already. Their own time counts
        /// as idle.
        late: u64 = sum;
        /// Calls of the CUDA API that were dropped at the limit on memory. The time in them is not explained.
        dropped_calls: u64 = sum;
        /// Copies of pageable memory whose call is not known. They are in no row of `calls`.
        #[serde(default)]
        unmatched_copies: u64 = sum;
    }
}

figures! {
    /// One device between the start of its first operation and the end of its last. Of several processes, the sums over
    /// those that used a device of this number.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct DeviceIdle {
        /// Its number, as CUDA counts.
        device: u32 = key;
        /// From the start of the window to the start of the first operation, in nanoseconds.
        before_ns: u64 = sum;
        /// From the end of the last operation to the end of the window, in nanoseconds.
        after_ns: u64 = sum;
        /// From the start of the first operation to the end of the last, in nanoseconds: `busy_ns` and all causes.
        wall_ns: u64 = sum;
        /// Time in which at least one operation ran, in nanoseconds.
        busy_ns: u64 = sum;
        /// The part of `busy_ns` in which a copy or set ran.
        copy_ns: u64 = sum;
        /// The part of `copy_ns` in which a kernel ran, too.
        overlap_ns: u64 = sum;
        /// How often a copy or set came next after a kernel.
        #[serde(default)]
        turns: u64 = sum;
        /// Number of idle times.
        gaps: u64 = sum;
        /// The rest of `wall_ns`, by cause.
        causes: IdleCauses = joined;
    }
}

figures! {
    /// Idle time that was ended by operations launched in the spans of one name.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct SpanIdle {
        /// NVTX domain; `None` for the default domain.
        domain: Option<String> = key;
        /// Name of the innermost range that was open, or in which the thread had waited; `None` for no range.
        name: Option<String> = key;
        /// Idle times with a part in it.
        gaps: u64 = sum;
        /// The part of the longest of them, in nanoseconds.
        longest_ns: u64 = most;
        /// When that part began: nanoseconds from the start of the profiler. 0 of several processes together.
        longest_at_ns: u64 = apart;
        /// All of it, by cause.
        causes: IdleCauses = joined;
    }
}

figures! {
    /// Calls of one function of the CUDA API in the spans of one name, of one kind and with one result.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct SpanCalls {
        /// NVTX domain; `None` for the default domain.
        domain: Option<String> = key;
        /// Name of the innermost range that was open; `None` for no range.
        name: Option<String> = key;
        /// What they have in common.
        kind: CallKind = key;
        /// The function, with the version of its interface; empty for operations.
        function: String = key;
        /// What they returned: 0, or the code of the error.
        code: u32 = key;
        /// Instances of the range that made such calls; 0 for no range.
        instances: u64 = sum;
        /// How many they are.
        calls: u64 = sum;
        /// The time in them, in nanoseconds; of operations, the time that they waited.
        ns: u64 = sum;
        /// What they copied; 0 for other kinds.
        bytes: u64 = sum;
    }
}

figures! {
    /// What all devices did while ranges of one name were open, whoever launched it.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct RangeUse {
        /// NVTX domain; `None` for the default domain.
        domain: Option<String> = key;
        /// Name of the ranges.
        name: String = key;
        /// The first instance, where it took three times as long as the mean of the others, or a tenth of it was idle
        /// time with the cause loading; and those that followed it and loaded as much. Those of which a tenth was
        /// building graphs, too, if at least as many others came after them. None after the first that did neither.
        /// Each process of a merged summary has its own.
        warm_up: InstancesUse = joined;
        /// All others.
        steady: InstancesUse = joined;
        /// From the start of the first instance in `steady` until the last one has ended, and the devices have done
        /// what was launched until then, by any range, but for what began after something that was launched later.
        /// Its durations are this time, in which there may be instances of `warm_up`, too. `no_work_ns` is apart from
        /// `host_ns` here. Zero if `steady` has less than two, and in merged summaries.
        #[serde(default)]
        in_loop: InstancesUse = apart;
    }
}

figures! {
    /// Instances of ranges, and what the devices did meanwhile. Times of several devices are summed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct InstancesUse {
        /// Their number.
        instances: u64 = sum;
        /// Their durations, in nanoseconds.
        wall_ns: u64 = sum;
        /// Their durations, once for each device of the process, in nanoseconds: busy time and causes add up to it, but
        /// for what lies before the first operation of a device and after its last one.
        devices_ns: u64 = sum;
        /// The time in which a device ran anything.
        busy_ns: u64 = sum;
        /// Operations that ran, each in the instance in which it began.
        operations: u64 = sum;
        /// The durations of these operations, in nanoseconds.
        operations_ns: u64 = sum;
        /// Idle time between two operations, by cause. `no_work_ns` is part of `host_ns` here, but for
        /// [`RangeUse::in_loop`].
        causes: IdleCauses = joined;
    }
}

figures! {
    /// Idle time by cause, in nanoseconds: what the thread did that launched the operation which ended it.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct IdleCauses {
        /// It was in a launch, or within 100 us before the next one, or the device began the operation within 50 us
        /// of its launch, and the device did not run dry while it waited: launches cost more than what they launch.
        launching_ns: u64 = sum;
        /// The operation had been launched before the device became idle, and began within 50 us: the device's own
        /// time from one operation to the next.
        dispatching_ns: u64 = sum;
        /// It waited for the device, with nothing left in the queue, or was on its way from there to the next launch.
        synchronising_ns: u64 = sum;
        /// It was in a copy that blocks: `cudaMemcpy`, or an asynchronous one of 20 us or more, as those of pageable
        /// memory are.
        copying_ns: u64 = sum;
        /// It allocated or released memory.
        allocating_ns: u64 = sum;
        /// It loaded a module or a library, made a context, or was in the first launch of a kernel or a query of its
        /// attributes, where that took 200 us or more.
        loading_ns: u64 = sum;
        /// It was in a call about CUDA graphs that is no launch, or in a capture that ended before the operation was
        /// launched: in launches and queries there, and in code of any length between its calls.
        #[serde(default)]
        building_graphs_ns: u64 = sum;
        /// It ran, or slept in, code of the program inside a range.
        host_ns: u64 = sum;
        /// It had no range open. Of a thread without any range this is `host_ns`.
        no_work_ns: u64 = sum;
        /// The operation had been launched, and its stream was told to wait for an event.
        event_ns: u64 = sum;
        /// None of these, or the launch is not known. Other processes may have used the device.
        unexplained_ns: u64 = sum;
    }
}

lists! {
    DeviceIdle: |row| row.device;
    SpanIdle: |row| (row.domain.clone(), row.name.clone()), |rows| order::by_most(rows, |row| row.causes.total_ns());
    RangeUse: |row| (row.domain.clone(), row.name.clone()),
        |rows| order::by_most(rows, |row| row.steady.busy_ns.saturating_add(row.warm_up.busy_ns));
    SpanCalls: |row| (row.kind, row.domain.clone(), row.name.clone(), row.function.clone(), row.code),
        |rows| order::by_most(rows, |row| row.ns);
}

/// What the calls of a row of [`SpanCalls`] have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum CallKind {
    /// They launch, copy, wait or allocate, and returned an error.
    #[default]
    Failed,
    /// They wait for a device.
    Wait,
    /// They allocate or release memory.
    Allocate,
    /// Asynchronous copies from or to pageable memory that held the host up for 20 us or more.
    PageableCopy,
    /// No calls but operations, which began when another one ended that ran at the same time as they could have: one
    /// of the two is on the legacy default stream, the other on a stream that waits for it.
    DefaultStream,
}

/// Declares each cause once: its name here, its figure in [`IdleCauses`], and its words.
macro_rules! causes {
    ($($Cause:ident, $figure:ident, $words:literal;)+) => {
        /// Why a device was idle.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
        #[non_exhaustive]
        pub enum IdleCause {
            $(
                #[doc = concat!("[`IdleCauses::", stringify!($figure), "`].")]
                $Cause,
            )+
        }

        impl IdleCause {
            /// Every cause, in the order in which tables show them.
            pub const ALL: [Self; 11] = [$(Self::$Cause),+];

            /// In a word or two.
            ///
            /// ```
            /// assert_eq!(range_model::summary::IdleCause::NoWork.name(), "no work");
            /// ```
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Cause => $words,)+
                }
            }
        }

        impl IdleCauses {
            /// The time of one cause.
            #[must_use]
            pub const fn of(&self, cause: IdleCause) -> u64 {
                match cause {
                    $(IdleCause::$Cause => self.$figure,)+
                }
            }

            /// Adds time to one cause.
            pub const fn add(&mut self, cause: IdleCause, ns: u64) {
                let sum = match cause {
                    $(IdleCause::$Cause => &mut self.$figure,)+
                };
                *sum = sum.saturating_add(ns);
            }
        }
    };
}

causes! {
    Launching, launching_ns, "launching";
    Dispatching, dispatching_ns, "dispatching";
    Synchronising, synchronising_ns, "synchronising";
    Copying, copying_ns, "copying";
    Allocating, allocating_ns, "allocating";
    Loading, loading_ns, "loading";
    BuildingGraphs, building_graphs_ns, "building graphs";
    Host, host_ns, "host code";
    NoWork, no_work_ns, "no work";
    Event, event_ns, "event";
    Unexplained, unexplained_ns, "unexplained";
}

impl IdleCauses {
    /// All causes together.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        IdleCause::ALL.iter().fold(0, |sum, &cause| sum.saturating_add(self.of(cause)))
    }
}
