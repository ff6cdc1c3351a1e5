//! Kernels by the ranges that they were launched in.

use super::hash::Map;
use super::projection::Kept;
use super::totals::RangeKernel;
use crate::stats::Distribution;
use crate::summary::RangeStyle;

/// Thread, range and name of a kernel.
pub(super) type Key = (u32, Option<(u32, RangeStyle)>, u32);

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
}

impl RangeKernels {
    /// Counts it in an instance. Of one that was folded early it is not known any more whether it launched this kernel before: it counts as one that did, but
    /// for the first of a row.
    pub(super) fn inside(&mut self, instance: &mut Kept, folded: bool, ran: Execution, keep: &dyn Fn(u64) -> bool) {
        let known = u64::from(ran.kernel) << 32 | u64::from(ran.thread);
        let found = instance.kernels.binary_search_by_key(&known, |&(key, _)| key);
        let row = match found.map(|at| instance.kernels.get(at)) {
            Ok(Some(&(_, row))) => row,
            Ok(None) => return,
            Err(at) => {
                let row = self.row((ran.thread, Some((instance.label, instance.style)), ran.kernel));
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

    pub(super) fn totals(&self) -> impl Iterator<Item = (Key, RangeKernel)> {
        self.rows.iter().map(|row| {
            let (range_instances, kernel_instances, times) = (row.ranges, row.executions, row.times.clone());
            (row.key, RangeKernel { range_instances, kernel_instances, times })
        })
    }

    /// Instances must have forgotten their rows.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.by_key.clear();
    }
}
