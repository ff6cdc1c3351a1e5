//! The measurements on streams, for one profiler.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use gpu_activity::driver::CudaError;
use parking_lot::{Mutex, MutexGuard};
use range_model::stats::{Distribution, Keyed, Lean};

use crate::clock::Ticks;
use crate::core::budget::Budget;
use crate::core::record::RangeKey;
use crate::core::samples::Samples;
use crate::parts::streams::StreamId;

/// Stream, node and range of a row of stream times.
pub(crate) type StreamRowKey = (StreamId, u32, RangeKey);

/// A row of stream times: its stream, node and range.
pub(crate) type StreamRow = (StreamId, u32, RangeKey, StreamTime);

/// Times on a stream, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamTime {
    pub(crate) times: Distribution,
    /// Instances whose two events have nothing between them.
    pub(crate) empty: u64,
    /// Summed readings of those instances: the time of an empty pair.
    pub(crate) empty_ns: u128,
}

impl StreamTime {
    /// What came since `before`, an earlier copy without its single times; then `before` is this copy.
    pub(crate) fn since(self, before: &mut Self) -> Self {
        let Self { times, empty, empty_ns } = self;
        let times = times.since_mark(&mut before.times);
        Self {
            times,
            empty: empty.saturating_sub(std::mem::replace(&mut before.empty, empty)),
            empty_ns: empty_ns.saturating_sub(std::mem::replace(&mut before.empty_ns, empty_ns)),
        }
    }
}

/// The stream times of one profiler's window, and its losses. Lives as long as the process.
#[derive(Debug)]
#[repr(align(64))] // so that their lock shares no cache line with the fields of the profiler that callbacks read
pub(crate) struct StreamTotals {
    /// Start of the profiler's window. Changes while `rows` are locked.
    window: AtomicU64,
    pub(crate) losses: EventLosses,
    rows: Mutex<StreamRows>,
    /// Memory for single times.
    pub(crate) budget: Arc<Budget>,
}

impl StreamTotals {
    pub(crate) fn new(window: Ticks, budget: Arc<Budget>) -> Self {
        Self { window: AtomicU64::new(window), losses: EventLosses::default(), rows: Mutex::default(), budget }
    }

    /// Start of the profiler's window.
    pub(crate) fn window(&self) -> Ticks {
        self.window.load(Relaxed)
    }

    /// Locks the rows. A span's callback does so only to add pairs that it has read.
    pub(crate) fn lock(&self) -> MutexGuard<'_, StreamRows> {
        self.rows.lock()
    }

    /// All rows of the window, with single times from the number on that `first` gives for a row.
    pub(crate) fn rows(&self, first: &dyn Fn(&StreamRowKey) -> u64) -> Vec<StreamRow> {
        let rows = self.lock();
        let used = rows.rows.iter().filter(|row| row.time.times.count > 0);
        used.map(|row| {
            let (StreamKey { stream, node, range }, mut time) = (row.key, row.time.clone());
            row.samples.copy_into(first(&(stream, node, range))..time.times.count, &mut time.times);
            (stream, node, range, time)
        })
        .in_vec()
    }

    /// Begins a new window. Rows that the last window used keep their memory; the others return it.
    pub(crate) fn restart(&self, window: Ticks) {
        self.losses.clear();
        let mut all = self.lock();
        self.window.store(window, Relaxed);
        let StreamRows { rows, index, .. } = &mut *all;
        rows.retain_mut(|row| row.restart(&self.budget));
        *index = rows.iter().enumerate().map(|(place, row)| (row.key, place)).collect();
    }
}

#[cfg(test)]
impl StreamTotals {
    /// The totals of one more profiler.
    pub(crate) fn leak() -> &'static Self {
        Box::leak(Box::new(Self::new(0, Arc::new(Budget::new(0)))))
    }

    /// The totals of the profiler that most tests use.
    pub(crate) fn shared() -> &'static Self {
        static SHARED: std::sync::OnceLock<&StreamTotals> = std::sync::OnceLock::new();
        SHARED.get_or_init(Self::leak)
    }
}

/// How many entries, exits and pairs were lost in the window, by reason.
#[derive(Debug, Default)]
pub(crate) struct EventLosses {
    /// Entries or exits during a capture of their stream.
    pub(crate) captured: AtomicU64,
    /// Entries or exits on a destroyed stream, or refused by the driver.
    pub(crate) refused: AtomicU64,
    /// Pairs beyond the limit on waiting pairs.
    pub(crate) dropped: AtomicU64,
    /// Pairs that could not be read: their context failed or is gone.
    pub(crate) unreadable: AtomicU64,
    /// The driver's last error for `refused` or `unreadable`; 0 for none.
    pub(crate) last_error: AtomicI32,
}

impl EventLosses {
    fn clear(&self) {
        for counter in [&self.captured, &self.refused, &self.dropped, &self.unreadable] {
            counter.store(0, Relaxed);
        }
        self.last_error.store(0, Relaxed);
    }

    /// Counts an event that was not recorded, because of this error or, without one, because the stream captures.
    pub(crate) fn count_unrecorded(&self, error: Option<CudaError>) {
        match error {
            Some(error) => self.count(&self.refused, error),
            None => _ = self.captured.fetch_add(1, Relaxed),
        }
    }

    /// Counts a pair that could not be read.
    pub(crate) fn count_unreadable(&self, error: CudaError) {
        self.count(&self.unreadable, error);
    }

    fn count(&self, counter: &AtomicU64, error: CudaError) {
        counter.fetch_add(1, Relaxed);
        self.last_error.store(error.0, Relaxed);
    }
}

/// The identity of a pair's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamKey {
    pub(crate) stream: StreamId,
    pub(crate) node: u32,
    pub(crate) range: RangeKey,
}

impl Hash for StreamKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Two words are enough for the hash: rows that differ only in style are rare, and `Eq` compares it.
        state.write_u64(u64::from(self.stream) << 32 | u64::from(self.node));
        state.write_u64(u64::from(self.range.category) << 32 | u64::from(self.range.label));
    }
}

/// Size of the cache from keys to rows.
const NEAR: usize = 32;

/// All rows. Adding to warm rows allocates nothing but samples.
#[derive(Debug, Default)]
pub(crate) struct StreamRows {
    rows: Vec<TotalsRow>,
    /// Index in `rows` by key.
    index: Keyed<StreamKey, usize>,
    /// The rows that were used last, by node, which are found without hashing.
    near: [usize; NEAR],
}

#[derive(Debug)]
struct TotalsRow {
    key: StreamKey,
    /// All figures but the single times in `samples`.
    time: StreamTime,
    samples: Samples,
}

impl StreamRows {
    /// Adds the times of some instances of one row. Times up to `floor` count as empty.
    #[inline]
    pub(crate) fn add(&mut self, key: StreamKey, times: &[u64], floor: u64, budget: &Budget) {
        let near = key.node as usize % NEAR;
        let index = match self.near.get(near) {
            Some(&index) if self.rows.get(index).is_some_and(|row| row.key == key) => index,
            _ => self.find(key, near),
        };
        if let Some(row) = self.rows.get_mut(index) {
            times.iter().for_each(|&ns| row.add(ns, floor, budget));
        }
    }

    #[inline(never)]
    fn find(&mut self, key: StreamKey, near: usize) -> usize {
        let Self { rows, index, near: all_near } = self;
        let index = *index.row_or(key, || {
            rows.push(TotalsRow { key, time: StreamTime::default(), samples: Samples::default() });
            rows.len() - 1
        });
        if let Some(last) = all_near.get_mut(near) {
            *last = index;
        }
        index
    }
}

impl TotalsRow {
    /// Removes its times; false if it had none.
    #[inline(never)]
    fn restart(&mut self, budget: &Budget) -> bool {
        if self.time.times.count == 0 {
            budget.give_back(self.samples.bytes());
            return false;
        }
        self.samples.clear();
        self.time = StreamTime::default();
        true
    }

    #[inline]
    fn add(&mut self, ns: u64, floor: u64, budget: &Budget) {
        let StreamTime { times, empty, empty_ns } = &mut self.time;
        if ns <= floor {
            *empty += 1;
            *empty_ns += u128::from(ns);
        }
        self.samples.keep(times.count, ns, budget);
        times.min = if times.count == 0 { ns } else { times.min.min(ns) };
        times.max = times.max.max(ns);
        times.count += 1;
        times.total += u128::from(ns);
        times.squares = times.squares.saturating_add(u128::from(ns) * u128::from(ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use range_model::RangeStyle;
    use range_model::stats::Distribution;

    fn totals(budget: usize) -> StreamTotals {
        StreamTotals::new(0, Arc::new(Budget::new(budget)))
    }

    fn add(to: &StreamTotals, stream: StreamId, node: u32, ns: u64, floor: u64) {
        let range = RangeKey { label: node, category: 0, style: RangeStyle::PushPop };
        to.lock().add(StreamKey { stream, node, range }, &[ns], floor, &to.budget);
    }

    #[test]
    fn a_row_is_the_sum_of_what_was_added() {
        let all = totals(1 << 20);
        for number in 0..100 {
            add(&all, 1, 2, 1_000 + number, 1_002);
            add(&all, 2, 2, 5, 1_002);
        }
        let mut rows = all.rows(&|_| 0);
        rows.sort_by_key(|&(stream, ..)| stream);
        let [(.., first), (.., second)] = rows.as_slice() else { panic!("two rows are wanted: {rows:?}") };
        assert_eq!((first.times.count, first.times.total, first.empty, first.empty_ns), (100, 104_950, 3, 3_003));
        assert_eq!((first.times.min, first.times.max, second.empty), (1_000, 1_099, 100));
        assert!(first.times.median().is_some_and(|median| median.exact && median.lower == 1_049));
        assert_eq!(first.times, Distribution::of(1_000..1_100));
    }

    #[test]
    fn rows_that_meet_in_the_cache_stay_apart() {
        let (all, near) = (totals(1 << 20), NEAR as u32);
        let shown = || {
            let mut shown: Vec<_> = all.rows(&|_| 0).iter().map(|(_, node, _, row)| (*node, row.times.total)).collect();
            shown.sort_unstable();
            shown
        };
        for round in 1..=10 {
            for (node, ns) in [(2, 10), (2 + near, 1_000), (2, 30), (2 + 2 * near, 5)] {
                add(&all, 1, node, ns, 0);
            }
            assert_eq!(shown(), [(2, 40 * round), (2 + near, 1_000 * round), (2 + 2 * near, 5 * round)]);
        }
        all.restart(1);
        add(&all, 1, 2 + near, 7, 0);
        assert_eq!(shown(), [(2 + near, 7)]);
    }

    #[test]
    fn windows_without_end_take_no_memory_without_end() {
        let all = totals(4 * 16 * 8);
        for window in 0..100 {
            for stream in [0, window] {
                add(&all, stream, 1, 7, 0);
            }
            assert!(all.rows(&|_| 0).iter().all(|(.., row)| row.times.median().is_some()), "window {window}");
            all.restart(u64::from(window));
            assert!(all.rows(&|_| 0).is_empty());
        }
        assert!(all.lock().rows.len() <= 2 && all.lock().index.len() <= 2);
    }
}
