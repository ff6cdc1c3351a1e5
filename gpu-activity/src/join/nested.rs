//! Leaves out driver calls inside calls of the runtime.
//!
//! The runtime's call ends after its driver calls, so its record arrives after theirs. A driver call therefore waits
//! until that record must have arrived.

use std::collections::VecDeque;

use crate::fold::MadeCall;
use crate::record::{Api, ApiCall};
use rustc_hash::FxHashSet;

/// A driver call waits for this many drains, and a call of the runtime is remembered for as many.
const DRAINS: usize = 2;

/// Waiting driver calls, and calls of the runtime that may have made them.
#[derive(Debug)]
pub(super) struct NestedCalls {
    limit: usize,
    /// Waiting driver calls, one list per drain.
    waiting: VecDeque<Vec<MadeCall>>,
    /// Ids of calls of the runtime, one set per drain.
    runtime: VecDeque<FxHashSet<u32>>,
}

impl NestedCalls {
    /// Per drain, at most `limit` calls wait, and at most `limit` are remembered. Beyond, nested driver calls are
    /// counted.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, waiting: VecDeque::from([Vec::new()]), runtime: VecDeque::from([FxHashSet::default()]) }
    }

    fn is_nested(&self, correlation: u32) -> bool {
        self.runtime.iter().any(|drain| drain.contains(&correlation))
    }

    /// Whether this is a driver call that the runtime is known to have made. Remembers a call of the runtime.
    pub(super) fn leaves_out(&mut self, call: &ApiCall) -> bool {
        if call.api == Api::Driver {
            return self.is_nested(call.correlation);
        }
        if let Some(now) = self.runtime.back_mut().filter(|now| now.len() < self.limit) {
            now.insert(call.correlation);
        }
        false
    }

    /// Lets a driver call wait. Returns whether there was room.
    pub(super) fn hold(&mut self, made: MadeCall) -> bool {
        let Some(now) = self.waiting.back_mut().filter(|now| now.len() < self.limit) else { return false };
        now.push(made);
        true
    }

    /// Ends a counting drain: returns driver calls that have waited long enough. A driver call keeps waiting while its
    /// id is that of the last call of its thread, because the runtime's call around it may not have ended.
    pub(super) fn drained(&mut self, running: &FxHashSet<u32>) -> Vec<MadeCall> {
        let (mut over, mut still) = (Vec::new(), Vec::new());
        if self.waiting.len() >= DRAINS {
            over = self.waiting.pop_front().unwrap_or_default();
            over.retain(|made| !self.is_nested(made.call.correlation));
            (still, over) = over.into_iter().partition(|made| running.contains(&made.call.correlation));
        }
        if self.runtime.len() > DRAINS {
            self.runtime.pop_front();
        }
        self.waiting.push_back(still);
        self.runtime.push_back(FxHashSet::default());
        over
    }

    /// Waiting driver calls, without known nested ones.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &MadeCall> {
        self.waiting.iter().flatten().filter(|made| !self.is_nested(made.call.correlation))
    }

    /// Takes the waiting driver calls.
    pub(super) fn take_waiting(&mut self) -> Vec<MadeCall> {
        let waiting = self.waiting().copied().collect();
        self.waiting.iter_mut().for_each(Vec::clear);
        waiting
    }

    /// Begins a new window: waiting calls belong to the old one. Calls of the runtime are still remembered, for driver
    /// calls that arrive later.
    pub(super) fn clear(&mut self) {
        self.waiting.iter_mut().flatten().for_each(|made| made.of_window = false);
    }
}
