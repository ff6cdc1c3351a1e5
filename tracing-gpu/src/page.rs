//! Lines that one thread writes and others read. Writing a line takes four plain stores and a publishing one.
//!
//! The readers share a lock outside of the page, which holds their position, a [`Cursor`]. The writing thread takes
//! this lock only when the page is full, once a page: to let the lines be moved elsewhere, and to begin anew.

use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use once_cell::race::OnceBox;

pub(crate) use crate::sync::PAGE;
use crate::sync::{AtomicU64, AtomicUsize};

/// Four words, half a cache line.
pub(crate) type Line = [u64; 4];

/// Written by one thread alone. It stays in that thread's cache although others read it now and then. The position and
/// fill count are stored outside of the lines, so that they can lie beside other data of the writer.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Page {
    /// Allocated at the first [`begin`](Cursor::begin).
    lines: OnceBox<Lines>,
    /// Number of lines written.
    written: AtomicUsize,
}

#[repr(align(64))]
struct Lines([[AtomicU64; 4]; PAGE]);

/// A page that takes no line before [`begin`](Cursor::begin).
impl Default for Page {
    fn default() -> Self {
        Self { lines: OnceBox::new(), written: AtomicUsize::new(PAGE) }
    }
}

impl Page {
    /// Whether it was ever begun.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_there(&self) -> bool {
        self.lines.get().is_some()
    }

    /// Number of lines written since it was begun. On any thread.
    #[cfg(feature = "cuda")]
    pub(crate) fn written(&self) -> usize {
        self.written.load(Relaxed)
    }

    /// Returns false where the page is full. By its thread alone.
    #[inline]
    pub(crate) fn write(&self, line: Line) -> bool {
        let written = self.written.load(Relaxed);
        let Some(to) = self.lines.get().and_then(|lines| lines.0.get(written)) else { return false };
        for (to, word) in to.iter().zip(line) {
            to.store(word, Relaxed);
        }
        self.written.store(written + 1, Release); // pairs with `Cursor::read`
        true
    }

    /// Its words after the lines that are written, for a record of several, which [`publish`](Self::publish) then
    /// publishes. By its thread alone.
    #[inline]
    pub(crate) fn unwritten(&self) -> &[AtomicU64] {
        let lines = self.lines.get().and_then(|lines| lines.0.get(self.written.load(Relaxed)..));
        lines.unwrap_or_default().as_flattened()
    }

    /// So many more lines are there: their words are in [`unwritten`](Self::unwritten). By its thread alone.
    #[inline]
    pub(crate) fn publish(&self, lines: usize) {
        self.written.store(self.written.load(Relaxed) + lines, Release); // pairs with `Cursor::read`
    }
}

/// How many lines of a page were read. The lock of its readers guards it.
#[derive(Debug)]
pub(crate) struct Cursor(usize);

/// The cursor of a page that has not begun.
impl Default for Cursor {
    fn default() -> Self {
        Self(PAGE)
    }
}

impl Cursor {
    /// The unread lines. On any thread.
    pub(crate) fn read<'a>(&mut self, page: &'a Page) -> impl ExactSizeIterator<Item = Line> + use<'a> {
        let written = page.written.load(Acquire); // pairs with `write`: the lines below it are whole
        let new = page.lines.get().and_then(|lines| lines.0.get(self.0..written)).unwrap_or_default();
        self.0 += new.len();
        new.iter().map(|line| line.each_ref().map(|word| word.load(Relaxed)))
    }

    /// Begins the page, or begins it anew after all its lines have been read. Only on the writing thread.
    pub(crate) fn begin(&mut self, page: &Page) {
        page.lines.get_or_init(|| Box::new(Lines(std::array::from_fn(|_| std::array::from_fn(|_| AtomicU64::new(0))))));
        page.written.store(0, Relaxed);
        self.0 = 0;
    }

    /// Closes the page until the next [`begin`](Self::begin). Only on the writing thread, after all lines have been
    /// read. Returns how many more lines it had room for.
    pub(crate) fn close(&mut self, page: &Page) -> usize {
        page.written.store(PAGE, Relaxed);
        PAGE - std::mem::replace(&mut self.0, PAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Its neighbours in the cache line rely on its size, and its lines must fill whole cache lines.
    #[cfg(target_pointer_width = "64")]
    #[test]
    fn a_page_is_two_words_and_its_lines_elsewhere() {
        assert_eq!((size_of::<Page>(), size_of::<Lines>(), align_of::<Lines>()), (16, PAGE * 32, 64));
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn a_page_takes_nothing_before_it_was_begun_and_after_it_was_closed() {
        let (page, mut cursor) = (Page::default(), Cursor::default());
        assert_eq!((page.is_there(), page.write([1; 4]), cursor.read(&page).len()), (false, false, 0));
        cursor.begin(&page);
        assert!((0..PAGE as u64).all(|word| page.write([word; 4])) && !page.write([0; 4]));
        assert!(cursor.read(&page).eq((0..PAGE as u64).map(|word| [word; 4])));
        assert_eq!(cursor.read(&page).len(), 0);
        cursor.begin(&page);
        assert_eq!((page.write([1; 4]), cursor.read(&page).next()), (true, Some([1; 4])));
        cursor.close(&page);
        assert!(page.is_there() && !page.write([2; 4]) && cursor.read(&page).len() == 0);
    }
}
