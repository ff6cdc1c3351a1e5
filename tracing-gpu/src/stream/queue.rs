//! Pairs of events that are recorded and not yet read, one queue a stream: in stream order, but that scopes which are in one stream at the same time may be some
//! 64 pairs ahead of each other.

use cuda_activity::driver::Handle;

use super::lane::Lane;
use super::named::{Alive, NamedStream};
use super::totals::StreamTotals;
use crate::record::RangeKey;

/// Pairs that may wait on one stream. More are dropped, the newest first, and counted.
pub(crate) const PENDING: usize = 16_384;
/// Pairs that a stream takes at once from what its context has to spare, or has made where there are none.
pub(crate) const BATCH: usize = 32;

/// Whose time a pair measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) totals: &'static StreamTotals,
    pub(crate) node: u32,
    pub(crate) key: RangeKey,
    /// Window of the profiler in which the range was entered.
    pub(crate) window: u64,
}

impl Target {
    /// Whether both are counted in one row.
    #[inline(always)]
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.node == other.node
            && self.key == other.key
            && self.window == other.window
            && std::ptr::eq(self.totals, other.totals)
    }
}

/// The events of one instance. They stay together for as long as their context lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EventPair {
    pub(crate) start: Handle,
    pub(crate) end: Handle,
}

/// Two events around one instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordedPair {
    pub(crate) events: EventPair,
    pub(crate) target: Target,
}

/// What waits on one stream.
#[derive(Debug, Default)]
#[repr(align(64))] // its lock is then in no cache line with what entries and exits read of the stream
pub(crate) struct Queue {
    /// EventPair that are not in use, those used last on top.
    spare: Vec<EventPair>,
    /// Starts that have no end yet, recorded or about to be, but for those of lanes that are lent: what was begun in a lane may end here.
    open: i64,
    /// Ends since finished pairs were read.
    ends: usize,
    /// What scopes of the stream have, or had.
    lanes: Vec<&'static Lane>,
    /// Number of them that are lent.
    lent: usize,
    pairs: Vec<RecordedPair>,
    /// How many of `pairs`, the oldest, have been read. What is left moves to the front when it is the lesser part: a queue that is read as
    /// fast as it grows stays in the same few cache lines.
    read: usize,
    /// Keeps the stream while anything is recorded on it that has not been read.
    alive: Option<Alive>,
}

/// The stream has been destroyed.
pub(crate) struct Gone;

impl Queue {
    /// Keeps the stream for what is recorded next.
    fn hold(&mut self, stream: &NamedStream) -> Result<(), Gone> {
        if self.alive.is_none() {
            self.alive = Some(stream.hold().ok_or(Gone)?);
        }
        Ok(())
    }

    /// One start more that waits for its end. Gives the events of the pair, if there are any to spare.
    pub(crate) fn open(&mut self, stream: &NamedStream) -> Result<Option<EventPair>, Gone> {
        self.hold(stream)?;
        self.open += 1;
        if self.spare.is_empty() {
            self.refill(stream);
        }
        Ok(self.spare.pop())
    }

    /// [`open`](Self::open) by way of the lane of a scope, which is filled from what there is to spare.
    pub(super) fn open_in(&mut self, stream: &NamedStream, lane: &Lane) -> Result<Option<EventPair>, Gone> {
        if let Some(events) = lane.start() {
            return Ok(Some(events)); // what it kept from the scope before
        }
        if self.spare.is_empty() {
            self.refill(stream);
        }
        lane.refill(&mut self.spare);
        match lane.start() {
            Some(events) => Ok(Some(events)),
            None => self.open(stream),
        }
    }

    /// A lane for a scope. It keeps the stream.
    pub(super) fn lend(&mut self, stream: &NamedStream, totals: &'static StreamTotals) -> Result<&'static Lane, Gone> {
        self.hold(stream)?;
        self.lent += 1;
        if let Some(lane) = self.lanes.iter().find(|lane| lane.lend(totals)) {
            return Ok(lane);
        }
        let lane = Lane::find(totals);
        lane.lend(totals);
        self.lanes.push(lane);
        Ok(lane)
    }

    /// Takes a lane back when its scope is left. Owner of the lane.
    pub(super) fn take_back(&mut self, lane: &Lane) {
        self.take_in(lane);
        self.open += i64::from(lane.take_back());
        self.lent = self.lent.saturating_sub(1);
    }

    /// The pairs that were left in a lane wait here now.
    pub(super) fn take_in(&mut self, lane: &Lane) {
        let before = self.pairs.len();
        lane.take_out(|pair| self.pairs.push(pair));
        self.ends += self.pairs.len() - before;
    }

    /// The pairs that were left in any lane of the stream wait here now.
    pub(super) fn take_in_all(&mut self) {
        for index in 0..self.lanes.len() {
            if let Some(&lane) = self.lanes.get(index) {
                self.take_in(lane);
            }
        }
    }

    /// EventPair for the next starts of a scope. Owner of the lane.
    pub(super) fn fill(&mut self, lane: &Lane) {
        lane.refill(&mut self.spare);
    }

    #[cold]
    fn refill(&mut self, stream: &NamedStream) {
        let mut all = stream.context.spare.lock();
        let kept = all.len().saturating_sub(BATCH);
        self.spare.extend(all.drain(kept..));
    }

    /// One start fewer that waits for its end.
    pub(crate) fn close(&mut self) {
        self.open -= 1;
    }

    /// Whether there have been enough ends since the last time to look which pairs have finished.
    pub(super) fn is_time_to_read(&mut self, every: usize) -> bool {
        let is_time = self.ends >= every;
        if is_time {
            self.ends = 0;
        }
        is_time
    }

    /// A pair whose end was recorded.
    pub(crate) fn push(&mut self, pair: RecordedPair) {
        self.ends += 1;
        self.pairs.push(pair);
    }

    /// Whether more wait than may.
    pub(super) fn is_over(&self) -> bool {
        self.len() > PENDING
    }

    /// Takes off what is beyond the bound, the newest first.
    pub(super) fn drop_newest(&mut self, mut dropped: impl FnMut(&Target)) {
        while self.is_over() {
            let Some(pair) = self.pairs.pop() else { return };
            self.spare.push(pair.events);
            dropped(&pair.target);
        }
    }

    /// EventPair that are free again.
    pub(crate) fn give_back(&mut self, events: impl IntoIterator<Item = EventPair>) {
        self.spare.extend(events);
    }

    /// Number of pairs that wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.pairs.len() - self.read
    }

    /// The pairs that wait, in the order in which they came.
    pub(crate) fn waiting(&self) -> &[RecordedPair] {
        self.pairs.get(self.read..).unwrap_or_default()
    }

    /// The oldest `count` pairs have been read.
    pub(crate) fn done(&mut self, count: usize) {
        let done = self.pairs.iter().skip(self.read).take(count);
        self.spare.extend(done.map(|pair| pair.events));
        self.read = (self.read + count).min(self.pairs.len());
        if self.read > self.len() || self.len() == 0 {
            self.pairs.drain(..self.read);
            self.read = 0;
        }
    }

    /// Whether it keeps the stream.
    pub(super) fn is_holding(&self) -> bool {
        self.alive.is_some()
    }

    /// Gives back the memory of a queue that is [idle](Self::idle), and whose stream nobody can use any more.
    pub(super) fn end(&mut self) {
        (self.spare, self.lanes, self.pairs) = (Vec::new(), Vec::new(), Vec::new());
    }

    /// What keeps the stream.
    pub(crate) fn alive(&self) -> Option<Alive> {
        self.alive.clone()
    }

    /// The hold on the stream, if nothing needs it any more: to be let go outside the lock. The events are then any stream's of the context.
    pub(crate) fn idle(&mut self, stream: &NamedStream) -> Option<Alive> {
        if self.lent > 0 || self.open > 0 || self.len() > 0 {
            return None;
        }
        self.lanes.drain(..).for_each(|lane| lane.put_away(&mut self.spare));
        stream.context.spare.lock().append(&mut self.spare);
        self.alive.take()
    }
}

#[cfg(test)]
mod tests {
    use super::super::named;
    use super::*;
    use crate::summary::RangeStyle;

    fn pair(number: usize) -> RecordedPair {
        let key = RangeKey { label: 0, category: 0, style: RangeStyle::PushPop };
        let target = Target { totals: StreamTotals::shared(), node: 1, key, window: 0 };
        RecordedPair { events: EventPair { start: number, end: number + 1 }, target }
    }

    #[test]
    fn pairs_are_read_in_their_order_and_what_is_read_leaves_no_room_behind() {
        let mut queue = Queue::default();
        let (mut pushed, mut read) = (0, 0);
        for round in 0..10_000 {
            for _ in 0..64 {
                queue.push(pair(pushed));
                pushed += 1;
            }
            // As a device that lags by some 30 to 60 pairs.
            let count = queue.len().saturating_sub(30 + round % 31);
            let numbers: Vec<usize> = queue.waiting().iter().map(|pair| pair.events.start).collect();
            assert_eq!(numbers, (read..pushed).collect::<Vec<_>>());
            queue.done(count);
            read += count;
            assert_eq!((queue.len(), queue.spare.len()), (pushed - read, read));
            assert_eq!(queue.spare.last().map(|events| events.start), read.checked_sub(1));
        }
        assert!(queue.pairs.capacity() <= 512, "{} for at most 124 that wait", queue.pairs.capacity());
        queue.done(queue.len());
        assert_eq!((queue.len(), queue.pairs.len(), queue.spare.len()), (0, 0, pushed));
    }

    fn starts(queue: &Queue) -> Vec<usize> {
        queue.waiting().iter().map(|pair| pair.events.start).collect()
    }

    #[test]
    fn what_was_begun_in_a_lane_and_ends_beside_it_or_the_other_way_round_keeps_the_stream_and_no_longer() {
        let stream = named::get(named::name_raw(0x1a4e, 0x100)).unwrap();
        let mut queue = Queue::default();
        queue.give_back((0..10).map(|number| EventPair { start: number, end: 0 }));
        let lane = queue.lend(stream, StreamTotals::shared()).ok().unwrap();
        let first = queue.open_in(stream, lane).ok().flatten().unwrap();
        let second = lane.start().unwrap();
        assert_eq!(
            (first.start, second.start, queue.spare.len()),
            (9, 8, 0),
            "the lane has them all, those used last on top"
        );
        lane.end(second, &pair(0).target);
        assert_eq!(starts(&queue), [] as [usize; 0]);
        queue.take_in_all();
        queue.take_in_all();
        assert_eq!(starts(&queue), [8], "once");
        queue.done(1);
        // The first ends when its scope has been left.
        assert!(queue.idle(stream).is_none(), "a lane is lent");
        queue.take_back(lane);
        assert!(queue.idle(stream).is_none(), "a start has no end");
        queue.close();
        queue.push(RecordedPair { events: first, target: pair(0).target });
        assert!(queue.idle(stream).is_none(), "a pair has not been read");
        queue.done(1);
        assert!(queue.idle(stream).is_some() && queue.lanes.is_empty());
        // All events are the context's: ten went in.
        assert_eq!((stream.context.spare.lock().len(), queue.spare.len()), (10, 0));
        // One that begins beside the lane and ends in it.
        let outside = queue.open(stream).ok().flatten().unwrap();
        let lane = queue.lend(stream, StreamTotals::shared()).ok().unwrap();
        lane.end(outside, &pair(0).target);
        queue.take_back(lane);
        assert_eq!((starts(&queue), queue.open), (vec![outside.start], 0));
    }

    #[test]
    fn two_scopes_have_two_lanes_and_the_next_has_one_of_them() {
        let stream = named::get(named::name_raw(0x1a4e, 0x200)).unwrap();
        let mut queue = Queue::default();
        let [one, two] = [(); 2].map(|()| queue.lend(stream, StreamTotals::shared()).ok().unwrap());
        assert!(!std::ptr::eq(one, two));
        queue.take_back(one);
        assert!(std::ptr::eq(queue.lend(stream, StreamTotals::shared()).ok().unwrap(), one));
        assert_eq!(queue.lanes.len(), 2);
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn what_spans_read_of_a_stream_is_one_cache_line_that_nobody_writes() {
        assert_eq!((align_of::<NamedStream>(), std::mem::offset_of!(NamedStream, queue) % 64), (64, 0));
        assert!(std::mem::offset_of!(NamedStream, context) < 64);
    }

    #[test]
    fn the_newest_beyond_the_bound_are_dropped() {
        let mut queue = Queue::default();
        (0..PENDING + 3).for_each(|number| queue.push(pair(number)));
        let mut dropped = 0;
        queue.drop_newest(|_| dropped += 1);
        assert_eq!((dropped, queue.len(), queue.spare.len()), (3, PENDING, 3));
        assert_eq!((starts(&queue).first(), starts(&queue).last()), (Some(&0), Some(&(PENDING - 1))));
    }
}
