//! Kernels by the ranges in which they were launched.

use super::instances::{InstanceState, Instances};
use crate::totals::{Range, RangeKernel};
use range_report::stats::{Distribution, Keyed};
use rustc_hash::FxHashMap;

/// Thread, range and name of a kernel.
pub(super) type Key = (u32, Option<Range>, u32);

#[derive(Debug)]
struct KernelRow {
    key: Key,
    ranges: u64,
    executions: u64,
    times: Distribution,
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
    by_key: FxHashMap<Key, u32>,
}

/// The key of a kernel and thread, within an instance.
fn known(kernel: u32, thread: u32) -> u64 {
    u64::from(kernel) << 32 | u64::from(thread)
}

/// Whether that instance already counts in the row of this kernel.
pub(super) fn is_known(instances: &Instances, slot: u32, kernel: u32, thread: u32) -> bool {
    let key = known(kernel, thread);
    let is_there = |instance: &InstanceState| instance.kernels.binary_search_by_key(&key, |&(known, _)| known).is_ok();
    instances.kept.get(slot as usize).is_some_and(is_there)
}

impl RangeKernels {
    /// Counts an execution in an instance. An instance that was folded early has lost its list of kernels: it counts as
    /// one that had launched this kernel before, unless the row has no instance yet.
    pub(super) fn inside(
        &mut self,
        instance: &mut InstanceState,
        folded: bool,
        ran: Execution,
        keep: &dyn Fn(u64) -> bool,
    ) {
        let row = self.row_of(instance, folded, (ran.thread, Some(instance.range()), ran.kernel));
        self.add(row, ran, keep);
    }

    /// Counts an execution outside of all ranges.
    pub(super) fn outside(&mut self, ran: Execution, keep: &dyn Fn(u64) -> bool) {
        let row = self.row((ran.thread, None, ran.kernel));
        self.add(row, ran, keep);
    }

    /// The row of a kernel that was launched in this instance. Counts the instance in the row.
    pub(super) fn row_in(&mut self, instances: &mut Instances, slot: u32, key: Key) -> u32 {
        match instances.kept.get_mut(slot as usize) {
            Some(instance) => self.row_of(instance, false, key),
            None => self.row(key),
        }
    }

    fn row_of(&mut self, instance: &mut InstanceState, folded: bool, key: Key) -> u32 {
        let known = known(key.2, key.0);
        let at = match instance.kernels.binary_search_by_key(&known, |&(known, _)| known) {
            Ok(at) => return instance.kernels.get(at).map_or(0, |&(_, row)| row),
            Err(at) => at,
        };
        let row = self.row(key);
        if !folded {
            instance.kernels.insert(at, (known, row));
        }
        if let Some(row) = self.rows.get_mut(row as usize) {
            row.ranges += u64::from(!folded || row.ranges == 0);
        }
        row
    }

    pub(super) fn row(&mut self, key: Key) -> u32 {
        let rows = &mut self.rows;
        *self.by_key.entry(key).or_insert_with(|| {
            rows.push(KernelRow { key, ranges: 0, executions: 0, times: Distribution::default(), mark: 0 });
            u32::try_from(rows.len() - 1).unwrap_or(u32::MAX)
        })
    }

    fn add(&mut self, row: u32, ran: Execution, keep: &dyn Fn(u64) -> bool) {
        let Some(row) = self.rows.get_mut(row as usize) else { return };
        row.times.add(ran.duration, keep);
        row.executions += u64::from(row.mark != ran.mark);
        row.mark = ran.mark;
    }

    /// Adds times that were kept separately.
    pub(super) fn add_all(&mut self, row: u32, times: Distribution, executions: u64, keep: &dyn Fn(u64) -> bool) {
        let Some(row) = self.rows.get_mut(row as usize) else { return };
        row.times.take_over(times, keep);
        row.executions += executions;
    }

    /// All rows.
    pub(super) fn totals(&self) -> Keyed<Key, RangeKernel> {
        let row = |row: &KernelRow| {
            let (range_instances, kernel_instances, times) = (row.ranges, row.executions, row.times.clone());
            (row.key, RangeKernel { range_instances, kernel_instances, times })
        };
        self.rows.iter().map(row).collect()
    }

    /// Clears the rows. The caller must have cleared the instances' references to rows first.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.by_key.clear();
    }
}
