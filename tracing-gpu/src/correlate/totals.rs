//! What attribution ends in: the figures of a summary by numbers in place of names.

use std::collections::BTreeMap;

use crate::activity::Api;
use crate::stats::Distribution;
use crate::summary::{GpuWork, MemoryKind, RangeStyle};

/// A function of the CUDA API: CUPTI's number of it (cbid), which is one of its API's.
pub(crate) type Function = (Api, u32);

/// A range: interned label, and style.
pub(crate) type Range = (u32, RangeStyle);

/// Everything that was counted in one window.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Totals {
    /// Execution times by number of the kernel's name.
    pub(crate) kernels: BTreeMap<u32, Distribution>,
    /// Times and sizes of copies and sets.
    pub(crate) memory: BTreeMap<MemoryKind, (Distribution, Distribution)>,
    /// Durations of API calls on the CPU.
    pub(crate) calls: BTreeMap<Function, Distribution>,
    /// Nodes of the lineage tree with work or calls in them or below. What node 0 has of its own is outside of any span.
    pub(crate) nodes: BTreeMap<u32, NodeTotals>,
    /// All operations, unmatched ones included.
    pub(crate) total: GpuWork,
    /// Operations without a note of their launch.
    pub(crate) unmatched: GpuWork,
    /// Instances with GPU work by range.
    pub(crate) projections: BTreeMap<Range, Projection>,
    /// Kernels by launching thread (0: not known), range (`None`: outside of any) and number of the kernel's name.
    pub(crate) range_kernels: BTreeMap<(u32, Option<Range>, u32), RangeKernel>,
    pub(crate) losses: AttributionLosses,
}

/// Work and calls of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeTotals {
    /// Launched directly in it.
    pub(crate) own: GpuWork,
    /// Launched in it and below.
    pub(crate) total: GpuWork,
    /// Calls made directly in it: number and summed nanoseconds.
    pub(crate) calls: BTreeMap<Function, (u64, u64)>,
}

/// The instances of one range that have GPU work.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Projection {
    /// Projected durations, in nanoseconds.
    pub(crate) projected: Distribution,
    /// Sum of their durations on the CPU, in ticks.
    pub(crate) range_total: u128,
    /// Launches with operations.
    pub(crate) operations: u64,
    pub(crate) level_sum: u64,
    pub(crate) children_sum: u64,
}

/// One kernel in one range on one thread.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RangeKernel {
    /// Instances of the range that launched it.
    pub(crate) range_instances: u64,
    /// Its executions.
    pub(crate) kernel_instances: u64,
    /// Their times, once for each instance around them.
    pub(crate) times: Distribution,
}

/// What is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AttributionLosses {
    /// Operations and API calls without a time.
    pub(crate) without_time: u64,
    /// Operations without a note of their launch.
    pub(crate) unmatched: u64,
    /// Launches of which nothing has come.
    pub(crate) outstanding: u64,
    /// Launches that were forgotten by the bound on them before anything of them had come.
    pub(crate) forgotten_launches: u64,
    /// Operations that came after an instance around them had been folded by the bound on instances: its projection is without them.
    pub(crate) late: u64,
}
