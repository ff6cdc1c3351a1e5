//! Leaves out driver calls inside calls of the runtime.
//!
//! The runtime's call ends after its driver calls, so its record arrives after theirs. A driver call therefore waits
//! until that record must have arrived.

use std::collections::VecDeque;

use super::pending::Pending;
use crate::fold::MadeCall;
use crate::record::{Api, ApiCall};
use range_model::stats::{Keyed, Lean};

/// A driver call waits for this many drains, and a call of the runtime is remembered for as many.
const DRAINS: usize = 2;

/// Waiting driver calls, and calls of the runtime that may have made them and are not remembered elsewhere.
#[derive(Debug)]
pub(super) struct NestedCalls {
    limit: usize,
    /// Waiting driver calls, one list per drain.
    waiting: VecDeque<Vec<MadeCall>>,
    /// Ids of calls of the runtime, one set per drain.
    runtime: VecDeque<Keyed<u32, ()>>,
}

impl NestedCalls {
    /// At most `limit` calls wait, and per drain at most `limit` calls of the runtime are remembered. Beyond, driver
    /// calls count earlier, or although they were nested.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, waiting: VecDeque::from([Vec::new()]), runtime: VecDeque::from([Keyed::default()]) }
    }

    /// Remembers a call of the runtime that nobody noted.
    pub(super) fn remember(&mut self, call: &ApiCall) {
        let Some(now) = self.runtime.back_mut().filter(|now| now.len() < self.limit) else { return };
        now.insert(call.correlation, ());
    }

    /// Whether this is a driver call that the runtime is known to have made.
    pub(super) fn leaves_out(&self, call: &ApiCall, pending: &Pending) -> bool {
        call.api == Api::Driver && is_nested(&self.runtime, pending, call.correlation)
    }

    /// Lets a driver call wait. At the limit, returns calls that wait no longer: those of earlier drains, and the older
    /// half of this one's. The runtime's call around a driver call follows soon, unless it still runs.
    pub(super) fn hold(&mut self, made: MadeCall, pending: &Pending) -> Vec<MadeCall> {
        let Self { limit, waiting, runtime } = self;
        waiting.back_mut().into_iter().for_each(|now| now.push(made));
        if waiting.iter().map(Vec::len).sum::<usize>() <= *limit {
            return Vec::new();
        }
        waiting.iter_mut().for_each(|calls| calls.retain(|made| !is_nested(runtime, pending, made.call.correlation)));
        if waiting.iter().map(Vec::len).sum::<usize>() <= *limit / 2 {
            return Vec::new();
        }
        let running = pending.running();
        let kept = waiting.back().map_or(0, |now| now.len() / 2);
        let mut old: Vec<MadeCall> = waiting.iter_mut().flat_map(std::mem::take).in_vec();
        let new = old.split_off(old.len() - kept);
        let (still, over): (Vec<_>, _) = old.into_iter().partition(|made| running.contains_key(&made.call.correlation));
        waiting.back_mut().into_iter().for_each(|now| now.extend(still.iter().chain(&new)));
        over
    }

    /// Ends a counting drain: returns driver calls that have waited long enough. A driver call keeps waiting while its
    /// id is that of the last call of its thread, because the runtime's call around it may not have ended.
    pub(super) fn drained(&mut self, pending: &Pending) -> Vec<MadeCall> {
        let Self { waiting, runtime, .. } = self;
        // All of them, because the calls that nest them may be forgotten before the next drain.
        waiting.iter_mut().for_each(|calls| calls.retain(|made| !is_nested(runtime, pending, made.call.correlation)));
        let oldest = if waiting.len() < DRAINS { None } else { waiting.pop_front() };
        let running = pending.running();
        let (still, over) = oldest.into_iter().flatten().partition(|made| running.contains_key(&made.call.correlation));
        if self.runtime.len() > DRAINS {
            self.runtime.pop_front();
        }
        self.waiting.push_back(still);
        self.runtime.push_back(Keyed::default());
        over
    }

    /// Waiting driver calls, without known nested ones.
    pub(super) fn waiting(&self, pending: &Pending) -> impl Iterator<Item = &MadeCall> {
        self.waiting.iter().flatten().filter(|made| !is_nested(&self.runtime, pending, made.call.correlation))
    }

    /// Takes the waiting driver calls.
    pub(super) fn take_waiting(&mut self, pending: &Pending) -> Vec<MadeCall> {
        let waiting = self.waiting(pending).copied().in_vec();
        self.waiting.iter_mut().for_each(Vec::clear);
        waiting
    }

    /// Begins a new window: waiting calls belong to the old one. Calls of the runtime are still remembered, for driver
    /// calls that arrive later.
    pub(super) fn clear(&mut self) {
        self.waiting.iter_mut().flatten().for_each(|made| made.of_window = false);
    }
}

/// Whether the record of a call of the runtime with this id has arrived.
fn is_nested(runtime: &VecDeque<Keyed<u32, ()>>, pending: &Pending, correlation: u32) -> bool {
    pending.is_of_runtime(correlation) || runtime.iter().any(|drain| drain.contains_key(&correlation))
}
