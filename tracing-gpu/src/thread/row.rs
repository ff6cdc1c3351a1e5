//! One row of one thread: counts and sums that only the owning thread writes and anyone may read.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use once_cell::sync::OnceCell;
use tracing_core::Metadata;

use crate::budget::Budget;
use crate::clock::Ticks;
use crate::record::{KeptRow, RangeKey};
use crate::samples::{self, KEPT, Samples};
use crate::session::NvtxRange;
use crate::sync::{self, AtomicU64, AtomicUsize, RECENT, fence};
use range_report::stats::Distribution;

/// Facts about a row that do not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowIdentity {
    pub(crate) key: RangeKey,
    /// Number of the domain.
    pub(crate) domain: u32,
    /// What a tool is shown; `None` for ranges that come from other code, which a tool has anyway.
    pub(crate) nvtx: Option<NvtxRange>,
    /// Call site of the span that made the row; `None` for ranges that come from other code.
    pub(crate) metadata: Option<&'static Metadata<'static>>,
}

/// `room` of a row that no instance was added to, and of one whose instances are all in the sums.
const UNUSED: usize = 0;
const EMPTY: usize = RECENT + 1;
/// Kinds of a row. Below the first, as many of its spans as the number says were entered once; a future that is dropped
/// before it is polled is, too, so one is not enough.
const PLAIN: u64 = 2;
const REENTERED: u64 = 3;

/// Statistics of one lineage node on one thread, in ticks.
///
/// Single writer: plain loads and stores, never a read-modify-write. An instance is one store to `recent`, then one to
/// `room`, which publishes it; the sums take in the recent ones when there is no room for more. `sequence` is odd while
/// the sums change, so a reader that finds it even, and the same around its copy, has a copy of one moment.
#[derive(Debug, Default)]
#[repr(C, align(512))] // see `WRITTEN`
pub(crate) struct Row {
    identity: OnceCell<Box<RowIdentity>>,
    samples: Samples,
    count: AtomicU64,
    total: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
    squares_low: AtomicU64,
    squares_high: AtomicU64,
    nested: AtomicU64,
    sequence: AtomicU64,
    node: AtomicU32,
    /// One more than that of the identity; 0 before there is one. Here, where every instance writes, and not elsewhere:
    /// launches read it.
    label: AtomicU32,
    /// When the first instance of the window that has ended was entered; before that, when the first span was created,
    /// or 0.
    first: AtomicU64,
    /// One more than there is room for in `recent`, which is filled from its end: the rest the sums do not have yet. 0
    /// before the first instance of the window, which so does not come by the short way.
    room: AtomicUsize,
    calls: AtomicU64,
    /// Whether spans are followed by calls, see [`PLAIN`]. Here, where creations read, and not elsewhere.
    kind: AtomicU64,
    /// Duration in the lower half, nested time in the upper.
    recent: [AtomicU64; RECENT],
}

/// Where in each 512 bytes of a thread's state the words are that callbacks write of its rows. What else is written
/// often is kept out of there: a processor that finds a load equal to a store on its way in the lower 12 bits of their
/// addresses takes them for the same at first. Where a row met the head of its state so, that was measured at 15 ns a
/// span.
#[cfg(all(test, feature = "cudarc"))]
pub(super) const WRITTEN: std::ops::Range<usize> =
    std::mem::offset_of!(Row, room)..std::mem::offset_of!(Row, recent) + RECENT * 8;

/// Where launches read.
#[cfg(all(test, feature = "cudarc"))]
pub(super) const LABEL: usize = std::mem::offset_of!(Row, label);

/// A consistent copy of a row, in ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowCopy {
    pub(crate) node: u32,
    pub(crate) calls: u64,
    /// When the first was entered in the window, of those that have ended; before one has, when the first was created.
    /// 0 where neither was.
    pub(crate) first: Ticks,
    /// Sum over all instances of the time that ranges directly above them took on the same thread.
    pub(crate) nested: u64,
    pub(crate) times: Distribution,
}

/// Tries for a copy that the owner does not tear.
const LAST_ATTEMPT: u32 = 6_000;

impl Row {
    /// Gives a fresh row its identity. Returns false where it has one.
    pub(crate) fn identify(&self, node: u32, identity: RowIdentity) -> bool {
        self.node.store(node, Relaxed);
        let label = identity.key.label;
        let is_first = self.identity.set(Box::new(identity)).is_ok();
        if is_first {
            self.label.store(label.wrapping_add(1), Relaxed);
        }
        is_first
    }

    #[inline(always)]
    pub(crate) fn identity(&self) -> Option<&RowIdentity> {
        self.identity.get().map(Box::as_ref)
    }

    /// The label of [`identity`](Self::identity). Called by the owning thread.
    #[cfg(feature = "cudarc")]
    #[inline(always)]
    pub(crate) fn label(&self) -> Option<u32> {
        self.label.load(Relaxed).checked_sub(1)
    }

    pub(crate) fn node(&self) -> u32 {
        self.node.load(Relaxed)
    }

    /// Adds a call. Returns whether their number is a power of two.
    pub(crate) fn add_call(&self, now: impl FnOnce() -> Ticks) -> bool {
        let calls = self.calls.load(Relaxed);
        if calls == 0 && self.is_unused() {
            self.first.store(now(), Relaxed);
        }
        let calls = calls.wrapping_add(1);
        self.calls.store(calls, Relaxed);
        calls.is_power_of_two()
    }

    /// Adds calls where the moment of the first one is taken. A number of two's complement: a thread takes away those
    /// that are counted elsewhere, and others may have added them.
    #[inline(always)]
    pub(crate) fn change_calls(&self, by: i64) {
        self.calls.store(self.calls.load(Relaxed).wrapping_add_signed(by), Relaxed);
    }

    /// Whether its spans are entered once, so that no call follows them. The moment of the first one is then taken.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        self.kind.load(Relaxed) == PLAIN
    }

    /// Whether its spans are entered again and again, as far as is known.
    pub(crate) fn is_reentered(&self) -> bool {
        self.kind.load(Relaxed) == REENTERED
    }

    /// A followed span of this row has closed, after this number of entries. Any thread.
    pub(crate) fn judge(&self, entries: u64) {
        let kind = self.kind.load(Relaxed);
        match entries {
            0 => {}
            1 if kind < PLAIN => self.kind.store(kind + 1, Relaxed),
            1 => {}
            _ => self.kind.store(REENTERED, Relaxed),
        }
    }

    /// Adds one instance of `duration` ticks, `nested` of them in ranges directly above. Returns false, and has done
    /// nothing, where there is no room for it, or it is longer than 32 bits: then [`add`](Self::add).
    #[inline(always)]
    pub(crate) fn add_near(&self, duration: u64, nested: u64) -> bool {
        let room = self.room.load(Relaxed);
        let free = self.recent.get(room.wrapping_sub(2));
        let Some(recent) = free.filter(|_| (duration | nested) >> 32 == 0) else { return false };
        recent.store(nested << 32 | duration, Relaxed);
        self.room.store(room - 1, Release); // pairs with the reader's Acquire load: it sees what is pending
        true
    }

    /// Whether no instance of the window was added. Called by the owning thread.
    pub(crate) fn is_unused(&self) -> bool {
        self.room.load(Relaxed) == UNUSED
    }

    /// The first instance of the window is about to be added; it was entered then.
    pub(crate) fn enter_first(&self, entered: Ticks) {
        self.first.store(entered, Relaxed);
    }

    /// Adds one instance of `duration` ticks, `nested` of them in ranges directly above. Returns true now and then:
    /// when the sums come to have twice as many instances as at the last time.
    pub(crate) fn add(&self, duration: u64, nested: u64, budget: &Budget) -> bool {
        if self.is_unused() {
            self.room.store(EMPTY, Relaxed); // nothing is pending, as before
        }
        !self.add_near(duration, nested) && self.fold(duration, nested, budget)
    }

    /// Adds what is pending to the sums, and one more instance. Returns whether their number passes a power of two.
    #[inline(never)]
    fn fold(&self, duration: u64, nested: u64, budget: &Budget) -> bool {
        let mut sums = self.sums();
        let before = sums.count.checked_ilog2();
        let recent = || self.pending().iter().rev().map(|recent| recent.load(Relaxed));
        // Before the sums, since a reader looks only as far as the count goes. If this allocates, no reader waits for
        // it.
        self.samples.keep_all(sums.count, recent().map(|recent| recent & LOWER_HALF), budget);
        if sums.count == 0 {
            sums.min = u64::MAX;
        }
        for recent in recent() {
            sums.add(recent & LOWER_HALF, recent >> 32);
        }
        self.samples.keep(sums.count, duration, budget);
        sums.add(duration, nested);
        self.write(&sums, EMPTY);
        sums.count.checked_ilog2() != before
    }

    /// Starts over for a new window. Called by the owning thread.
    pub(crate) fn clear(&self) {
        self.calls.store(0, Relaxed);
        self.kind.store(0, Relaxed); // so that the first creation of the window is seen
        self.first.store(0, Relaxed);
        self.write(&Sums::default(), UNUSED);
        self.samples.clear();
    }

    /// The instances that the sums do not have yet, the last first.
    fn pending(&self) -> &[AtomicU64] {
        self.recent.get(self.room.load(Acquire).wrapping_sub(1)..).unwrap_or_default()
    }

    fn sums(&self) -> Sums {
        Sums {
            count: self.count.load(Relaxed),
            total: self.total.load(Relaxed),
            min: self.min.load(Relaxed),
            max: self.max.load(Relaxed),
            squares: u128::from(self.squares_high.load(Relaxed)) << 64 | u128::from(self.squares_low.load(Relaxed)),
            nested: self.nested.load(Relaxed),
        }
    }

    /// Changes the sums, after which nothing is pending: `room` is [`EMPTY`] or [`UNUSED`].
    fn write(&self, sums: &Sums, room: usize) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence.wrapping_add(1), Relaxed);
        // Pairs with the reader's Acquire fence: whoever sees a store below, or a later one to `recent`, sees it odd.
        fence(Release);
        self.count.store(sums.count, Relaxed);
        self.total.store(sums.total, Relaxed);
        self.min.store(sums.min, Relaxed);
        self.max.store(sums.max, Relaxed);
        self.squares_low.store(sums.squares as u64, Relaxed);
        self.squares_high.store((sums.squares >> 64) as u64, Relaxed);
        self.nested.store(sums.nested, Relaxed);
        self.room.store(room, Relaxed);
        // Pairs with the reader's Acquire load: it sees the sums.
        self.sequence.store(sequence.wrapping_add(2), Release);
    }

    /// A copy of one moment. The owning thread may be writing: a copy of the sums that it tore is taken again. They
    /// change once in 28 instances; so the bound on the tries, some 0.5 s, is not reached but where the owner was
    /// stopped in the middle of that, and then some instances are in some of the sums and not in others.
    ///
    /// Durations kept one by one do not change any more, so they are copied once, up to the count; what a histogram
    /// page has counted since is in the median and nowhere else.
    pub(crate) fn copy(&self) -> RowCopy {
        let mut attempt = 0;
        let (mut sums, recent) = loop {
            let sequence = self.sequence.load(Acquire);
            let recent: Vec<u64> = self.pending().iter().rev().map(|recent| recent.load(Relaxed)).collect();
            let sums = self.sums();
            // Pairs with the writer's Release fence: a later sum or recent instance comes with a later `sequence`.
            fence(Acquire);
            let is_whole = sequence.is_multiple_of(2) && self.sequence.load(Relaxed) == sequence;
            if is_whole || attempt == LAST_ATTEMPT {
                break (sums, recent);
            }
            attempt += 1;
            sync::wait(attempt);
        };
        let mut times = Distribution {
            count: sums.count,
            total: u128::from(sums.total),
            min: sums.min,
            max: sums.max,
            squares: sums.squares,
            ..Distribution::default()
        };
        for (index, recent) in (sums.count..).zip(recent) {
            times.add(recent & LOWER_HALF, |_| index < KEPT);
            sums.nested = sums.nested.wrapping_add(recent >> 32);
        }
        self.samples.copy_into(sums.count, &mut times);
        RowCopy {
            node: self.node(),
            calls: self.calls.load(Relaxed),
            first: self.first.load(Relaxed),
            nested: (sums.nested as i64).max(0) as u64,
            times,
        }
    }
}

const LOWER_HALF: u64 = u32::MAX as u64;

/// Words of a row.
pub(crate) const WORDS: usize = size_of::<Row>() / 8;

/// Where in a row its durations have their owner.
pub(crate) const SAMPLES: usize = offset_of!(Row, samples);

/// What a row comes to whose process has ended. Beside it, whether its thread was stopped while the sums changed: then
/// some have what others do not have yet.
pub(crate) fn copy_of_kept(KeptRow { node, words, chunks, pages, .. }: KeptRow<'_>) -> (RowCopy, bool) {
    let word = |offset: usize| words.get(offset / 8).copied().unwrap_or(0);
    let room = usize::try_from(word(offset_of!(Row, room))).unwrap_or(0);
    let recent = words.get(offset_of!(Row, recent) / 8..).and_then(|recent| recent.get(room.wrapping_sub(1)..RECENT));
    let squares =
        u128::from(word(offset_of!(Row, squares_high))) << 64 | u128::from(word(offset_of!(Row, squares_low)));
    let mut copy = RowCopy {
        node,
        calls: word(offset_of!(Row, calls)),
        first: word(offset_of!(Row, first)),
        nested: word(offset_of!(Row, nested)),
        times: Distribution {
            count: word(offset_of!(Row, count)),
            total: u128::from(word(offset_of!(Row, total))),
            min: word(offset_of!(Row, min)),
            max: word(offset_of!(Row, max)),
            squares,
            ..Distribution::default()
        },
    };
    let count = copy.times.count;
    for (start, chunk) in chunks {
        let length = usize::try_from(count.saturating_sub(start)).unwrap_or(usize::MAX).min(chunk.len());
        copy.times.samples.extend(chunk[..length].iter().filter(|duration| **duration != samples::EMPTY));
    }
    for (octave, page) in pages {
        let counters = page.iter().flat_map(|word| [word & LOWER_HALF, word >> 32]);
        for (bucket, count) in counters.enumerate().filter(|(_, count)| *count > 0) {
            *copy.times.buckets.entry((octave, bucket)).or_default() += count;
        }
    }
    for (index, recent) in (count..).zip(recent.unwrap_or_default().iter().rev()) {
        copy.times.add(recent & LOWER_HALF, |_| index < KEPT);
        copy.nested = copy.nested.wrapping_add(recent >> 32);
    }
    copy.nested = (copy.nested as i64).max(0) as u64;
    (copy, word(offset_of!(Row, sequence)) % 2 != 0)
}

/// What a row's instances come to.
#[derive(Clone, Copy, Default)]
struct Sums {
    count: u64,
    total: u64,
    /// Where nothing is counted, it stands at 0, and is set to the greatest number before the first is added.
    min: u64,
    max: u64,
    squares: u128,
    nested: u64,
}

impl Sums {
    #[inline(always)]
    fn add(&mut self, duration: u64, nested: u64) {
        self.min = self.min.min(duration);
        self.max = self.max.max(duration);
        self.count += 1;
        self.total = self.total.wrapping_add(duration);
        self.squares = self.squares.wrapping_add(u128::from(duration) * u128::from(duration));
        self.nested = self.nested.wrapping_add(nested);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Instance number `index`: one that no other equals in what it adds, and at times one too long to be kept for
    /// later.
    fn instance(index: u64) -> (u64, u64) {
        let long = if index % 1_000 == 999 { 1 << 33 } else { 0 };
        let duration = long + index * 0x9e37_79b9 % 1_000 + 1;
        (duration, duration / 3)
    }

    /// What the first `count` instances come to.
    fn sums_of(count: u64) -> Sums {
        let mut sums = Sums { min: u64::MAX, ..Sums::default() };
        (0..count).map(instance).for_each(|(duration, nested)| sums.add(duration, nested));
        sums
    }

    #[test]
    fn a_copy_taken_while_the_owner_writes_is_of_one_moment() {
        const INSTANCES: u64 = 1_000_000;
        let (row, budget, done) = (Row::default(), Budget::new(1 << 20), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (duration, nested) in (0..INSTANCES).map(instance) {
                    if !row.add_near(duration, nested) {
                        row.add(duration, nested, &budget);
                    }
                }
                done.store(true, Release);
            });
            let mut expected = Sums::default();
            loop {
                let last = done.load(Acquire);
                let copy = row.copy();
                assert!(copy.times.count >= expected.count, "a copy goes back in time");
                while expected.count < copy.times.count {
                    if expected.count == 0 {
                        expected.min = u64::MAX;
                    }
                    let (duration, nested) = instance(expected.count);
                    expected.add(duration, nested);
                }
                assert_eq!((copy.times.total, copy.times.squares), (u128::from(expected.total), expected.squares));
                assert_eq!(
                    (copy.times.min, copy.times.max, copy.nested),
                    (expected.min, expected.max, expected.nested)
                );
                let kept: u64 = (0..copy.times.count.min(KEPT)).map(|index| instance(index).0).sum();
                assert_eq!(copy.times.samples.len() as u64, copy.times.count.min(KEPT));
                assert_eq!(copy.times.samples.iter().sum::<u64>(), kept);
                if last {
                    assert_eq!(copy.times.count, INSTANCES);
                    assert_eq!(copy.times.buckets.values().sum::<u64>(), INSTANCES - KEPT);
                    break;
                }
            }
        });
    }

    #[test]
    fn every_instance_is_counted_once_and_at_once() {
        let (row, budget) = (Row::default(), Budget::new(1 << 20));
        for count in 1..KEPT + 100 {
            let (duration, nested) = instance(count - 1);
            row.add(duration, nested, &budget);
            if !(2_000..KEPT - 100).contains(&count) {
                let (copy, expected) = (row.copy(), sums_of(count));
                let times = &copy.times;
                assert_eq!((times.count, times.total), (count, u128::from(expected.total)));
                assert_eq!((times.min, times.max, times.squares), (expected.min, expected.max, expected.squares));
                assert_eq!(times.samples.len() as u64 + times.buckets.values().sum::<u64>(), count);
                assert_eq!(
                    (times.median().is_some_and(|median| median.exact), copy.nested),
                    (count <= KEPT, expected.nested)
                );
            }
        }
    }

    #[test]
    fn a_new_window_forgets_what_was_kept_for_later() {
        let (row, budget) = (Row::default(), Budget::new(1 << 20));
        let doubled = |_: &u64| row.add(7, 0, &budget);
        assert_eq!((0..RECENT as u64 * 3 / 2).filter(doubled).count(), 1);
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
