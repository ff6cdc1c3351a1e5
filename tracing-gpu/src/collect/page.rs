//! Lines that one thread writes and others read: a line is four plain stores, and one that publishes it.
//!
//! A lock beside the page belongs to its readers. The thread takes it where the page is full, once a page: to have what is in it put elsewhere, and to begin anew.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use once_cell::race::OnceBox;

/// Lines of a page.
pub(super) const PAGE: usize = 128;

/// Four words, half a cache line.
pub(super) type Line = [u64; 4];

/// Written by one thread alone. It stays in that thread's cache, whoever reads it now and then. What says where it is and how full is not in it, so that it may
/// lie with what else its writer touches.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Page {
    /// From the first [`begin`](Self::begin) on.
    lines: OnceBox<Lines>,
    /// So many lines are there.
    written: AtomicUsize,
}

#[derive(Debug)]
#[repr(align(64))]
struct Lines([[AtomicU64; 4]; PAGE]);

/// Takes nothing before [`begin`](Page::begin).
impl Default for Page {
    fn default() -> Self {
        Self { lines: OnceBox::new(), written: AtomicUsize::new(PAGE) }
    }
}

impl Page {
    /// Whether it was ever begun.
    pub(super) fn is_there(&self) -> bool {
        self.lines.get().is_some()
    }

    /// Returns false where the page is full. By its thread alone.
    #[inline(always)]
    pub(super) fn write(&self, line: Line) -> bool {
        let written = self.written.load(Relaxed);
        let Some(to) = self.lines.get().and_then(|lines| lines.0.get(written)) else { return false };
        for (to, word) in to.iter().zip(line) {
            to.store(word, Relaxed);
        }
        self.written.store(written + 1, Release); // pairs with `since`
        true
    }

    /// Forgets its lines. By its thread, under the lock of the readers.
    pub(super) fn begin(&self) {
        self.lines.get_or_init(|| Box::new(Lines(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))))));
        self.written.store(0, Relaxed);
    }

    /// Takes nothing more before [`begin`](Self::begin). By its thread, under the lock of the readers, when all lines have been read.
    pub(super) fn close(&self) {
        self.written.store(PAGE, Relaxed);
    }

    /// The lines after the first `taken`. Any thread, under the lock of the readers.
    pub(super) fn since(&self, taken: usize) -> impl ExactSizeIterator<Item = Line> {
        let written = self.written.load(Acquire); // pairs with `write`: the lines below it are whole
        let new = self.lines.get().and_then(|lines| lines.0.get(taken..written)).unwrap_or_default();
        new.iter().map(|line| line.each_ref().map(|word| word.load(Relaxed)))
    }
}
