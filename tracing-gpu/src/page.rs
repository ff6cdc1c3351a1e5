//! Lines that one thread writes and others read: a line is four plain stores, and one that publishes it.
//!
//! A lock beside the page belongs to its readers. The thread takes it where the page is full, once a page: to have what
//! is in it put elsewhere, and to begin anew.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use once_cell::race::OnceBox;

/// Lines of a page.
pub(crate) const PAGE: usize = 128;

/// Four words, half a cache line.
pub(crate) type Line = [u64; 4];

/// Written by one thread alone. It stays in that thread's cache, whoever reads it now and then. What says where it is
/// and how full is not in it, so that it may lie with what else its writer touches.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Page {
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
    #[cfg(feature = "cudarc")]
    pub(crate) fn is_there(&self) -> bool {
        self.lines.get().is_some()
    }

    /// Returns false where the page is full. By its thread alone.
    #[inline(always)]
    pub(crate) fn write(&self, line: Line) -> bool {
        let written = self.written.load(Relaxed);
        let Some(to) = self.lines.get().and_then(|lines| lines.0.get(written)) else { return false };
        for (to, word) in to.iter().zip(line) {
            to.store(word, Relaxed);
        }
        self.written.store(written + 1, Release); // pairs with `since`
        true
    }

    /// Forgets its lines. By its thread, under the lock of the readers.
    pub(crate) fn begin(&self) {
        self.lines.get_or_init(|| Box::new(Lines(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))))));
        self.written.store(0, Relaxed);
    }

    /// Takes nothing more before [`begin`](Self::begin). By its thread, under the lock of the readers, when all lines
    /// have been read.
    #[cfg(feature = "cudarc")]
    pub(crate) fn close(&self) {
        self.written.store(PAGE, Relaxed);
    }

    /// The lines after the first `taken`. Any thread, under the lock of the readers.
    pub(crate) fn since(&self, taken: usize) -> impl ExactSizeIterator<Item = Line> {
        let written = self.written.load(Acquire); // pairs with `write`: the lines below it are whole
        let new = self.lines.get().and_then(|lines| lines.0.get(taken..written)).unwrap_or_default();
        new.iter().map(|line| line.each_ref().map(|word| word.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is beside it in a cache line counts on that, and on its lines being in no more lines than they fill.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_page_is_two_words_and_its_lines_elsewhere() {
        assert_eq!((size_of::<Page>(), size_of::<Lines>(), align_of::<Lines>()), (16, PAGE * 32, 64));
    }

    #[cfg(feature = "cudarc")]
    #[test]
    fn a_page_takes_nothing_before_it_was_begun_and_after_it_was_closed() {
        let page = Page::default();
        let lines = |page: &Page| page.since(0).len();
        assert_eq!((page.is_there(), page.write([1; 4]), lines(&page)), (false, false, 0));
        page.begin();
        assert!((0..PAGE as u64).all(|word| page.write([word; 4])) && !page.write([0; 4]));
        assert_eq!((lines(&page), page.since(PAGE - 1).next()), (PAGE, Some([PAGE as u64 - 1; 4])));
        page.begin();
        assert_eq!((page.write([1; 4]), lines(&page)), (true, 1));
        page.close();
        assert!(page.is_there() && !page.write([2; 4]));
    }
}
