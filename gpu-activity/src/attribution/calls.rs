//! Calls of the CUDA API, without those that the runtime makes of the driver.

use std::collections::{BTreeMap, VecDeque};

use super::totals::Function;
use crate::record::{Api, ApiCall};
use range_report::stats::Distribution;
use rustc_hash::FxHashSet;

/// Drains for which a driver call waits, and for which a call of the runtime is remembered before them.
const DRAINS: usize = 2;

/// A driver call that may turn out to be made by the runtime: the record of that comes after its own, since it ends
/// later.
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
    runtime: VecDeque<FxHashSet<u32>>,
}

impl Calls {
    /// At most `limit` calls are held, and as many remembered, a drain. Beyond, nested driver calls are counted.
    pub(super) fn new(limit: usize) -> Self {
        let (held, runtime) = (VecDeque::from([Vec::new()]), VecDeque::from([FxHashSet::default()]));
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

    /// A drain that counts is over: the driver calls that have waited long enough. One waits on while the last call of
    /// its thread has its id: the call of the runtime that it may be of is not over then.
    pub(super) fn drained(&mut self, running: &FxHashSet<u32>) -> Vec<Held> {
        let (mut over, mut waiting) = (Vec::new(), Vec::new());
        if self.held.len() >= DRAINS {
            over = self.held.pop_front().unwrap_or_default();
            over.retain(|held| !self.is_nested(held.correlation));
            (waiting, over) = over.into_iter().partition(|held| running.contains(&held.correlation));
        }
        if self.runtime.len() > DRAINS {
            self.runtime.pop_front();
        }
        self.held.push_back(waiting);
        self.runtime.push_back(FxHashSet::default());
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
