//! Pairs of events that are recorded and not yet read, one queue a stream, in stream order.

use std::collections::VecDeque;

use super::driver::Handle;
use super::streams::Alive;
use crate::collect::core::Core;
use crate::record::RangeKey;

/// Pairs that may wait on one stream. More are dropped, the newest first, and counted.
pub(crate) const PENDING: usize = 16_384;

/// Whose time a pair measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) core: &'static Core,
    pub(crate) node: u32,
    pub(crate) key: RangeKey,
    /// Window of the profiler in which the range was entered.
    pub(crate) window: u64,
}

/// Two events around one instance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pair {
    pub(crate) start: Handle,
    pub(crate) end: Handle,
    pub(crate) target: Target,
}

/// What waits on one stream.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) pairs: VecDeque<Pair>,
    /// Starts that have been recorded and have no end yet.
    pub(crate) open: usize,
    /// Keeps the stream while anything is recorded on it that has not been read.
    pub(crate) alive: Option<Alive>,
    /// Ends recorded so far: some of them are a reason to look which have finished.
    pub(crate) ends: u64,
}

impl Queue {
    /// The hold on the stream, if nothing needs it any more. To be dropped outside the lock.
    pub(crate) fn idle(&mut self) -> Option<Alive> {
        if self.open == 0 && self.pairs.is_empty() { self.alive.take() } else { None }
    }
}
