//! The gate of a session: the window in which callbacks count, and whether they count at all. Each callback reads it;
//! `reset` and `finish` write it.

use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::clock::Ticks;
use crate::sync::{AtomicU64, Mutex, MutexGuard};

/// The number of no window: the session has finished, or never began.
pub(crate) const FINISHED: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct SessionGate {
    /// Number of the window, or [`FINISHED`]; unique in the process.
    number: AtomicU64,
    /// Start of the window; after the finish, of the last one.
    start: AtomicU64,
    /// Locked while a window begins, and while one is read.
    window: Mutex<()>,
}

impl SessionGate {
    /// `number` is the number of the first window.
    pub(crate) fn new(number: u64, start: Ticks) -> Self {
        Self { number: AtomicU64::new(number), start: AtomicU64::new(start), window: Mutex::new(()) }
    }

    /// The number of the window, or [`FINISHED`]. A thread that must see the stores made before the number changed uses
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

    /// Blocks new windows while the guard lives: rows of the current window stay in it.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.window.lock()
    }

    /// Begins a new window unless the session has finished; `begin` returns its start. Calls exclude each other.
    pub(crate) fn restart(&self, begin: impl FnOnce() -> Ticks, next: impl Fn() -> u64) {
        let _one_at_a_time = self.hold(); // afterwards all parts have the same window
        if self.number() != FINISHED {
            self.start.store(begin(), Relaxed);
            self.change(next);
        }
    }

    /// Makes every thread check the window again before it continues.
    pub(crate) fn change(&self, next: impl Fn() -> u64) {
        // Release: a thread that reads the number in order sees earlier stores. A finished session stays finished.
        let _finished = self.number.fetch_update(Release, Relaxed, |number| (number != FINISHED).then(&next));
    }

    /// Makes every callback do nothing from now on. Returns whether the session had not finished: true only for the
    /// first caller.
    pub(crate) fn close(&self) -> bool {
        self.number.swap(FINISHED, Acquire) != FINISHED // pairs with `change`: the caller reads the last window
    }
}
