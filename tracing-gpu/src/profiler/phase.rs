//! Which thread ends a profiler.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::core::thread::number::number;

/// How long a finish waits at most for another thread's finish.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The phase of a profiler's end.
#[derive(Debug, Default)]
pub(super) struct EndingPhase {
    phase: Mutex<Phase>,
    done: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Running,
    /// The thread with this number finishes the profiler.
    Finishing(u64),
    Done,
}

impl EndingPhase {
    /// Returns whether the calling thread must finish the profiler. If another thread is finishing it, waits until that
    /// thread has printed: the process may end right after this call, and would cut the report off.
    pub(super) fn begin(&self) -> bool {
        let mut phase = self.phase.lock();
        match *phase {
            Phase::Running => {
                *phase = Phase::Finishing(number());
                return true;
            }
            Phase::Finishing(thread) if thread != number() => {
                self.done.wait_while_for(&mut phase, |phase| *phase != Phase::Done, LONGEST_WAIT);
            }
            Phase::Finishing(_) | Phase::Done => {}
        }
        false
    }

    /// Whether the end has begun.
    #[cfg(feature = "cuda")]
    pub(super) fn has_begun(&self) -> bool {
        *self.phase.lock() != Phase::Running
    }

    pub(super) fn complete(&self) {
        *self.phase.lock() = Phase::Done;
        self.done.notify_all();
    }
}
