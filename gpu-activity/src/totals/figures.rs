//! The figures that result from the join, with numbers in place of names.

use crate::fold::{InstanceState, MadeCall, Range};
use crate::record::{Api, Ticks};
use range_report::stats::{Distribution, Keyed};
use range_report::{ActivityLosses, GpuWork, MemoryKind};

/// A function of the CUDA API: its API, and CUPTI's number (cbid) within that API.
pub type Function = (Api, u32);

/// All counts of one window.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Totals {
    /// Execution times by number of the kernel's name.
    pub kernels: Keyed<u32, Distribution>,
    /// Times and sizes of copies and sets.
    pub memory: Keyed<MemoryKind, (Distribution, Distribution)>,
    /// CPU durations of API calls.
    pub calls: Keyed<Function, Distribution>,
    /// Nodes of the lineage tree with work or calls in them or below. Node 0 itself stands for outside of any span.
    pub nodes: Keyed<u32, NodeTotals>,
    /// All operations, including unmatched ones.
    pub total: GpuWork,
    /// Operations without a note of their launch.
    pub unmatched: GpuWork,
    /// Instances with GPU work by range.
    pub projections: Keyed<Range, Projection>,
    /// Kernels by launching thread (0: not known), range (`None`: outside of any) and number of the kernel's name.
    pub range_kernels: Keyed<(u32, Option<Range>, u32), RangeKernel>,
    /// What the other figures lack, except for records that a source lost.
    pub losses: ActivityLosses,
}

/// Work and calls of one node.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NodeTotals {
    /// Work launched directly in it.
    pub own: GpuWork,
    /// Work launched in it and below.
    pub total: GpuWork,
    /// Calls made directly in it: number and summed nanoseconds.
    pub calls: Keyed<Function, (u64, u64)>,
}

/// The instances of one range that have GPU work.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Projection {
    /// Projected durations, in nanoseconds.
    pub projected: Distribution,
    /// Sum of their durations on the CPU, in ticks.
    pub range_total: u128,
    /// Launches with operations.
    pub operations: u64,
    /// Sum over the instances of the number of ranges on the stack that each is nested in.
    pub level_sum: u64,
    /// Sum over the instances of the number of child ranges.
    pub children_sum: u64,
}

/// One kernel in one range on one thread.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RangeKernel {
    /// Instances of the range that launched it.
    pub range_instances: u64,
    /// Its executions.
    pub kernel_instances: u64,
    /// Their times, once for each instance around them.
    pub times: Distribution,
}

impl Totals {
    /// Counts a call, in its node too.
    pub(crate) fn add_call(&mut self, made: &MadeCall) {
        self.calls.row(made.function()).add(made.duration(), |_| true);
        if let Some(node) = made.node {
            add(&mut self.nodes.row(node).calls, made);
        }
    }

    /// Adds an instance with operations, unless it was added before. An open one lasts until `now`.
    pub(super) fn project(&mut self, instance: &InstanceState, now: Ticks, keep: &dyn Fn(u64) -> bool) {
        let figures = &instance.figures;
        if figures.last == 0 || instance.folded {
            return;
        }
        let row = self.projections.row(instance.range());
        row.projected.add(figures.last.saturating_sub(figures.first), keep);
        let end = if instance.over { instance.end } else { now };
        row.range_total = row.range_total.saturating_add(u128::from(end.saturating_sub(instance.began.start)));
        row.operations = row.operations.saturating_add(figures.operations);
        row.level_sum = row.level_sum.saturating_add(u64::from(instance.level));
        if let Some(around) = instance.nested_in {
            self.projections.row(around).children_sum += 1;
        }
    }
}

/// Counts a call among those of a node.
pub(super) fn add(calls: &mut Keyed<Function, (u64, u64)>, made: &MadeCall) {
    let calls = calls.row(made.function());
    *calls = (calls.0.saturating_add(1), calls.1.saturating_add(made.duration()));
}
