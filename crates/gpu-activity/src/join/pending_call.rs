//! A call that is remembered, and what has arrived for it.

use crate::fold::{Launch, NO_SLOT};

/// Drains for which a call is remembered after its last news.
pub(super) const DRAINS: usize = 2;

/// What is expected of a call, ordered by how long the call is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Expected {
    /// At most its own record.
    Record,
    /// Operations, which come together.
    Operations,
    /// Operations of a graph, which may arrive long after one another.
    Graph,
}

/// What has arrived for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Nothing,
    /// Only operations without a time.
    Untimed,
    Operation,
}

/// Which record of a call has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Recorded {
    No,
    /// At least one.
    Yes,
    /// That of a call of the runtime, which made the driver calls of this id.
    Runtime,
}

/// What happens to the operations and records of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Counted,
    /// Dropped: a call of the profiler, made to the driver directly, so that only its record arrives.
    Own,
    /// Dropped: the call belongs to an older window.
    Past,
}

/// A call with work on a GPU, or of the profiler, takes 40 bytes, and 49 in the table, with its id and the table's own
/// byte. A table is filled to between 7/16 (after growth) and 7/8: 56 to 112 bytes. 8 to 32 bytes follow in the order
/// of arrival, and 4 to 8 for each of three drains with news of the call. That is at most 168 bytes a launch, and half
/// as much again while a table grows.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCall {
    pub(super) launch: Launch,
    /// Slot of the innermost instance, or [`NO_SLOT`], also if no operations are expected.
    pub(super) instance: u32,
    /// Distinguishes it from an earlier call with the same id.
    pub(super) serial: u32,
    /// The drain from which its last two drains count; 0 while it does not age.
    pub(super) ageing: u32,
    pub(super) expected: Expected,
    pub(super) came: Progress,
    pub(super) fate: Fate,
    pub(super) recorded: Recorded,
}

impl PendingCall {
    pub(super) fn new(launch: Launch, instance: u32, expected: Expected) -> Self {
        let instance = if expected == Expected::Record { NO_SLOT } else { instance };
        let (came, fate, recorded) = (Progress::Nothing, Fate::Counted, Recorded::No);
        Self { launch, instance, serial: 0, ageing: 0, expected, came, fate, recorded }
    }

    pub(super) fn own() -> Self {
        let launch = Launch { thread: 0, node: 0, at: 0, call: 0 };
        Self { fate: Fate::Own, ..Self::new(launch, NO_SLOT, Expected::Record) }
    }

    /// Whether it is a call of the profiler.
    pub(super) fn is_own(&self) -> bool {
        self.fate == Fate::Own
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.fate != Fate::Counted
    }

    /// Whether a launch still waits for its first operation.
    pub(super) fn is_awaited(&self) -> bool {
        self.came == Progress::Nothing && !self.is_dropped()
    }

    /// Whether the rest of its records must arrive together with those that have.
    pub(super) fn is_answered(&self, has_records: bool, awaits_records: bool) -> bool {
        let is_recorded = self.recorded > Recorded::No;
        match self.expected {
            Expected::Record => is_recorded || !awaits_records,
            Expected::Operations => (is_recorded || !has_records) && self.came != Progress::Nothing,
            Expected::Graph => false,
        }
    }

    /// Whether it is a call of the program from which only a record is expected.
    pub(super) fn is_mere_call(&self) -> bool {
        self.expected == Expected::Record && self.fate != Fate::Own
    }
}
