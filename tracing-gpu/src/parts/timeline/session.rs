//! The memory limit for timeline records of all threads that are not written yet.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::Condvar;

use crate::page::Line;

/// Shared by all tapes of a profiler. Room is counted in lines.
#[derive(Debug)]
pub(crate) struct TapeRoom {
    pub(crate) left: AtomicUsize,
    all: usize,
    /// The process that made it. In a forked child, a thread that does not exist there may hold the lock of a tape.
    process: u32,
    /// Whether threads record: reports of the GPU's time need nothing before its first use.
    is_open: AtomicBool,
    /// Whether a timeline shows more than ranges: their values and fields, and marks.
    pub(crate) with_values: bool,
    /// Whether ranges have the numbers of their spans and calls.
    pub(crate) with_numbers: bool,
    /// Wakes the thread that writes the records.
    pub(crate) wake: Condvar,
}

impl TapeRoom {
    /// Room for `bytes` of records. It is open.
    pub(crate) fn new(bytes: usize, with_values: bool, with_numbers: bool) -> Self {
        let all = bytes / size_of::<Line>();
        let (left, process, is_open) = (AtomicUsize::new(all), std::process::id(), AtomicBool::new(true));
        Self { left, all, process, is_open, with_values, with_numbers, wake: Condvar::new() }
    }

    /// Starts or stops recording on all threads.
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

    /// Whether there is enough room to take some in advance.
    pub(crate) fn is_ample(&self) -> bool {
        self.left.load(Relaxed) > self.all / 2
    }

    /// Whether this process is a forked child of the one that made it.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Returns the room of written records.
    pub(crate) fn give_back(&self, lines: usize) {
        self.left.fetch_add(lines, Relaxed);
    }
}
