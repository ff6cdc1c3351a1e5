//! The durations of one row on one thread: single durations up to a bound, then histogram pages.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use once_cell::sync::OnceCell;
use range_model::stats::Distribution;
use range_model::stats::histogram::{BUCKETS, OCTAVES, bucket_of};

use crate::core::budget::Budget;
use crate::sync::{AtomicU64, AtomicUsize, Mutex};

/// Chunk `c` ends at `16 << 2c` durations; the last one at 16,384.
const CHUNKS: usize = 6;
const FIRST_CHUNK: usize = 16;
/// The number of single durations that a row keeps on each thread.
pub(crate) const KEPT: u64 = (FIRST_CHUNK as u64) << (2 * (CHUNKS - 1));

/// Written by the thread that owns the row, read by the one that takes a summary. Its memory is never freed: rows live
/// as long as the process.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Samples {
    /// The chunk for the next duration, and the number of its first duration: they save the fast path the arithmetic of
    /// `place`, and change only when a chunk is full.
    chunk: AtomicUsize,
    chunk_start: AtomicU64,
    chunks: [OnceCell<&'static [AtomicU64]>; CHUNKS],
    pages: OnceCell<Box<Pages>>,
}

#[derive(Debug)]
struct Pages {
    octaves: [OnceCell<&'static Page>; OCTAVES],
    /// The buckets whose counters wrapped around: one entry for each 2^32 durations.
    full: Mutex<Vec<(usize, usize)>>,
}

/// The counters of an octave.
type Page = [AtomicU32; BUCKETS];

impl Pages {
    #[inline]
    fn page(&self, octave: usize) -> Option<&Page> {
        self.octaves.get(octave)?.get().copied()
    }

    #[inline]
    fn count(&self, page: &Page, octave: usize, bucket: usize) {
        let counter = &page[bucket % BUCKETS];
        match counter.load(Relaxed).checked_add(1) {
            Some(count) => counter.store(count, Relaxed),
            None => self.begin_again(counter, octave, bucket),
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_again(&self, counter: &AtomicU32, octave: usize, bucket: usize) {
        let mut full = self.full.lock(); // a reader sees either the old counter or the entry in `full`
        full.push((octave, bucket));
        counter.store(0, Relaxed);
    }
}

impl Samples {
    /// Where duration number `index` of the row is kept, if there is memory for it already.
    #[inline]
    fn slot(&self, index: u64) -> Option<&AtomicU64> {
        let offset = index.wrapping_sub(self.chunk_start.load(Relaxed));
        self.chunks.get(self.chunk.load(Relaxed))?.get()?.get(offset as usize)
    }

    /// Keeps duration number `index` of the row. Sometimes allocates a chunk or a page. When the budget is spent the
    /// duration is not kept, and the median of the row is unknown from then on.
    #[inline]
    pub(crate) fn keep(&self, index: u64, duration: u64, budget: &Budget) {
        if index >= KEPT {
            self.count_all(std::iter::once(duration), budget);
        } else if let Some(slot) = self.slot(index) {
            slot.store(duration, Relaxed);
        } else {
            self.keep_in_new(index, duration, budget);
        }
    }

    /// [`keep`](Self::keep) of several, from number `index` on.
    #[inline]
    pub(crate) fn keep_all(&self, index: u64, durations: impl Iterator<Item = u64>, budget: &Budget) {
        if index >= KEPT {
            return self.count_all(durations, budget);
        }
        for (index, duration) in (index..).zip(durations) {
            self.keep(index, duration, budget);
        }
    }

    /// Counts durations that are beyond those kept one by one. Those of one row are mostly of one octave, whose page is
    /// looked up once.
    #[inline]
    fn count_all(&self, durations: impl Iterator<Item = u64>, budget: &Budget) {
        let (mut pages, mut octave, mut page) = (self.pages.get(), OCTAVES, None);
        for duration in durations {
            let (other, bucket) = bucket_of(duration);
            if other != octave {
                (octave, page) = (other, pages.and_then(|pages| pages.page(other)));
            }
            match pages.zip(page) {
                Some((pages, page)) => pages.count(page, octave, bucket),
                None => {
                    self.count(duration, budget);
                    (pages, octave) = (self.pages.get(), OCTAVES); // its page may exist now
                }
            }
        }
    }

    #[inline(never)]
    fn keep_in_new(&self, index: u64, duration: u64, budget: &Budget) {
        if index < KEPT {
            let (chunk, offset) = place(index);
            self.chunk.store(chunk, Relaxed);
            self.chunk_start.store(index - offset as u64, Relaxed);
            if let Some(cell) = self.chunks.get(chunk) {
                let length = if chunk == 0 { FIRST_CHUNK } else { (FIRST_CHUNK * 3) << (2 * (chunk - 1)) };
                let (owner, memory) = (std::ptr::from_ref(self).addr(), budget.memory());
                let kept = || memory.and_then(|memory| memory.chunk(owner, chunk, length));
                let new = || kept().unwrap_or_else(|| Box::leak(empty_samples(length)));
                let samples = cell.get_or_try_init(|| budget.take(length * 8).map(|()| new()));
                if let Some(slot) = samples.ok().and_then(|samples| samples.get(offset)) {
                    slot.store(duration, Relaxed);
                    return;
                }
            }
        }
        self.count(duration, budget);
    }

    #[inline(never)]
    fn count(&self, duration: u64, budget: &Budget) {
        let (octave, bucket) = bucket_of(duration);
        let pages = self.pages.get_or_try_init(|| {
            let new = || Pages { octaves: [const { OnceCell::new() }; OCTAVES], full: Mutex::default() };
            budget.take(size_of::<Pages>()).map(|()| Box::new(new()))
        });
        let Ok(pages) = pages else { return };
        let Some(cell) = pages.octaves.get(octave) else { return };
        let (owner, memory) = (std::ptr::from_ref(self).addr(), budget.memory());
        let kept = || memory.and_then(|memory| memory.page(owner, octave));
        let new = || kept().unwrap_or_else(|| Box::leak(Box::new([const { AtomicU32::new(0) }; BUCKETS])));
        let page = cell.get_or_try_init(|| budget.take(size_of::<Page>()).map(|()| new()));
        if let Ok(page) = page {
            pages.count(page, octave, bucket);
        }
    }

    /// Starts over; the memory is kept for the next window.
    pub(crate) fn clear(&self) {
        self.chunk.store(0, Relaxed);
        self.chunk_start.store(0, Relaxed);
        if let Some(pages) = self.pages.get() {
            pages.full.lock().clear();
            let all = pages.octaves.iter().filter_map(OnceCell::get).flat_map(|page| page.iter());
            all.for_each(|count| count.store(0, Relaxed));
        }
        // Unwritten positions of the new window must not read as durations of the old one.
        for chunk in self.chunks.iter().filter_map(OnceCell::get) {
            chunk.iter().for_each(|sample| sample.store(EMPTY, Relaxed));
        }
    }

    /// Its share of the budget, in bytes.
    #[cfg(feature = "cuda")]
    pub(crate) fn bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().filter_map(OnceCell::get).map(|chunk| chunk.len() * 8).sum();
        let pages = self.pages.get().map_or(0, |pages| {
            size_of::<Pages>()
                + pages.octaves.iter().filter_map(OnceCell::get).map(|page| page.len() * 4).sum::<usize>()
        });
        chunks + pages
    }

    /// Copies the durations of these numbers, as far as they were kept, into `into`; and all counts of the histogram.
    pub(crate) fn copy_into(&self, numbers: Range<u64>, into: &mut Distribution) {
        for (number, chunk) in self.chunks.iter().enumerate().filter_map(|(i, chunk)| Some((i, chunk.get()?))) {
            let start = start_of(number);
            let [from, to] = [numbers.start, numbers.end.max(numbers.start)]
                .map(|number| usize::try_from(number.saturating_sub(start)).unwrap_or(usize::MAX).min(chunk.len()));
            into.samples.extend(chunk[from..to].iter().map(|sample| sample.load(Relaxed)).filter(|&d| d != EMPTY));
        }
        let Some(pages) = self.pages.get() else { return };
        let full = pages.full.lock(); // no counter wraps around meanwhile
        for &bucket in full.iter() {
            into.buckets.add(bucket, 1 << 32);
        }
        for (octave, page) in pages.octaves.iter().enumerate() {
            for (bucket, count) in page.get().iter().flat_map(|page| page.iter().enumerate()) {
                let count = count.load(Relaxed);
                if count > 0 {
                    into.buckets.add((octave, bucket), u64::from(count));
                }
            }
        }
    }
}

/// Marks a slot without a duration: no range lasts 2^64 - 1 ticks.
pub(crate) const EMPTY: u64 = u64::MAX;

/// The number of the first duration of a chunk.
pub(crate) fn start_of(chunk: usize) -> u64 {
    if chunk == 0 { 0 } else { (FIRST_CHUNK as u64) << (2 * (chunk - 1)) }
}

fn empty_samples(length: usize) -> Box<[AtomicU64]> {
    (0..length).map(|_| AtomicU64::new(EMPTY)).collect()
}

/// Chunk and offset of duration number `index`; the chunk does not exist from [`KEPT`] on.
fn place(index: u64) -> (usize, usize) {
    let chunk = ((index | 15).ilog2() as usize - 2) / 2;
    (chunk, (index - start_of(chunk)) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(samples: &Samples, count: u64) -> Distribution {
        let mut all = Distribution { count, min: 0, max: u64::MAX, ..Distribution::default() };
        samples.copy_into(0..count, &mut all);
        all
    }

    #[test]
    fn every_duration_up_to_the_bound_is_kept_in_order() {
        let (samples, budget) = (Samples::default(), Budget::new(1 << 20));
        for index in 0..KEPT {
            samples.keep(index, index * 3, &budget);
        }
        let all = kept(&samples, KEPT);
        assert_eq!(all.samples, (0..KEPT).map(|index| index * 3).collect::<Vec<_>>());
        assert!(all.buckets.is_empty());
        assert_eq!(budget.left(), (1 << 20) - KEPT as usize * 8);
    }

    #[test]
    fn only_those_of_some_numbers_are_copied() {
        let (samples, budget) = (Samples::default(), Budget::new(1 << 20));
        (0..300).for_each(|index| samples.keep(index, index, &budget));
        for (from, to) in [(0, 300), (3, 17), (16, 64), (15, 299), (300, 300), (u64::MAX, 300)] {
            let mut all = Distribution::default();
            samples.copy_into(from..to, &mut all);
            assert!(all.samples.iter().copied().eq(from..to), "{from} to {to}");
        }
    }

    #[test]
    fn later_durations_are_counted() {
        let (samples, budget) = (Samples::default(), Budget::new(1 << 20));
        for index in 0..KEPT + 1_000 {
            samples.keep(index, 5_000, &budget);
        }
        let all = kept(&samples, KEPT + 1_000);
        assert_eq!(all.samples.len() as u64, KEPT);
        assert_eq!(all.buckets.sum(), 1_000);
        assert!(!all.median().unwrap().exact);
    }

    /// A span of 20 ns reaches this in two minutes.
    #[test]
    fn more_than_2_to_the_32_of_a_bucket_are_all_counted() {
        let (samples, budget, count) = (Samples::default(), Budget::new(1 << 20), 3 << 32);
        samples.keep(KEPT, 5_000, &budget);
        let (octave, bucket) = bucket_of(5_000);
        for _ in 0..3 {
            let page = samples.pages.get().and_then(|pages| pages.page(octave)).unwrap();
            page[bucket].store(u32::MAX, Relaxed); // as if that many had been counted
            samples.keep_all(KEPT, [5_000, 9].into_iter(), &budget);
        }
        let mut counted = [((octave, bucket), count), (bucket_of(9), 3)];
        counted.sort_unstable();
        assert!(kept(&samples, count).buckets.iter().eq(counted));
        samples.clear();
        assert!(kept(&samples, count).buckets.is_empty());
    }

    #[test]
    fn several_at_once_are_kept_as_they_are_one_by_one() {
        let durations = |count: u64| (0..count).map(|number| (number * number % 70_000) >> (number % 13));
        for (start, length) in [(0, 29), (KEPT - 7, 29), (KEPT, 29), (KEPT + 29, 1_000)] {
            let [one_by_one, at_once] = [(); 2].map(|()| Samples::default());
            let [first, second] = [(); 2].map(|()| Budget::new(1 << 20));
            for (index, duration) in durations(start + length).enumerate() {
                one_by_one.keep(index as u64, duration, &first);
            }
            for (index, duration) in durations(start).enumerate() {
                at_once.keep(index as u64, duration, &second);
            }
            at_once.keep_all(start, durations(start + length).skip(start as usize), &second);
            let [one_by_one, at_once] = [one_by_one, at_once].map(|samples| kept(&samples, start + length));
            assert_eq!((one_by_one.samples, one_by_one.buckets), (at_once.samples, at_once.buckets), "{start}");
            assert_eq!(first.left(), second.left());
        }
    }

    #[test]
    fn a_spent_budget_makes_the_median_unknown_and_nothing_else() {
        let (samples, budget) = (Samples::default(), Budget::new(FIRST_CHUNK * 8));
        for index in 0..100 {
            samples.keep(index, 7, &budget);
        }
        let all = kept(&samples, 100);
        assert_eq!(all.samples.len(), FIRST_CHUNK);
        assert_eq!(all.median(), None);
    }

    #[test]
    fn a_new_window_forgets_the_old_one() {
        let (samples, budget) = (Samples::default(), Budget::new(1 << 20));
        for index in 0..KEPT + 10 {
            samples.keep(index, 9, &budget);
        }
        samples.clear();
        samples.keep(0, 4, &budget);
        let all = kept(&samples, 1);
        assert_eq!((all.samples, all.buckets.is_empty()), (vec![4], true));
    }
}
