//! Kernels in start/end ranges (`nvtx.lifetime`) that may still end on another thread.
//!
//! A launch is inside every start/end range that is open and began on its thread. As in Nsight Systems, such a range
//! counts only if it also ends on that thread. So its kernels are kept separately until it ends.
//!
//! A limit: a start/end range is neither a level nor a child for the ranges inside it. A range on the stack is nested
//! only in ranges on the stack, and a start/end range only in those on the stack at its begin. Nsight Systems nests a
//! range in all ranges that begin before and end after it.

use super::figures::RangeKernel;
use super::kernels::{Execution, Key, RangeKernels, is_known};
use crate::fold::{InstanceState, Instances, Range};
use range_model::stats::{Distribution, Keyed, Lean};

/// Bound on single durations kept here: 8 MiB. They do not use the profiler's budget, because nothing would return them
/// to it.
const APART: usize = if cfg!(test) { 1_000 } else { 1 << 20 };

/// The ranges around some executions of kernels.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Around {
    /// Slots of open start/end ranges, sorted.
    open: Vec<u32>,
    /// Start/end ranges that count already.
    counted: Vec<Range>,
    /// Whether a range on the stack surrounds them, too.
    on_stack: bool,
}

/// Durations by thread and kernel.
pub(crate) type Kernels = Keyed<(u32, u32), Distribution>;

/// The kernels in start/end ranges that are open.
///
/// Around a launch are all start/end ranges of its thread that began before and are still open: as many sets as open
/// ranges. Sets also differ by the ranges that have counted, and by whether a range on the stack is there. Only the
/// number of range names bounds these, which is small in practice.
#[derive(Debug, Default)]
pub(crate) struct Undecided {
    /// Times of waiting kernels, by thread and name.
    pub(crate) waiting: Vec<(Around, Kernels)>,
    /// Number of single durations among these.
    pub(crate) apart: usize,
}

impl Undecided {
    /// Keeps an execution until the sorted `open` ranges around it have ended. The `counted` ranges have counted it
    /// already.
    pub(super) fn wait(&mut self, open: Vec<u32>, counted: Vec<Range>, on_stack: bool, ran: Execution) {
        let kernels = kernels(&mut self.waiting, Around { open, counted, on_stack });
        let times = kernels.row((ran.thread, ran.kernel));
        let before = times.samples.len();
        times.add(ran.duration, |_| self.apart < APART);
        self.apart += times.samples.len() - before;
    }

    /// The rows of kernels as if all ranges ended now and counted. The number of single durations stays bounded,
    /// although a duration in many open ranges is in the rows as many times.
    pub(super) fn totals(&self, instances: &Instances, rows: &RangeKernels) -> Keyed<Key, RangeKernel> {
        let mut totals = rows.totals();
        let range_of = |slot: u32| instances.get(slot).filter(|range| !range.left).map(InstanceState::range);
        let mut launched: Keyed<_, ()> = Keyed::default();
        let mut room = APART;
        for (around, kernels) in &self.waiting {
            let mut counted = Vec::new();
            let ranges = around.open.iter().filter_map(|&slot| Some((slot, range_of(slot)?)));
            // An execution in two instances of a range is one execution of the row, but adds its time twice.
            let mut is_first = |range| !around.counted.contains(&range) && insert(&mut counted, range);
            let ranges: Vec<_> = ranges.map(|(slot, range)| (slot, range, is_first(range))).in_vec();
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
                    let is_new =
                        !is_known(instances, slot, (kernel, thread)) && launched.insert((slot, kernel, thread), ());
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

    /// Counts the kernels of a range that has ended.
    pub(super) fn ended(
        &mut self,
        slot: u32,
        instance: &mut InstanceState,
        rows: &mut RangeKernels,
        keep: &dyn Fn(u64) -> bool,
    ) {
        let range = (!instance.left).then(|| instance.range());
        let is_in = |(around, _): &mut (Around, Kernels)| around.open.binary_search(&slot).is_ok();
        let within: Vec<(Around, Kernels)> = self.waiting.extract_if(.., is_in).in_vec();
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
                    let row = rows.row_of(instance, (thread, Some(range), kernel));
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
