//! Kernels by the ranges in which they were launched.

use super::figures::RangeKernel;
use crate::fold::{InstanceState, Instances, Range};
use range_model::stats::{Distribution, Keyed};

/// Thread, range and name of a kernel.
pub(super) type Key = (u32, Option<Range>, u32);

#[derive(Debug)]
struct KernelRow {
    key: Key,
    counted: RangeKernel,
    /// The last execution that was counted. An execution inside two nested instances of one range is one execution of
    /// the row, but adds its time twice.
    mark: u64,
}

/// One execution of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Execution {
    pub(super) kernel: u32,
    pub(super) thread: u32,
    pub(super) duration: u64,
    /// Its serial number as an operation.
    pub(super) mark: u64,
}

#[derive(Debug, Default)]
pub(super) struct RangeKernels {
    rows: Vec<KernelRow>,
    by_key: Keyed<Key, u32>,
}

/// Whether that instance already counts in the row of this kernel and thread.
pub(super) fn is_known(instances: &Instances, slot: u32, kernel: (u32, u32)) -> bool {
    let place = |of: &InstanceState| of.figures.kernels.binary_search_by_key(&kernel, |&(known, _)| known);
    instances.get(slot).is_some_and(|instance| place(instance).is_ok())
}

impl RangeKernels {
    /// Counts an execution in an instance.
    pub(super) fn inside(&mut self, instance: &mut InstanceState, ran: Execution, keep: &dyn Fn(u64) -> bool) {
        let row = self.row_of(instance, (ran.thread, Some(instance.range()), ran.kernel));
        self.add(row, ran, keep);
    }

    /// The row of a kernel that was launched in this instance. Counts the instance in the row. An instance that was
    /// folded early has lost its list of kernels: it counts as one that had launched this kernel before, unless the row
    /// has no instance yet.
    pub(super) fn row_of(&mut self, instance: &mut InstanceState, key: Key) -> u32 {
        let (kernel, kernels) = ((key.2, key.0), &mut instance.figures.kernels);
        let at = match kernels.binary_search_by_key(&kernel, |&(known, _)| known) {
            Ok(at) => return kernels.get(at).map_or(0, |&(_, row)| row),
            Err(at) => at,
        };
        let row = self.row(key);
        if !instance.folded {
            kernels.insert(at, (kernel, row));
        }
        if let Some(row) = self.rows.get_mut(row as usize) {
            row.counted.range_instances += u64::from(!instance.folded || row.counted.range_instances == 0);
        }
        row
    }

    pub(super) fn row(&mut self, key: Key) -> u32 {
        let rows = &mut self.rows;
        *self.by_key.row_or(key, || {
            rows.push(KernelRow { key, counted: RangeKernel::default(), mark: 0 });
            u32::try_from(rows.len() - 1).unwrap_or(u32::MAX)
        })
    }

    pub(super) fn add(&mut self, row: u32, ran: Execution, keep: &dyn Fn(u64) -> bool) {
        let Some(row) = self.rows.get_mut(row as usize) else { return };
        row.counted.times.add(ran.duration, keep);
        row.counted.kernel_instances += u64::from(row.mark != ran.mark);
        row.mark = ran.mark;
    }

    /// Adds times that were kept separately.
    pub(super) fn add_all(&mut self, row: u32, times: Distribution, executions: u64, keep: &dyn Fn(u64) -> bool) {
        let Some(row) = self.rows.get_mut(row as usize) else { return };
        row.counted.times.take_over(times, keep);
        row.counted.kernel_instances += executions;
    }

    /// All rows.
    pub(super) fn totals(&self) -> Keyed<Key, RangeKernel> {
        self.rows.iter().map(|row| (row.key, row.counted.clone())).collect()
    }
}
