//! Stream times that have been read, of all threads.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::samples::{Budget, KEPT};
use crate::gpu::StreamId;
use crate::record::RangeKey;
use crate::stats::Distribution;

/// A row of stream times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct StreamKey {
    pub(crate) stream: StreamId,
    pub(crate) node: u32,
    pub(crate) range: RangeKey,
}

/// Times of one row, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamTime {
    pub(crate) times: Distribution,
    /// Instances that read no more than two events with nothing between them.
    pub(crate) empty: u64,
    /// What those read together: the time of nothing.
    pub(crate) empty_ns: u128,
}

/// All rows. Behind a lock, taken where pairs of events are read: away from entries and exits.
#[derive(Debug, Default)]
pub(crate) struct StreamTimes(Mutex<HashMap<StreamKey, StreamTime>>);

impl StreamTimes {
    #[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
    pub(crate) fn add(&self, key: StreamKey, ns: u64, is_empty: bool, budget: &Budget) {
        let mut rows = self.0.lock();
        let row = rows.entry(key).or_default();
        if is_empty {
            row.empty += 1;
            row.empty_ns += u128::from(ns);
        }
        row.times.add(ns, |kept| kept < KEPT && budget.covers(kept));
    }

    pub(crate) fn rows(&self) -> Vec<(StreamKey, StreamTime)> {
        self.0.lock().iter().map(|(key, time)| (*key, time.clone())).collect()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}
