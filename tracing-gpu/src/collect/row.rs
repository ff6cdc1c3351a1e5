//! One row of one thread: counts and sums that only the owning thread writes and anyone may read.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

use std::time::Duration;

use nvtx_rs::{Attributes, Domain};
use once_cell::sync::OnceCell;
use tracing_core::Metadata;

use super::samples::{Budget, Samples};
use crate::clock::{Clock, Ticks};
use crate::record::RangeKey;
use crate::stats::Distribution;

/// What a row's ranges look like to an NVTX tool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NvtxRange {
    pub(crate) domain: Domain,
    pub(crate) attributes: Attributes<'static>,
}

/// Facts about a row that do not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowIdentity {
    pub(crate) key: RangeKey,
    pub(crate) nvtx: NvtxRange,
    /// Call site of the span that made the row.
    pub(crate) metadata: &'static Metadata<'static>,
}

/// Statistics of one lineage node on one thread, in ticks.
///
/// Single writer: plain loads and stores, never a read-modify-write. `begun` and `count` are a sequence lock: a writer raises
/// `begun` first and `count` last (its `Release` store pairs with the reader's `Acquire` load), so a reader that finds both equal
/// around its copy has a copy of one moment.
#[derive(Debug, Default)]
#[repr(C, align(64))] // the sums of an instance share a cache line
pub(crate) struct Row {
    calls: AtomicU64,
    begun: AtomicU64,
    count: AtomicU64,
    total: AtomicU64,
    /// The shortest duration with all bits inverted, so that 0 is that of no duration.
    inverted_min: AtomicU64,
    max: AtomicU64,
    squares_low: AtomicU64,
    squares_high: AtomicU64,
    nested: AtomicU64,
    node: AtomicU32,
    /// When the first span of the window was created; 0 before.
    first: AtomicU64,
    identity: OnceCell<RowIdentity>,
    samples: Samples,
}

/// A consistent copy of a row, in ticks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowCopy {
    pub(crate) node: u32,
    pub(crate) calls: u64,
    /// When the first span of the window was created; 0 where none was, and only earlier ones were entered.
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
        self.identity.set(identity).is_ok()
    }

    #[inline(always)]
    pub(crate) fn identity(&self) -> Option<&RowIdentity> {
        self.identity.get()
    }

    pub(crate) fn node(&self) -> u32 {
        self.node.load(Relaxed)
    }

    #[inline(always)]
    pub(crate) fn add_call(&self, clock: &Clock) {
        let calls = self.calls.load(Relaxed);
        if calls == 0 {
            self.first.store(clock.now(), Relaxed);
        }
        self.calls.store(calls + 1, Relaxed);
    }

    /// Adds one instance of `duration` ticks, `nested` of them in ranges directly above. Returns false, and has done nothing, where that
    /// takes memory first: then [`add`](Self::add).
    #[inline(always)]
    pub(crate) fn add_near(&self, duration: u64, nested: u64) -> bool {
        let count = self.count.load(Relaxed);
        if let Some(slot) = self.samples.slot(count) {
            self.add_sums(count, duration, nested);
            slot.store(duration, Relaxed);
        } else if let Some(counter) = self.samples.counter(count, duration) {
            self.add_sums(count, duration, nested);
            counter.store(counter.load(Relaxed).saturating_add(1), Relaxed);
        } else {
            return false;
        }
        self.count.store(count + 1, Release);
        true
    }

    /// Adds one instance of `duration` ticks, `nested` of them in ranges directly above.
    #[inline(never)]
    pub(crate) fn add(&self, duration: u64, nested: u64, budget: &Budget) {
        let count = self.count.load(Relaxed);
        self.add_sums(count, duration, nested);
        self.samples.keep(count, duration, budget);
        self.count.store(count + 1, Release);
    }

    #[inline(always)]
    fn add_sums(&self, count: u64, duration: u64, nested: u64) {
        self.begun.store(count + 1, Relaxed);
        fence(Release); // pairs with the reader's Acquire fence: whoever sees a sum below also sees `begun`
        self.total.store(self.total.load(Relaxed).wrapping_add(duration), Relaxed);
        // What does not change is not stored: the atomics that follow in a registry wait for every store.
        if nested != 0 {
            self.nested.store(self.nested.load(Relaxed).wrapping_add(nested), Relaxed);
        }
        if duration > self.max.load(Relaxed) {
            self.max.store(duration, Relaxed);
        }
        if !duration > self.inverted_min.load(Relaxed) {
            self.inverted_min.store(!duration, Relaxed);
        }
        let square = u128::from(duration) * u128::from(duration);
        let (low, carry) = self.squares_low.load(Relaxed).overflowing_add(square as u64);
        self.squares_low.store(low, Relaxed);
        let high = ((square >> 64) as u64).wrapping_add(u64::from(carry));
        if high != 0 {
            self.squares_high.store(self.squares_high.load(Relaxed).wrapping_add(high), Relaxed);
        }
    }

    /// Instances so far.
    #[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
    pub(crate) fn instances(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// What its durations have taken of the budget, in bytes.
    #[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
    pub(crate) fn bytes(&self) -> usize {
        self.samples.bytes()
    }

    /// Starts over for a new window. Called by the owning thread.
    pub(crate) fn clear(&self) {
        self.begun.store(u64::MAX, Relaxed); // no reader takes a copy from the middle of this
        fence(Release);
        for field in [
            &self.calls,
            &self.first,
            &self.total,
            &self.nested,
            &self.inverted_min,
            &self.max,
            &self.squares_low,
            &self.squares_high,
        ] {
            field.store(0, Relaxed);
        }
        self.samples.clear();
        self.count.store(0, Relaxed);
        self.begun.store(0, Release);
    }

    /// A copy of one moment. The owning thread may be writing: a copy of the sums that it tore is taken again. They are ten words, which is
    /// less than an instance takes; so the bound on the tries, some 0.5 s, is not reached but where the owner was stopped in the middle of
    /// writing, and then one instance is in some of the sums and not in others.
    ///
    /// Durations kept one by one do not change any more, so they are copied once, up to the count; what a histogram page has counted
    /// since is in the median and nowhere else.
    pub(crate) fn copy(&self) -> RowCopy {
        let mut copy = self.copy_sums();
        for attempt in 0..LAST_ATTEMPT {
            fence(Acquire); // pairs with the writer's Release fence: a sum of a later instance comes with a later `begun`
            if self.begun.load(Relaxed) == copy.times.count {
                break;
            }
            match attempt {
                0..100 => std::hint::spin_loop(),
                // The owner has lost its processor in the middle of an instance: it is given the time to come back.
                100..1_000 => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(100)),
            }
            copy = self.copy_sums();
        }
        self.samples.copy_into(copy.times.count, &mut copy.times);
        copy
    }

    fn copy_sums(&self) -> RowCopy {
        let count = self.count.load(Acquire);
        RowCopy {
            node: self.node(),
            calls: self.calls.load(Relaxed),
            first: self.first.load(Relaxed),
            nested: (self.nested.load(Relaxed) as i64).max(0) as u64,
            times: Distribution {
                count,
                total: u128::from(self.total.load(Relaxed)),
                min: if count == 0 { 0 } else { !self.inverted_min.load(Relaxed) },
                max: self.max.load(Relaxed),
                squares: u128::from(self.squares_high.load(Relaxed)) << 64 | u128::from(self.squares_low.load(Relaxed)),
                ..Distribution::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_copy_taken_while_the_owner_writes_is_of_one_moment() {
        let (row, budget, done) = (Row::default(), Budget::new(1 << 20), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..3_000_000 {
                    if !row.add_near(10, 4) {
                        row.add(10, 4, &budget);
                    }
                }
                done.store(true, Release);
            });
            loop {
                let last = done.load(Acquire);
                let copy = row.copy();
                let count = copy.times.count;
                assert_eq!(copy.times.total, u128::from(count) * 10);
                assert_eq!((copy.nested, copy.times.squares), (count * 4, u128::from(count) * 100));
                if last {
                    assert_eq!(count, 3_000_000);
                    break;
                }
            }
        });
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
