//! The figures that result from the join, with numbers in place of names.

use std::hash::Hash;

use crate::fold::{Capture, InstanceState, MadeCall, Range};
use crate::record::{Api, Ticks};
use range_model::stats::{Distribution, Keyed};
use range_model::summary::Since as _;
use range_model::{ActivityLosses, GpuWork, MemoryKind};

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
    /// Replays of graphs, by the node that launched them.
    pub replays: Keyed<u32, Replays>,
    /// What was replayed, by the node that launched it and the place of its capture.
    pub captured: Keyed<(u32, Capture), Captured>,
    /// Kernels of these with a time, by number of the kernel's name, too: executions and summed nanoseconds.
    pub captured_kernels: Keyed<(u32, Capture, u32), (u64, u64)>,
    /// Kernels by launching thread (0: not known), range (`None`: outside of any) and number of the kernel's name.
    pub range_kernels: Keyed<(u32, Option<Range>, u32), RangeKernel>,
    /// Kernels that a helper thread launched outside of its own ranges, by its row below the range that waited (a node
    /// of the lineage tree) and number of the kernel's name: executions and summed nanoseconds.
    pub helped_kernels: Keyed<(u32, u32), (u64, u64)>,
    /// What the other figures lack, except for records that a source lost.
    pub losses: ActivityLosses,
}

/// Replays of graphs in one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replays {
    /// Number of replays.
    pub count: u64,
    /// Those that were recorded as a whole.
    pub whole: u64,
    /// Sum of the durations of these, in nanoseconds.
    pub whole_ns: u64,
}

/// What one place captured, as often as it was replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Captured {
    /// Kernels.
    pub kernels: u64,
    /// Copies.
    pub copies: u64,
    /// Sets.
    pub sets: u64,
    /// Other nodes: of replays that were recorded as a whole.
    pub others: u64,
    /// Kernels, copies and sets with a time.
    pub timed: u64,
    /// Sum of their durations, in nanoseconds.
    pub sum_ns: u64,
}

impl Captured {
    /// Adds what another place captured, or the same one in another node.
    pub fn add(&mut self, more: &Self) {
        self.kernels += more.kernels;
        self.copies += more.copies;
        self.sets += more.sets;
        self.others += more.others;
        self.timed += more.timed;
        self.sum_ns = self.sum_ns.saturating_add(more.sum_ns);
    }
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
    /// What was added since `before`, an earlier state of these. Rows to which nothing was added are left out.
    ///
    /// A range that is open counts with the operations that it has so far. Of `outstanding` launches there are as many
    /// as in these.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut losses = self.losses.since(&before.losses);
        losses.outstanding = self.losses.outstanding;
        let mut since = Self {
            kernels: rows_since(&self.kernels, &before.kernels, Distribution::since),
            memory: rows_since(&self.memory, &before.memory, |(times, sizes), before| {
                (times.since(&before.0), sizes.since(&before.1))
            }),
            calls: rows_since(&self.calls, &before.calls, Distribution::since),
            nodes: rows_since(&self.nodes, &before.nodes, |now, before| NodeTotals {
                own: now.own.since(&before.own),
                total: now.total.since(&before.total),
                calls: rows_since(&now.calls, &before.calls, count_since),
            }),
            total: self.total.since(&before.total),
            unmatched: self.unmatched.since(&before.unmatched),
            projections: rows_since(&self.projections, &before.projections, |now, before| Projection {
                projected: now.projected.since(&before.projected),
                range_total: now.range_total.saturating_sub(before.range_total),
                operations: now.operations.saturating_sub(before.operations),
                level_sum: now.level_sum.saturating_sub(before.level_sum),
                children_sum: now.children_sum.saturating_sub(before.children_sum),
            }),
            replays: rows_since(&self.replays, &before.replays, |now, before| Replays {
                count: now.count.saturating_sub(before.count),
                whole: now.whole.saturating_sub(before.whole),
                whole_ns: now.whole_ns.saturating_sub(before.whole_ns),
            }),
            captured: rows_since(&self.captured, &before.captured, |now, before| Captured {
                kernels: now.kernels.saturating_sub(before.kernels),
                copies: now.copies.saturating_sub(before.copies),
                sets: now.sets.saturating_sub(before.sets),
                others: now.others.saturating_sub(before.others),
                timed: now.timed.saturating_sub(before.timed),
                sum_ns: now.sum_ns.saturating_sub(before.sum_ns),
            }),
            captured_kernels: rows_since(&self.captured_kernels, &before.captured_kernels, count_since),
            helped_kernels: rows_since(&self.helped_kernels, &before.helped_kernels, count_since),
            range_kernels: rows_since(&self.range_kernels, &before.range_kernels, |now, before| RangeKernel {
                range_instances: now.range_instances.saturating_sub(before.range_instances),
                kernel_instances: now.kernel_instances.saturating_sub(before.kernel_instances),
                times: now.times.since(&before.times),
            }),
            losses,
        };
        since.projections.retain(|_, row| row.projected.count > 0);
        since
    }

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

/// The rows since an earlier state of them, but for those that are as they were.
fn rows_since<K: Copy + Eq + Hash + Ord, V: Clone + PartialEq>(
    now: &Keyed<K, V>,
    before: &Keyed<K, V>,
    since: fn(&V, &V) -> V,
) -> Keyed<K, V> {
    let mut rows = Keyed::default();
    for (key, now) in now.iter() {
        match before.get(key) {
            Some(before) if before == now => {}
            Some(before) => _ = rows.insert(*key, since(now, before)),
            None => _ = rows.insert(*key, now.clone()),
        }
    }
    rows
}

fn count_since(now: &(u64, u64), before: &(u64, u64)) -> (u64, u64) {
    (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1))
}

/// Counts a call among those of a node.
pub(super) fn add(calls: &mut Keyed<Function, (u64, u64)>, made: &MadeCall) {
    add_count(calls.row(made.function()), (1, made.duration()));
}

/// Adds a number and summed nanoseconds.
pub fn add_count(sum: &mut (u64, u64), more: (u64, u64)) {
    *sum = (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1));
}
