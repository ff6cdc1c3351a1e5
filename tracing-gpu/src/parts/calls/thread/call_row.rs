//! One row of the calls of one thread: latencies and sums that only the owning thread writes and any thread may read.

use std::sync::atomic::Ordering::Relaxed;

use once_cell::race::OnceBox;
use once_cell::sync::OnceCell;
use range_model::stats::{Distribution, Lean};

use crate::core::budget::Budget;
use crate::core::record::CallIdentity;
use crate::core::thread::durations::Durations;
use crate::core::thread::sequence::Sequence;
use crate::sync::AtomicU64;

/// The calls of a node that ended on one thread, in ticks. Eight such rows fill a page of a file.
#[derive(Debug, Default)]
#[repr(C, align(512))]
pub(crate) struct CallRow {
    identity: OnceCell<CallIdentity<'static>>,
    pub(crate) latencies: Durations,
    pub(crate) sums: [AtomicU64; SUMS],
    /// [`ServedSums`].
    pub(crate) served: [AtomicU64; SERVED],
    /// Guards `latencies`, `sums`, `served` and `by_length`.
    pub(crate) sequence: Sequence,
    /// The same sums by latency, so that the slowest calls are known; not in a file.
    by_length: OnceBox<[OnceBox<Bucket>; BUCKETS]>,
}

/// Number, latencies and first sums of calls of about one latency.
type Bucket = [AtomicU64; BUCKET_WORDS];
/// Four for each power of two.
const BUCKETS: usize = 256;
/// All times among the sums.
const TIMES: usize = 7;
const BUCKET_WORDS: usize = 2 + TIMES;

fn bucket_of(latency: u64) -> usize {
    let octave = (latency | 4).ilog2();
    octave as usize * 4 + (latency >> (octave - 2)) as usize % 4
}

/// Calls of about one latency, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallsOfLength {
    pub(crate) calls: u64,
    pub(crate) latency: u64,
    /// Only the times.
    pub(crate) sums: CallSums,
}

/// Sums over calls, besides their latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallSums {
    pub(crate) busy: u64,
    /// Time in which neither the call nor a child call was active.
    pub(crate) idle: u64,
    /// Time after the last poll of a call.
    pub(crate) outlived: u64,
    /// What is known of the processor time of their instances.
    pub(crate) on_cpu: u64,
    pub(crate) off_cpu: u64,
    /// Time in which they were ready, as far as that is known; and the part of it in `idle`.
    pub(crate) ready: u64,
    pub(crate) ready_alone: u64,
    /// Calls that were dropped while they waited.
    pub(crate) cancelled: u64,
    /// Calls of which that is not known.
    pub(crate) unsure: u64,
    /// Calls that were entered for their drop after they had finished.
    pub(crate) dropped: u64,
    /// Calls of spans that are kept and entered again and again.
    pub(crate) kept: u64,
    /// Uses of kept spans that are calls of their own and counted nowhere else.
    pub(crate) uncounted: u64,
}

/// Number of words of [`CallSums`].
const SUMS: usize = 12;

/// Sums over calls that batches served, once both have closed: apart, because few calls are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServedSums {
    /// The number of batches, summed over the calls.
    pub(crate) batches: u64,
    /// Time in which one of them was open.
    pub(crate) in_batch: u64,
    /// The shares of their running time.
    pub(crate) share: u64,
}

/// Number of words of [`ServedSums`].
const SERVED: usize = 3;

impl ServedSums {
    pub(crate) fn of([batches, in_batch, share]: [u64; SERVED]) -> Self {
        Self { batches, in_batch, share }
    }
}

/// The sums in the order of their words.
macro_rules! sums {
    ($($sum:ident),*) => {
        impl CallSums {
            pub(crate) fn of([$($sum),*]: [u64; SUMS]) -> Self {
                Self { $($sum),* }
            }

            fn words(&self) -> [u64; SUMS] {
                let Self { $($sum),* } = *self;
                [$($sum),*]
            }
        }
    };
}

sums!(busy, idle, outlived, on_cpu, off_cpu, ready, ready_alone, cancelled, unsure, dropped, kept, uncounted);

/// A consistent copy of a row, in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallCopy<'a> {
    pub(crate) identity: CallIdentity<'a>,
    pub(crate) latency: Distribution,
    pub(crate) sums: CallSums,
    pub(crate) served: ServedSums,
    /// By length, the shortest calls first; none from a file.
    pub(crate) by_length: Vec<(u32, CallsOfLength)>,
}

impl CallRow {
    /// Gives a fresh row its identity.
    pub(crate) fn identify(&self, identity: CallIdentity<'static>) {
        let _is_fresh = self.identity.set(identity);
    }

    pub(crate) fn add(&self, latency: u64, sums: &CallSums, budget: &Budget) {
        let mut latencies = self.latencies.sums();
        self.latencies.samples.keep(latencies.count, latency, budget);
        latencies.add(latency);
        self.sequence.change(|| {
            self.latencies.write(&latencies);
            self.add_words(sums);
            self.add_to_bucket(latency, sums);
        });
    }

    fn add_to_bucket(&self, latency: u64, sums: &CallSums) {
        let buckets = self.by_length.get_or_init(|| Box::new([const { OnceBox::new() }; BUCKETS]));
        let Some(bucket) = buckets.get(bucket_of(latency)) else { return };
        let more = [1, latency].into_iter().chain(sums.words());
        let words = bucket.get_or_init(Box::default);
        words.iter().zip(more).for_each(|(word, more)| word.store(word.load(Relaxed).wrapping_add(more), Relaxed));
    }

    /// The buckets that were ever used.
    fn buckets(&self) -> impl Iterator<Item = (usize, &Bucket)> {
        let all = self.by_length.get().into_iter().flatten().enumerate();
        all.filter_map(|(length, bucket)| Some((length, bucket.get()?)))
    }

    /// Adds sums that belong to no call counted here.
    pub(crate) fn add_sums(&self, sums: &CallSums) {
        self.sequence.change(|| self.add_words(sums));
    }

    /// Adds what batches were for calls counted here or by another thread.
    pub(crate) fn add_served(&self, ServedSums { batches, in_batch, share }: ServedSums) {
        self.sequence.change(|| {
            for (word, more) in self.served.iter().zip([batches, in_batch, share]) {
                word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
            }
        });
    }

    fn add_words(&self, sums: &CallSums) {
        for (word, more) in self.sums.iter().zip(sums.words()) {
            word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
        }
    }

    /// Begins a new window. Only for the owning thread.
    pub(crate) fn clear(&self) {
        self.sequence.change(|| {
            self.latencies.write(&Default::default());
            let words = self.sums.iter().chain(&self.served).chain(self.buckets().flat_map(|(_, bucket)| bucket));
            words.for_each(|word| word.store(0, Relaxed));
        });
        self.latencies.samples.clear();
    }

    /// A copy as of one moment, with single latencies from this number on; `None` for a row without an identity. On any
    /// thread.
    pub(crate) fn copy(&self, first: u64) -> Option<CallCopy<'static>> {
        let identity = *self.identity.get()?;
        let sums = || self.sums.each_ref().map(|word| word.load(Relaxed));
        let by_length = || {
            let words = |bucket: &Bucket| bucket.each_ref().map(|word| word.load(Relaxed));
            self.buckets().map(|(length, bucket)| (length, words(bucket))).in_vec()
        };
        let served = || self.served.each_ref().map(|word| word.load(Relaxed));
        let (latencies, sums, served, by_length) =
            self.sequence.copy(|| (self.latencies.sums(), sums(), served(), by_length()));
        let by_length = by_length.into_iter().filter(|(_, [calls, ..])| *calls > 0);
        let by_length = by_length.map(|(length, [calls, latency, times @ ..])| {
            let mut words = [0; SUMS];
            words[..TIMES].copy_from_slice(&times);
            (length as u32, CallsOfLength { calls, latency, sums: CallSums::of(words) })
        });
        let by_length = by_length.in_vec();
        let mut latency = latencies.distribution();
        self.latencies.samples.copy_into(first..latencies.count, &mut latency); // as in `Row::copy`
        let (sums, served) = (CallSums::of(sums), ServedSums::of(served));
        Some(CallCopy { identity, latency, sums, served, by_length })
    }
}

impl CallSums {
    fn since(&self, before: &mut Self) -> Self {
        let (mut words, old) = (self.words(), before.words());
        words.iter_mut().zip(old).for_each(|(word, old)| *word = word.wrapping_sub(old));
        *before = *self;
        Self::of(words)
    }
}

impl<'a> CallCopy<'a> {
    /// A row without calls.
    pub(crate) fn empty(identity: CallIdentity<'a>) -> Self {
        let (latency, sums, served) = (Distribution::default(), CallSums::default(), ServedSums::default());
        Self { identity, latency, sums, served, by_length: Vec::new() }
    }

    /// What came since `before`, an earlier copy without its single latencies; then `before` is this copy.
    pub(crate) fn since(self, before: &mut Self) -> Self {
        let Self { identity, latency, sums, served, by_length } = self;
        let since = |now: u64, before: &mut u64| now.wrapping_sub(std::mem::replace(before, now));
        let mut of_length = |(length, now): (u32, CallsOfLength)| {
            let place = before.by_length.binary_search_by_key(&length, |(known, _)| *known);
            let place = place.unwrap_or_else(|place| {
                before.by_length.insert(place, (length, CallsOfLength::default()));
                place
            });
            let (_, before) = before.by_length.get_mut(place)?;
            let (calls, latency) = (since(now.calls, &mut before.calls), since(now.latency, &mut before.latency));
            let sums = now.sums.since(&mut before.sums);
            (calls > 0).then_some((length, CallsOfLength { calls, latency, sums }))
        };
        let by_length = by_length.into_iter().filter_map(&mut of_length).in_vec();
        let served = ServedSums {
            batches: since(served.batches, &mut before.served.batches),
            in_batch: since(served.in_batch, &mut before.served.in_batch),
            share: since(served.share, &mut before.served.share),
        };
        let (latency, sums) = (latency.since_mark(&mut before.latency), sums.since(&mut before.sums));
        Self { identity, latency, sums, served, by_length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::samples::KEPT;

    #[test]
    fn a_copy_taken_while_the_owner_adds_calls_is_of_one_moment() {
        const CALLS: u64 = 100_000;
        let (row, budget) = (CallRow::default(), Budget::new(1 << 20));
        row.identify(CallIdentity { node: 3, label: 2, source: "here" });
        let sums = CallSums::of([1, 2, 5, 4, 6, 3, 7, 1, 0, 1, 0, 3]);
        let is_of_one_moment = || {
            let CallCopy { latency, sums: all, .. } = row.copy(0).unwrap();
            let count = latency.count;
            assert_eq!((all, latency.max), (CallSums::of(sums.words().map(|sum| sum * count)), count));
            assert_eq!(latency.total, u128::from(count * (count + 1) / 2));
            assert!(latency.samples.iter().copied().eq(1..=count.min(KEPT)));
            count
        };
        std::thread::scope(|scope| {
            let owner = scope.spawn(|| (1..=CALLS).for_each(|latency| row.add(latency, &sums, &budget)));
            while !owner.is_finished() {
                is_of_one_moment();
            }
        });
        assert_eq!(is_of_one_moment(), CALLS);
    }

    #[test]
    fn a_row_has_all_calls_of_the_window_and_what_is_of_no_call() {
        let (row, budget) = (CallRow::default(), Budget::new(1 << 20));
        assert_eq!(row.copy(0), None);
        let identity = CallIdentity { node: 3, label: 2, source: "here" };
        row.identify(identity);
        let each = CallSums::of([1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 9]);
        for window in [[7, 9, 30].as_slice(), &[4]] {
            window.iter().for_each(|latency| row.add(*latency, &each, &budget));
            row.add_sums(&CallSums { uncounted: 100, ..CallSums::default() });
            (0..2).for_each(|_| row.add_served(ServedSums::of([1, 2, 3])));
            let n = window.len() as u64;
            let uncounted = 9 * n + 100;
            let sums = CallSums { uncounted, ..CallSums::of(each.words().map(|sum| sum * n)) };
            let latency = Distribution::of(window.iter().copied());
            let times = CallSums { cancelled: 0, unsure: 0, dropped: 0, kept: 0, uncounted: 0, ..each };
            let of_length = |latency: &u64| CallsOfLength { calls: 1, latency: *latency, sums: times };
            let by_length = window.iter().map(|latency| (bucket_of(*latency) as u32, of_length(latency))).collect();
            let served = ServedSums::of([2, 4, 6]);
            assert_eq!(row.copy(0), Some(CallCopy { identity, latency, sums, served, by_length }));
            row.clear();
        }
        let (latency, sums, served) = (Distribution::default(), CallSums::default(), ServedSums::default());
        assert_eq!(row.copy(0), Some(CallCopy { identity, latency, sums, served, by_length: Vec::new() }));
    }

    #[test]
    fn what_comes_between_two_copies_is_in_the_second_alone() {
        let (row, budget) = (CallRow::default(), Budget::new(1 << 20));
        let identity = CallIdentity { node: 3, label: 2, source: "here" };
        row.identify(identity);
        let each = CallSums::of([1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 9]);
        let mut before = CallCopy::empty(identity);
        for part in [[7, 9, 30].as_slice(), &[4], &[], &[9, 8, 900, 9]] {
            let alone = CallRow::default();
            alone.identify(identity);
            for row in [&row, &alone] {
                part.iter().for_each(|latency| row.add(*latency, &each, &budget));
                row.add_sums(&CallSums { uncounted: 5, ..CallSums::default() });
                row.add_served(ServedSums::of([1, 2, 3]));
            }
            let since = row.copy(before.latency.count).map(|copy| copy.since(&mut before));
            assert_eq!(since, alone.copy(0));
        }
        let whole = row.copy(0).map(|mut copy| {
            copy.latency.samples.clear();
            copy
        });
        assert_eq!(whole, Some(before));
    }

    #[test]
    fn groups_of_one_length_are_no_wider_than_a_quarter_of_it() {
        let all = [4, 5, 7, 8, 9, 10, 15, 16, 1 << 40, 5 << 38, u64::MAX].map(bucket_of);
        assert_eq!(all, [8, 9, 11, 12, 12, 13, 15, 16, 160, 161, BUCKETS - 1]);
        assert!(bucket_of(0) < BUCKETS);
    }
}
