//! Converts attributed GPU work from numbers to the named part of a summary.

#[cfg(feature = "cuda")]
pub(crate) mod helpers;

use gpu_activity::join::{self, Capture, UNKNOWN};
use gpu_activity::totals::{self, Captured, Replays, add_count, add_work};
use range_model::stats::{Distribution, Keyed, Lean, Named, order};
use range_model::{
    ApiCallStats, CapturedKernel, CapturedWork, GpuActivity, GpuWork, GraphWork, KernelStats, MemoryStats, NodeCalls,
    NodeKernel, NodeWork, ProjectionStats, RangeKernelStats, Sizes, Summary, TreeNode,
};

use crate::clock::Rate;
use crate::core::drain::cursor::Reader;
use crate::core::drain::names::{Shown, label_shown, label_text};
use crate::core::drain::part::{Nodes, Part, Run};
use crate::core::drain::times::times;
use crate::core::record::{style_number, style_of};
use crate::core::session::joined::Joined;
use crate::core::session::{Names, Session};
use crate::parts::launches::collector::{ActivityTotals, Collector};

/// The GPU's work, as the collector has it.
pub(crate) struct Gpu {
    collector: &'static Collector,
    session: &'static Session,
    all: ActivityTotals,
    graphs: Keyed<u32, GraphWork>,
    kernels: Keyed<u32, Vec<NodeKernel>>,
}

impl Gpu {
    pub(crate) fn new(collector: &'static Collector, session: &'static Session) -> Self {
        Self { collector, session, all: ActivityTotals::default(), graphs: Keyed::default(), kernels: Keyed::default() }
    }
}

impl Part for Gpu {
    fn read(&mut self, reader: &mut Reader<'_>) {
        self.all = reader.activity(self.collector.totals(self.session.clock.now()));
    }

    fn join(&mut self, joined: &Joined) {
        join(&mut self.all, joined);
    }

    /// The work stays at the nodes to which it was attributed.
    fn keeps_nodes(&self) -> bool {
        true
    }

    fn count(&mut self, _: &mut Nodes, names: &Names) {
        self.graphs = graphs(&self.all, names);
        self.kernels = helped_kernels(&self.all);
    }

    fn has(&self, node: u32) -> bool {
        self.all.totals.nodes.contains_key(&node)
    }

    fn show(&self, id: u32, node: &mut TreeNode, _: &Nodes, _: Rate) {
        node.gpu = work_of(&self.all, &self.graphs, id);
        if let Some((work, kernels)) = node.gpu.as_mut().zip(self.kernels.get(&id)) {
            work.kernels.clone_from(kernels);
        }
    }

    fn finish(&mut self, run: &Run<'_>, _: &mut Reader<'_>, summary: &mut Summary) {
        let activity = activity(&self.all, &self.graphs, run.names, run.rate, run.asked, std::process::id());
        summary.gpu = Some(activity);
        summary.losses.activity = self.all.totals.losses; // without those before the window of a cursor
    }
}

/// Number and summed nanoseconds by name.
type Counts = Named<Shown, (u64, u64)>;

/// Adds the work of joined nodes and ranges to the ones they became. The times of single operations are no longer
/// known, so busy times are summed: too much if work of several such nodes ran at once.
#[inline(never)]
fn join(all: &mut ActivityTotals, joined: &Joined) {
    for (node, other) in std::mem::take(&mut all.totals.nodes) {
        let sum = all.totals.nodes.row(joined.node(node));
        add_work(&mut sum.own, &other.own);
        add_work(&mut sum.total, &other.total);
        for (function, (count, total)) in other.calls {
            add_count(sum.calls.row(function), (count, total));
        }
    }
    for (node, other) in std::mem::take(&mut all.totals.replays) {
        let sum = all.totals.replays.row(joined.node(node));
        sum.count += other.count;
        sum.whole += other.whole;
        sum.whole_ns = sum.whole_ns.saturating_add(other.whole_ns);
    }
    for ((node, Capture { span, base }), other) in std::mem::take(&mut all.totals.captured) {
        let [node, span, base] = [node, span, base].map(|node| joined.node(node));
        all.totals.captured.row((node, Capture { span, base })).add(&other);
    }
    for ((node, Capture { span, base }, kernel), other) in std::mem::take(&mut all.totals.captured_kernels) {
        let [node, span, base] = [node, span, base].map(|node| joined.node(node));
        add_count(all.totals.captured_kernels.row((node, Capture { span, base }, kernel)), other);
    }
    for ((node, kernel), other) in std::mem::take(&mut all.totals.helped_kernels) {
        add_count(all.totals.helped_kernels.row((joined.node(node), kernel)), other);
    }
    for ((tid, range, kernel), other) in std::mem::take(&mut all.totals.range_kernels) {
        let range = range.map(|(label, style)| (joined.label(label), style));
        let sum = all.totals.range_kernels.row((tid, range, kernel));
        sum.range_instances += other.range_instances;
        sum.kernel_instances += other.kernel_instances;
        sum.times.merge(&other.times);
    }
}

/// The GPU work of a node of the lineage tree and of the nodes below. `None` if there is none.
#[inline(never)]
fn work_of(all: &ActivityTotals, graphs: &Keyed<u32, GraphWork>, node: u32) -> Option<NodeWork> {
    let work = all.totals.nodes.get(&node)?;
    let mut calls = Counts::default();
    for (&function, &(count, total)) in work.calls.iter() {
        add_count(calls.row((all.function(function), 0)), (count, total));
    }
    let mut work = NodeWork::new(work.own.clone(), work.total.clone());
    work.calls = calls.into_iter().map(|((name, _), (calls, total_ns))| NodeCalls::new(name, calls, total_ns)).in_vec();
    work.graphs = graphs.get(&node).cloned().unwrap_or_default();
    Some(work)
}

/// By row of a helper thread, the kernels that it launched.
#[inline(never)]
fn helped_kernels(all: &ActivityTotals) -> Keyed<u32, Vec<NodeKernel>> {
    let mut rows: Keyed<u32, Counts> = Keyed::default();
    for (&(node, kernel), &counted) in all.totals.helped_kernels.iter() {
        add_count(rows.row(node).row((all.kernel(kernel), 0)), counted); // two modules may each have one of this name
    }
    let kernel = |((name, _), (executions, sum_ns))| NodeKernel::new(name, executions, sum_ns);
    rows.into_iter().map(|(node, kernels)| (node, kernels.into_iter().map(kernel).in_vec())).collect()
}

/// By node, the replays that were launched directly in it, and what they ran by the spans that captured it.
#[inline(never)]
fn graphs(all: &ActivityTotals, names: &Names) -> Keyed<u32, GraphWork> {
    let mut paths: Keyed<Capture, String> = Keyed::default();
    let mut path = |capture: Capture| paths.row_or(capture, || captured_in(names, capture)).clone();
    let mut parts: Keyed<u32, Named<String, (Captured, Counts)>> = Keyed::default();
    for (&(node, capture), captured) in all.totals.captured.iter() {
        parts.row(node).row(path(capture)).0.add(captured);
    }
    for (&(node, capture, kernel), &counted) in all.totals.captured_kernels.iter() {
        add_count(parts.row(node).row(path(capture)).1.row((all.kernel(kernel), 0)), counted);
    }
    let part = |(captured_in, (all, kernels)): (String, (Captured, Counts))| {
        let mut part = CapturedWork::new(captured_in);
        let kernel = |((name, _), (executions, sum_ns))| CapturedKernel::new(name, executions, sum_ns);
        part.by_kernel = kernels.into_iter().map(kernel).in_vec();
        (part.kernels, part.copies, part.sets, part.others) = (all.kernels, all.copies, all.sets, all.others);
        (part.timed, part.sum_ns) = (all.timed, all.sum_ns);
        part
    };
    let work = |(&node, replays): (&u32, &Replays)| {
        let mut work = GraphWork::default();
        (work.replays, work.whole, work.whole_ns) = (replays.count, replays.whole, replays.whole_ns);
        work.captured = parts.get_mut(&node).map(std::mem::take).into_iter().flatten().map(part).in_vec();
        (node, work)
    };
    all.totals.replays.iter().map(work).collect()
}

/// Names of the spans that captured a node, below those in which its graph was created.
fn captured_in(names: &Names, capture: Capture) -> String {
    if capture.span == UNKNOWN {
        return CapturedWork::NOT_SEEN.to_owned();
    }
    let path = names.catalog.path_below(capture.span, capture.base);
    path.into_iter().map(|label| label_shown(names, label)).in_vec().join(" > ")
}

/// All GPU work. `pid` is the id of this process.
#[inline(never)]
fn activity(
    all: &ActivityTotals,
    graphs: &Keyed<u32, GraphWork>,
    names: &Names,
    rate: Rate,
    asked: &[f64],
    pid: u32,
) -> GpuActivity {
    let mut activity = GpuActivity::default();
    activity.kernels = kernels(all, asked);
    activity.memory = memory(all, asked);
    activity.calls = all.calls.then(|| calls(all, asked));
    activity.projections = projections(all, names, rate, asked);
    activity.range_kernels = range_kernels(all, names, asked, pid);
    activity.total = all.totals.total.clone();
    activity.outside = all.totals.nodes.get(&join::OUTSIDE).map_or_else(GpuWork::default, |node| node.own.clone());
    activity.unmatched = all.totals.unmatched.clone();
    activity.outside_graphs = graphs.get(&join::OUTSIDE).cloned().unwrap_or_default();
    activity
}

#[inline(never)]
fn ns(distribution: &Distribution, asked: &[f64]) -> range_model::Times {
    times(distribution, Rate::IDENTITY, asked)
}

#[inline(never)]
fn kernels(all: &ActivityTotals, asked: &[f64]) -> Vec<KernelStats> {
    let mut merged: Named<Shown, Distribution> = Named::default(); // two modules may each have a kernel of this name
    for (&id, times) in all.totals.kernels.iter() {
        merged.row((all.kernel(id), 0)).merge(times);
    }
    let mut rows: Vec<_> = merged.into_iter().map(|((name, _), all)| KernelStats::new(name, ns(&all, asked))).in_vec();
    // Stable: equal totals stay in order of their names.
    order::by_most(&mut rows, |row| row.times.total_ns);
    rows
}

#[inline(never)]
fn memory(all: &ActivityTotals, asked: &[f64]) -> Vec<MemoryStats> {
    let rows = all.totals.memory.iter();
    let mut rows: Vec<MemoryStats> =
        rows.map(|(&kind, (times, bytes))| MemoryStats::new(kind, ns(times, asked), sizes(bytes))).in_vec();
    order::by_most(&mut rows, |row| row.times.total_ns); // stable, as above
    rows
}

#[inline(never)]
fn sizes(bytes: &Distribution) -> Sizes {
    let as_times = ns(bytes, &[]); // the same figures, for bytes
    let mut sizes = Sizes::new(as_times.instances, as_times.total_ns);
    sizes.min_bytes = as_times.min_ns;
    sizes.max_bytes = as_times.max_ns;
    sizes.median_bytes = as_times.median_ns;
    sizes.stddev_bytes = as_times.stddev_ns;
    sizes
}

#[inline(never)]
fn calls(all: &ActivityTotals, asked: &[f64]) -> Vec<ApiCallStats> {
    let mut merged: Named<Shown, Distribution> = Named::default();
    for (&function, times) in all.totals.calls.iter() {
        merged.row((all.function(function), 0)).merge(times);
    }
    let mut rows: Vec<_> = merged.into_iter().map(|((name, _), all)| ApiCallStats::new(name, ns(&all, asked))).in_vec();
    order::by_most(&mut rows, |row| row.times.total_ns); // stable, as above
    rows
}

#[inline(never)]
fn projections(all: &ActivityTotals, names: &Names, rate: Rate, asked: &[f64]) -> Vec<ProjectionStats> {
    // By the shown name, as for ranges.
    let mut merged: Named<Shown, (u32, totals::Projection)> = Named::default();
    for (&(label, style), projection) in all.totals.projections.iter() {
        let shown = (label_shown(names, label), style_number(style));
        let (_, sum) = merged.row_or(shown, || (label, Default::default()));
        sum.projected.merge(&projection.projected);
        sum.range_total += projection.range_total;
        sum.operations += projection.operations;
        sum.level_sum += projection.level_sum;
        sum.children_sum += projection.children_sum;
    }
    let rows = merged.into_iter().filter_map(|((_, style), (label, sum))| {
        let (domain, name) = label_text(names, label)?;
        let mut row = ProjectionStats::new(name, ns(&sum.projected, asked));
        row.domain = domain;
        row.style = style_of(style);
        row.range_total_ns = rate.ns(sum.range_total);
        row.operations = sum.operations;
        row.level_sum = sum.level_sum;
        row.children_sum = sum.children_sum;
        Some(row)
    });
    let mut rows: Vec<ProjectionStats> = rows.in_vec();
    order::by_most(&mut rows, |row| row.projected.total_ns); // stable, as above
    rows
}

#[inline(never)]
fn range_kernels(all: &ActivityTotals, names: &Names, asked: &[f64], pid: u32) -> Vec<RangeKernelStats> {
    let mut rows: Vec<(Option<String>, RangeKernelStats)> = Vec::new();
    for (&(tid, range, kernel), sum) in all.totals.range_kernels.iter() {
        let (shown, text, style) = match range {
            None => (None, None, None),
            Some((label, style)) => (Some(label_shown(names, label)), label_text(names, label), Some(style)),
        };
        let mut row = RangeKernelStats::new(all.kernel(kernel), ns(&sum.times, asked));
        row.range = text;
        row.style = style;
        row.pid = pid;
        row.tid = tid;
        row.range_instances = sum.range_instances;
        row.kernel_instances = sum.kernel_instances;
        rows.push((shown, row));
    }
    order::by(&mut rows, |(shown_a, a), (shown_b, b)| {
        let total = std::cmp::Reverse;
        (shown_a, a.tid, total(a.times.total_ns), a.style, &a.kernel).cmp(&(
            shown_b,
            b.tid,
            total(b.times.total_ns),
            b.style,
            &b.kernel,
        ))
    });
    rows.into_iter().map(|(_, row)| row).in_vec()
}

#[cfg(test)]
mod tests {
    use range_model::{MemoryKind, MemoryWork, RangeStyle};

    use super::*;
    use crate::core::session::Names;
    use crate::core::session::catalog::{Limits, ROOT};
    use crate::parts::splits::session::tests::joined;

    #[test]
    fn work_of_nodes_that_became_one_is_together() {
        let mut names = Names::new(Limits { nodes: 10, run_time_names: 10 });
        let (joined, [a, b], labels) = joined(&mut names);
        let work = |operations| {
            let mut work = GpuWork::new(operations, 10 * operations, 10 * operations);
            work.memory = vec![MemoryWork::new(MemoryKind::Unknown, 1, 5, 100)];
            work
        };
        let mut all = ActivityTotals::default();
        for (node, operations) in [(a, 1), (b, 2), (ROOT, 4)] {
            let totals = all.totals.nodes.row(node);
            (totals.own, totals.total) = (work(operations), work(operations));
        }
        for label in labels {
            all.totals.range_kernels.row((7, Some((label, RangeStyle::PushPop)), 3)).kernel_instances = 2;
        }
        for node in [a, b] {
            *all.totals.captured_kernels.row((ROOT, Capture { span: node, base: ROOT }, 3)) = (1, 5);
        }
        join(&mut all, &joined);
        let own: Vec<(u32, u64, u64)> =
            all.totals.nodes.iter().map(|(&node, all)| (node, all.own.operations, all.total.sum_ns)).collect();
        assert_eq!(own, [(ROOT, 4, 40), (a, 3, 30)]);
        assert_eq!(all.totals.nodes[&a].own.memory, [MemoryWork::new(MemoryKind::Unknown, 2, 10, 200)]);
        let instances: Vec<u64> = all.totals.range_kernels.values().map(|kernel| kernel.kernel_instances).collect();
        assert_eq!(instances, [4]);
        assert_eq!(all.totals.captured_kernels.values().collect::<Vec<_>>(), [&(2, 10)]);
    }
}
