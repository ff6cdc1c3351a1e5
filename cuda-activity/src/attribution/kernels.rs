//! Kernels by the ranges that they were launched in.
//!
//! A start/end range counts only if it ends on its own thread. Until then it keeps the times of its kernels by itself.

use std::collections::BTreeMap;

use super::hash::Map;
use super::projection::Kept;
use super::totals::{Range, RangeKernel};
use super::undecided::Undecided;
use range_report::stats::Distribution;

/// Thread, range and name of a kernel.
pub(super) type Key = (u32, Option<Range>, u32);

#[derive(Clone, Debug)]
struct Row {
    key: Key,
    ranges: u64,
    executions: u64,
    times: Distribution,
    /// The last execution that was counted: in one that is nested in two instances of a range the row has it once, and its time twice.
    mark: u64,
}

/// One execution of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Execution {
    pub(super) kernel: u32,
    pub(super) thread: u32,
    pub(super) duration: u64,
    /// Its number as an operation.
    pub(super) mark: u64,
}

#[derive(Debug, Default)]
pub(super) struct RangeKernels {
    rows: Vec<Row>,
    by_key: Map<Key, u32>,
    undecided: Undecided,
    /// Times of rows that wait for the end of the drain, in which it is known whether they are kept one by one.
    decided: Vec<(u32, Distribution)>,
    /// Durations kept one by one for what is undecided. They are not of the budget, which nothing would give back to.
    apart: usize,
}

/// Bound on these: 8 MiB.
const APART: usize = if cfg!(test) { 1_000 } else { 1 << 20 };

/// A kernel of a thread, in an instance.
fn known(kernel: u32, thread: u32) -> u64 {
    u64::from(kernel) << 32 | u64::from(thread)
}

/// How many durations more are kept, `apart` of them so far.
fn add_apart(times: &mut Distribution, duration: u64, apart: usize) -> usize {
    let before = times.samples.len();
    times.add(duration, |_| apart < APART);
    times.samples.len() - before
}

impl RangeKernels {
    /// Counts it in an instance that is undecided.
    pub(super) fn inside_alone(&mut self, instance: &mut Kept, ran: Execution) {
        let known = known(ran.kernel, ran.thread);
        let at = instance.alone.binary_search_by_key(&known, |&(key, _)| key).unwrap_or_else(|at| {
            instance.alone.insert(at, (known, Distribution::default()));
            at
        });
        if let Some((_, times)) = instance.alone.get_mut(at) {
            self.apart += add_apart(times, ran.duration, self.apart);
        }
    }

    /// Has it wait for the undecided instances around it. Whether it is `inside` of others is known.
    pub(super) fn wait(&mut self, mut around: Vec<(Range, u32)>, inside: bool, ran: Execution) {
        if !inside {
            let slots = around.iter().map(|&(_, slot)| slot).collect();
            let waiting = self.undecided.wait(slots, (ran.thread, None, ran.kernel));
            self.apart += add_apart(&mut waiting.times, ran.duration, self.apart);
        }
        around.sort_unstable();
        for instances in around.chunk_by(|a, b| a.0 == b.0) {
            let key = (ran.thread, instances.first().map(|&(range, _)| range), ran.kernel);
            let row = self.by_key.get(&key).and_then(|&row| self.rows.get(row as usize));
            if row.is_none_or(|row| row.mark != ran.mark) {
                let slots = instances.iter().map(|&(_, slot)| slot).collect();
                self.undecided.wait(slots, key);
            }
        }
    }

    /// An instance that was undecided counts.
    pub(super) fn counts(&mut self, slot: u32, instance: &mut Kept) {
        for (known, times) in std::mem::take(&mut instance.alone) {
            self.apart -= times.samples.len().min(self.apart);
            let row = self.row((known as u32, Some(instance.range()), (known >> 32) as u32));
            instance.kernels.push((known, row));
            if let Some(row) = self.rows.get_mut(row as usize) {
                row.ranges += 1;
            }
            self.decided.push((row, times));
        }
        self.decide(slot, true);
    }

    /// An instance that was undecided counts for nothing.
    pub(super) fn left(&mut self, slot: u32, instance: &mut Kept) {
        for (_, times) in std::mem::take(&mut instance.alone) {
            self.apart -= times.samples.len().min(self.apart);
        }
        self.decide(slot, false);
    }

    fn decide(&mut self, slot: u32, counts: bool) {
        for (key, waiting) in self.undecided.decide(slot, counts) {
            self.apart -= waiting.times.samples.len().min(self.apart);
            if counts != key.1.is_some() {
                continue;
            }
            let row = self.row(key);
            if let Some(row) = self.rows.get_mut(row as usize) {
                row.executions += waiting.executions;
            }
            self.decided.push((row, waiting.times));
        }
    }

    /// A drain is over.
    pub(super) fn drained(&mut self, keep: &dyn Fn(u64) -> bool) {
        for (row, times) in std::mem::take(&mut self.decided) {
            if let Some(row) = self.rows.get_mut(row as usize) {
                row.times.take_over(times, keep);
            }
        }
    }

    /// Counts it in an instance. Of one that was folded early it is not known any more whether it launched this kernel before: it counts as one that did, but
    /// for the first of a row.
    pub(super) fn inside(&mut self, instance: &mut Kept, folded: bool, ran: Execution, keep: &dyn Fn(u64) -> bool) {
        let known = known(ran.kernel, ran.thread);
        let found = instance.kernels.binary_search_by_key(&known, |&(key, _)| key);
        let row = match found.map(|at| instance.kernels.get(at)) {
            Ok(Some(&(_, row))) => row,
            Ok(None) => return,
            Err(at) => {
                let row = self.row((ran.thread, Some(instance.range()), ran.kernel));
                if !folded {
                    instance.kernels.insert(at, (known, row));
                }
                if let Some(row) = self.rows.get_mut(row as usize) {
                    row.ranges += u64::from(!folded || row.ranges == 0);
                }
                row
            }
        };
        self.add(row, ran, keep);
    }

    /// Counts it outside of all ranges.
    pub(super) fn outside(&mut self, ran: Execution, keep: &dyn Fn(u64) -> bool) {
        let row = self.row((ran.thread, None, ran.kernel));
        self.add(row, ran, keep);
    }

    fn row(&mut self, key: Key) -> u32 {
        let rows = &mut self.rows;
        *self.by_key.entry(key).or_insert_with(|| {
            rows.push(Row { key, ranges: 0, executions: 0, times: Distribution::default(), mark: 0 });
            u32::try_from(rows.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn add(&mut self, row: u32, ran: Execution, keep: &dyn Fn(u64) -> bool) {
        let Some(row) = self.rows.get_mut(row as usize) else { return };
        row.times.add(ran.duration, keep);
        row.executions += u64::from(row.mark != ran.mark);
        row.mark = ran.mark;
    }

    /// All rows, as if the `undecided` instances were over.
    pub(super) fn totals<'a>(&self, undecided: impl Iterator<Item = &'a Kept>) -> BTreeMap<Key, RangeKernel> {
        let mut totals: BTreeMap<Key, RangeKernel> = BTreeMap::new();
        for Row { key, ranges, executions, times, .. } in &self.rows {
            let (range_instances, kernel_instances, times) = (*ranges, *executions, times.clone());
            totals.insert(*key, RangeKernel { range_instances, kernel_instances, times });
        }
        let decided =
            self.decided.iter().filter_map(|(row, times)| Some((self.rows.get(*row as usize)?.key, 0, times)));
        let undecided = undecided.flat_map(|instance| {
            let row = |known: u64| (known as u32, Some(instance.range()), (known >> 32) as u32);
            instance.alone.iter().map(move |(known, times)| (row(*known), 1, times))
        });
        for (key, ranges, times) in decided.chain(undecided) {
            let row = totals.entry(key).or_default();
            row.range_instances += ranges;
            row.times.merge(times);
        }
        for (key, executions) in self.undecided.all() {
            totals.entry(key).or_default().kernel_instances += executions;
        }
        totals
    }

    #[cfg(test)]
    pub(super) fn decides_nothing(&self) -> bool {
        self.undecided.is_empty() && self.apart == 0
    }

    /// Instances must have forgotten their rows.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.by_key.clear();
        self.undecided.clear();
        self.decided.clear();
        self.apart = 0;
    }
}
