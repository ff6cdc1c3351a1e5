//! One row of one thread: counts and sums that only the owning thread writes and any thread may read.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use once_cell::sync::OnceCell;
use tracing_core::Metadata;

use super::durations::{Durations, Sums};
use super::sequence::Sequence;
use crate::clock::Ticks;
use crate::core::budget::Budget;
use crate::core::record::{Ended, OnCpu, RangeKey};
use crate::core::samples::KEPT;
use crate::core::session::NvtxRange;
use crate::sync::{AtomicU64, AtomicUsize, RECENT};
use range_model::stats::Distribution;

/// The constant part of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowIdentity {
    pub(crate) key: RangeKey,
    /// Number of the domain.
    pub(crate) domain: u32,
    /// How a tool shows it; `None` for ranges without a span, which reach a tool by themselves.
    pub(crate) nvtx: Option<NvtxRange>,
    /// Call site of the span that made the row; `None` for ranges without a span.
    pub(crate) metadata: Option<&'static Metadata<'static>>,
}

/// Values of `room` for a row without instances, and for one whose instances are all in the sums.
pub(crate) const UNUSED: usize = 0;
/// The times of a pending instance are shorter.
pub(crate) const SHORT: u64 = 1 << 32;
const EMPTY: usize = RECENT + 1;
/// Kinds of a row. A smaller number counts its spans so far that were entered once. One such span is not enough
/// evidence, because a future that is dropped before its first poll is also entered once.
const PLAIN: u64 = 2;
const REENTERED: u64 = 3;

/// Statistics of one lineage node on one thread, in ticks.
///
/// Single writer: plain loads and stores, never a read-modify-write. An instance is one store to `recent`, then one to
/// `room`, which publishes it. The sums take in the recent instances when there is no room for more.
#[derive(Debug, Default)]
#[repr(C, align(512))] // see `WRITTEN`
pub(crate) struct Row {
    identity: OnceCell<Box<RowIdentity>>,
    pub(crate) durations: Durations,
    pub(crate) nested: AtomicU64,
    /// Time in which its thread surely ran, and surely did not: see [`OnCpu`].
    pub(crate) on_cpu: AtomicU64,
    pub(crate) off_cpu: AtomicU64,
    /// The longest instance that took no fast path, and its entry: each long one is among these.
    pub(crate) longest: AtomicU64,
    pub(crate) longest_at: AtomicU64,
    /// Guards `durations`, `nested`, `room` and `recent`.
    pub(crate) sequence: Sequence,
    node: AtomicU32,
    /// The label of the identity plus one; 0 before there is an identity. It is here, in a line that every instance
    /// writes, because calls into CUDA read it.
    label: AtomicU32,
    /// Entry of the window's first instance that has ended; before that, creation of the first span, or 0.
    pub(crate) first: AtomicU64,
    /// Room left in `recent`, plus one. `recent` is filled from its end, and its filled part is not in the sums yet. 0
    /// before the window's first instance, which therefore cannot take the fast path.
    pub(crate) room: AtomicUsize,
    pub(crate) calls: AtomicU64,
    /// Whether spans are followed by calls, see [`PLAIN`]. It is in a line that creations read.
    kind: AtomicU64,
    /// Duration in the lower half, nested time in the upper.
    pub(crate) recent: [AtomicU64; RECENT],
}

/// The words of rows that callbacks write, as a range in each 512 bytes of a thread's state. Other frequently written
/// data stays out of this range: a processor at first confuses a load with an earlier store if the lower 12 bits of
/// their addresses are equal. Between a row and the head of its state this was measured at 15 ns a span.
#[cfg(all(test, feature = "cuda"))]
pub(crate) const WRITTEN: std::ops::Range<usize> =
    std::mem::offset_of!(Row, room)..std::mem::offset_of!(Row, recent) + RECENT * 8;

/// The offset that launches read.
#[cfg(all(test, feature = "cuda"))]
pub(crate) const LABEL: usize = std::mem::offset_of!(Row, label);

/// A consistent copy of a row, in ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowCopy {
    pub(crate) node: u32,
    pub(crate) calls: u64,
    /// Entry of the window's first instance that has ended; before that, creation of the first span; 0 if there is
    /// neither.
    pub(crate) first: Ticks,
    /// Sum over all instances of the time of ranges directly above them on the same thread.
    pub(crate) nested: u64,
    pub(crate) cpu: OnCpu,
    /// An instance of this length, and its entry: the longest, unless all are short or it is of an earlier window.
    pub(crate) longest: u64,
    pub(crate) longest_at: Ticks,
    pub(crate) times: Distribution,
}

impl Row {
    /// Gives a fresh row its identity. Returns false if it has one.
    pub(crate) fn identify(&self, node: u32, identity: RowIdentity) -> bool {
        self.node.store(node, Relaxed);
        let label = identity.key.label;
        let is_first = self.identity.set(Box::new(identity)).is_ok();
        if is_first {
            self.label.store(label.wrapping_add(1), Relaxed);
        }
        is_first
    }

    #[inline]
    pub(crate) fn identity(&self) -> Option<&RowIdentity> {
        self.identity.get().map(Box::as_ref)
    }

    /// The label of [`identity`](Self::identity). Only for the owning thread.
    #[cfg(feature = "cuda")]
    #[inline]
    pub(crate) fn label(&self) -> Option<u32> {
        self.label.load(Relaxed).checked_sub(1)
    }

    pub(crate) fn node(&self) -> u32 {
        self.node.load(Relaxed)
    }

    /// Adds a call.
    pub(crate) fn add_call(&self, now: impl FnOnce() -> Ticks) {
        let calls = self.calls.load(Relaxed);
        if calls == 0 && self.is_unused() {
            self.first.store(now(), Relaxed);
        }
        self.calls.store(calls.wrapping_add(1), Relaxed);
    }

    /// Changes the number of calls when the time of the first one is known. The number is in two's complement: a thread
    /// subtracts calls that are counted elsewhere, and others may have added them.
    #[inline]
    pub(crate) fn change_calls(&self, by: i64) {
        self.calls.store(self.calls.load(Relaxed).wrapping_add_signed(by), Relaxed);
    }

    /// Whether its spans are entered once, so that no call follows them. The time of the first one is then known.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.kind.load(Relaxed) == PLAIN
    }

    /// Whether its spans are entered repeatedly, as far as is known.
    #[inline]
    pub(crate) fn is_reentered(&self) -> bool {
        self.kind.load(Relaxed) == REENTERED
    }

    /// Whether a duration is no outlier among those counted so far: at most 16 times their mean.
    pub(crate) fn is_usual(&self, duration: u64) -> bool {
        let sums = self.durations.sums();
        sums.mean().is_none_or(|mean| duration / 16 <= mean)
    }

    /// Judges the kind of this row by a followed span that has closed after this number of entries. On any thread.
    pub(crate) fn judge(&self, entries: u64) {
        let kind = self.kind.load(Relaxed);
        match entries {
            0 => {}
            1 if kind < PLAIN => self.kind.store(kind + 1, Relaxed),
            1 => {}
            _ if kind != REENTERED => self.kind.store(REENTERED, Relaxed), // no line is written that others read
            _ => {}
        }
    }

    /// Adds one instance of `duration` ticks, `nested` of them in ranges directly above. If there is no room, or it is
    /// `long`, returns false and changes nothing; then use [`add`](Self::add).
    #[inline(always)] // as where the limit was a constant
    pub(crate) fn add_near(&self, duration: u64, nested: u64, long: u64) -> bool {
        debug_assert!(long <= SHORT);
        self.add_pending(duration, nested, long)
    }

    /// Adds an instance to the pending ones, if there is room and both times are less than `limit`. A time above the
    /// largest power of two below the limit may be refused, too.
    #[inline(always)]
    fn add_pending(&self, duration: u64, nested: u64, limit: u64) -> bool {
        let room = self.room.load(Relaxed);
        let free = self.recent.get(room.wrapping_sub(2));
        let Some(recent) = free.filter(|_| (duration | nested) < limit) else { return false };
        recent.store(nested << 32 | duration, Relaxed);
        self.room.store(room - 1, Release); // pairs with the reader's Acquire load: it sees the pending instances
        true
    }

    /// Whether the window has no instance yet. Only for the owning thread.
    pub(crate) fn is_unused(&self) -> bool {
        self.room.load(Relaxed) == UNUSED
    }

    /// Stores the entry time of the window's first instance, which is about to be added.
    pub(crate) fn enter_first(&self, entered: Ticks) {
        self.first.store(entered, Relaxed);
    }

    /// Notes an instance that is about to be added, if it is the longest so far.
    #[inline]
    pub(crate) fn note_longest(&self, entered: Ticks, duration: u64) {
        if duration > self.longest.load(Relaxed) {
            self.longest.store(duration, Relaxed);
            self.longest_at.store(entered, Relaxed);
        }
    }

    /// Adds one instance of `duration` ticks, `nested` of them in ranges directly above.
    pub(crate) fn add(&self, duration: u64, nested: u64, budget: &Budget) {
        if self.is_unused() {
            self.room.store(EMPTY, Relaxed); // nothing is pending, as before
        }
        if !self.add_pending(duration, nested, SHORT) {
            self.fold(duration, nested, budget);
        }
    }

    /// Adds what is known of the processor time of an instance that was added.
    pub(crate) fn add_cpu(&self, cpu: OnCpu) {
        self.on_cpu.store(self.on_cpu.load(Relaxed).wrapping_add(cpu.on), Relaxed);
        self.off_cpu.store(self.off_cpu.load(Relaxed).wrapping_add(cpu.off), Relaxed);
    }

    /// Adds the pending instances and one more to the sums.
    #[inline(never)]
    fn fold(&self, duration: u64, nested: u64, budget: &Budget) {
        let (mut sums, mut all_nested) = (self.durations.sums(), self.nested.load(Relaxed));
        let recent = || self.pending().iter().rev().map(|recent| recent.load(Relaxed));
        self.durations.samples.keep_all(sums.count, recent().map(|recent| recent & LOWER_HALF), budget);
        for recent in recent() {
            sums.add(recent & LOWER_HALF);
            all_nested = all_nested.wrapping_add(recent >> 32);
        }
        self.durations.samples.keep(sums.count, duration, budget);
        sums.add(duration);
        self.write(&sums, all_nested.wrapping_add(nested), EMPTY);
    }

    /// Begins a new window. Only for the owning thread.
    pub(crate) fn clear(&self) {
        self.calls.store(0, Relaxed);
        self.kind.store(0, Relaxed); // so that the window's first creation is noticed
        self.first.store(0, Relaxed);
        self.write(&Sums::default(), 0, UNUSED);
        self.on_cpu.store(0, Relaxed);
        self.off_cpu.store(0, Relaxed);
        self.longest.store(0, Relaxed);
        self.longest_at.store(0, Relaxed);
        self.durations.samples.clear();
    }

    /// The instances that are not in the sums yet, the last first.
    fn pending(&self) -> &[AtomicU64] {
        self.recent.get(self.room.load(Acquire).wrapping_sub(1)..).unwrap_or_default()
    }

    /// Writes the sums. Then nothing is pending: `room` is [`EMPTY`] or [`UNUSED`].
    fn write(&self, sums: &Sums, nested: u64, room: usize) {
        self.sequence.change(|| {
            self.durations.write(sums);
            self.nested.store(nested, Relaxed);
            self.room.store(room, Relaxed);
        });
    }

    /// A copy as of one moment. The owning thread may be writing: the sums change once in 24 instances.
    ///
    /// Single durations never change, so they are copied once, up to the count. Durations that a histogram page has
    /// counted since then affect only the median.
    #[cfg(any(test, feature = "injection"))]
    pub(crate) fn copy(&self) -> RowCopy {
        self.copy_from(0)
    }

    /// The same, but single durations only from this number on.
    pub(crate) fn copy_from(&self, first: u64) -> RowCopy {
        let (recent, sums, nested) = self.sequence.copy(|| {
            let recent: Vec<u64> = self.pending().iter().rev().map(|recent| recent.load(Relaxed)).collect();
            (recent, self.durations.sums(), self.nested.load(Relaxed))
        });
        let copy = RowCopy {
            node: self.node(),
            calls: self.calls.load(Relaxed),
            first: self.first.load(Relaxed),
            nested,
            cpu: OnCpu { on: self.on_cpu.load(Relaxed), off: self.off_cpu.load(Relaxed) },
            longest: self.longest.load(Relaxed),
            longest_at: self.longest_at.load(Relaxed),
            times: sums.distribution(),
        };
        let mut copy = copy.with_recent(first, recent.into_iter());
        let pending = copy.times.samples.len();
        // Must come last, because the histogram may have counted more, and a distribution counts everything that is
        // added.
        self.durations.samples.copy_into(first..sums.count, &mut copy.times);
        copy.times.samples.rotate_left(pending);
        copy
    }
}

impl RowCopy {
    /// Adds the instances that were not in the sums yet, the first one first.
    pub(crate) fn with_recent(mut self, first: u64, recent: impl Iterator<Item = u64>) -> Self {
        for recent in recent {
            self.add(first, recent & LOWER_HALF);
            self.nested = self.nested.wrapping_add(recent >> 32);
        }
        self.nested = self.nested.cast_signed().max(0).cast_unsigned();
        self
    }

    /// Adds a duration after all others. A single one stays only from this number on.
    fn add(&mut self, first: u64, duration: u64) {
        let number = self.times.count;
        self.times.add(duration, |_| number < KEPT);
        if number < first.min(KEPT) {
            self.times.samples.pop();
        }
    }

    /// Adds an instance that is in no row yet, to a copy with single durations from this number on.
    pub(crate) fn add_ended(&mut self, first: u64, ended: Ended) {
        if self.times.count == 0 {
            self.first = ended.entered;
        }
        if ended.duration > self.times.max {
            (self.longest, self.longest_at) = (ended.duration, ended.entered);
        }
        self.add(first, ended.duration);
        self.nested = self.nested.wrapping_add(ended.nested);
    }

    /// What came since `before`, an earlier copy without its single durations; then `before` is this copy.
    pub(crate) fn since(self, before: &mut Self) -> Self {
        let Self { node, calls, first, nested, cpu, longest, longest_at, times } = self;
        let times = times.since_mark(&mut before.times);
        let since = |now: u64, before: &mut u64| now.wrapping_sub(std::mem::replace(before, now));
        let cpu = OnCpu { on: since(cpu.on, &mut before.cpu.on), off: since(cpu.off, &mut before.cpu.off) };
        let (calls, nested) = (since(calls, &mut before.calls), since(nested, &mut before.nested));
        let nested = nested.cast_signed().max(0).cast_unsigned();
        Self { node, calls, first, nested, cpu, longest, longest_at, times }
    }

    /// The entry of the longest instance, if it is known.
    pub(crate) fn longest_at(&self) -> Option<Ticks> {
        (self.longest > 0 && self.longest == self.times.max).then_some(self.longest_at)
    }

    /// The number of the longest instance, from 1 on, in the order of ends; `None` if it is not known.
    pub(crate) fn longest_number(&self) -> Option<u64> {
        let samples = &self.times.samples;
        let are_all = samples.len() as u64 == self.times.count.min(KEPT); // else some were not kept
        let index = samples.iter().position(|duration| *duration == self.times.max).filter(|_| are_all)?;
        Some(index as u64 + 1)
    }
}

const LOWER_HALF: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;
    use range_model::stats::Buckets;
    use std::sync::atomic::AtomicBool;

    /// Instance number `index`, with a unique contribution, and sometimes too long for the pending ones.
    fn instance(index: u64) -> (u64, u64) {
        let long = if index % 1_000 == 999 { 1 << 33 } else { 0 };
        let duration = long + index * 0x9e37_79b9 % 1_000 + 1;
        (duration, duration / 3)
    }

    /// Adds instance number `index` to the expected sums: durations and nested time.
    fn add(expected: &mut (Sums, u64), index: u64) {
        let (duration, nested) = instance(index);
        expected.0.add(duration);
        expected.1 += nested;
    }

    fn is_of(copy: &RowCopy, (sums, nested): &(Sums, u64)) -> bool {
        let RowCopy { times, .. } = copy;
        let own = Distribution { samples: Vec::new(), buckets: Buckets::default(), ..times.clone() };
        (own, copy.nested) == (sums.distribution(), *nested)
    }

    #[test]
    fn a_duration_is_an_outlier_beyond_16_means() {
        let (row, budget) = (Row::default(), Budget::new(1 << 20));
        assert!(row.is_usual(u64::MAX), "nothing is known");
        for duration in [10 << 33, 30 << 33] {
            row.add(duration, 0, &budget); // too long for the pending ones
        }
        assert!(row.is_usual(16 * (20 << 33)) && !row.is_usual(17 * (20 << 33)));
    }

    #[test]
    fn a_copy_taken_while_the_owner_writes_is_of_one_moment() {
        const INSTANCES: u64 = 1_000_000;
        let (row, budget, done) = (Row::default(), Budget::new(1 << 20), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (duration, nested) in (0..INSTANCES).map(instance) {
                    if !row.add_near(duration, nested, 1 << 17) {
                        row.add(duration, nested, &budget);
                    }
                }
                done.store(true, Release);
            });
            let mut expected = (Sums::default(), 0);
            loop {
                let last = done.load(Acquire);
                let copy = row.copy();
                assert!(copy.times.count >= expected.0.count, "a copy goes back in time");
                (expected.0.count..copy.times.count).for_each(|index| add(&mut expected, index));
                assert!(is_of(&copy, &expected), "{copy:?}");
                let kept: u64 = (0..copy.times.count.min(KEPT)).map(|index| instance(index).0).sum();
                assert_eq!(copy.times.samples.len() as u64, copy.times.count.min(KEPT));
                assert_eq!(copy.times.samples.iter().sum::<u64>(), kept);
                if last {
                    assert_eq!(copy.times.count, INSTANCES);
                    assert_eq!(copy.times.buckets.sum(), INSTANCES - KEPT);
                    break;
                }
            }
        });
    }

    #[test]
    fn every_instance_is_counted_once_and_at_once() {
        let (row, budget) = (Row::default(), Budget::new(1 << 20));
        let mut expected = (Sums::default(), 0);
        for count in 1..KEPT + 100 {
            let (duration, nested) = instance(count - 1);
            row.add(duration, nested, &budget);
            add(&mut expected, count - 1);
            if !(2_000..KEPT - 100).contains(&count) {
                let copy = row.copy();
                let times = &copy.times;
                assert!(times.count == count && is_of(&copy, &expected), "{copy:?}");
                assert_eq!(times.samples.len() as u64 + times.buckets.sum(), count);
                assert_eq!(times.median().is_some_and(|median| median.exact), count <= KEPT);
            }
        }
    }

    #[test]
    fn what_comes_between_two_copies_is_in_the_second_alone() {
        const INSTANCES: u64 = KEPT + 20_000;
        /// A copy has those that are not in the sums yet before the others.
        fn sorted(samples: &[u64]) -> Vec<u64> {
            let mut samples = samples.to_vec();
            samples.sort_unstable();
            samples
        }
        let (row, budget, done) = (Row::default(), Budget::new(1 << 20), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (duration, nested) in (0..INSTANCES).map(instance) {
                    if !row.add_near(duration, nested, 1 << 17) {
                        row.add(duration, nested, &budget);
                    }
                    row.change_calls(1);
                }
                done.store(true, Release);
            });
            let (mut before, mut next, mut calls, mut all) = (RowCopy::default(), 0, 0, Distribution::default());
            loop {
                let last = done.load(Acquire);
                let since = row.copy_from(next).since(&mut before);
                let mut expected = (Sums::default(), 0);
                (next..next + since.times.count).for_each(|index| add(&mut expected, index));
                let Distribution { count, total, squares, .. } = expected.0.distribution();
                assert_eq!((since.times.count, since.times.total, since.times.squares), (count, total, squares));
                assert_eq!(since.times.samples.len() as u64 + since.times.buckets.sum(), count);
                let single = (next..next + since.times.samples.len() as u64).map(|index| instance(index).0);
                assert_eq!(sorted(&since.times.samples), sorted(&single.collect::<Vec<_>>()));
                if since.times.buckets.is_empty() && count > 0 {
                    assert!(is_of(&since, &expected), "{since:?}");
                }
                (next, calls) = (next + count, calls + since.calls);
                all.merge(&since.times);
                if last {
                    break;
                }
            }
            assert_eq!((next, calls, before.times.samples.len()), (INSTANCES, INSTANCES, 0));
            // A copy in the middle of a fold may count `RECENT` instances twice, and then leaves out others.
            let of = |all: &Distribution| (all.count, all.total, sorted(&all.samples), all.buckets.sum());
            assert_eq!(of(&all), of(&row.copy().times));
        });
    }

    #[test]
    fn the_longest_instance_has_a_number_and_a_moment() {
        let (row, budget) = (Row::default(), Budget::new(1 << 20));
        let add = |range: std::ops::Range<u64>| {
            for index in range {
                let duration = if index == 50 { 1 << 20 } else { 1_000 };
                row.note_longest(index << 21, duration);
                row.add(duration, 0, &budget);
            }
        };
        let (mut before, number) = (RowCopy::default(), |copy: &RowCopy| (copy.longest_at(), copy.longest_number()));
        for (end, longest) in [(40, (Some(0), Some(1))), (90, (Some(50 << 21), Some(11))), (100, (None, Some(1)))] {
            add(before.times.count..end);
            let since = row.copy_from(before.times.count).since(&mut before);
            assert_eq!(number(&since), longest, "up to {end}");
        }
        assert_eq!(number(&row.copy()), (Some(50 << 21), Some(51)));
        add(100..KEPT);
        row.add(1 << 21, 0, &budget);
        assert_eq!(number(&row.copy()), (None, None), "a short one is not noted");
        row.clear();
        assert_eq!(row.copy(), RowCopy::default());
    }

    #[test]
    fn a_new_window_forgets_what_was_kept_for_later() {
        let (row, budget) = (Row::default(), Budget::new(1 << 20));
        (0..RECENT * 3 / 2).for_each(|_| row.add(7, 0, &budget));
        row.clear();
        assert_eq!(row.copy(), RowCopy::default());
        row.add(4, 1, &budget);
        let copy = row.copy();
        assert_eq!((copy.times.samples.as_slice(), copy.times.min, copy.nested), ([4].as_slice(), 4, 1));
    }

    #[test]
    fn squares_carry_into_the_upper_half() {
        let (row, budget) = (Row::default(), Budget::new(1 << 20));
        for _ in 0..5 {
            row.add(u64::MAX / 8, 0, &budget);
        }
        assert_eq!(row.copy().times.squares, 5 * u128::from(u64::MAX / 8).pow(2));
    }
}
