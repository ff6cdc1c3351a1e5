//! Pairs of events that are recorded and not yet read, one queue a stream, in stream order.

use super::driver::Handle;
use super::streams::{Alive, NamedStream};
use crate::collect::core::Core;
use crate::record::RangeKey;

/// Pairs that may wait on one stream. More are dropped, the newest first, and counted.
pub(crate) const PENDING: usize = 16_384;
/// Pairs that a stream takes at once from what its context has to spare, or has made where there are none.
pub(crate) const BATCH: usize = 32;

/// Whose time a pair measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) core: &'static Core,
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
            && std::ptr::eq(self.core, other.core)
    }
}

/// The events of one instance. They stay together for as long as their context lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Events {
    pub(crate) start: Handle,
    pub(crate) end: Handle,
}

/// Two events around one instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) events: Events,
    pub(crate) target: Target,
}

/// What waits on one stream. What every entry and exit reads and writes is first, beside the stream's handle.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Queue {
    /// Events that are not in use, those used last on top.
    spare: Vec<Events>,
    /// Starts that have no end yet: recorded, or about to be.
    open: u32,
    /// Ends recorded so far: some of them are a reason to look which have finished.
    ends: u32,
    pairs: Vec<Pair>,
    /// How many of `pairs`, the oldest, have been read. What is left moves to the front when it is the lesser part: a queue that is read as
    /// fast as it grows stays in the same few cache lines.
    read: usize,
    /// Keeps the stream while anything is recorded on it that has not been read.
    alive: Option<Alive>,
}

/// The stream has been destroyed.
pub(crate) struct Gone;

impl Queue {
    /// One start more that waits for its end. Gives the events of the pair, if there are any to spare.
    #[inline]
    pub(crate) fn open(&mut self, stream: &NamedStream) -> Result<Option<Events>, Gone> {
        if self.alive.is_none() {
            self.alive = Some(stream.hold().ok_or(Gone)?);
        }
        self.open += 1;
        if self.spare.is_empty() {
            self.refill(stream);
        }
        Ok(self.spare.pop())
    }

    #[cold]
    fn refill(&mut self, stream: &NamedStream) {
        let mut all = stream.context.events.lock();
        let kept = all.len().saturating_sub(BATCH);
        self.spare.extend(all.drain(kept..));
    }

    /// One start fewer that waits for its end.
    #[inline]
    pub(crate) fn close(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// An end that was recorded is followed by a start at once, as by [`close`](Self::close) and [`open`](Self::open), if there are events to
    /// spare; else `None`, and nothing has happened.
    #[inline]
    pub(crate) fn reopen(&mut self) -> Option<Events> {
        self.spare.pop()
    }

    /// One end more that was recorded. Returns how many there have been, and wraps.
    #[inline]
    pub(crate) fn end(&mut self) -> u32 {
        self.ends = self.ends.wrapping_add(1);
        self.ends
    }

    #[inline]
    pub(crate) fn push(&mut self, pair: Pair) {
        self.pairs.push(pair);
    }

    /// Events that are free again.
    pub(crate) fn give_back(&mut self, events: impl IntoIterator<Item = Events>) {
        self.spare.extend(events);
    }

    /// Number of pairs that wait.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.pairs.len() - self.read
    }

    /// The pairs that wait, the oldest first.
    pub(crate) fn waiting(&self) -> &[Pair] {
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

    /// What keeps the stream.
    pub(crate) fn alive(&self) -> Option<Alive> {
        self.alive.clone()
    }

    /// The hold on the stream, if nothing needs it any more: to be let go outside the lock. The events are then any stream's of the context.
    pub(crate) fn idle(&mut self, stream: &NamedStream) -> Option<Alive> {
        if self.open > 0 || self.len() > 0 {
            return None;
        }
        stream.context.events.lock().append(&mut self.spare);
        self.alive.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::RangeStyle;

    fn pair(number: usize) -> Pair {
        let key = RangeKey { label: 0, category: 0, style: RangeStyle::PushPop };
        let target = Target { core: Core::inert(), node: 1, key, window: 0 };
        Pair { events: Events { start: number, end: number + 1 }, target }
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

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn what_spans_read_and_write_of_a_stream_is_two_cache_lines() {
        use std::mem::offset_of;
        let queue = size_of::<parking_lot::Mutex<Queue>>() - size_of::<Queue>();
        let queue = offset_of!(NamedStream, queue) + queue;
        assert_eq!((align_of::<NamedStream>(), queue + offset_of!(Queue, pairs)), (64, 64));
        assert!(queue + size_of::<Queue>() <= 128);
    }
}
