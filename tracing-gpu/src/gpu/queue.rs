//! Pairs of events that are recorded and not yet read, in stream order: those in a stream's queue, and before them those that were taken
//! from it to be read.

use super::driver::Handle;
use super::streams::{Alive, NamedStream};
use crate::collect::shard::Shard;

/// Pairs that may wait on one stream. More are dropped, the newest first, and counted.
pub(crate) const PENDING: usize = 16_384;
/// Pairs that a stream takes at once from what its context has to spare, or has made where there are none.
pub(crate) const BATCH: usize = 32;

/// Whose time a pair measures: a row of a thread, in one window of the profiler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) shard: &'static Shard,
    pub(crate) row: u32,
    /// Number of the window in which the range was entered.
    pub(crate) window: u32,
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

/// What waits on one stream. With its lock, what each entry and exit touches is one cache line.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Queue {
    /// Events that are not in use: taken with the queue's lock, which an entry and an exit take once each.
    pub(crate) spare: Vec<Events>,
    pub(crate) pairs: Vec<Pair>,
    /// Starts that have been recorded and have no end yet.
    open: u32,
    /// How many have been taken and not been read: they are older than `pairs`.
    taken: u16,
    /// Whether `alive` holds the stream.
    is_held: bool,
    /// Whether what is wanted once a context is known.
    pub(crate) is_prepared: bool,
    /// Keeps the stream while anything is recorded on it that has not been read.
    alive: Option<Alive>,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(std::mem::offset_of!(Queue, alive) + size_of::<usize>() == 64, "with the lock before it");
    assert!(size_of::<Pair>() == 32, "two in a cache line");
    assert!(PENDING <= u16::MAX as usize);
};

/// The stream has been destroyed.
pub(crate) struct Gone;

impl Queue {
    /// One start more that waits for its end. Gives the events of the pair, if there are any to spare.
    #[inline]
    pub(crate) fn open(&mut self, stream: &NamedStream) -> Result<Option<Events>, Gone> {
        if !self.is_held {
            self.alive = Some(stream.hold().ok_or(Gone)?);
            self.is_held = true;
        }
        self.open += 1;
        if self.spare.is_empty() {
            self.take_spare(stream);
        }
        Ok(self.spare.pop())
    }

    #[inline(never)]
    fn take_spare(&mut self, stream: &NamedStream) {
        let mut all = stream.context.events.lock();
        let kept = all.len().saturating_sub(BATCH);
        self.spare.extend(all.drain(kept..));
    }

    /// One start fewer that waits for its end.
    pub(crate) fn close(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Pairs that are recorded and not read.
    pub(crate) fn waiting(&self) -> usize {
        self.pairs.len() + usize::from(self.taken)
    }

    /// What keeps the stream.
    pub(crate) fn alive(&self) -> Option<Alive> {
        self.alive.clone()
    }

    /// The hold on the stream, if nothing needs it any more: to be let go outside the lock. The events are then any stream's of the context.
    pub(crate) fn idle(&mut self, stream: &NamedStream) -> Option<Alive> {
        if self.open > 0 || self.waiting() > 0 {
            return None;
        }
        stream.context.events.lock().append(&mut self.spare);
        self.is_held = false;
        self.alive.take()
    }
}

/// Pairs that have been taken from a stream's queue, so that they are read without its lock. Whoever holds this one's lock reads.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    pairs: Vec<Pair>,
    /// How many of them have been read.
    next: usize,
    /// Pairs of the stream that have been read so far.
    pub(crate) read: u64,
    /// The most room that the queue ever needed: it is given as much again, so that whoever records allocates nothing.
    room: usize,
}

impl Taken {
    /// What is left to be read of what was taken.
    pub(crate) fn rest(&self) -> &[Pair] {
        self.pairs.get(self.next..).unwrap_or_default()
    }

    /// Takes what is in the queue, once what was taken before has been read.
    pub(crate) fn take(&mut self, stream: &NamedStream) {
        if !self.rest().is_empty() {
            return;
        }
        self.pairs.clear();
        self.next = 0;
        self.pairs.reserve(self.room);
        {
            let mut queue = stream.queue.lock();
            std::mem::swap(&mut queue.pairs, &mut self.pairs);
            queue.taken = u16::try_from(self.pairs.len()).unwrap_or(u16::MAX); // there are no more than `PENDING`
        }
        self.room = self.room.max(self.pairs.capacity());
    }

    /// Gives the events of the first `count` that were left back. Returns how many wait in the queue, and the hold on the stream if nothing
    /// needs it any more.
    pub(crate) fn give_back(&mut self, count: usize, stream: &NamedStream) -> (usize, Option<Alive>) {
        let read = self.rest().get(..count).unwrap_or_default();
        let mut queue = stream.queue.lock();
        queue.spare.extend(read.iter().map(|pair| pair.events));
        queue.taken = queue.taken.saturating_sub(u16::try_from(count).unwrap_or(u16::MAX));
        self.next += count;
        self.read += count as u64;
        (queue.pairs.len(), queue.idle(stream))
    }
}
