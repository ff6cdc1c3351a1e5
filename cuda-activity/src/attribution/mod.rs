//! What ran on the GPU, told to the span, the instance and the thread that launched it.
//!
//! Threads note what they launch; CUPTI delivers, later and in any order, what ran. The two meet by correlation id. An operation is then counted three times over: in the
//! table of its kind, in the lineage of its span (`lineage`), and in the instances of ranges around its launch (`projection`, `kernels`), whose rule is that of
//! Nsight Systems.
//!
//! Memory is bounded: launches by [`Limits::launches`], instances by [`Limits::instances`], unions of time by node and device (`intervals`), and what waits for the end of a drain
//! by what came in it. Tables have a row for each name.

mod calls;
mod enclosing;
mod hash;
mod intervals;
mod kernels;
mod launches;
mod lineage;
mod moved;
mod projection;
mod totals;
mod undecided;

#[cfg(test)]
#[path = "lifetimes/tests.rs"]
mod lifetimes;
#[cfg(test)]
#[path = "program/tests.rs"]
mod program;
#[cfg(test)]
#[path = "reference/tests.rs"]
mod reference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::calls::Calls;
use self::hash::Map;
use self::kernels::{Execution, RangeKernels};
use self::launches::{Came, Expected, Joins, Launch, Launches};
use self::lineage::{Lineage, UNMATCHED};
use self::projection::{Instances, NO_SLOT, REFUSED, Timed};
pub use self::totals::{AttributionLosses, Function, Projection, Range, RangeKernel, Totals};
use crate::record::{Api, ApiCall, GpuOp, Note, Ticks, Work};
use range_report::MemoryKind;
use range_report::stats::Distribution;

/// The node of the lineage tree that stands for no span.
pub const OUTSIDE: u32 = 0;

/// Bounds on memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls remembered until what they launched has come: at most 122 bytes each. Where API calls are recorded, in each of three drains as many of these, at most 80 bytes each.
    pub launches: usize,
    /// Whether API calls are recorded.
    pub has_calls: bool,
    /// Instances not in the totals yet: some 250 bytes each, 16 for each kernel launched in it, and 4 for each lifetime around it. In a drain there may be more, and
    /// one that is in the totals early stays as long as a launch in it is remembered: 64 and two and a half times as many at most. What runs in others counts as
    /// late.
    pub instances: usize,
}

/// What is known elsewhere at the time of a drain.
pub struct Context<'a> {
    /// Parent of each node of the lineage tree, which is a lower number. Node 0 is the root and its own parent.
    pub parents: &'a [u32],
    /// Whether one more duration is kept by itself, by the number of those kept in its row.
    pub keep: &'a dyn Fn(u64) -> bool,
    /// How long a range with this start and end lasts in a database that is written, in nanoseconds; 0 where there is none.
    pub written: &'a Written<'a>,
}

/// See [`Context::written`].
pub type Written<'a> = dyn Fn(Ticks, Ticks) -> u64 + 'a;

/// The whole of attribution: notes and records in, [`Totals`] out.
///
/// In each drain, first the notes of all threads, then operations and calls in any order, then [`drained`](Self::drained).
#[derive(Debug)]
pub struct Attribution {
    launches: Launches,
    instances: Instances,
    lineage: Lineage,
    range_kernels: RangeKernels,
    kernels: Map<u32, Distribution>,
    memory: BTreeMap<MemoryKind, (Distribution, Distribution)>,
    calls: Calls,
    losses: AttributionLosses,
    /// Operations so far, as their numbers.
    operations: u64,
}

impl Attribution {
    /// Nothing seen yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            launches: Launches::new(limits.launches, limits.has_calls),
            instances: Instances::new(limits.instances),
            lineage: Lineage::default(),
            range_kernels: RangeKernels::default(),
            kernels: Map::default(),
            memory: BTreeMap::new(),
            calls: Calls::new(limits.launches),
            losses: AttributionLosses::default(),
            operations: 0,
        }
    }

    /// What a thread noted: all of it, in its order, before the operations of the same drain.
    pub fn note(&mut self, tid: u32, note: &Note) {
        let (launches, instances) = (&mut self.launches, &mut self.instances);
        launches.goes_on(tid, note);
        match *note {
            Note::Began(instance) => instances.begin(&instance),
            Note::Ended { instance, end } => {
                if let Some((slot, instance)) = instances.end(instance, end) {
                    self.range_kernels.counts(slot, instance);
                }
            }
            Note::Moved { from, to, parent } => instances.move_on(from, to, parent),
            Note::Left { instance } => {
                if let Some((slot, instance)) = instances.leave(instance) {
                    self.range_kernels.left(slot, instance);
                }
            }
            Note::Called { correlation, node, instance, graph, enqueues, .. } => {
                let expected = match (enqueues, graph) {
                    (true, true) => Expected::Graph,
                    (true, false) => Expected::Operations,
                    (false, _) => Expected::Record,
                };
                let slot = match instances.slot(instance) {
                    NO_SLOT if instance != 0 => REFUSED,
                    slot => slot,
                };
                let launch = Launch::new(tid, node, slot, expected);
                instances.called(tid, correlation, launch.instance);
                let joins = launches.joins(correlation, &launch);
                if joins != Joins::Yes {
                    instances.hold(launch.instance);
                }
                if joins == Joins::No {
                    launches.insert(correlation, launch, |slot| instances.release(slot));
                }
            }
            Note::Within { correlation, instance } => {
                let slot = instances.slot(instance);
                if slot != NO_SLOT && launches.put_within(correlation, slot) {
                    instances.hold(slot);
                    instances.called_within(tid, correlation, slot, launches.within(correlation));
                }
            }
            Note::Own { correlation } => {
                launches.insert(correlation, Launch::own(), |slot| instances.release(slot));
            }
        }
    }

    /// An operation that ran.
    pub fn operation(&mut self, op: &GpuOp, context: &Context<'_>) {
        let timed = op.start != 0 && op.end >= op.start;
        let launch = self.launches.came(op.correlation, timed);
        if launch.is_some_and(|launch| launch.is_dropped()) {
            return;
        }
        if !timed {
            self.losses.without_time += 1;
            return;
        }
        self.operations += 1;
        let (duration, mark) = (op.end - op.start, self.operations);
        match op.work {
            Work::Kernel(kernel) => self.kernels.entry(kernel.name).or_default().add(duration, context.keep),
            Work::Memory(memory) => {
                let (times, sizes) = self.memory.entry(memory.kind).or_default();
                times.add(duration, context.keep);
                sizes.add(memory.bytes, context.keep);
            }
        }
        let thread = launch.map_or(0, |launch| launch.thread);
        let execution = match op.work {
            Work::Kernel(kernel) => Some(Execution { kernel: kernel.name, thread, duration, mark }),
            Work::Memory(_) => None,
        };
        let node = match launch {
            Some(launch) => self.lineage.place(launch.node, context.parents),
            None => UNMATCHED,
        };
        self.lineage.add(node, op, duration);
        let mut inside = false;
        if let Some(launch) = launch {
            let timed = Timed { start: op.start, end: op.end, first: launch.came != Came::Operation, mark };
            inside = self.in_instances(&launch, op.correlation, timed, execution, context.keep);
        } else {
            self.losses.unmatched += 1;
        }
        if let (false, Some(execution)) = (inside, execution) {
            self.range_kernels.outside(execution, context.keep);
        }
    }

    /// An operation that was over before the window. Its launch may have been noted in the window all the same, and waits for no more.
    pub fn passed(&mut self, op: &GpuOp) {
        let _counted_nowhere = self.launches.came(op.correlation, false);
    }

    /// Counts an operation in the instance of its launch, all those below that on the stack, and the start/end ranges around it. Whether there were any; where all
    /// are undecided, it is known later whether the kernel was outside of all.
    fn in_instances(
        &mut self,
        launch: &Launch,
        correlation: u32,
        timed: Timed,
        execution: Option<Execution>,
        keep: &dyn Fn(u64) -> bool,
    ) -> bool {
        let Self { launches, instances, range_kernels, .. } = self;
        let (mut inside, mut late, mut undecided) = (false, false, Vec::new());
        let mut count = |instances: &mut Instances, slot| {
            let Some((instance, folded)) = instances.count(slot, timed) else { return };
            late |= folded;
            let is_undecided = instance.is_undecided();
            if is_undecided {
                undecided.push(slot);
            } else {
                inside = true;
            }
            match execution {
                Some(execution) if is_undecided => range_kernels.inside_alone(instance, execution),
                Some(execution) => range_kernels.inside(instance, folded, execution, keep),
                None => {}
            }
        };
        let mut slot = launch.instance;
        while slot != NO_SLOT {
            count(instances, slot);
            slot = instances.parent(slot);
        }
        launches.within(correlation).iter().for_each(|&slot| count(instances, slot));
        self.losses.late += u64::from(late || launch.instance == REFUSED);
        if let Some(execution) = execution.filter(|_| !undecided.is_empty()) {
            let ranges = undecided.iter().filter_map(|&slot| Some((instances.range(slot)?, slot))).collect();
            range_kernels.wait(ranges, inside, execution);
        }
        inside || !undecided.is_empty()
    }

    /// A call of the API that is over.
    pub fn call(&mut self, call: &ApiCall, context: &Context<'_>) {
        self.calls.remember(call);
        let known = self.launches.recorded(call.correlation);
        if known.is_some_and(|known| known.is_dropped()) || self.calls.leaves_out(call) {
            return;
        }
        if call.start == 0 || call.end < call.start {
            self.losses.without_time += 1;
            return;
        }
        let (function, duration) = ((call.api, call.function), call.end - call.start);
        let node = known.map(|known| self.lineage.place(known.node, context.parents));
        if call.api == Api::Driver && self.calls.hold(call, duration, node) {
            return;
        }
        self.count_call(function, duration, node, context.keep);
    }

    /// A call that began before the window.
    pub fn passed_call(&mut self, call: &ApiCall) {
        let _counted_nowhere = self.launches.recorded(call.correlation);
    }

    fn count_call(&mut self, function: Function, duration: u64, node: Option<u32>, keep: &dyn Fn(u64) -> bool) {
        self.calls.table.entry(function).or_default().add(duration, keep);
        if let Some(node) = node {
            self.lineage.call(node, function, duration);
        }
    }

    /// A drain is over: what is over is folded. Where it `counts`, what is old is forgotten; the second of these after a driver call came, it counts unless a call of the runtime
    /// has its id. Drains that follow on one another sooner than CUPTI delivers what belongs together do not count.
    pub fn drained(&mut self, context: &Context<'_>, counts: bool) {
        self.lineage.drained();
        if counts {
            for held in self.calls.drained(&self.launches.running()) {
                self.count_call(held.function, held.duration, held.node, context.keep);
            }
            self.launches.drained(|slot| self.instances.release(slot));
        }
        self.instances.fold(context);
        while self.instances.is_crowded() && self.launches.forget_oldest(|slot| self.instances.release(slot)) {
            self.instances.fold(context);
        }
        self.range_kernels.drained(context.keep);
    }

    /// What was counted so far; instances that are open count up to `now`, and driver calls that wait as if no call of the runtime had their id. Changes nothing.
    #[must_use]
    pub fn totals(&self, now: Ticks) -> Totals {
        self.totals_written(now, &|_, _| 0)
    }

    /// [`totals`](Self::totals) where a database is written.
    pub fn totals_written(&self, now: Ticks, written: &Written<'_>) -> Totals {
        let (mut nodes, total, unmatched) = self.lineage.totals();
        let mut calls = self.calls.table.clone();
        for held in self.calls.waiting() {
            calls.entry(held.function).or_default().add(held.duration, |_| true);
            if let Some(node) = held.node {
                let calls = nodes.entry(node).or_default().calls.entry(held.function).or_default();
                *calls = (calls.0.saturating_add(1), calls.1.saturating_add(held.duration));
            }
        }
        let losses = AttributionLosses {
            outstanding: self.launches.awaited(),
            forgotten_launches: self.launches.forgotten,
            forgotten_calls: self.launches.forgotten_calls,
            ..self.losses
        };
        Totals {
            kernels: self.kernels.iter().map(|(&name, times)| (name, times.clone())).collect(),
            memory: self.memory.clone(),
            calls,
            nodes,
            total,
            unmatched,
            projections: self.instances.totals(now, written),
            range_kernels: self.range_kernels.totals(self.instances.undecided()),
            losses,
        }
    }

    /// A new window from `now` on: all that was counted is forgotten. What launches noted before still bring is dropped. Open instances go on, and are as long as the window.
    pub fn clear(&mut self, now: Ticks) {
        self.launches.clear(|slot| self.instances.release(slot));
        self.instances.clear(now);
        self.lineage = Lineage::default();
        self.range_kernels.clear();
        self.kernels.clear();
        self.memory.clear();
        self.calls.clear();
        self.losses = AttributionLosses::default();
    }
}
