//! The open event pairs of a thread: starts that are recorded, for ranges that have not ended.
//!
//! Beside the stack, not in it, so that ranges without a stream pay nothing. While there are any, entries and exits go by `timed`.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use super::shard::Shard;
use super::threads;
use crate::chunked::Chunked;
use crate::nesting::Left;
use crate::record::{Place, RangeKey};
use crate::stream::{self, StartedPair};
use crate::summary::RangeStyle;

/// Marks of the ranges open on one thread, innermost last. Read and written by that thread alone, and once it has ended by whoever takes
/// its shard over. The number and the outermost mark are one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Marks {
    count: AtomicUsize,
    open: Chunked<OpenMark, 16>,
}

/// All that the end of a range needs.
#[derive(Debug)]
#[repr(C)]
struct OpenMark {
    /// The place of the range, and its name and category, which the next range here is likely to have, too.
    place: AtomicU64,
    label: AtomicU32,
    category: AtomicU32,
    stream: AtomicU32,
    /// Number of ranges below it on the stack, which tells this entry from others of the same span.
    below: AtomicU32,
    window: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
}

impl Default for OpenMark {
    fn default() -> Self {
        Self {
            place: AtomicU64::new(Place::NONE.bits()),
            label: AtomicU32::default(),
            category: AtomicU32::default(),
            stream: AtomicU32::default(),
            below: AtomicU32::default(),
            window: AtomicU64::default(),
            start: AtomicU64::default(),
            end: AtomicU64::default(),
        }
    }
}

impl OpenMark {
    #[inline(always)]
    fn key(&self) -> RangeKey {
        let (label, category) = (self.label.load(Relaxed), self.category.load(Relaxed));
        RangeKey { label, category, style: RangeStyle::PushPop }
    }

    fn set_key(&self, place: u64, label: u32, category: u32) {
        self.place.store(place, Relaxed);
        self.label.store(label, Relaxed);
        self.category.store(category, Relaxed);
    }

    #[inline(always)]
    fn set(&self, below: usize, window: u64, mark: StartedPair) {
        let (stream, start, end) = mark.words();
        self.below.store(below as u32, Relaxed); // below 2^28, as the depth of the stack
        self.stream.store(stream, Relaxed);
        self.window.store(window, Relaxed);
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
    }

    fn take_over(&self, other: &Self) {
        self.set_key(other.place.load(Relaxed), other.label.load(Relaxed), other.category.load(Relaxed));
        if let Some(mark) = other.mark() {
            self.set(other.below(), other.window.load(Relaxed), mark);
        }
    }

    #[inline(always)]
    fn below(&self) -> usize {
        self.below.load(Relaxed) as usize
    }

    #[inline(always)]
    fn mark(&self) -> Option<StartedPair> {
        StartedPair::from_words(self.stream.load(Relaxed), self.start.load(Relaxed), self.end.load(Relaxed))
    }
}

impl Marks {
    pub(super) fn new() -> Self {
        Self { count: AtomicUsize::new(0), open: Chunked::new() }
    }

    /// Takes out number `index`.
    #[inline(always)]
    fn remove(&self, index: usize) {
        let count = self.count.load(Relaxed);
        if index + 1 < count {
            self.close_gap(index, count);
        }
        self.count.store(count.saturating_sub(1), Relaxed);
    }

    #[cold]
    fn close_gap(&self, index: usize, count: usize) {
        for above in index + 1..count {
            if let (Some(to), Some(from)) = (self.open.get(above - 1), self.open.get(above)) {
                to.take_over(from);
            }
        }
    }
}

impl Shard {
    /// Whether an exit has to look for a mark.
    #[inline(always)]
    pub(super) fn has_marks(&self) -> bool {
        self.marks.count.load(Relaxed) > 0
    }

    /// Keeps the start of the innermost range.
    #[inline(always)]
    pub(super) fn keep_mark(&self, place: Place, mark: StartedPair) {
        let count = self.marks.count.load(Relaxed);
        let Some(open) = self.marks.open.get_or_grow(count) else { return stream::abandon(mark) };
        if open.place.load(Relaxed) != place.bits() && !self.find_key(open, place) {
            return stream::abandon(mark);
        }
        open.set(self.stack.depth().wrapping_sub(1), self.window.load(Relaxed), mark);
        self.marks.count.store(count + 1, Relaxed);
    }

    #[inline(never)]
    fn find_key(&self, open: &OpenMark, place: Place) -> bool {
        // What is on a stack is pushed and popped.
        let Some(key) = self.identity(place).map(|identity| identity.key) else { return false };
        open.set_key(place.bits(), key.label, key.category);
        true
    }

    /// Records the end of the range that has just been taken off the top of the stack, if it is timed.
    #[inline(always)]
    pub(super) fn end_mark(&self) {
        let Some(innermost) = self.marks.count.load(Relaxed).checked_sub(1) else { return };
        // Marks are in the order of their ranges: that of the top is the last, or there is none.
        let is_its = |open: &OpenMark| open.below() == self.stack.depth();
        if self.marks.open.near(innermost).is_some_and(is_its) || self.marks.open.get(innermost).is_some_and(is_its) {
            self.end_open(innermost);
            self.left_mark();
        }
    }

    /// Records the end of a range that was exited below others, if it is timed; gives up the marks of those that ended elsewhere.
    pub(super) fn end_marks_below(&self, left: &Left) {
        let below = |index| self.marks.open.get(index).map(OpenMark::below);
        let all = || (0..self.marks.count.load(Relaxed)).rev();
        if let Some(index) = all().find(|&index| below(index) == Some(left.exited)) {
            self.end_open(index);
        }
        self.abandon_marks(|below| left.is_gone(below));
        for open in all().filter_map(|index| self.marks.open.get(index)) {
            open.below.store(left.place_of(open.below()) as u32, Relaxed);
        }
        self.left_mark();
    }

    #[inline(always)]
    fn left_mark(&self) {
        if !self.has_marks() && stream::current() == 0 {
            threads::look_again(); // the stream was left before the range
        }
    }

    pub(super) fn end_all_marks(&self) {
        while let Some(last) = self.marks.count.load(Relaxed).checked_sub(1) {
            self.end_open(last);
        }
    }

    /// Gives up the marks of ranges that are gone, told by the number of ranges that were below.
    pub(super) fn abandon_marks(&self, is_gone: impl Fn(usize) -> bool) {
        for index in (0..self.marks.count.load(Relaxed)).rev() {
            let Some(open) = self.marks.open.get(index).filter(|open| is_gone(open.below())) else { continue };
            let mark = open.mark();
            self.marks.remove(index);
            mark.into_iter().for_each(stream::abandon);
        }
    }

    #[inline(always)]
    fn end_open(&self, index: usize) {
        let Some(open) = self.marks.open.get(index) else { return };
        let (place, window) = (Place::from_bits(open.place.load(Relaxed)), open.window.load(Relaxed));
        let (key, mark) = (open.key(), open.mark());
        self.marks.remove(index);
        if let Some(mark) = mark {
            stream::end(mark, &self.core.streams, place.node(), key, window);
        }
    }
}
