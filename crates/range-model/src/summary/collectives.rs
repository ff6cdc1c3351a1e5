//! Collective operations of NCCL: which of them a process took part in, and who of several processes was late.

use super::schema::figures;

figures! {
    /// The collective operations of one communicator of NCCL in which this process took part, as its device ran them,
    /// and what the device did before each. [`Summary::merge`](super::Summary::merge) compares the processes.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CommunicatorStats {
        /// NCCL's number of the communicator, which all of its ranks share. 0 where it is not known: then `earlier`
        /// counts the operations, and nothing is listed.
        id: u64;
        /// How many operations of the communicator the process ran before the first one listed here, from its start
        /// on. At most 2,048 are listed: the last.
        earlier: u64;
        /// Names of operations: `AllReduce`.
        names: Vec<String>;
        /// The place in `names` of each operation's name, in the order of their starts.
        name: Vec<u32>;
        /// When the kernel of each began: nanoseconds from the start of the profiler.
        start_ns: Vec<u64>;
        /// How long the kernel of each ran, in nanoseconds.
        time_ns: Vec<u64>;
        /// The part of each of these times in which nothing else ran on the device.
        alone_ns: Vec<u64>;
        /// What the device did, in which ranges.
        parts: Vec<RangeState>;
        /// How long the device did what before each operation, since the one before it: places in `parts` with
        /// nanoseconds, the longest six first, then the rest by state, without ranges. None before the first
        /// operation of the process.
        before: Vec<Vec<(u32, u64)>>;
    }
}

figures! {
    /// A state of a device, for one range.
    #[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct RangeState {
        /// [Label](super::RangeStats::label) of the range that launched its work, or to which its idle time is
        /// charged; `None` for no range.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        range: Option<String>;
        /// `GPU work`; `collectives`, those of other communicators; or the
        /// [cause](super::IdleCause::name) of idle time.
        state: String;
    }
}

/// [`RangeState::state`] of kernels, copies and sets.
pub const GPU_WORK: &str = "GPU work";
/// [`RangeState::state`] of collective operations of other communicators.
pub const COLLECTIVES: &str = "collectives";

figures! {
    /// Who was late for collective operations, of several processes together.
    ///
    /// An operation of one communicator is the same one on all ranks if it has the same number there. It ends on all of
    /// them at about the same time, which aligns their clocks. A rank waits in it until the last one is there; in the
    /// rest of the time data moves. Judged are operations for which each rank needs all others: all-reduce,
    /// all-gather, reduce-scatter. The first of a communicator is left out: processes start at different times.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Lateness {
        /// The operations by name, by time descending.
        operations: Vec<CollectiveStats>;
        /// The ranks that were late, by what the others waited for them, descending. Empty where no rank, and no few
        /// ranks, explain most of the waiting.
        late: Vec<LateRank>;
        /// How long each rank waited, in the order of the processes.
        ranks: Vec<RankWait>;
        /// Operations that are not judged, because it is not certain which of other ranks they belong to: their ends
        /// do not agree, a rank has no record of them, or their communicator is not known.
        unmatched: u64;
        /// The longest waits for ranks that were late, for a page: not in JSON.
        #[serde(skip)]
        waits: Vec<CollectiveWait>;
    }
}

figures! {
    /// One rank waits in one operation for another.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CollectiveWait {
        /// Place of the rank among the processes.
        process: u32;
        /// When its kernel began: nanoseconds from the start of its profiler.
        start_ns: u64;
        /// How long it waited from then on.
        wait_ns: u64;
        /// Place of the rank that was the last.
        late: u32;
        /// When the kernel of that one began: nanoseconds from the start of its own profiler.
        late_start_ns: u64;
        /// By how much that one was later than the median of the other ranks.
        late_ns: u64;
        /// How many ranks the operation has.
        ranks: u32;
    }
}

figures! {
    /// Collective operations of one name on all of their ranks.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CollectiveStats {
        /// Its name: `AllReduce`.
        name: String;
        /// How many operations, each of which runs on several ranks.
        operations: u64;
        /// The time of their kernels on all ranks, in nanoseconds.
        time_ns: u64;
        /// The part of it in which ranks waited for the last one.
        waiting_ns: u64;
        /// The part of the waiting in which nothing else ran on the device.
        idle_ns: u64;
    }
}

impl CollectiveStats {
    /// The time in which data moved, on all ranks.
    #[must_use]
    pub const fn moving_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.waiting_ns)
    }
}

figures! {
    /// A rank for which the others waited.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct LateRank {
        /// The process: [`Process::label`](super::Process::label).
        rank: String;
        /// The operation for which it was late, in the communicator in which it was latest; empty for several kinds.
        name: String;
        /// For how many of them it was late by itself. 1 where most of the waiting was one pause.
        operations: u64;
        /// The number of such operations that were judged.
        of: u64;
        /// By how much, in the median: later than the median of the other ranks, in nanoseconds.
        late_ns: u64;
        /// How many other ranks waited for it: at least half as long as the one that waited longest.
        others: u64;
        /// How long each of these waited on average, in all communicators, with nothing else on its device.
        each_ns: u64;
        /// How long all others together waited for it, in the same way.
        waited_ns: u64;
        /// What took it longer than the others; `None` where no single thing did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cause: Option<RangeState>;
        /// How much longer, over all of these operations.
        cause_ns: u64;
    }
}

figures! {
    /// How long a rank waited in collective operations.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct RankWait {
        /// The process: [`Process::label`](super::Process::label).
        rank: String;
        /// Time in which it waited for the last rank, with nothing else on its device.
        idle_ns: u64;
    }
}
