//! Start/end ranges (`nvtx.lifetime`), which are on no stack.
//!
//! What a thread launches is in all start/end ranges that began on it and are open. As in Nsight Systems, such a range
//! counts if it ends on that thread too, and else not at all. So the kernels launched in it are kept apart until it
//! ends.
//!
//! The limit: start/end ranges are no level and no child of the ranges inside them. A range on the stack is nested in
//! ranges on the stack alone, and a start/end range in those on the stack at its beginning. Nsight Systems takes all
//! that began before and ended after.

use std::collections::{BTreeMap, BTreeSet};

use super::instances::Instances;
use super::kernels::{Execution, RangeKernels};
use super::totals::Range;
use range_report::stats::Distribution;
use rustc_hash::FxHashMap;

/// Bound on durations that are kept one by one: 8 MiB. They are not of the profiler's budget, which nothing would give
/// back to.
const APART: usize = if cfg!(test) { 1_000 } else { 1 << 20 };

/// What is around some executions of kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Around {
    /// Slots of the start/end ranges that are open, in order.
    open: Vec<u32>,
    /// The start/end ranges that count.
    counted: BTreeSet<Range>,
    /// Whether a range on the stack is around them, too.
    on_stack: bool,
}

/// A start/end range that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) slot: u32,
    /// The thread it began on.
    pub(super) thread: u32,
    /// `None` where it does not count.
    pub(super) range: Option<Range>,
}

/// The start/end ranges that are open, and the kernels in them.
///
/// Of one thread, what is around a launch is all that began before it and is still open: so there are no more sets than
/// open ranges.
#[derive(Clone, Debug, Default)]
pub(super) struct StartEnd {
    /// Slots by thread.
    open: FxHashMap<u32, Vec<u32>>,
    /// Those that have ended since the last drain.
    ended: Vec<Ended>,
    /// Times of kernels, by thread and name.
    waiting: BTreeMap<Around, BTreeMap<(u32, u32), Distribution>>,
    /// Durations of these that are kept one by one.
    apart: usize,
}

impl StartEnd {
    pub(super) fn begin(&mut self, thread: u32, slot: u32) {
        self.open.entry(thread).or_default().push(slot);
    }

    pub(super) fn end(&mut self, ended: Ended) {
        if let Some(open) = self.open.get_mut(&ended.thread) {
            open.retain(|&slot| slot != ended.slot);
            if open.is_empty() {
                self.open.remove(&ended.thread);
            }
        }
        self.ended.push(ended);
    }

    /// Slots of those that what a thread launches now is in.
    #[inline]
    pub(super) fn around(&self, thread: u32) -> &[u32] {
        if self.open.is_empty() {
            return &[];
        }
        self.open.get(&thread).map_or(&[], Vec::as_slice)
    }

    /// Keeps an execution until the `open` ranges around it have ended. Those of `counted` have it already.
    pub(super) fn wait(&mut self, mut open: Vec<u32>, counted: BTreeSet<Range>, on_stack: bool, ran: Execution) {
        open.sort_unstable();
        let kernels = self.waiting.entry(Around { open, counted, on_stack }).or_default();
        let times = kernels.entry((ran.thread, ran.kernel)).or_default();
        let before = times.samples.len();
        times.add(ran.duration, |_| self.apart < APART);
        self.apart += times.samples.len() - before;
    }

    /// A drain is over: the kernels in ranges that have ended are counted.
    pub(super) fn drained(&mut self, instances: &mut Instances, rows: &mut RangeKernels, keep: &dyn Fn(u64) -> bool) {
        for ended in std::mem::take(&mut self.ended) {
            self.count(ended, instances, rows, keep);
        }
    }

    /// The rows of kernels as if all ranges had ended now, and counted. `None` where that changes nothing.
    pub(super) fn counted(&self, instances: &Instances, rows: &RangeKernels) -> Option<RangeKernels> {
        if self.waiting.is_empty() {
            return None;
        }
        let (mut all, mut instances, mut rows) = (self.clone(), instances.clone(), rows.clone());
        all.drained(&mut instances, &mut rows, &|_| true);
        let open: BTreeSet<u32> = all.waiting.keys().flat_map(|around| around.open.iter().copied()).collect();
        for slot in open {
            all.count(Ended { slot, thread: 0, range: instances.range(slot) }, &mut instances, &mut rows, &|_| true);
        }
        Some(rows)
    }

    fn count(&mut self, ended: Ended, instances: &mut Instances, rows: &mut RangeKernels, keep: &dyn Fn(u64) -> bool) {
        let Ended { slot, range, .. } = ended;
        let sets: Vec<Around> = self.waiting.keys().filter(|around| around.open.contains(&slot)).cloned().collect();
        for around in sets {
            let mut rest = around.clone();
            rest.open.retain(|&other| other != slot);
            rest.counted.extend(range);
            for ((thread, kernel), times) in self.waiting.remove(&around).unwrap_or_default() {
                if let Some(range) = range {
                    // An execution in two instances of a range is one of its row, and its time is there twice.
                    let executions = if around.counted.contains(&range) { 0 } else { times.count };
                    let row = rows.row_in(instances, slot, (thread, Some(range), kernel));
                    rows.add_all(row, times.clone(), executions, keep);
                }
                if !rest.open.is_empty() {
                    self.waiting.entry(rest.clone()).or_default().entry((thread, kernel)).or_default().merge(&times);
                    continue;
                }
                self.apart -= times.samples.len().min(self.apart);
                if rest.counted.is_empty() && !rest.on_stack {
                    let (row, executions) = (rows.row((thread, None, kernel)), times.count);
                    rows.add_all(row, times, executions, keep);
                }
            }
        }
    }

    /// A new window. Open ranges go on.
    pub(super) fn clear(&mut self) {
        self.ended.clear();
        self.waiting.clear();
        self.apart = 0;
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.ended.is_empty() && self.apart == 0
    }
}
