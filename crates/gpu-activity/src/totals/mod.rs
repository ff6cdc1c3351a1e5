//! The fold that counts: work and calls by kind and by span, and, as Nsight Systems does, by the instances of ranges
//! around a launch. Its result has the figures of a summary, with numbers in place of names.

mod figures;
mod intervals;
mod kernels;
mod lineage;
mod undecided;

pub use self::figures::{Captured, Function, NodeTotals, Projection, RangeKernel, Replays, Totals, add_count};
use self::kernels::{Execution, RangeKernels};
pub use self::lineage::add_work;
use self::lineage::{Lineage, UNMATCHED};
use self::undecided::{Undecided, insert};
pub use crate::fold::Range;
use crate::fold::{
    Context, Fold, InstanceState, Instances, MadeCall, NO_SLOT, OUTSIDE, OfGraph, Operation, Part, REFUSED,
};
use crate::record::{Ticks, Work};
use range_model::MemoryKind;

/// What is counted so far.
#[derive(Debug, Default)]
pub(crate) struct RunningTotals {
    lineage: Lineage,
    /// The figures that need no more than adding. The projections are those of former instances.
    sums: Totals,
    range_kernels: RangeKernels,
    pub(crate) undecided: Undecided,
    /// Number of operations in all windows, which gives each one its serial number.
    operations: u64,
}

impl RunningTotals {
    /// The figures so far. Instances that are open last until `now`.
    pub(crate) fn totals(&self, instances: &Instances, now: Ticks) -> Totals {
        let mut totals = self.sums.clone();
        (totals.nodes, totals.total, totals.unmatched) = self.lineage.totals();
        instances.iter().for_each(|instance| totals.project(instance, now, &|_| true));
        totals.projections = totals.projections.into_iter().filter(|(_, row)| row.projected.count > 0).collect();
        totals.range_kernels = self.undecided.totals(instances, &self.range_kernels);
        totals
    }
}

impl RunningTotals {
    /// Counts an operation that is a graph or part of one, launched in this node.
    fn graph(&mut self, node: u32, ran: &Operation<'_>, duration: u64) {
        let sums = &mut self.sums;
        match ran.graph {
            OfGraph::No => {}
            OfGraph::Node(capture) => {
                sums.replays.row(node).count += u64::from(ran.is_first);
                let captured = sums.captured.row((node, capture));
                captured.timed += 1;
                captured.sum_ns = captured.sum_ns.saturating_add(duration);
                if let Work::Kernel(kernel) = ran.op.work {
                    add_count(sums.captured_kernels.row((node, capture, kernel.name)), (1, duration));
                }
                *match ran.op.work {
                    Work::Memory(memory) if memory.kind == MemoryKind::Set => &mut captured.sets,
                    Work::Memory(_) => &mut captured.copies,
                    Work::Kernel(_) | Work::Graph(_) => &mut captured.kernels,
                } += 1;
            }
            OfGraph::Whole(parts) => {
                let replays = sums.replays.row(node);
                replays.count += 1;
                replays.whole += 1;
                replays.whole_ns = replays.whole_ns.saturating_add(duration);
                for &(capture, Part { kernels, copies, sets, others }) in parts {
                    let [kernels, copies, sets, others] = [kernels, copies, sets, others].map(u64::from);
                    let all = Captured { kernels, copies, sets, others, ..Captured::default() };
                    sums.captured.row((node, capture)).add(&all);
                }
            }
        }
    }
}

impl Fold for RunningTotals {
    fn operation(&mut self, ran: &Operation<'_>, instances: &mut Instances, context: &Context<'_>) {
        if !ran.of_window {
            return;
        }
        let (op, keep, duration) = (ran.op, context.keep, ran.op.end - ran.op.start);
        self.operations += 1;
        let mark = self.operations;
        let node = ran.launch.map_or(UNMATCHED, |launch| self.lineage.place(launch.node, context.parents));
        self.sums.losses.unmatched += u64::from(ran.launch.is_none());
        self.lineage.add(node, op, duration);
        let execution = match op.work {
            Work::Kernel(kernel) => {
                self.sums.kernels.row(kernel.name).add(duration, keep);
                let thread = ran.launch.map_or(0, |launch| launch.thread);
                Some(Execution { kernel: kernel.name, thread, duration, mark })
            }
            Work::Memory(memory) => {
                let (times, sizes) = self.sums.memory.row(memory.kind);
                times.add(duration, keep);
                sizes.add(memory.bytes, keep);
                None
            }
            Work::Graph(_) => None,
        };
        self.graph(node, ran, duration);
        // The instance of the launch, and the instances below on the stack.
        let (mut late, mut on_stack, mut slot) = (ran.instance == REFUSED, false, ran.instance);
        while let Some(instance) = instances.get_mut(slot) {
            slot = instance.parent;
            if !count(instance, ran, mark) {
                continue;
            }
            (late, on_stack) = (late || instance.folded, true);
            if let Some(execution) = execution {
                self.range_kernels.inside(instance, execution, keep);
            }
        }
        let (mut open, mut counted) = (Vec::new(), Vec::new());
        for &slot in ran.within {
            let Some(instance) = instances.get_mut(slot) else { continue };
            if !count(instance, ran, mark) {
                continue;
            }
            late |= instance.folded;
            if instance.is_undecided() {
                open.push(slot);
                continue;
            }
            insert(&mut counted, instance.range());
            if let Some(execution) = execution {
                self.range_kernels.inside(instance, execution, keep);
            }
        }
        self.sums.losses.late += u64::from(late);
        let Some(execution) = execution else { return };
        // If only open start/end ranges surround a kernel, it counts in them or outside when they end.
        if !open.is_empty() {
            self.undecided.wait(open, counted, on_stack, execution);
        } else if !on_stack && counted.is_empty() {
            // Without a range around it, the node is that of a helper.
            if ran.instance == NO_SLOT && ran.within.is_empty() && node != OUTSIDE && node != UNMATCHED {
                add_count(self.sums.helped_kernels.row((node, execution.kernel)), (1, duration));
            }
            let row = self.range_kernels.row((execution.thread, None, execution.kernel));
            self.range_kernels.add(row, execution, keep);
        }
    }

    fn call(&mut self, made: &MadeCall, context: &Context<'_>) {
        if !made.of_window {
            return;
        }
        self.sums.calls.row(made.function()).add(made.duration(), context.keep);
        if let Some(node) = made.node {
            let node = self.lineage.place(node, context.parents);
            self.lineage.call(node, made);
        }
    }

    fn instance(&mut self, instance: &mut InstanceState, context: &Context<'_>) {
        self.sums.project(instance, instance.end, context.keep);
    }

    fn drained(&mut self, instances: &mut Instances, _: bool, context: &Context<'_>) {
        self.lineage.drained();
        for slot in std::mem::take(&mut instances.ended) {
            if let Some(instance) = instances.get_mut(slot) {
                self.undecided.ended(slot, instance, &mut self.range_kernels, context.keep);
            }
        }
    }

    fn clear(&mut self) {
        *self = Self { operations: self.operations, ..Self::default() };
    }
}

/// Counts an operation with this serial number in an instance, for its projection unless it is too late. Returns false
/// if it was counted before, or if the instance counts for nothing.
fn count(instance: &mut InstanceState, ran: &Operation<'_>, mark: u64) -> bool {
    if instance.mark == mark || instance.left {
        return false;
    }
    instance.mark = mark;
    if !instance.folded {
        let figures = &mut instance.figures;
        figures.first = if figures.last == 0 { ran.op.start } else { figures.first.min(ran.op.start) };
        figures.last = figures.last.max(ran.op.end);
        figures.operations = figures.operations.saturating_add(u64::from(ran.is_first));
    }
    true
}
