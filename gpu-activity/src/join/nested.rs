//! The rule for driver calls inside calls of the runtime: they are left out.
//!
//! The record of the runtime's call comes after those of its driver calls, since it ends later. So a driver call waits
//! until that record must have come.

use std::collections::VecDeque;

use super::event::MadeCall;
use crate::record::{Api, ApiCall};
use rustc_hash::FxHashSet;

/// Drains for which a driver call waits, and for which a call of the runtime is remembered before them.
const DRAINS: usize = 2;

/// Driver calls that wait, and the calls of the runtime that they may be made by.
#[derive(Debug)]
pub(super) struct NestedCalls {
    limit: usize,
    /// Driver calls of this drain and of those before.
    waiting: VecDeque<Vec<MadeCall>>,
    /// Ids of calls of the runtime, likewise.
    runtime: VecDeque<FxHashSet<u32>>,
}

impl NestedCalls {
    /// At most `limit` calls wait, and as many are remembered, a drain. Beyond, nested driver calls are counted.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, waiting: VecDeque::from([Vec::new()]), runtime: VecDeque::from([FxHashSet::default()]) }
    }

    /// Remembers that this is a call of the runtime, if it is.
    pub(super) fn remember(&mut self, call: &ApiCall) {
        let Some(now) = self.runtime.back_mut().filter(|now| now.len() < self.limit) else { return };
        if call.api == Api::Runtime {
            now.insert(call.correlation);
        }
    }

    fn is_nested(&self, correlation: u32) -> bool {
        self.runtime.iter().any(|drain| drain.contains(&correlation))
    }

    /// Whether this is a driver call that is known to be made by the runtime.
    pub(super) fn leaves_out(&self, call: &ApiCall) -> bool {
        call.api == Api::Driver && self.is_nested(call.correlation)
    }

    /// Has a driver call wait. Whether there was room.
    pub(super) fn hold(&mut self, made: MadeCall) -> bool {
        let Some(now) = self.waiting.back_mut().filter(|now| now.len() < self.limit) else { return false };
        now.push(made);
        true
    }

    /// A drain that counts is over: the driver calls that have waited long enough. One waits on while the last call of
    /// its thread has its id: the call of the runtime that it may be of is not over then.
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

    /// Driver calls that wait, without those that are known to be nested.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &MadeCall> {
        self.waiting.iter().flatten().filter(|made| !self.is_nested(made.call.correlation))
    }

    /// Takes them.
    pub(super) fn take_waiting(&mut self) -> Vec<MadeCall> {
        let waiting = self.waiting().copied().collect();
        self.waiting.iter_mut().for_each(Vec::clear);
        waiting
    }

    /// A new window: what waits is of the one before. Calls of the runtime are still remembered, for driver calls that
    /// come after them.
    pub(super) fn clear(&mut self) {
        self.waiting.iter_mut().flatten().for_each(|made| made.counts = false);
    }
}
