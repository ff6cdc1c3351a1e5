//! Lines that one thread writes and others read: a line is four plain stores, and one that publishes it.
//!
//! A lock beside the page belongs to its readers. The thread takes it where the page is full, once a page: to have what is in it put elsewhere, and to begin anew.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Lines of a page.
pub(super) const PAGE: usize = 128;

/// Four words, half a cache line.
pub(super) type Line = [u64; 4];

/// Written by one thread alone. It stays in that thread's cache, whoever reads it now and then.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Page {
    lines: [[AtomicU64; 4]; PAGE],
    /// So many lines are there.
    written: AtomicUsize,
}

impl Page {
    /// A page that takes nothing before [`begin`](Self::begin).
    pub(super) fn new() -> Self {
        Self {
            lines: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))),
            written: AtomicUsize::new(PAGE),
        }
    }

    /// Returns false where the page is full. By its thread alone.
    #[inline(always)]
    pub(super) fn write(&self, line: Line) -> bool {
        self.write_all([line])
    }

    /// Writes all lines or none: false where there is no room for all. By its thread alone.
    #[inline(always)]
    pub(super) fn write_all<const N: usize>(&self, lines: [Line; N]) -> bool {
        let written = self.written.load(Relaxed);
        let Some(to) = self.lines.get(written..).and_then(|free| free.first_chunk::<N>()) else { return false };
        for (to, line) in to.iter().zip(lines) {
            for (to, word) in to.iter().zip(line) {
                to.store(word, Relaxed);
            }
        }
        self.written.store(written + N, Release); // pairs with `since`
        true
    }

    /// Forgets its lines. By its thread, under the lock of the readers.
    pub(super) fn begin(&self) {
        self.written.store(0, Relaxed);
    }

    /// Takes nothing more before [`begin`](Self::begin). By its thread, under the lock of the readers, when all lines have been read.
    pub(super) fn close(&self) {
        self.written.store(PAGE, Relaxed);
    }

    /// The lines after the first `taken`. Any thread, under the lock of the readers.
    pub(super) fn since(&self, taken: usize) -> impl ExactSizeIterator<Item = Line> {
        let written = self.written.load(Acquire); // pairs with `write_all`: the lines below it are whole
        let new = self.lines.get(taken..written).unwrap_or_default();
        new.iter().map(|line| line.each_ref().map(|word| word.load(Relaxed)))
    }
}
