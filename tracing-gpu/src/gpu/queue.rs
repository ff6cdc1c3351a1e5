//! Pairs of events that are recorded and not yet read, one queue a stream, in stream order.

use std::collections::VecDeque;

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

/// What waits on one stream.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) pairs: VecDeque<Pair>,
    /// Events that are not in use: taken with the queue's lock, which an entry and an exit take once each.
    pub(crate) spare: Vec<Events>,
    /// Starts that have been recorded and have no end yet.
    open: usize,
    /// Keeps the stream while anything is recorded on it that has not been read.
    alive: Option<Alive>,
    /// Ends recorded so far: some of them are a reason to look which have finished.
    ends: u64,
}

/// The stream has been destroyed.
pub(crate) struct Gone;

impl Queue {
    /// One start more that waits for its end. Gives the events of the pair, if there are any to spare.
    pub(crate) fn open(&mut self, stream: &NamedStream) -> Result<Option<Events>, Gone> {
        if self.alive.is_none() {
            self.alive = Some(stream.hold().ok_or(Gone)?);
        }
        self.open += 1;
        if self.spare.is_empty() {
            let mut all = stream.context.events.lock();
            let kept = all.len().saturating_sub(BATCH);
            self.spare.extend(all.drain(kept..));
        }
        Ok(self.spare.pop())
    }

    /// One start fewer that waits for its end.
    pub(crate) fn close(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// [`close`](Self::close) with an end that was recorded. Returns how many there have been.
    pub(crate) fn end(&mut self) -> u64 {
        self.close();
        self.ends += 1;
        self.ends
    }

    /// What keeps the stream.
    pub(crate) fn alive(&self) -> Option<Alive> {
        self.alive.clone()
    }

    /// The hold on the stream, if nothing needs it any more: to be let go outside the lock. The events are then any stream's of the context.
    pub(crate) fn idle(&mut self, stream: &NamedStream) -> Option<Alive> {
        if self.open > 0 || !self.pairs.is_empty() {
            return None;
        }
        stream.context.events.lock().append(&mut self.spare);
        self.alive.take()
    }
}
