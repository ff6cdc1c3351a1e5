//! Stream times that have been read, of all threads.

use std::hash::{Hash, Hasher};

use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;

use super::row::Row;
use crate::budget::Budget;
use crate::gpu::StreamId;
use crate::record::RangeKey;
use crate::stats::Distribution;

/// A row of stream times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamKey {
    pub(crate) stream: StreamId,
    pub(crate) node: u32,
    pub(crate) range: RangeKey,
}

impl Hash for StreamKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Two words are enough: rows that differ in the style alone are rare, and still compared.
        state.write_u64(u64::from(self.stream) << 32 | u64::from(self.node));
        state.write_u64(u64::from(self.range.category) << 32 | u64::from(self.range.label));
    }
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

/// All rows. Behind a lock, taken where some pairs of events have been read.
#[derive(Debug, Default)]
pub(crate) struct StreamTimes(Mutex<StreamRows>);

/// Places of the cache from a key to its row.
const NEAR: usize = 32;

/// All rows, while the lock is held. A row is that of a thread, with whoever holds the lock for its owner: once warm it takes no memory
/// but for samples.
#[derive(Debug, Default)]
pub(crate) struct StreamRows {
    rows: Vec<StreamRow>,
    /// Which of `rows` is a key's.
    index: FxHashMap<StreamKey, usize>,
    /// Of the rows that were added to last, one a node: what hashes nothing.
    near: [usize; NEAR],
}

#[derive(Debug)]
struct StreamRow {
    key: StreamKey,
    times: Row,
    empty: u64,
    empty_ns: u128,
}

impl StreamRows {
    /// Adds the times of some instances of one row. Up to `floor` they are empty.
    #[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
    #[inline]
    pub(crate) fn add(&mut self, key: StreamKey, times: &[u64], floor: u64, budget: &Budget) {
        let near = key.node as usize % NEAR;
        let index = match self.near.get(near) {
            Some(&index) if self.rows.get(index).is_some_and(|row| row.key == key) => index,
            _ => self.find(key, near),
        };
        let Some(row) = self.rows.get_mut(index) else { return };
        for &ns in times {
            if ns <= floor {
                row.empty += 1;
                row.empty_ns += u128::from(ns);
            }
            if !row.times.add_near(ns, 0) {
                row.times.add(ns, 0, budget);
            }
        }
    }

    #[inline(never)]
    fn find(&mut self, key: StreamKey, near: usize) -> usize {
        let Self { rows, index, near: all_near } = self;
        let index = *index.entry(key).or_insert_with(|| {
            rows.push(StreamRow { key, times: Row::default(), empty: 0, empty_ns: 0 });
            rows.len() - 1
        });
        if let Some(last) = all_near.get_mut(near) {
            *last = index;
        }
        index
    }
}

impl StreamTimes {
    #[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
    pub(crate) fn lock(&self) -> MutexGuard<'_, StreamRows> {
        self.0.lock()
    }

    pub(crate) fn rows(&self) -> Vec<(StreamKey, StreamTime)> {
        let rows = self.0.lock();
        let used = rows.rows.iter().filter(|row| row.times.instances() > 0);
        used.map(|row| {
            (row.key, StreamTime { times: row.times.copy().times, empty: row.empty, empty_ns: row.empty_ns })
        })
        .collect()
    }

    /// Starts over for a new window, which `change` makes the profiler's while nothing can be added. Rows of the last one keep their memory for
    /// this one; those of none since give it back.
    pub(crate) fn clear(&self, budget: &Budget, change: impl FnOnce()) {
        let mut all = self.0.lock();
        change();
        let StreamRows { rows, index, .. } = &mut *all;
        rows.retain_mut(|row| {
            if row.times.instances() == 0 {
                budget.give_back(row.times.bytes());
                return false;
            }
            row.times.clear();
            (row.empty, row.empty_ns) = (0, 0);
            true
        });
        index.clear();
        index.extend(rows.iter().enumerate().map(|(place, row)| (row.key, place)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::RangeStyle;

    fn key(stream: StreamId, node: u32) -> StreamKey {
        StreamKey { stream, node, range: RangeKey { label: node, category: 0, style: RangeStyle::PushPop } }
    }

    #[test]
    fn a_row_is_the_sum_of_what_was_added() {
        let (times, budget) = (StreamTimes::default(), Budget::new(1 << 20));
        for number in 0..100 {
            times.lock().add(key(1, 2), &[1_000 + number], 1_002, &budget);
            times.lock().add(key(2, 2), &[5], 1_002, &budget);
        }
        let mut rows = times.rows();
        rows.sort_by_key(|(key, _)| key.stream);
        let [(_, first), (_, second)] = rows.as_slice() else { panic!("two rows are wanted: {rows:?}") };
        assert_eq!((first.times.count, first.times.total, first.empty, first.empty_ns), (100, 104_950, 3, 3_003));
        assert_eq!((first.times.min, first.times.max, second.empty), (1_000, 1_099, 100));
        assert!(first.times.median().is_some_and(|median| median.exact && median.lower == 1_049));
    }

    #[test]
    fn rows_that_meet_in_the_cache_stay_apart() {
        let (times, budget) = (StreamTimes::default(), Budget::new(1 << 20));
        let near = NEAR as u32;
        for round in 1..=10 {
            for (node, ns) in [(2, 10), (2 + near, 1_000), (2, 30), (2 + 2 * near, 5)] {
                times.lock().add(key(1, node), &[ns], 0, &budget);
            }
            let mut totals: Vec<_> = times.rows().iter().map(|(key, row)| (key.node, row.times.total)).collect();
            totals.sort_unstable();
            assert_eq!(totals, [(2, 40 * round), (2 + near, 1_000 * round), (2 + 2 * near, 5 * round)]);
        }
        times.clear(&budget, || ());
        times.lock().add(key(1, 2 + near), &[7], 0, &budget);
        assert_eq!(
            times.rows().iter().map(|(key, row)| (key.node, row.times.total)).collect::<Vec<_>>(),
            [(2 + near, 7)]
        );
    }

    #[test]
    fn windows_without_end_take_no_memory_without_end() {
        let (times, budget) = (StreamTimes::default(), Budget::new(4 * 16 * 8));
        for window in 0..100 {
            for stream in [0, window] {
                times.lock().add(key(stream, 1), &[7], 0, &budget);
            }
            assert!(times.rows().iter().all(|(_, row)| row.times.median().is_some()), "window {window}");
            times.clear(&budget, || ());
            assert!(times.rows().is_empty());
        }
        assert!(times.0.lock().rows.len() <= 2 && times.0.lock().index.len() <= 2);
    }
}
