//! Start/end ranges (`nvtx.lifetime`), which are on no stack.
//!
//! What a thread launches is in all start/end ranges that began on it and are open. As in Nsight Systems, such a range
//! counts if it ends on that thread too, and else not at all. So the kernels launched in it are kept apart until it
//! ends.
//!
//! The limit: start/end ranges are no level and no child of the ranges inside them. A range on the stack is nested in
//! ranges on the stack alone, and a start/end range in those on the stack at its beginning. Nsight Systems takes all
//! that began before and ended after.

use std::sync::{Arc, Weak};

use super::instances::{Ended, Instances};
use super::kernels::{Execution, Key, RangeKernels, is_known};
use crate::totals::{Range, RangeKernel};
use range_report::stats::{Distribution, Keyed, order};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bound on durations that are kept one by one: 8 MiB. They are not of the profiler's budget, which nothing would give
/// back to.
const APART: usize = if cfg!(test) { 1_000 } else { 1 << 20 };

/// What is around some executions of kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Around {
    /// Slots of the start/end ranges that are open, in order.
    open: Vec<u32>,
    /// The start/end ranges that count.
    counted: Vec<Range>,
    /// Whether a range on the stack is around them, too.
    on_stack: bool,
}

/// Durations by thread and kernel.
type Kernels = Keyed<(u32, u32), Distribution>;

/// Open start/end ranges of one thread.
#[derive(Debug, Default)]
struct OpenRanges {
    /// In the order of their beginnings.
    slots: Vec<u32>,
    /// The same in their own order, while launches share it.
    shared: Option<Weak<[u32]>>,
}

/// The start/end ranges that are open, and the kernels in them.
///
/// Of one thread, what is around a launch is all that began before it and is still open: as many sets as open ranges.
/// What has counted around it, and whether a range on the stack is there, tells more of them apart: nothing bounds
/// these but the names of ranges, which are few in practice.
#[derive(Debug, Default)]
pub(super) struct StartEnd {
    /// By thread.
    open: FxHashMap<u32, OpenRanges>,
    /// Those that have ended since the last drain.
    ended: Vec<Ended>,
    /// Times of kernels, by thread and name.
    waiting: Vec<(Around, Kernels)>,
    /// Durations of these that are kept one by one.
    apart: usize,
}

impl StartEnd {
    pub(super) fn begin(&mut self, thread: u32, slot: u32) {
        let open = self.open.entry(thread).or_default();
        open.slots.push(slot);
        open.shared = None;
    }

    pub(super) fn end(&mut self, ended: Ended) {
        if let Some(open) = self.open.get_mut(&ended.thread) {
            open.slots.retain(|&slot| slot != ended.slot);
            open.shared = None;
            if open.slots.is_empty() {
                self.open.remove(&ended.thread);
            }
        }
        self.ended.push(ended);
    }

    /// Slots of those that what a thread launches now is in, in order. Launches between which none begins or ends share
    /// them.
    #[inline]
    pub(super) fn around(&mut self, thread: u32) -> Option<Arc<[u32]>> {
        if self.open.is_empty() {
            return None;
        }
        let open = self.open.get_mut(&thread)?;
        if let Some(shared) = open.shared.as_ref().and_then(Weak::upgrade) {
            return Some(shared);
        }
        let mut slots = open.slots.clone();
        order::by_key(&mut slots, |slot| *slot);
        let shared = Arc::from(slots);
        open.shared = Some(Arc::downgrade(&shared));
        Some(shared)
    }

    /// Keeps an execution until the `open` ranges around it have ended, which are in order. Those of `counted` have it
    /// already.
    pub(super) fn wait(&mut self, open: Vec<u32>, counted: Vec<Range>, on_stack: bool, ran: Execution) {
        let kernels = kernels(&mut self.waiting, Around { open, counted, on_stack });
        let times = kernels.row((ran.thread, ran.kernel));
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

    /// The rows of kernels as if all ranges had ended now, and counted. Of the durations that wait, as many as may be
    /// kept one by one are so here: one that is in many open ranges is in the rows as many times.
    pub(super) fn totals(&self, instances: &Instances, rows: &RangeKernels) -> Keyed<Key, RangeKernel> {
        let mut totals = rows.totals();
        let ended: FxHashMap<u32, Option<Range>> = self.ended.iter().map(|ended| (ended.slot, ended.range)).collect();
        let range_of = |slot: u32| ended.get(&slot).copied().unwrap_or_else(|| instances.range(slot));
        let mut launched = FxHashSet::default();
        let mut room = APART;
        for (around, kernels) in &self.waiting {
            let mut counted = Vec::new();
            let ranges = around.open.iter().filter_map(|&slot| Some((slot, range_of(slot)?)));
            // An execution in two instances of a range is one of its row, and its time is there twice.
            let mut is_first = |range| !around.counted.contains(&range) && insert(&mut counted, range);
            let ranges: Vec<_> = ranges.map(|(slot, range)| (slot, range, is_first(range))).collect();
            let is_outside = ranges.is_empty() && around.counted.is_empty() && !around.on_stack;
            for (&(thread, kernel), times) in kernels.iter() {
                let mut in_buckets = None;
                let mut add = |row: &mut RangeKernel, is_first: bool| {
                    row.kernel_instances += if is_first { times.count } else { 0 };
                    if row.times.buckets.is_empty() && times.samples.len() <= room {
                        room -= times.samples.len();
                        row.times.merge(times);
                    } else {
                        row.times.merge(in_buckets.get_or_insert_with(|| bucketed(times)));
                    }
                };
                for &(slot, range, is_first) in &ranges {
                    let row = totals.row((thread, Some(range), kernel));
                    let is_new = !is_known(instances, slot, kernel, thread) && launched.insert((slot, kernel, thread));
                    row.range_instances += u64::from(is_new);
                    add(row, is_first);
                }
                if is_outside {
                    add(totals.row((thread, None, kernel)), true);
                }
            }
        }
        totals
    }

    fn count(&mut self, ended: Ended, instances: &mut Instances, rows: &mut RangeKernels, keep: &dyn Fn(u64) -> bool) {
        let Ended { slot, range, .. } = ended;
        let is_in = |(around, _): &mut (Around, Kernels)| around.open.binary_search(&slot).is_ok();
        let within: Vec<(Around, Kernels)> = self.waiting.extract_if(.., is_in).collect();
        for (around, kernels_within) in within {
            let mut rest = around.clone();
            rest.open.retain(|&other| other != slot);
            if let Some(range) = range {
                insert(&mut rest.counted, range);
            }
            for ((thread, kernel), times) in kernels_within {
                if let Some(range) = range {
                    // An execution in two instances of a range is one of its row, and its time is there twice.
                    let executions = if around.counted.contains(&range) { 0 } else { times.count };
                    let row = rows.row_in(instances, slot, (thread, Some(range), kernel));
                    rows.add_all(row, times.clone(), executions, keep);
                }
                if !rest.open.is_empty() {
                    kernels(&mut self.waiting, rest.clone()).row((thread, kernel)).merge(&times);
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

/// The same, with none kept by itself.
fn bucketed(times: &Distribution) -> Distribution {
    let mut all = Distribution::default();
    all.take_over(times.clone(), |_| false);
    all
}

/// Adds a range to a list in order. False where it is there.
pub(super) fn insert(ranges: &mut Vec<Range>, range: Range) -> bool {
    let place = ranges.binary_search(&range);
    place.map_err(|place| ranges.insert(place, range)).is_err()
}

/// The kernels that wait for these ranges.
fn kernels(waiting: &mut Vec<(Around, Kernels)>, around: Around) -> &mut Kernels {
    let place = waiting.binary_search_by(|(other, _)| other.cmp(&around)).unwrap_or_else(|place| {
        waiting.insert(place, (around, Kernels::default()));
        place
    });
    &mut waiting[place].1
}
