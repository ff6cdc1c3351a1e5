//! An entry of a call, and what it tells about the time since the last exit.

use std::time::Duration;

use crate::clock::{Clock, Ticks};

/// Pauses before an entry, in ticks. They decide only where [`Around`] does not. A finished future is dropped right
/// after its last poll; a cancelled future has waited before its drop. A timeout polls once more before it gives up,
/// and `select!` may, so a future that they cancel looks finished.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    /// A finished future is dropped within this time after its last poll.
    pub(crate) at_once: u64,
    /// A longer pause is a wait if the thread has entered another span meanwhile.
    pub(crate) short: u64,
    /// A longer pause is a wait if the thread has entered no other span meanwhile. A shorter one says nothing: the
    /// thread may have been interrupted.
    pub(crate) long: u64,
}

impl Pauses {
    pub(crate) fn of(clock: &Clock) -> Self {
        Self {
            at_once: clock.ticks(Duration::from_micros(25)),
            short: clock.ticks(Duration::from_micros(100)),
            long: clock.ticks(Duration::from_millis(20)),
        }
    }
}

/// What the range around an entry tells about the time since the call was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Around {
    /// It is a poll of a future that has gone on since then: nothing was awaited.
    SamePoll,
    /// It began later: the future was suspended.
    Later,
    /// There is none, or a range that is perhaps no poll.
    Unknown,
}

/// Which range a thread has left last, with no entry since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LastExit {
    /// The last range of the call that is entered now, or one that was open together with it.
    Last,
    /// An earlier range of it: other threads have entered it since.
    Earlier,
    /// A range of something else.
    Other,
}

/// What tells whether a call was suspended between its last exit and an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// The range around the entry.
    pub(crate) around: Around,
    /// When the thread was done with the range that it left last: a tool and a reading of the processor time take long.
    /// 0 if at once.
    pub(crate) done: Ticks,
    /// Whether a tool may have taken part of the time.
    pub(crate) has_tool: bool,
}

impl Evidence {
    pub(crate) const NONE: Self = Self { around: Around::Unknown, done: 0, has_tool: false };
}

/// An entry of a call.
pub(crate) struct Entry<F: FnOnce(Ticks) -> Evidence> {
    pub(crate) now: Ticks,
    /// The range that its thread left last, if it was one of this call.
    pub(crate) left: LastExit,
    /// When it was woken for this poll; 0 where it is not known.
    pub(crate) woken: Ticks,
    /// The evidence on the time since the last exit of the call, which is the argument.
    pub(crate) evidence: F,
}

impl Entry<fn(Ticks) -> Evidence> {
    /// An entry of which nothing more is known.
    pub(crate) fn at(now: Ticks, left: LastExit) -> Self {
        Self { now, left, woken: 0, evidence: |_exited| Evidence::NONE }
    }
}
