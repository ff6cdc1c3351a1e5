//! The open event pairs of a thread: recorded starts of ranges that have not ended.
//!
//! They are separate from the stack, so that ranges without a stream pay nothing. While there are any, entries and
//! exits use the path `on_stream`.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::core::chunked::Chunked;
use crate::core::record::{Place, RangeKey};
use crate::core::thread::stack::Left;
use crate::parts::streams::device::{self as stream, StartedPair, StreamTotals};
use range_model::RangeStyle;

/// Pairs of the ranges open on one thread, innermost last. Only that thread accesses them, and later the thread that
/// takes over its state. The number and the outermost pair share one cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct OpenPairs {
    pub(crate) count: AtomicUsize,
    pub(crate) open: Chunked<OpenPair, 16>,
}

/// The data that the end of a range needs.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct OpenPair {
    /// The place of the range, and its name and category, which are probably those of the next range here.
    place: AtomicU64,
    label: AtomicU32,
    category: AtomicU32,
    stream: AtomicU32,
    /// Number of ranges below it on the stack. It distinguishes this entry from others of the same span.
    below: AtomicU32,
    window: AtomicU64,
    start: AtomicU64,
    end: AtomicU64,
}

impl Default for OpenPair {
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

impl OpenPair {
    #[inline]
    fn key(&self) -> RangeKey {
        let (label, category) = (self.label.load(Relaxed), self.category.load(Relaxed));
        RangeKey { label, category, style: RangeStyle::PushPop }
    }

    fn set_key(&self, place: u64, label: u32, category: u32) {
        self.place.store(place, Relaxed);
        self.label.store(label, Relaxed);
        self.category.store(category, Relaxed);
    }

    #[inline]
    fn set(&self, below: usize, window: u64, pair: StartedPair) {
        let (stream, start, end) = pair.words();
        self.below.store(below as u32, Relaxed); // below 2^28, like the depth of the stack
        self.stream.store(stream, Relaxed);
        self.window.store(window, Relaxed);
        self.start.store(start, Relaxed);
        self.end.store(end, Relaxed);
    }

    fn take_over(&self, other: &Self) {
        self.set_key(other.place.load(Relaxed), other.label.load(Relaxed), other.category.load(Relaxed));
        if let Some(pair) = other.pair() {
            self.set(other.below(), other.window.load(Relaxed), pair);
        }
    }

    #[inline]
    fn below(&self) -> usize {
        self.below.load(Relaxed) as usize
    }

    #[inline]
    fn pair(&self) -> Option<StartedPair> {
        StartedPair::from_words(self.stream.load(Relaxed), self.start.load(Relaxed), self.end.load(Relaxed))
    }
}

impl OpenPairs {
    /// Whether an exit has to look for a pair.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.count.load(Relaxed) > 0
    }

    /// Keeps the start of the innermost range, which has `below` ranges below it. `key` finds the name and category of
    /// its place.
    #[inline]
    pub(crate) fn keep(
        &self,
        below: usize,
        place: Place,
        window: u64,
        pair: StartedPair,
        key: impl FnOnce() -> Option<RangeKey>,
    ) {
        let count = self.count.load(Relaxed);
        let Some(open) = self.open.get_or_grow(count) else { return stream::abandon(pair) };
        if open.place.load(Relaxed) != place.bits() {
            // Ranges on a stack are pushed and popped.
            let Some(key) = key() else { return stream::abandon(pair) };
            open.set_key(place.bits(), key.label, key.category);
        }
        open.set(below, window, pair);
        self.count.store(count + 1, Relaxed);
    }

    /// Records the end of the range that has just left the top of the stack, with `below` ranges below it, if it is
    /// timed. Returns whether it was.
    #[inline]
    pub(crate) fn end_top(&self, below: usize, totals: &'static StreamTotals) -> bool {
        let Some(innermost) = self.count.load(Relaxed).checked_sub(1) else { return false };
        // Pairs are in order of their ranges: the pair of the top range is the last one, or there is none.
        let is_its = |open: &OpenPair| open.below() == below;
        let is_timed = self.open.near(innermost).is_some_and(is_its) || self.open.get(innermost).is_some_and(is_its);
        if is_timed {
            self.end(innermost, totals);
        }
        is_timed
    }

    /// Records the end of a range that was exited below others, if it is timed. Abandons the pairs of ranges that ended
    /// elsewhere.
    pub(crate) fn end_below(&self, left: &Left, totals: &'static StreamTotals) {
        let below = |index| self.open.get(index).map(OpenPair::below);
        let all = || (0..self.count.load(Relaxed)).rev();
        if let Some(index) = all().find(|&index| below(index) == Some(left.exited)) {
            self.end(index, totals);
        }
        self.abandon(|below| left.is_gone(below));
        for open in all().filter_map(|index| self.open.get(index)) {
            open.below.store(left.place_of(open.below()) as u32, Relaxed);
        }
    }

    pub(crate) fn end_all(&self, totals: &'static StreamTotals) {
        while let Some(last) = self.count.load(Relaxed).checked_sub(1) {
            self.end(last, totals);
        }
    }

    /// Drops the pairs of ended ranges, found by the number of ranges below them.
    pub(crate) fn abandon(&self, is_gone: impl Fn(usize) -> bool) {
        for index in (0..self.count.load(Relaxed)).rev() {
            let Some(open) = self.open.get(index).filter(|open| is_gone(open.below())) else { continue };
            let pair = open.pair();
            self.remove(index);
            pair.into_iter().for_each(stream::abandon);
        }
    }

    #[inline]
    fn end(&self, index: usize, totals: &'static StreamTotals) {
        let Some(open) = self.open.get(index) else { return };
        let (place, window) = (Place::from_bits(open.place.load(Relaxed)), open.window.load(Relaxed));
        let (key, pair) = (open.key(), open.pair());
        self.remove(index);
        if let Some(pair) = pair {
            stream::end(pair, totals, place.node(), key, window);
        }
    }

    /// Takes out number `index`.
    #[inline]
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
