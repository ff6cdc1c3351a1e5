//! Start/end ranges (`nvtx.lifetime`), which are on no stack.
//!
//! A launch is inside every start/end range that is open and began on its thread. As in Nsight Systems, such a range
//! counts only if it also ends on that thread. So its kernels are kept separately until it ends.
//!
//! A limit: a start/end range is neither a level nor a child for the ranges inside it. A range on the stack is nested
//! only in ranges on the stack, and a start/end range only in those on the stack at its begin. Nsight Systems nests a
//! range in all ranges that begin before and end after it.

use std::sync::{Arc, Weak};

use super::instances::{Ended, Instances};
use super::kernels::{Execution, Key, RangeKernels, is_known};
use crate::totals::{Range, RangeKernel};
use range_report::stats::{Distribution, Keyed, order};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bound on single durations kept here: 8 MiB. They do not use the profiler's budget, because nothing would return them
/// to it.
const APART: usize = if cfg!(test) { 1_000 } else { 1 << 20 };

/// The ranges around some executions of kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Around {
    /// Slots of open start/end ranges, sorted.
    open: Vec<u32>,
    /// Start/end ranges that count already.
    counted: Vec<Range>,
    /// Whether a range on the stack surrounds them, too.
    on_stack: bool,
}

/// Durations by thread and kernel.
type Kernels = Keyed<(u32, u32), Distribution>;

/// Open start/end ranges of one thread.
#[derive(Debug, Default)]
struct OpenRanges {
    /// In order of their begins.
    slots: Vec<u32>,
    /// The same slots, sorted, while launches share the list.
    shared: Option<Weak<[u32]>>,
}

/// The open start/end ranges, and the kernels in them.
///
/// Around a launch are all start/end ranges of its thread that began before and are still open: as many sets as open
/// ranges. Sets also differ by the ranges that have counted, and by whether a range on the stack is there. Only the
/// number of range names bounds these, which is small in practice.
#[derive(Debug, Default)]
pub(super) struct StartEnd {
    /// Open ranges by thread.
    open: FxHashMap<u32, OpenRanges>,
    /// Ranges that have ended since the last drain.
    ended: Vec<Ended>,
    /// Times of waiting kernels, by thread and name.
    waiting: Vec<(Around, Kernels)>,
    /// Number of single durations among these.
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

    /// Slots of the open start/end ranges around the thread's next launch, sorted. Launches share the list until a
    /// range begins or ends.
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

    /// Keeps an execution until the sorted `open` ranges around it have ended. The `counted` ranges have counted it
    /// already.
    pub(super) fn wait(&mut self, open: Vec<u32>, counted: Vec<Range>, on_stack: bool, ran: Execution) {
        let kernels = kernels(&mut self.waiting, Around { open, counted, on_stack });
        let times = kernels.row((ran.thread, ran.kernel));
        let before = times.samples.len();
        times.add(ran.duration, |_| self.apart < APART);
        self.apart += times.samples.len() - before;
    }

    /// Ends a drain: counts the kernels of ranges that have ended.
    pub(super) fn drained(&mut self, instances: &mut Instances, rows: &mut RangeKernels, keep: &dyn Fn(u64) -> bool) {
        for ended in std::mem::take(&mut self.ended) {
            self.count(ended, instances, rows, keep);
        }
    }

    /// The rows of kernels as if all ranges ended now and counted. The number of single durations stays bounded,
    /// although a duration in many open ranges is in the rows as many times.
    pub(super) fn totals(&self, instances: &Instances, rows: &RangeKernels) -> Keyed<Key, RangeKernel> {
        let mut totals = rows.totals();
        let ended: FxHashMap<u32, Option<Range>> = self.ended.iter().map(|ended| (ended.slot, ended.range)).collect();
        let range_of = |slot: u32| ended.get(&slot).copied().unwrap_or_else(|| instances.range(slot));
        let mut launched = FxHashSet::default();
        let mut room = APART;
        for (around, kernels) in &self.waiting {
            let mut counted = Vec::new();
            let ranges = around.open.iter().filter_map(|&slot| Some((slot, range_of(slot)?)));
            // An execution in two instances of a range is one execution of the row, but adds its time twice.
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
                    // An execution in two instances of a range is one execution of the row, but adds its time twice.
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

    /// Begins a new window. Open ranges continue.
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

/// The same distribution without single durations.
fn bucketed(times: &Distribution) -> Distribution {
    let mut all = Distribution::default();
    all.take_over(times.clone(), |_| false);
    all
}

/// Adds a range to a sorted list. False if it is already there.
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
