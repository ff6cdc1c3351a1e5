//! The events and pairs of one thread inside one `with_stream`. Its spans take events and leave pairs there without a
//! lock.
//!
//! The queue of a stream lends a lane to a scope for as long as the scope lasts. Starts take events from the lane, and
//! ends leave pairs in it. The pairs go to the queue when the lane is full, and when the scope ends. A thread that
//! needs all pairs earlier takes them out under the queue's lock.

use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use parking_lot::Mutex;
use range_model::RangeStyle;

use super::pair::{EventPair, RecordedPair, Target};
use super::totals::StreamTotals;
use crate::core::record::RangeKey;

/// The largest number of pairs in a lane, and of spare events.
pub(crate) const LENGTH: usize = 64;

/// A lane's owner is the thread to which it is lent; otherwise there is none. The owner's fields are written by the
/// owner, or under the queue's lock if there is none. Other fields are always written under that lock. Loads and stores
/// are plain, except those of `ended`.
#[repr(C, align(64))]
pub(crate) struct Lane {
    totals: &'static StreamTotals,
    /// Number of pairs left so far; pair `n` is in place `n % LENGTH`. The owner's.
    ended: AtomicUsize,
    /// How many of `spare`, from the first, hold events for starts. The owner's.
    spares: AtomicUsize,
    /// Starts minus ends of this lane; wraps. An abandoned pair counts in the queue's number instead. The owner's.
    open: AtomicU32,
    is_lent: AtomicBool,
    /// How many of the pairs so far the queue has taken.
    taken: AtomicUsize,
    spare: [Spare; LENGTH],
    pairs: [Left; LENGTH],
}

#[derive(Default)]
struct Spare {
    start: AtomicUsize,
    end: AtomicUsize,
}

/// A finished pair, as numbers.
#[derive(Debug, Default)]
struct Left {
    start: AtomicUsize,
    end: AtomicUsize,
    /// Node in the upper half, label in the lower.
    node_label: AtomicU64,
    /// Category in the upper half, 1 for start/end ranges in the lower.
    category_style: AtomicU64,
    window: AtomicU64,
}

/// Lanes without a stream.
static UNUSED: Mutex<Vec<&'static Lane>> = Mutex::new(Vec::new());

impl Lane {
    /// A lane for the pairs of a profiler: an unused one, or a new one. It lives as long as the process.
    pub(crate) fn find(totals: &'static StreamTotals) -> &'static Self {
        let mut unused = UNUSED.lock();
        let known = unused.iter().rposition(|lane| lane.is_of(totals));
        known.map(|index| unused.swap_remove(index)).unwrap_or_else(|| Box::leak(Box::new(Self::new(totals))))
    }

    fn new(totals: &'static StreamTotals) -> Self {
        Self {
            totals,
            ended: AtomicUsize::new(0),
            spares: AtomicUsize::new(0),
            open: AtomicU32::new(0),
            is_lent: AtomicBool::new(false),
            taken: AtomicUsize::new(0),
            spare: std::array::from_fn(|_| Spare::default()),
            pairs: std::array::from_fn(|_| Left::default()),
        }
    }

    /// Whether it is for the pairs of this profiler.
    #[inline]
    pub(crate) fn is_of(&self, totals: &StreamTotals) -> bool {
        std::ptr::eq(self.totals, totals)
    }

    /// Takes the events for a start, if there are any. Called by the owner.
    #[inline]
    pub(crate) fn start(&self) -> Option<EventPair> {
        let last = self.spares.load(Relaxed).checked_sub(1)?;
        let spare = self.spare.get(last)?;
        let events = EventPair { start: spare.start.load(Relaxed), end: spare.end.load(Relaxed) };
        self.spares.store(last, Relaxed);
        self.open.store(self.open.load(Relaxed).wrapping_add(1), Relaxed);
        Some(events)
    }

    /// Leaves a pair of this profiler's, both of whose events are recorded. True where the lane is full now: then the
    /// queue must [take the pairs out](Self::take_out) before the next one. Called by the owner.
    #[inline]
    pub(crate) fn end(&self, events: EventPair, target: &Target) -> bool {
        let ended = self.ended.load(Relaxed);
        let left = &self.pairs[ended % LENGTH];
        let Target { node, key, window, .. } = *target;
        left.start.store(events.start, Relaxed);
        left.end.store(events.end, Relaxed);
        left.node_label.store(u64::from(node) << 32 | u64::from(key.label), Relaxed);
        let style = u64::from(key.style == RangeStyle::StartEnd);
        left.category_style.store(u64::from(key.category) << 32 | style, Relaxed);
        left.window.store(window, Relaxed);
        self.open.store(self.open.load(Relaxed).wrapping_sub(1), Relaxed);
        self.ended.store(ended.wrapping_add(1), Release); // pairs with `take_out`, which reads the stores above
        ended % LENGTH == LENGTH - 1
    }

    /// Passes the new pairs to `to`, in order. On any thread, under the queue's lock.
    pub(crate) fn take_out(&self, mut to: impl FnMut(RecordedPair)) {
        // Pairs with `end`, which reuses a place taken here only after the owner has called this function.
        let ended = self.ended.load(Acquire);
        let mut number = self.taken.load(Relaxed);
        while number != ended {
            to(self.pairs[number % LENGTH].pair(self.totals));
            number = number.wrapping_add(1);
        }
        self.taken.store(ended, Relaxed);
    }

    /// Fills the lane with events. Only for the owner.
    pub(crate) fn refill(&self, from: &mut Vec<EventPair>) {
        let spares = self.spares.load(Relaxed);
        let kept = from.len().saturating_sub(LENGTH - spares.min(LENGTH));
        let mut filled = spares;
        for (spare, events) in self.spare.iter().skip(spares).zip(from.drain(kept..)) {
            spare.start.store(events.start, Relaxed);
            spare.end.store(events.end, Relaxed);
            filled += 1;
        }
        self.spares.store(filled, Relaxed);
    }

    /// Lends the lane if it belongs to this profiler and is not lent. Under the queue's lock.
    pub(crate) fn lend(&self, totals: &StreamTotals) -> bool {
        let is_free = self.is_of(totals) && !self.is_lent.load(Relaxed);
        if is_free {
            self.is_lent.store(true, Relaxed);
        }
        is_free
    }

    /// Ends the loan. Returns starts minus ends during it. For the owner under the queue's lock, after
    /// [`take_out`](Self::take_out).
    pub(crate) fn take_back(&self) -> i32 {
        let open = self.open.load(Relaxed) as i32;
        self.open.store(0, Relaxed);
        self.is_lent.store(false, Relaxed);
        open
    }

    /// Moves its events to `into`, and makes it available to any stream. Under the queue's lock, while it is not lent.
    pub(crate) fn put_away(&'static self, into: &mut Vec<EventPair>) {
        let events = self.spare.iter().take(self.spares.load(Relaxed));
        into.extend(events.map(|spare| EventPair { start: spare.start.load(Relaxed), end: spare.end.load(Relaxed) }));
        self.spares.store(0, Relaxed);
        UNUSED.lock().push(self);
    }
}

impl Left {
    fn pair(&self, totals: &'static StreamTotals) -> RecordedPair {
        let (node_label, category_style) = (self.node_label.load(Relaxed), self.category_style.load(Relaxed));
        let style = if category_style & 1 == 0 { RangeStyle::PushPop } else { RangeStyle::StartEnd };
        let key = RangeKey { label: node_label as u32, category: (category_style >> 32) as u32, style };
        let events = EventPair { start: self.start.load(Relaxed), end: self.end.load(Relaxed) };
        let target = Target { totals, node: (node_label >> 32) as u32, key, window: self.window.load(Relaxed) };
        RecordedPair { events, target }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64 as Turn;

    use super::*;

    fn target(number: usize) -> Target {
        let number = number as u64;
        let style = if number.is_multiple_of(3) { RangeStyle::StartEnd } else { RangeStyle::PushPop };
        let key = RangeKey { label: number as u32, category: !number as u32, style };
        Target { totals: StreamTotals::shared(), node: number as u32 ^ 5, key, window: number << 33 }
    }

    fn events(number: usize) -> EventPair {
        EventPair { start: number, end: number << 1 }
    }

    /// One thread leaves pairs; another takes them out at any time, under a lock like the queue's.
    #[test]
    fn pairs_come_out_once_and_whole_and_in_their_order() {
        const PAIRS: usize = 400_000;
        let (lane, taken, looks) = (Lane::new(StreamTotals::shared()), Mutex::new(0), Turn::new(0));
        let take_out = |taken: &mut usize| {
            lane.take_out(|pair| {
                let (number, expected) = (*taken, target(*taken));
                assert_eq!((pair.events.start, pair.events.end), (number, number << 1));
                assert!(
                    (pair.target.node, pair.target.key, pair.target.window)
                        == (expected.node, expected.key, expected.window)
                );
                *taken += 1;
            });
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while *taken.lock() < PAIRS {
                    take_out(&mut taken.lock());
                    looks.fetch_add(1, Relaxed);
                }
            });
            for number in 0..PAIRS {
                if number % (PAIRS / 4) == 0 {
                    let before = looks.load(Relaxed);
                    while looks.load(Relaxed) == before {
                        std::thread::yield_now(); // until the other one looks
                    }
                }
                if lane.end(events(number), &target(number)) {
                    take_out(&mut taken.lock());
                }
            }
            take_out(&mut taken.lock());
        });
        assert_eq!(*taken.lock(), PAIRS);
    }

    #[test]
    fn it_is_full_once_in_its_length() {
        let lane = Lane::new(StreamTotals::shared());
        let full: Vec<usize> = (1..=3 * LENGTH).filter(|&number| lane.end(events(number), &target(number))).collect();
        assert_eq!(full, [LENGTH, 2 * LENGTH, 3 * LENGTH]);
    }

    #[test]
    fn it_takes_as_many_events_as_it_holds_and_gives_those_used_last() {
        let lane = Lane::new(StreamTotals::shared());
        assert!(lane.start().is_none());
        let mut spare: Vec<EventPair> = (0..LENGTH + 7).map(events).collect();
        lane.refill(&mut spare);
        assert_eq!(spare.len(), 7);
        assert_eq!(lane.start().map(|events| events.start), Some(LENGTH + 6));
        assert_eq!(lane.start().map(|events| events.end), Some((LENGTH + 5) << 1));
        lane.refill(&mut spare);
        assert_eq!((spare.len(), lane.spares.load(Relaxed)), (5, LENGTH));
        let out: Vec<usize> = std::iter::from_fn(|| lane.start()).map(|events| events.start).collect();
        assert_eq!((out.len(), out.first(), out.last()), (LENGTH, Some(&6), Some(&7)));
        assert_eq!(lane.take_back(), LENGTH as i32 + 2, "starts without an end");
    }

    #[test]
    fn it_is_lent_to_one_scope_of_its_profiler() {
        let [mine, other] = [(); 2].map(|()| StreamTotals::leak());
        let lane = Lane::find(mine);
        assert!(!lane.lend(other) && lane.lend(mine) && !lane.lend(mine));
        lane.take_back();
        assert!(lane.lend(mine));
        let mut spare = vec![events(1), events(2)];
        lane.refill(&mut spare);
        lane.take_back();
        lane.put_away(&mut spare);
        assert_eq!((spare.len(), lane.start().is_none()), (2, true));
        assert!(!std::ptr::eq(Lane::find(other), lane) && std::ptr::eq(Lane::find(mine), lane));
    }
}
