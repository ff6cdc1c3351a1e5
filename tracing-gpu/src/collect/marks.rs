//! The open event pairs of a thread: starts that are recorded, for ranges that have not ended.
//!
//! Beside the stack, not in it, so that ranges without a stream pay nothing. While there are any, callbacks take the general path.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::chunked::Chunked;
use super::shard::Shard;
use super::threads;
use crate::gpu::{self, Mark, Target};
use crate::record::Place;

/// Marks of the ranges open on one thread, innermost last. Read and written by that thread alone, and once it has ended by whoever takes
/// its shard over.
#[derive(Debug)]
pub(super) struct Marks {
    count: AtomicUsize,
    open: Chunked<OpenMark, 16>,
}

#[derive(Debug, Default)]
struct OpenMark {
    span: AtomicU64,
    place: AtomicU64,
    window: AtomicU64,
    mark: [AtomicU64; 3],
}

impl OpenMark {
    fn set(&self, [span, place, window]: [u64; 3], mark: [u64; 3]) {
        let words = [&self.span, &self.place, &self.window].into_iter().chain(&self.mark);
        words.zip([span, place, window].into_iter().chain(mark)).for_each(|(word, value)| word.store(value, Relaxed));
    }

    fn take_over(&self, other: &Self) {
        let range = [&other.span, &other.place, &other.window].map(|word| word.load(Relaxed));
        self.set(range, other.mark.each_ref().map(|word| word.load(Relaxed)));
    }

    fn mark(&self) -> Option<Mark> {
        Mark::from_words(self.mark.each_ref().map(|word| word.load(Relaxed)))
    }
}

impl Marks {
    pub(super) fn new() -> Self {
        Self { count: AtomicUsize::new(0), open: Chunked::new() }
    }

    /// Takes out number `index`.
    #[inline]
    fn remove(&self, index: usize) {
        let count = self.count.load(Relaxed);
        for above in index + 1..count {
            if let (Some(to), Some(from)) = (self.open.get(above - 1), self.open.get(above)) {
                to.take_over(from);
            }
        }
        self.count.store(count.saturating_sub(1), Relaxed);
    }
}

impl Shard {
    /// Whether an exit has to look for a mark.
    pub(super) fn has_marks(&self) -> bool {
        self.marks.count.load(Relaxed) > 0
    }

    pub(super) fn keep_mark(&self, span: u64, place: Place, mark: Mark) {
        let count = self.marks.count.load(Relaxed);
        let Some(open) = self.marks.open.get_or_grow(count) else { return gpu::abandon(mark) };
        open.set([span, place.bits(), self.window.load(Relaxed)], mark.words());
        self.marks.count.store(count + 1, Relaxed);
    }

    /// Records the end of the innermost range of `span`, if it is timed.
    pub(super) fn end_mark(&self, span: u64) {
        let is_meant = |index: &usize| self.marks.open.get(*index).is_some_and(|open| open.span.load(Relaxed) == span);
        if let Some(index) = (0..self.marks.count.load(Relaxed)).rev().find(is_meant) {
            self.end_open(index);
            if !self.has_marks() && gpu::current() == 0 {
                threads::look_again(); // the stream was left before the range
            }
        }
    }

    pub(super) fn end_all_marks(&self) {
        while let Some(last) = self.marks.count.load(Relaxed).checked_sub(1) {
            self.end_open(last);
        }
    }

    /// Gives up the marks of spans that are gone.
    pub(super) fn abandon_marks(&self, is_gone: impl Fn(u64) -> bool) {
        for index in (0..self.marks.count.load(Relaxed)).rev() {
            let Some(open) = self.marks.open.get(index).filter(|open| is_gone(open.span.load(Relaxed))) else {
                continue;
            };
            let mark = open.mark();
            self.marks.remove(index);
            mark.into_iter().for_each(gpu::abandon);
        }
    }

    fn end_open(&self, index: usize) {
        let Some(open) = self.marks.open.get(index) else { return };
        let (place, window, mark) =
            (Place::from_bits(open.place.load(Relaxed)), open.window.load(Relaxed), open.mark());
        self.marks.remove(index);
        let Some(mark) = mark else { return };
        match self.identity(place) {
            Some(identity) => gpu::end(mark, Target { core: self.core, node: place.node(), key: identity.key, window }),
            None => gpu::abandon(mark),
        }
    }
}
