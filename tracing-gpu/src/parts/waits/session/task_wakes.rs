//! When tokio's tasks were woken, where tokio is built to tell it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;

use crate::clock::Ticks;

const PARTS: usize = 32;
/// Tasks of one part.
const MOST: usize = 1 << 10;

/// Locked only on a thread with a state: in a forked child there is none, and nobody may release a lock.
#[derive(Debug, Default)]
pub(crate) struct TaskWakes {
    /// The first wake of each task since its last poll began, by the id of its span.
    parts: [Mutex<FxHashMap<u64, Ticks>>; PARTS],
    /// A program without tokio's events asks no more than this.
    any: AtomicBool,
}

impl TaskWakes {
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// tokio tells of its tasks.
    pub(crate) fn begin(&self) {
        self.any.store(true, Relaxed);
    }

    fn part(&self, task: u64) -> MutexGuard<'_, FxHashMap<u64, Ticks>> {
        // The registry puts the number of a thread into the upper bits.
        self.parts[(task ^ task >> 38) as usize % PARTS].lock()
    }

    /// A task is woken.
    pub(crate) fn wake(&self, task: u64, now: Ticks) {
        let woken = &mut self.part(task);
        if woken.len() >= MOST && !woken.contains_key(&task) {
            woken.clear(); // of tasks that have ended
        }
        woken.entry(task).or_insert(now);
    }

    /// A span is entered. If it is that of a task that was woken, returns when.
    pub(crate) fn poll(&self, span: u64) -> Option<Ticks> {
        self.part(span).remove(&span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poll_takes_the_first_wake_since_the_poll_before() {
        let wakes = TaskWakes::default();
        wakes.wake(6, 41);
        wakes.wake(6, 42);
        assert_eq!((wakes.poll(5), wakes.poll(6), wakes.poll(6)), (None, Some(41), None));
    }

    #[test]
    fn tasks_that_are_never_polled_again_make_room() {
        let wakes = TaskWakes::default();
        (0..MOST).for_each(|task| wakes.wake((task * PARTS) as u64, 1));
        wakes.wake(0, 2);
        assert_eq!(wakes.parts[0].lock().len(), MOST);
        wakes.wake((MOST * PARTS) as u64, 3);
        assert_eq!(wakes.parts[0].lock().len(), 1);
        assert_eq!(wakes.poll(0), None);
    }
}
