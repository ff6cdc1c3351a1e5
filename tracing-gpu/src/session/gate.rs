//! The gate of a session: which window callbacks are counted in, and whether they are. Callbacks read it, each; `reset`
//! and `finish` write it.

use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::clock::Ticks;
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// The number of no window: the session has finished, or never began.
pub(crate) const FINISHED: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct SessionGate {
    /// Number of the window, or [`FINISHED`]; no two windows of a process have the same one.
    number: AtomicU64,
    /// Start of the window, or of the last one after the finish.
    start: AtomicU64,
    /// Held while a window begins, and while one is read.
    window: Mutex<()>,
}

impl SessionGate {
    /// `number` is that of the first window.
    pub(crate) fn new(number: u64, start: Ticks) -> Self {
        Self { number: AtomicU64::new(number), start: AtomicU64::new(start), window: Mutex::new(()) }
    }

    /// The number of the window, or [`FINISHED`]. What was stored before it changed is seen after
    /// [`number_in_order`](Self::number_in_order).
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    pub(crate) fn number_in_order(&self) -> u64 {
        self.number.load(Acquire) // pairs with `change`
    }

    /// Start of the current window, or of the last one after the finish.
    pub(crate) fn start(&self) -> Ticks {
        self.start.load(Relaxed)
    }

    /// No window begins while this is held: the rows of a thread that are of the current window stay so.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.window.lock()
    }

    /// Begins a new window, whose start `begin` returns, unless the session has finished: one at a time.
    pub(crate) fn restart(&self, begin: impl FnOnce() -> Ticks, next: impl Fn() -> u64) {
        let _one_at_a_time = self.hold(); // all parts have the same window after it
        if self.number() != FINISHED {
            self.start.store(begin(), Relaxed);
            self.change(next);
        }
    }

    /// Has every thread look again before it goes on.
    pub(crate) fn change(&self, next: impl Fn() -> u64) {
        // Release: who sees the number in order sees what was stored before. A finish meanwhile stays one.
        let _finished = self.number.fetch_update(Release, Relaxed, |number| (number != FINISHED).then(&next));
    }

    /// From now on every callback does nothing. Whether the session had not finished: true for the first caller only.
    pub(crate) fn close(&self) -> bool {
        self.number.swap(FINISHED, Acquire) != FINISHED // pairs with `change`: the caller reads the last window
    }
}
