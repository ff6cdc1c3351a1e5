//! A gate that tells whether callbacks on a thread may take the fast way; and the window of its rows.

use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::clock::Ticks;
use crate::sync::AtomicU64;

/// Other code runs on the thread, so callbacks do nothing.
const CLOSED: u64 = u64::MAX - 1;
/// The thread has just got its state.
const OPENING: u64 = u64::MAX - 2;

/// Equal to the session's gate while callbacks may proceed directly; otherwise they must check first.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Gate(AtomicU64);

impl Gate {
    pub(crate) fn closed() -> Self {
        Self(AtomicU64::new(CLOSED))
    }

    /// Whether it equals the gate of the session.
    #[inline]
    pub(crate) fn is(&self, session: u64) -> bool {
        self.0.load(Relaxed) == session
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is(CLOSED)
    }

    pub(crate) fn open(&self, session: u64) {
        self.0.store(session, Relaxed);
    }

    /// The next callback must check first.
    pub(crate) fn begin(&self) {
        self.0.store(OPENING, Relaxed);
    }

    pub(crate) fn close(&self) {
        self.0.store(CLOSED, Relaxed);
    }

    /// Runs other code (a tool, a value's `Debug`) with the gate closed.
    #[inline]
    pub(crate) fn while_closed<T>(&self, other: impl FnOnce() -> T) -> T {
        struct Reopen<'a>(&'a AtomicU64, u64);
        impl Drop for Reopen<'_> {
            fn drop(&mut self) {
                self.0.store(self.1, Relaxed);
            }
        }
        let _reopen = Reopen(&self.0, self.0.load(Relaxed));
        self.close();
        other()
    }
}

/// Start of the window of a thread's rows. The thread writes it, any thread reads it.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct RowsWindow(AtomicU64);

impl RowsWindow {
    pub(crate) fn new(start: Ticks) -> Self {
        Self(AtomicU64::new(start))
    }

    /// Only for the thread of the rows.
    pub(crate) fn start(&self) -> Ticks {
        self.0.load(Relaxed)
    }

    /// Moves the rows to this window, by `clear`, if they belong to another one. Only for the thread of the rows.
    pub(crate) fn catch_up(&self, start: Ticks, clear: impl FnOnce()) {
        if self.start() != start {
            clear();
            self.0.store(start, Release); // pairs with `is`
        }
    }

    /// Whether the rows belong to the window with this start. They stay in it while the session's gate is held. On any
    /// thread.
    pub(crate) fn is(&self, start: Ticks) -> bool {
        self.0.load(Acquire) == start
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;

    #[test]
    fn the_gate_is_closed_while_foreign_code_runs_and_opens_again_though_it_panics() {
        let gate = Gate::closed();
        assert!(gate.is_closed());
        gate.open(7);
        assert_eq!(gate.while_closed(|| (gate.is(7), gate.is_closed())), (false, true));
        assert!(gate.is(7));
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| gate.while_closed(|| panic!("foreign"))));
        assert!(panicked.is_err() && gate.is(7));
        gate.begin();
        assert!(!gate.is(7) && !gate.is_closed(), "the next callback looks");
    }
}
