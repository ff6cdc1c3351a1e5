//! One thread's stack of open ranges, and the effects of an exit.
//!
//! The rule is NVTX's: a thread can only pop the topmost range of a domain. An exit of the topmost range is such a pop.
//! An exit further down closes all ranges of its domain down to it, and reopens the others as new instances, so that a
//! tool and our own table agree. Ranges of other domains are not affected, because their stacks are separate.

use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::clock::Ticks;
use crate::core::chunked::Chunked;
use crate::core::record::{CallId, Ended, Place};
use crate::sync::{AtomicU32, AtomicU64, fence};
use range_model::stats::Lean;

/// Stands for a range without a span. No span has this number.
pub(crate) const NO_SPAN: u64 = 0;

/// The largest number of open ranges of one thread. A program that never ends its ranges uses no more memory than for
/// these.
const MOST_OPEN: usize = 1 << 16;

/// The number of ranges for which a state has room from the start.
pub(crate) const NEAR: usize = 64;

/// An open range. Written by the thread it is open on; `span` and `place` may be read by any.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    span: AtomicU64,
    pub(crate) place: AtomicU64,
    pub(crate) start: AtomicU64,
    /// Time of ended ranges directly above this one. It is a two's-complement number, because a range that outlives the
    /// one below is charged in advance (see [`Stack::exit_below`]).
    nested: AtomicU64,
}

impl Frame {
    #[inline]
    pub(crate) fn span(&self) -> u64 {
        self.span.load(Relaxed)
    }

    #[inline]
    pub(crate) fn place(&self) -> Place {
        Place::from_bits(self.place.load(Relaxed))
    }

    #[inline]
    fn set(&self, span: u64, place: Place, start: Ticks, nested: u64) {
        self.span.store(span, Relaxed);
        self.place.store(place.bits(), Relaxed);
        self.start.store(start, Relaxed);
        self.nested.store(nested, Relaxed);
    }

    #[inline]
    pub(crate) fn start(&self) -> Ticks {
        self.start.load(Relaxed)
    }

    /// Sets another start of the range. Only for the owning thread.
    #[inline]
    pub(crate) fn start_at(&self, start: Ticks) {
        self.start.store(start, Relaxed);
    }

    #[inline]
    fn ended(&self, now: Ticks) -> Ended {
        let entered = self.start.load(Relaxed);
        let duration = now.saturating_sub(entered);
        Ended { place: self.place(), entered, duration, nested: self.nested.load(Relaxed) }
    }

    /// Only for the owning thread.
    #[inline]
    pub(crate) fn add_nested(&self, time: u64) {
        self.nested.store(self.nested.load(Relaxed).wrapping_add(time), Relaxed);
    }
}

/// Actions outside of the stack when it closes and reopens ranges.
pub(crate) trait Ranges {
    /// Ends the topmost range of this place's domain. Returns the time, read immediately before.
    fn close(&mut self, place: Place, span: u64) -> Ticks;
    /// Begins a range again. Returns the time, read immediately before.
    fn reopen(&mut self, place: Place, span: u64) -> Ticks;
    /// Called when an instance has ended; it had `depth` others below it. `call` is the call of its span, which was
    /// left. It is 0 for none, and also if the range is reopened, because the call of a closed span is free once it is
    /// left.
    fn ended(&mut self, ended: Ended, call: CallId, end: Ticks, depth: usize);
    /// Number of the NVTX domain of this place.
    fn domain(&self, place: Place) -> u32;
}

/// The open ranges of one thread, innermost last.
///
/// Only the owning thread changes it. It stores `depth` with `Release`, and other threads load it with `Acquire`, so
/// that they see initialised frames below that depth.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Stack {
    pub(crate) depth: AtomicU32,
    /// How many ranges, from the outermost, must note their end for a part.
    pub(crate) noted: AtomicU32,
    pub(crate) frames: Chunked<Frame, NEAR>,
    /// The calls of ranges whose place has the flag for one. The inline length keeps the slab at its offset within 512
    /// bytes.
    pub(crate) calls: Chunked<AtomicU32, 122>,
}

/// Room for a range of a call: see [`Stack::room`]. The range that was there last is the last one to leave the stack.
pub(crate) struct Room<'a> {
    stack: &'a Stack,
    /// The number of ranges below.
    pub(crate) below: usize,
    frame: &'a Frame,
    call: &'a AtomicU32,
}

impl Room<'_> {
    /// As [`Stack::just_left`].
    #[inline]
    pub(crate) fn just_left(&self, call: CallId) -> Option<Ticks> {
        (self.frame.place().is_called() && self.call.load(Relaxed) == call).then(|| self.frame.start())
    }

    /// As [`Stack::push`], for a range of this call.
    #[inline]
    pub(crate) fn push(&self, span: u64, place: Place, start: Ticks, call: CallId) {
        self.frame.set(span, place, start, 0);
        self.call.store(call, Relaxed);
        self.stack.set_depth(self.below + 1);
    }
}

impl Stack {
    /// For tests and models: a state makes its own in place.
    #[allow(dead_code)]
    pub(crate) fn new() -> Self {
        Self { depth: AtomicU32::new(0), noted: AtomicU32::new(0), frames: Chunked::new(), calls: Chunked::new() }
    }

    /// The innermost open range.
    #[inline]
    pub(crate) fn top(&self) -> Option<&Frame> {
        // The check for an empty stack comes first: a wrapped index would be searched for in later chunks.
        match self.depth.load(Relaxed) {
            0 => None,
            depth => self.frames.get(depth as usize - 1),
        }
    }

    /// The innermost open range of a span.
    pub(crate) fn innermost_span(&self) -> Option<&Frame> {
        let frames = (0..self.depth()).rev().filter_map(|range| self.frame(range));
        frames.into_iter().find(|frame| frame.span() != NO_SPAN)
    }

    /// An open range by number, 0 being the outermost. Only for the owning thread.
    pub(crate) fn frame(&self, range: usize) -> Option<&Frame> {
        self.frames.get(range).filter(|_| range < self.depth())
    }

    /// Number of open ranges.
    #[inline]
    pub(crate) fn depth(&self) -> usize {
        self.depth.load(Relaxed) as usize
    }

    #[inline]
    fn set_depth(&self, depth: usize) {
        self.depth.store(depth as u32, Release); // at most `MOST_OPEN`
    }

    /// How many ranges, from the outermost, must note their end. Only for the owning thread.
    #[cfg(feature = "cuda")]
    #[inline]
    pub(crate) fn noted(&self) -> usize {
        self.noted.load(Relaxed) as usize
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn set_noted(&self, ranges: usize) {
        self.noted.store(ranges as u32, Relaxed);
    }

    /// Whether the end of the innermost range must be noted, or no range is open.
    #[inline]
    pub(crate) fn is_top_noted(&self) -> bool {
        self.depth.load(Relaxed) <= self.noted.load(Relaxed)
    }

    /// Place and start of an open range by number, 0 being the outermost. Only for the owning thread.
    pub(crate) fn at(&self, index: usize) -> Option<(Place, Ticks)> {
        let frame = self.frames.get(index).filter(|_| index < self.depth())?;
        Some((frame.place(), frame.start.load(Relaxed)))
    }

    /// Start of an open range by number, or of the last one to leave, if that was the innermost. Only for the owning
    /// thread.
    pub(crate) fn start_of(&self, range: usize) -> Option<Ticks> {
        self.frames.get(range).map(Frame::start)
    }

    /// [`at`](Self::at) for an open range among the outermost 64.
    #[cfg(feature = "cuda")]
    #[inline]
    pub(crate) fn near(&self, index: usize) -> Option<(Place, Ticks)> {
        let frame = self.frames.near(index)?;
        Some((frame.place(), frame.start.load(Relaxed)))
    }

    /// Opens a range. Returns `None` if the stack is full; the range is then not on it.
    #[inline]
    pub(crate) fn push(&self, span: u64, place: Place, start: Ticks) -> Option<&Frame> {
        let depth = self.depth();
        let frame = self.frames.near(depth).or_else(|| self.far(depth))?;
        frame.set(span, place, start, 0);
        self.set_depth(depth + 1);
        Some(frame)
    }

    #[inline(never)]
    fn far(&self, depth: usize) -> Option<&Frame> {
        self.frames.get_or_grow(depth).filter(|_| depth < MOST_OPEN)
    }

    /// Whether a range that is opened now stands by creation under the innermost one, or no range is open. False for
    /// more than 64 open ranges.
    #[inline]
    pub(crate) fn is_under_top(&self, place: Place) -> bool {
        match self.depth.load(Relaxed) {
            0 => true,
            depth => self.frames.near(depth as usize - 1).is_some_and(|top| top.place().node() == place.parent()),
        }
    }

    /// Sets the call of the innermost range.
    #[inline]
    pub(crate) fn set_call(&self, call: CallId) {
        if let Some(slot) = self.depth().checked_sub(1).and_then(|top| self.calls.get_or_grow(top)) {
            slot.store(call, Relaxed);
        }
    }

    /// Gives a range its call if it is of this span. Returns whether it is. Only for the owning thread.
    pub(crate) fn follow(&self, range: usize, span: u64, call: CallId) -> bool {
        let frame = self.frame(range).filter(|frame| frame.span() == span && !frame.place().is_called());
        let Some((frame, slot)) = frame.zip(self.calls.get_or_grow(range)) else { return false };
        slot.store(call, Relaxed);
        frame.place.store(frame.place().with_call().bits(), Relaxed);
        true
    }

    /// The call of a range whose place has the flag for one, by the number of the range.
    #[inline]
    pub(crate) fn call_of(&self, range: usize) -> CallId {
        self.calls.get_inline(range).map_or(0, |call| call.load(Relaxed))
    }

    /// The call of a range by number, 0 for none.
    pub(crate) fn called_of(&self, range: usize) -> CallId {
        let is_called = self.frames.get_inline(range).is_some_and(|frame| frame.place().is_called());
        if is_called { self.call_of(range) } else { 0 }
    }

    /// The call of the innermost open range that has one; 0 for none.
    pub(crate) fn innermost_call(&self) -> CallId {
        self.calls().next().unwrap_or(0)
    }

    /// The calls of the open ranges that have one, the innermost first.
    pub(crate) fn calls(&self) -> impl Iterator<Item = CallId> {
        self.called().rev().map(|range| self.call_of(range))
    }

    /// The number of the outermost open range that has a call.
    pub(crate) fn outermost_called(&self) -> Option<usize> {
        self.called().next()
    }

    fn called(&self) -> impl DoubleEndedIterator<Item = usize> {
        let is_called = |range: &usize| self.frames.get(*range).is_some_and(|frame| frame.place().is_called());
        (0..self.depth()).filter(is_called)
    }

    /// Start of the last range to leave this stack, if it was one of this call (or of an earlier call with its number)
    /// and none has been entered after it.
    #[inline]
    pub(crate) fn just_left(&self, call: CallId) -> Option<Ticks> {
        let left = self.depth();
        let frame = self.frames.get_inline(left).filter(|frame| frame.place().is_called())?;
        (self.call_of(left) == call).then(|| frame.start())
    }

    /// Whether nothing is open.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.depth.load(Relaxed) == 0
    }

    /// The innermost of at most 64 open ranges.
    #[inline]
    pub(crate) fn near_top(&self) -> Option<&Frame> {
        self.frames.near(self.depth().wrapping_sub(1))
    }

    /// Room among the outermost 64 for a range of a call which stands by creation under the innermost one. Only for the
    /// owning thread, and until another range is opened or ended.
    #[inline]
    pub(crate) fn room(&self, place: Place) -> Option<Room<'_>> {
        let below = self.depth();
        let (frame, call) = self.frames.near(below).zip(self.calls.near(below))?;
        self.is_under_top(place).then_some(Room { stack: self, below, frame, call })
    }

    /// [`push`](Self::push) while fewer than 64 ranges are open. Otherwise returns false and changes nothing.
    #[inline]
    pub(crate) fn push_near(&self, span: u64, place: Place, start: Ticks) -> bool {
        let depth = self.depth();
        let Some(frame) = self.frames.near(depth) else { return false };
        frame.set(span, place, start, 0);
        self.set_depth(depth + 1);
        true
    }

    /// [`pop`](Self::pop) of `span` if it is the innermost of at most 64 open ranges. Otherwise returns `None` and
    /// changes nothing.
    #[inline]
    pub(crate) fn pop_near(&self, span: u64, now: Ticks) -> Option<Ended> {
        let depth = self.depth();
        let top = self.frames.near(depth.wrapping_sub(1))?;
        if top.span() != span {
            return None;
        }
        let ended = top.ended(now);
        if let Some(below) = self.frames.near(depth.wrapping_sub(2)) {
            below.add_nested(ended.duration);
        }
        self.set_depth(depth - 1);
        Some(ended)
    }

    /// The innermost of at most 64 open ranges, if it is of that span, and before it the number of ranges below.
    #[inline]
    pub(crate) fn top_near(&self, span: u64) -> Option<(usize, &Frame)> {
        let below = self.depth().wrapping_sub(1);
        let top = self.frames.near(below).filter(|top| top.span() == span)?;
        Some((below, top))
    }

    /// Ends the range that [`top_near`](Self::top_near) has just returned.
    #[inline]
    pub(crate) fn pop_top(&self, below: usize, top: &Frame, now: Ticks) -> Ended {
        let ended = top.ended(now);
        if let Some(below) = self.frames.near(below.wrapping_sub(1)) {
            below.add_nested(ended.duration);
        }
        self.set_depth(below);
        ended
    }

    /// Whether `span` is the innermost open range, which [`pop`](Self::pop) may then end.
    #[inline]
    pub(crate) fn is_top(&self, span: u64) -> bool {
        self.top().is_some_and(|top| top.span() == span)
    }

    /// Ends the innermost range.
    #[inline]
    pub(crate) fn pop(&self, now: Ticks) -> Option<Ended> {
        let depth = self.depth();
        let ended = self.frames.get(depth.checked_sub(1)?)?.ended(now);
        if depth > 1
            && let Some(below) = self.frames.get(depth - 2)
        {
            below.add_nested(ended.duration);
        }
        self.set_depth(depth - 1);
        Some(ended)
    }

    /// Whether a range of `span` is open. On any thread.
    pub(crate) fn holds(&self, span: u64) -> bool {
        self.open().any(|(held, _)| held == span)
    }

    /// Span and place of every open range, outermost first. On any thread. Changes by the owner meanwhile may be
    /// missed, or appear as no range.
    pub(crate) fn open(&self) -> impl DoubleEndedIterator<Item = (u64, Place)> {
        let depth = self.depth.load(Acquire) as usize;
        (0..depth)
            .filter_map(|index| self.frames.get(index))
            .map(|frame| (frame.span(), Place::from_bits(frame.place.load(Acquire))))
    }

    /// Place and start of the innermost open range that is measured. On any thread, as [`open`](Self::open).
    pub(crate) fn innermost(&self) -> Option<(Place, Ticks)> {
        let depth = self.depth.load(Acquire) as usize;
        let frames = (0..depth).rev().filter_map(|index| self.frames.get(index));
        frames.map(|frame| (frame.place(), frame.start())).find(|(place, _)| place.is_measured())
    }

    /// Ends the uppermost range, except the innermost one, for which `is_exited` returns true. Also ends the ranges of
    /// `ended_elsewhere`: each is a span and the time of its exit elsewhere, so that a later entry is not ended.
    /// Returns the ranges that left, or `None` if there is no such range.
    pub(crate) fn exit_below(
        &self,
        is_exited: impl Fn(u64, Place) -> bool,
        ended_elsewhere: &[(u64, Ticks)],
        ranges: &mut impl Ranges,
    ) -> Option<Left> {
        let frame = |index: usize| self.frames.get(index);
        let open = || (0..self.depth()).rev();
        let exited = open().find(|&index| frame(index).is_some_and(|open| is_exited(open.span(), open.place())))?;
        let mut gone = vec![exited];
        for &(elsewhere, when) in ended_elsewhere {
            let is_meant = |index: &usize| {
                let is_entry = |open: &Frame| open.span() == elsewhere && open.start() <= when;
                frame(*index).is_some_and(is_entry) && !gone.contains(index)
            };
            gone.extend(open().find(is_meant));
        }
        // Ranges below the one under the lowest of them are unchanged, however deep the stack is.
        let base = gone.iter().min().map_or(0, |lowest| lowest.saturating_sub(1));
        let old = self.snapshot(base);
        let leaving: Vec<bool> = (base..base + old.len()).map(|index| gone.contains(&index)).in_vec();
        let exited_and_above = old[exited - base..].iter().take(2).map(|frame| frame.place).in_vec();
        let (reopened, closed) = self.close_and_reopen(base, old, &leaving, ranges);
        Some(Left { reopened, exited, exited_and_above, base, leaving, closed })
    }

    /// Ends every open range, innermost first, and returns their places in that order.
    pub(crate) fn unwind(&self, ranges: &mut impl Ranges) -> Vec<Place> {
        let old = self.snapshot(0);
        let places = old.iter().rev().map(|frame| frame.place).in_vec();
        let leaving = vec![true; old.len()];
        self.close_and_reopen(0, old, &leaving, ranges);
        places
    }

    /// The open ranges, innermost first, as if all ended at `now`. On any thread.
    pub(crate) fn ended_at(&self, now: Ticks) -> Vec<Ended> {
        let mut above = 0;
        let frames = (0..self.depth.load(Acquire) as usize).rev().filter_map(|index| self.frames.get(index));
        frames
            .map(|frame| {
                let ended = frame.ended(now);
                let nested = ended.nested.wrapping_add(std::mem::replace(&mut above, ended.duration));
                Ended { nested, ..ended }
            })
            .in_vec()
    }

    /// Begins a new window: open ranges count from `start` on, and earlier time above them is forgotten.
    pub(crate) fn restart(&self, start: Ticks) {
        for frame in (0..self.depth()).filter_map(|index| self.frames.get(index)) {
            frame.start.store(frame.start.load(Relaxed).max(start), Relaxed);
            frame.nested.store(0, Relaxed);
        }
    }

    /// Copies of the ranges from this one on.
    fn snapshot(&self, base: usize) -> Vec<FrameCopy> {
        let frames = (base..self.depth()).filter_map(|index| Some((index, self.frames.get(index)?)));
        frames
            .map(|(index, frame)| FrameCopy {
                span: frame.span(),
                place: frame.place(),
                call: if frame.place().is_called() { self.call_of(index) } else { 0 },
                start: frame.start.load(Relaxed),
                nested: frame.nested.load(Relaxed),
                closed_at: None,
            })
            .in_vec()
    }

    /// Applies to the ranges from `base` on; the first of them stays, unless it is the outermost.
    fn close_and_reopen(
        &self,
        base: usize,
        mut old: Vec<FrameCopy>,
        leaving: &[bool],
        ranges: &mut impl Ranges,
    ) -> (u64, Vec<bool>) {
        let mut closing: Vec<u32> = Vec::new(); // domains in which this range or one below it leaves
        let closes: Vec<bool> = old
            .iter()
            .zip(leaving)
            .map(|(frame, &leaves)| {
                let domain = ranges.domain(frame.place);
                let closes = closing.contains(&domain);
                if leaves && !closes {
                    closing.push(domain);
                }
                closes || leaves
            })
            .in_vec();
        for index in (0..old.len()).rev().filter(|&index| closes[index]) {
            let closed_at = ranges.close(old[index].place, old[index].span);
            // A range of another domain directly above stays open: its time so far was spent inside this one.
            if let Some(above) = old.get(index + 1).filter(|above| above.closed_at.is_none()) {
                let inside = closed_at.saturating_sub(above.start);
                old[index].nested = old[index].nested.wrapping_add(inside);
            }
            old[index].closed_at = Some(closed_at);
            let ended = old[index].ended(closed_at);
            if let Some(below) = index.checked_sub(1).and_then(|below| old.get_mut(below)) {
                below.nested = below.nested.wrapping_add(ended.duration);
            }
            let left = if leaving[index] { old[index].call } else { 0 };
            ranges.ended(ended, left, closed_at, base + index);
        }
        let mut reopened = 0;
        let mut kept: Vec<FrameCopy> = Vec::with_capacity(old.len());
        for index in (0..old.len()).filter(|&index| !leaving[index]) {
            let mut frame = old[index];
            if closes[index] {
                frame.start = ranges.reopen(frame.place, frame.span);
                (frame.nested, frame.closed_at) = (0, None);
                reopened += 1;
            } else if let Some(ended_below) = index.checked_sub(1).and_then(|below| old[below].closed_at) {
                // The range below it ended. Its whole duration will be added to the new range below, which must be
                // charged only from now on.
                if let Some(below) = kept.last_mut() {
                    let boundary = below.start.max(ended_below);
                    below.nested = below.nested.wrapping_sub(boundary.saturating_sub(frame.start));
                }
            }
            kept.push(frame);
        }
        // A reader on another thread must not see a moved range twice: if it sees the new place, it sees the old one
        // empty.
        for frame in (base..base + old.len()).filter_map(|index| self.frames.get(index)) {
            frame.place.store(Place::stand_in(0).bits(), Relaxed);
        }
        fence(Release); // pairs with `open`
        for (index, open) in (base..).zip(&kept) {
            if let Some(frame) = self.frames.get(index) {
                frame.set(open.span, open.place, open.start, open.nested);
            }
            if let Some(call) = self.calls.get_or_grow(index).filter(|_| open.call != 0) {
                call.store(open.call, Relaxed);
            }
        }
        self.set_depth(base + kept.len());
        (reopened, closes)
    }
}

/// The ranges that an exit below the innermost one removed from the stack. Numbers of ranges are those before the exit,
/// 0 being the outermost.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left {
    /// Number of instances that were closed and opened again.
    pub(crate) reopened: u64,
    /// The range that was exited.
    pub(crate) exited: usize,
    /// Its place, and that of the range above it.
    pub(crate) exited_and_above: Vec<Place>,
    /// The first range in the lists below; earlier ranges are unchanged.
    base: usize,
    leaving: Vec<bool>,
    closed: Vec<bool>,
}

impl Left {
    /// The first range that may have changed.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    pub(crate) fn is_gone(&self, range: usize) -> bool {
        self.says(&self.leaving, range)
    }

    /// Whether the instance is over, because its range left or was reopened.
    #[cfg(feature = "cuda")]
    pub(crate) fn is_closed(&self, range: usize) -> bool {
        self.says(&self.closed, range)
    }

    fn says(&self, all: &[bool], range: usize) -> bool {
        range.checked_sub(self.base).and_then(|index| all.get(index)).is_some_and(|is_so| *is_so)
    }

    /// The new number of a range that stays.
    pub(crate) fn place_of(&self, range: usize) -> usize {
        range - self.leaving.iter().take(range.saturating_sub(self.base)).filter(|gone| **gone).count()
    }
}

#[derive(Clone, Copy)]
struct FrameCopy {
    span: u64,
    place: Place,
    call: CallId,
    start: Ticks,
    nested: u64,
    closed_at: Option<Ticks>,
}

impl FrameCopy {
    fn ended(&self, now: Ticks) -> Ended {
        let frame = Frame::default();
        frame.set(self.span, self.place, self.start, self.nested);
        frame.ended(now)
    }
}

#[cfg(test)]
mod tests;
