//! Compares the join with a slow, obvious reference. The reference sees all data at once and finds enclosing ranges by
//! time alone, as Nsight does; the profiler uses the noted stacks of threads.

use std::collections::{BTreeMap, BTreeSet};

use super::program::{Launched, Program, Span, delivered, sorted, threads};
use super::*;
use crate::totals::{NodeTotals, Range, RangeKernel};
use proptest::strategy::ValueTree as _;
use range_model::{GpuWork, MemoryWork};

fn timed(op: &&GpuOp) -> bool {
    op.start != 0
}

/// Sums operations. The busy time is counted nanosecond by nanosecond.
fn work(ops: &[&GpuOp]) -> GpuWork {
    let mut memory = BTreeMap::new();
    let mut ran = BTreeSet::new();
    for op in ops {
        ran.extend((op.start..op.end).map(|at| (op.device, at)));
        if let Work::Memory(done) = op.work {
            let sum = memory.entry(done.kind).or_insert(MemoryWork::new(done.kind, 0, 0, 0));
            (sum.operations, sum.sum_ns, sum.bytes) =
                (sum.operations + 1, sum.sum_ns + op.end - op.start, sum.bytes + done.bytes);
        }
    }
    let (operations, sum_ns) = (ops.len() as u64, ops.iter().map(|op| op.end - op.start).sum());
    let mut work = GpuWork::new(operations, sum_ns, ran.len() as u64);
    work.memory = memory.into_values().collect();
    work
}

impl Program {
    /// Ranges of the thread that contain the whole call. Ranges that ended on another thread are left out.
    fn around(&self, launched: &Launched) -> Vec<&Span> {
        self.open_at(launched).into_iter().filter(|span| !span.left).collect()
    }

    fn open_at(&self, launched: &Launched) -> Vec<&Span> {
        let encloses =
            |span: &&Span| span.thread == launched.thread && span.start <= launched.start && span.end >= launched.end;
        self.spans.iter().filter(encloses).collect()
    }

    fn is_below(&self, mut node: u32, above: u32) -> bool {
        loop {
            if node == above {
                return true;
            }
            if node == 0 {
                return false;
            }
            node = self.parents[node as usize];
        }
    }

    /// Number of ranges on the stack around a range.
    fn level(&self, span: &Span) -> u64 {
        span.nested_in.map_or(0, |around| 1 + self.level(&self.spans[around as usize - 1]))
    }

    fn reference(&self) -> Totals {
        let mut totals = Totals::default();
        let known: Vec<&Launched> = self.launched.iter().filter(|launched| !launched.own).collect();
        let ops = |which: &dyn Fn(&Launched) -> bool| -> Vec<&GpuOp> {
            known.iter().filter(|launched| which(launched)).flat_map(|launched| &launched.ops).filter(timed).collect()
        };
        let all = ops(&|_| true);
        for op in &all {
            match op.work {
                Work::Kernel(kernel) => totals.kernels.row(kernel.name).add(op.end - op.start, |_| true),
                Work::Memory(memory) => {
                    let row = totals.memory.row(memory.kind);
                    row.0.add(op.end - op.start, |_| true);
                    row.1.add(memory.bytes, |_| true);
                }
                Work::Graph(_) => {} // the programs have none
            }
        }
        totals.total = work(&all);
        totals.unmatched = work(&ops(&|launched| launched.node.is_none()));
        totals.losses.unmatched = totals.unmatched.operations;
        totals.losses.without_time =
            known.iter().flat_map(|launched| &launched.ops).filter(|op| op.start == 0).count() as u64;
        totals.losses.outstanding =
            known.iter().filter(|it| it.enqueues && it.node.is_some() && it.ops.is_empty()).count() as u64;
        for node in 0..self.parents.len() as u32 {
            let own = work(&ops(&|launched| launched.node == Some(node)));
            let total = work(&ops(&|launched| launched.node.is_some_and(|below| self.is_below(below, node))));
            if total.operations > 0 {
                totals.nodes.row_or(node, || NodeTotals { own, total, calls: Keyed::default() });
            }
        }
        self.reference_calls(&mut totals);
        self.reference_projections(&mut totals);
        self.reference_kernels(&mut totals, &known);
        sorted(totals)
    }

    fn reference_calls(&self, totals: &mut Totals) {
        for (of, call) in &self.records {
            let launched = &self.launched[*of];
            let nested = self.records.iter().any(|(other, runtime)| other == of && runtime.api == Api::Runtime);
            if launched.own || (call.api == Api::Driver && nested) {
                continue;
            }
            let function = (call.api, call.function);
            totals.calls.row(function).add(call.end - call.start, |_| true);
            if let Some(node) = launched.node {
                let calls = totals.nodes.row(node).calls.row(function);
                *calls = (calls.0 + 1, calls.1 + call.end - call.start);
            }
        }
    }

    fn reference_projections(&self, totals: &mut Totals) {
        let inside = |span: &Span| -> Vec<&Launched> {
            let noted = self.launched.iter().filter(|launched| launched.node.is_some() && !launched.own);
            noted
                .filter(|launched| launched.ops.iter().any(|op| op.start != 0))
                .filter(|launched| self.around(launched).iter().any(|around| around.id == span.id))
                .collect()
        };
        for span in &self.spans {
            let launched = inside(span);
            if launched.is_empty() {
                continue;
            }
            let ops = || launched.iter().flat_map(|launched| &launched.ops).filter(timed);
            let (first, last) =
                (ops().map(|op| op.start).min().unwrap_or(0), ops().map(|op| op.end).max().unwrap_or(0));
            let row = totals.projections.row((span.label, span.style));
            row.projected.add(last - first, |_| true);
            row.range_total += u128::from(span.end - span.start);
            row.operations += launched.len() as u64;
            row.level_sum += self.level(span);
            if let Some(around) = span.nested_in {
                let around = &self.spans[around as usize - 1];
                totals.projections.row((around.label, around.style)).children_sum += 1;
            }
        }
        let projections = std::mem::take(&mut totals.projections).into_iter();
        totals.projections = projections.filter(|(_, row)| row.projected.count > 0).collect();
    }

    fn reference_kernels(&self, totals: &mut Totals, known: &[&Launched]) {
        type Rows = BTreeMap<(u32, Option<Range>, u32), (BTreeSet<u64>, BTreeSet<usize>, Vec<u64>)>;
        let mut rows = Rows::new();
        for (number, (launched, op)) in known.iter().flat_map(|it| it.ops.iter().map(move |op| (it, op))).enumerate() {
            let Work::Kernel(kernel) = op.work else { continue };
            if op.start == 0 {
                continue;
            }
            let around = if launched.node.is_some() { self.around(launched) } else { Vec::new() };
            let thread = launched.node.map_or(0, |_| launched.thread);
            if around.is_empty() {
                let is_open = !self.open_at(launched).is_empty();
                if let Some(node) = launched.node.filter(|node| *node != OUTSIDE && !is_open) {
                    let (executions, sum) = totals.helped_kernels.row((node, kernel.name));
                    (*executions, *sum) = (*executions + 1, *sum + op.end - op.start);
                }
                let row = rows.entry((thread, None, kernel.name)).or_default();
                row.1.insert(number);
                row.2.push(op.end - op.start);
            }
            for span in around {
                let row = rows.entry((thread, Some((span.label, span.style)), kernel.name)).or_default();
                row.0.insert(span.id);
                row.1.insert(number);
                row.2.push(op.end - op.start);
            }
        }
        totals.range_kernels = rows
            .into_iter()
            .map(|(key, (ranges, executions, times))| {
                let (range_instances, kernel_instances) = (ranges.len() as u64, executions.len() as u64);
                (key, RangeKernel { range_instances, kernel_instances, times: Distribution::of(times) })
            })
            .collect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// In whatever order data is delivered, the totals are those of the reference. Reading them in between changes
    /// nothing.
    #[test]
    fn totals_are_those_of_the_reference_in_any_order(
        threads in threads(), parents in prop::collection::vec(any::<u32>(), 1..8),
        dice in prop::collection::vec(any::<u8>(), 7..40), other in prop::collection::vec(any::<u8>(), 7..40),
    ) {
        let program = Program::new(&threads, &parents);
        let expected = program.reference();
        for (dice, peek) in [(&dice, false), (&other, true)] {
            let found = delivered(&program, dice, peek);
            prop_assert_eq!(&found.losses, &expected.losses);
            prop_assert_eq!(&found.projections, &expected.projections);
            prop_assert_eq!(&found.range_kernels, &expected.range_kernels);
            prop_assert_eq!(&found.calls, &expected.calls);
            prop_assert_eq!(&found.nodes, &expected.nodes);
            prop_assert_eq!(&found, &expected);
        }
    }
}

/// The random programs contain every case that the join must distinguish.
#[test]
fn the_programs_have_everything_in_them() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut nested, mut lifetimes, mut devices, mut overlapping, mut open, mut graphs) = (0, 0, 0, 0, 0, 0);
    let (mut side_by_side, mut crossing, mut left, mut only_left, mut moved) = (0, 0, 0, 0, 0);
    for _ in 0..150 {
        let threads = threads().new_tree(&mut runner).unwrap().current();
        let program = Program::new(&threads, &[0, 0, 1, 2, 0]);
        let totals = program.reference();
        moved += program.moves;
        nested += totals.range_kernels.values().filter(|row| row.times.count > row.kernel_instances).count();
        lifetimes += totals.projections.keys().filter(|key| key.1 == RangeStyle::StartEnd).count();
        devices += usize::from(program.launched.iter().flat_map(|it| &it.ops).any(|op| op.device == 2));
        overlapping += usize::from(totals.total.busy_ns < totals.total.sum_ns);
        open += program.spans.iter().filter(|span| span.end == program.now).count();
        for launched in program.launched.iter().filter(|it| it.node.is_some() && !it.own && !it.ops.is_empty()) {
            let (all, around) = (program.open_at(launched), program.around(launched));
            let of_style = |style| around.iter().filter(move |span| span.style == style).copied();
            let pairs = |style| {
                let others = of_style(RangeStyle::StartEnd);
                others.flat_map(move |it| of_style(style).map(move |other| (it, other))).filter(|(a, b)| a.id != b.id)
            };
            side_by_side += pairs(RangeStyle::StartEnd).filter(|(a, b)| a.label == b.label).count();
            crossing += pairs(RangeStyle::PushPop).filter(|(lifetime, on_stack)| lifetime.end < on_stack.end).count();
            left += usize::from(all.len() > around.len());
            only_left += usize::from(!all.is_empty() && around.is_empty());
        }
        graphs += totals.projections.values().filter(|row| row.operations < totals.total.operations).count();
    }
    for (what, count) in [
        ("nested", nested),
        ("lifetimes", lifetimes),
        ("devices", devices),
        ("overlapping", overlapping),
        ("open", open),
        ("graphs", graphs),
        ("side by side", side_by_side),
        ("crossing", crossing),
        ("left", left),
        ("only left", only_left),
        ("moved", moved as usize),
    ] {
        assert!(count > 20, "{what}: {count}");
    }
}
