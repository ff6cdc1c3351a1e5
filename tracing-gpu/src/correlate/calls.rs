//! Calls of the CUDA API, without those that the runtime makes of the driver.

use std::collections::{BTreeMap, VecDeque};

use super::hash::Correlations;
use super::totals::Function;
use crate::activity::{Api, ApiCall};
use crate::stats::Distribution;

/// Drains for which a driver call waits, and for which a call of the runtime is remembered before them.
const DRAINS: usize = 2;

/// A driver call that may turn out to be made by the runtime: the record of that comes after its own, since it ends later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) function: Function,
    pub(super) duration: u64,
    correlation: u32,
    /// Node of its note.
    pub(super) node: Option<u32>,
}

/// A table of calls, and what is needed to leave out nested ones.
#[derive(Debug)]
pub(super) struct Calls {
    limit: usize,
    pub(super) table: BTreeMap<Function, Distribution>,
    /// Driver calls of this drain and of those before.
    held: VecDeque<Vec<Held>>,
    /// Ids of calls of the runtime, likewise.
    runtime: VecDeque<Correlations>,
}

impl Calls {
    /// At most `limit` calls are held, and as many remembered, a drain. Beyond, nested driver calls are counted.
    pub(super) fn new(limit: usize) -> Self {
        let (held, runtime) = (VecDeque::from([Vec::new()]), VecDeque::from([Correlations::default()]));
        Self { limit, table: BTreeMap::new(), held, runtime }
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

    /// Holds a driver call. Whether there was room.
    pub(super) fn hold(&mut self, call: &ApiCall, duration: u64, node: Option<u32>) -> bool {
        let Some(now) = self.held.back_mut().filter(|now| now.len() < self.limit) else { return false };
        now.push(Held { function: (call.api, call.function), duration, correlation: call.correlation, node });
        true
    }

    /// Whether so many came in this drain that it should be over soon.
    pub(super) fn is_crowded(&self) -> bool {
        let crowded = |count: usize| count > self.limit / 2;
        self.held.back().is_some_and(|now| crowded(now.len()))
            || self.runtime.back().is_some_and(|now| crowded(now.len()))
    }

    /// A drain is over: the driver calls that have waited long enough.
    pub(super) fn drained(&mut self) -> Vec<Held> {
        let mut over = Vec::new();
        if self.held.len() >= DRAINS {
            over = self.held.pop_front().unwrap_or_default();
            over.retain(|held| !self.is_nested(held.correlation));
        }
        if self.runtime.len() > DRAINS {
            self.runtime.pop_front();
        }
        self.held.push_back(Vec::new());
        self.runtime.push_back(Correlations::default());
        over
    }

    /// Driver calls that wait, without those that are known to be nested.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Held> {
        self.held.iter().flatten().filter(|held| !self.is_nested(held.correlation))
    }

    /// A new window. Calls of the runtime are still remembered, for driver calls that come after them.
    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.held.iter_mut().for_each(Vec::clear);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::correlate::tests::{KEEP, api, attribution, called};

    /// A call of the runtime that lasts long, while another thread makes so many that rounds come early.
    #[test]
    fn a_driver_call_waits_for_its_runtime_call_as_long_in_rounds_that_come_early() {
        let mut all = attribution(100, 100);
        all.notes(&[called(1, 2, 0)]);
        all.call(&api(Api::Driver, 1, 12, 18), &KEEP);
        (0..10).for_each(|_| all.round_over(&KEEP, false));
        all.call(&api(Api::Runtime, 1, 10, 20), &KEEP);
        (0..4).for_each(|_| all.round_over(&KEEP, true));
        let counted: Vec<_> = all.totals(100).calls.into_iter().collect();
        assert_eq!(counted, [((Api::Runtime, 1), Distribution::of([10]))]);
    }

    #[test]
    fn rounds_in_which_many_came_are_enough() {
        let mut all = attribution(10, 100);
        for id in 0..30 {
            all.call(&api(Api::Driver, id, 12, 18), &KEEP);
            if id % 6 == 5 {
                all.round_over(&KEEP, false);
            }
        }
        assert_eq!(all.calls.table[&(Api::Driver, 1)].count, 24, "those of the last round wait");
    }
}
