//! The bound on what all threads have recorded for a timeline and nobody has written yet.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::Condvar;

use crate::page::Line;

/// What all tapes of a profiler share. Room is counted in lines.
#[derive(Debug)]
pub(crate) struct TapeRoom {
    pub(crate) left: AtomicUsize,
    all: usize,
    /// The process that it was made in. In a forked child a thread that does not exist there may hold the lock of a
    /// tape.
    process: u32,
    /// Whether anything is recorded: reports of the GPU's time need nothing before it is used.
    is_open: AtomicBool,
    /// Whether anybody shows more than ranges: their values and fields, their numbers, and marks.
    pub(crate) with_values: bool,
    /// Wakes whoever takes the records away.
    pub(crate) wake: Condvar,
}

impl TapeRoom {
    /// Room for as many records as go into `bytes`. It is open.
    pub(crate) fn new(bytes: usize, with_values: bool) -> Self {
        let all = bytes / size_of::<Line>();
        let (left, process, is_open) = (AtomicUsize::new(all), std::process::id(), AtomicBool::new(true));
        Self { left, all, process, is_open, with_values, wake: Condvar::new() }
    }

    /// From now on threads record, or do not.
    pub(crate) fn set_open(&self, is_open: bool) {
        self.is_open.store(is_open, Relaxed);
    }

    /// Whether threads record.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    pub(crate) fn take(&self, lines: usize) -> bool {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(lines));
        if taken.is_ok_and(|left| left < self.all / 4 * 3) {
            self.wake.notify_one(); // a quarter is full
        }
        taken.is_ok()
    }

    /// Whether so much is left that some may be taken and not used.
    pub(crate) fn is_ample(&self) -> bool {
        self.left.load(Relaxed) > self.all / 2
    }

    /// Whether this process is a child of the one that it was made in.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// So much has been written.
    pub(crate) fn give_back(&self, lines: usize) {
        self.left.fetch_add(lines, Relaxed);
    }
}
