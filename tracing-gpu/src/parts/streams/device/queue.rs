//! Recorded pairs that are not read yet: one queue per stream.
//!
//! Pairs are in stream order, with one exception: if several scopes use one stream at the same time, the pairs of one
//! scope may be some 64 ahead of the others'.

use super::lane::Lane;
use super::owner::{Alive, StreamOwner};
use super::pair::{EventPair, RecordedPair, Target};
use super::totals::StreamTotals;

/// The largest number of waiting pairs of one stream. Further pairs are dropped, the newest first, and counted.
pub(crate) const PENDING: usize = 16_384;
/// Number of pairs that a stream takes from its context at once, or creates if the context has no spare ones.
pub(crate) const BATCH: usize = 32;

/// The pairs of one stream.
#[derive(Default)]
#[repr(align(64))] // so that its lock shares no cache line with the fields of the stream that entries and exits read
pub(crate) struct Queue {
    /// Unused pairs, the most recently used on top.
    spare: Vec<EventPair>,
    /// Starts minus ends, including those about to be recorded, except the ones that lent lanes count. Negative if
    /// pairs that started in a lane end here.
    open: i64,
    /// Ends since the last reading of finished pairs.
    ends: usize,
    /// Lanes that scopes of the stream use or have used.
    lanes: Vec<&'static Lane>,
    /// How many of them are lent.
    lent: usize,
    pairs: Vec<RecordedPair>,
    /// How many of `pairs`, from the oldest, have been read. The others move to the front once they are the smaller
    /// part. So a queue that is read as fast as it grows stays in the same few cache lines.
    read: usize,
    /// Keeps the stream alive while pairs on it are started or wait to be read.
    alive: Option<Alive>,
}

/// The stream has been destroyed.
pub(crate) struct Gone;

impl Queue {
    /// Keeps the stream alive for the next pair.
    fn hold(&mut self, owner: &StreamOwner) -> Result<(), Gone> {
        if self.alive.is_none() {
            self.alive = Some(owner.hold().ok_or(Gone)?);
        }
        Ok(())
    }

    /// Counts one more start, and returns its events, if there are spare ones.
    pub(crate) fn open(&mut self, owner: &StreamOwner) -> Result<Option<EventPair>, Gone> {
        self.hold(owner)?;
        self.open += 1;
        if self.spare.is_empty() {
            self.refill(owner);
        }
        Ok(self.spare.pop())
    }

    /// [`open`](Self::open) in the lane of a scope, and fills the lane with spare events. Only for the owner of the
    /// lane.
    pub(crate) fn open_in(&mut self, owner: &StreamOwner, lane: &Lane) -> Result<Option<EventPair>, Gone> {
        if let Some(events) = lane.start() {
            return Ok(Some(events)); // left over from the scope that had the lane before
        }
        if self.spare.is_empty() {
            self.refill(owner);
        }
        lane.refill(&mut self.spare);
        match lane.start() {
            Some(events) => Ok(Some(events)),
            None => self.open(owner),
        }
    }

    /// Lends a lane to a scope, which keeps the stream alive.
    pub(crate) fn lend(&mut self, owner: &StreamOwner, totals: &'static StreamTotals) -> Result<&'static Lane, Gone> {
        self.hold(owner)?;
        self.lent += 1;
        if let Some(lane) = self.lanes.iter().find(|lane| lane.lend(totals)) {
            return Ok(lane);
        }
        let lane = Lane::find(totals);
        lane.lend(totals);
        self.lanes.push(lane);
        Ok(lane)
    }

    /// Takes a lane back when its scope ends. Only for the owner of the lane.
    pub(crate) fn take_back(&mut self, lane: &Lane) {
        self.take_in(lane);
        self.open += i64::from(lane.take_back());
        self.lent = self.lent.saturating_sub(1);
    }

    /// Takes over the pairs in a lane.
    pub(crate) fn take_in(&mut self, lane: &Lane) {
        let before = self.pairs.len();
        lane.take_out(|pair| self.pairs.push(pair));
        self.ends += self.pairs.len() - before;
    }

    /// Takes over the pairs in all lanes of the stream.
    pub(crate) fn take_in_all(&mut self) {
        for index in 0..self.lanes.len() {
            if let Some(&lane) = self.lanes.get(index) {
                self.take_in(lane);
            }
        }
    }

    /// Gives a lane events for its next starts. Only for the owner of the lane.
    pub(crate) fn fill(&mut self, lane: &Lane) {
        lane.refill(&mut self.spare);
    }

    #[cold]
    fn refill(&mut self, owner: &StreamOwner) {
        let mut all = owner.context.spare.lock();
        let kept = all.len().saturating_sub(BATCH);
        self.spare.extend(all.drain(kept..));
    }

    /// Counts one start less: its pair has ended or was abandoned.
    pub(crate) fn close(&mut self) {
        self.open -= 1;
    }

    /// Whether there were enough ends since this last returned true, so that finished pairs should be read.
    pub(crate) fn is_time_to_read(&mut self, every: usize) -> bool {
        let is_time = self.ends >= every;
        if is_time {
            self.ends = 0;
        }
        is_time
    }

    /// Adds a pair.
    pub(crate) fn push(&mut self, pair: RecordedPair) {
        self.ends += 1;
        self.pairs.push(pair);
    }

    /// Whether too many pairs wait.
    pub(crate) fn is_over(&self) -> bool {
        self.len() > PENDING
    }

    /// Drops pairs beyond the limit, the newest first.
    pub(crate) fn drop_newest(&mut self, mut dropped: impl FnMut(&Target)) {
        while self.is_over() {
            let Some(pair) = self.pairs.pop() else { return };
            self.spare.push(pair.events);
            dropped(&pair.target);
        }
    }

    /// Takes back free pairs.
    pub(crate) fn give_back(&mut self, events: impl IntoIterator<Item = EventPair>) {
        self.spare.extend(events);
    }

    /// Number of waiting pairs.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.pairs.len() - self.read
    }

    /// The waiting pairs, in order of arrival.
    pub(crate) fn waiting(&self) -> &[RecordedPair] {
        self.pairs.get(self.read..).unwrap_or_default()
    }

    /// Removes the oldest `count` pairs, which have been read.
    pub(crate) fn done(&mut self, count: usize) {
        let done = self.pairs.iter().skip(self.read).take(count);
        self.spare.extend(done.map(|pair| pair.events));
        self.read = (self.read + count).min(self.pairs.len());
        if self.read > self.len() || self.len() == 0 {
            self.pairs.drain(..self.read);
            self.read = 0;
        }
    }

    /// Whether it keeps the stream alive.
    pub(crate) fn is_holding(&self) -> bool {
        self.alive.is_some()
    }

    /// Frees the memory of an [idle](Self::idle) queue whose stream nobody can use any more.
    pub(crate) fn end(&mut self) {
        (self.spare, self.lanes, self.pairs) = (Vec::new(), Vec::new(), Vec::new());
    }

    /// A copy of its hold on the stream.
    pub(crate) fn alive(&self) -> Option<Alive> {
        self.alive.clone()
    }

    /// Takes its hold on the stream if nothing needs it any more; the caller must release it outside of the lock. The
    /// spare events then go to the context, for any of its streams.
    pub(crate) fn idle(&mut self, owner: &StreamOwner) -> Option<Alive> {
        if self.lent > 0 || self.open > 0 || self.len() > 0 {
            return None;
        }
        self.lanes.drain(..).for_each(|lane| lane.put_away(&mut self.spare));
        owner.context.spare.lock().append(&mut self.spare);
        self.alive.take()
    }
}

#[cfg(test)]
mod tests {
    use super::super::named::{self, NamedStream};
    use super::super::naming;
    use super::*;
    use crate::core::record::RangeKey;
    use range_model::RangeStyle;

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
            // The device lags behind by some 30 to 60 pairs.
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
        let stream = named::get(naming::name_raw(0x1a4e, 0x100)).unwrap();
        let mut queue = Queue::default();
        queue.give_back((0..10).map(|number| EventPair { start: number, end: 0 }));
        let lane = queue.lend(&stream.owner, StreamTotals::shared()).ok().unwrap();
        let first = queue.open_in(&stream.owner, lane).ok().flatten().unwrap();
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
        // The first pair ends after its scope.
        assert!(queue.idle(&stream.owner).is_none(), "a lane is lent");
        queue.take_back(lane);
        assert!(queue.idle(&stream.owner).is_none(), "a start has no end");
        queue.close();
        queue.push(RecordedPair { events: first, target: pair(0).target });
        assert!(queue.idle(&stream.owner).is_none(), "a pair has not been read");
        queue.done(1);
        assert!(queue.idle(&stream.owner).is_some() && queue.lanes.is_empty());
        // All events are back at the context: ten were taken.
        assert_eq!((stream.owner.context.spare.lock().len(), queue.spare.len()), (10, 0));
        // A pair that begins outside of the lane and ends in it.
        let outside = queue.open(&stream.owner).ok().flatten().unwrap();
        let lane = queue.lend(&stream.owner, StreamTotals::shared()).ok().unwrap();
        lane.end(outside, &pair(0).target);
        queue.take_back(lane);
        assert_eq!((starts(&queue), queue.open), (vec![outside.start], 0));
    }

    #[test]
    fn two_scopes_have_two_lanes_and_the_next_has_one_of_them() {
        let stream = named::get(naming::name_raw(0x1a4e, 0x200)).unwrap();
        let mut queue = Queue::default();
        let [one, two] = [(); 2].map(|()| queue.lend(&stream.owner, StreamTotals::shared()).ok().unwrap());
        assert!(!std::ptr::eq(one, two));
        queue.take_back(one);
        assert!(std::ptr::eq(queue.lend(&stream.owner, StreamTotals::shared()).ok().unwrap(), one));
        assert_eq!(queue.lanes.len(), 2);
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn what_spans_read_of_a_stream_is_one_cache_line_that_nobody_writes() {
        assert_eq!((align_of::<NamedStream>(), std::mem::offset_of!(NamedStream, queue) % 64), (64, 0));
        assert!(std::mem::offset_of!(NamedStream, owner) + size_of::<StreamOwner>() <= 64);
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
