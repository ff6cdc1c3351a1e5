//! What one thread knows of waits.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use once_cell::sync::OnceCell;

use super::coincidence::Coincidences;
use super::waits::{Followed, Waits};
use crate::clock::Ticks;
use crate::core::record::{Ended, Place};

/// What a thread knows of waits. Only that thread writes; any thread reads for a summary.
#[derive(Debug, Default)]
pub(crate) struct ThreadWaits {
    /// Present once a followed future was polled.
    pub(crate) followed: OnceCell<Box<Followed>>,
    /// The last long range that ended with none around it: its place, start and end.
    last_long: [AtomicU64; 3],
    /// How long outermost ranges have run since then, as far as they are noted.
    ran_since_long: AtomicU64,
    /// When the thread was done with the last range of a call that was long, or that a tool got.
    pub(crate) done: AtomicU64,
    /// Calls that were ready while others ran on this thread. Present once there was one.
    pub(crate) held_up: OnceCell<Box<Waits>>,
    /// Present once a call has waited for long on this thread.
    pub(crate) coincidences: OnceCell<Box<Coincidences>>,
}

impl ThreadWaits {
    /// Another thread of the system has this state from now on.
    pub(crate) fn begin_thread(&self) {
        self.set_last_long([0; 3]);
        self.coincidences.get().into_iter().for_each(|all| all.forget_waits());
    }

    /// A window begins.
    pub(crate) fn restart(&self) {
        if let Some(followed) = self.followed.get() {
            followed.waits.clear();
            followed.values.clear();
            followed.shorter.clear();
        }
        self.set_last_long([0; 3]);
        self.held_up.get().into_iter().for_each(|waits| waits.clear());
        self.coincidences.get().into_iter().for_each(|all| all.clear());
    }

    /// A long range has ended with none around it.
    pub(crate) fn end_long(&self, ended: &Ended) {
        self.set_last_long([ended.place.bits(), ended.entered, ended.end()]);
    }

    fn set_last_long(&self, last: [u64; 3]) {
        self.last_long.iter().zip(last).for_each(|(word, value)| word.store(value, Relaxed));
    }

    /// The last long range with none around it: its place, start and end.
    pub(crate) fn last_long(&self) -> (Place, [Ticks; 2]) {
        let [place, start, end] = self.last_long.each_ref().map(|word| word.load(Relaxed));
        (Place::from_bits(place), [start, end])
    }

    /// An outermost range has ended.
    pub(crate) fn add_run(&self, ended: &Ended) {
        let (_, [_, last]) = self.last_long();
        let is_long = last == ended.end();
        let ran = if is_long { 0 } else { self.ran_since_long.load(Relaxed) + ended.duration };
        self.ran_since_long.store(ran, Relaxed);
    }

    pub(crate) fn ran_since_long(&self) -> u64 {
        self.ran_since_long.load(Relaxed)
    }
}
