//! What ran on the GPU, by the span, the instance and the thread that launched it.
//!
//! Threads note what they launch; CUPTI delivers later, in any order, what ran. Both have the correlation id of the
//! call, by which the one finds the other (`pending`). An operation then counts in three places: in the table of its
//! kind, in the node of its span and all above it (`lineage`), and in the instances of ranges around its launch
//! (`instances`, `kernels`, `start_end`), as Nsight Systems counts them.
//!
//! Memory is bounded: calls by [`Limits::launches`], instances by [`Limits::instances`], unions of time by node and
//! device (`intervals`), and what waits for the end of a drain by what came in it. Tables have a row for each name.
//!
//! All of it is pure: data in, data out.

mod calls;
mod instances;
mod intervals;
mod kernels;
mod lineage;
mod pending;
mod start_end;
mod totals;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use self::calls::Calls;
use self::instances::{Instances, NO_SLOT, REFUSED, Timed};
use self::kernels::{Execution, RangeKernels};
use self::lineage::{Lineage, UNMATCHED};
use self::pending::{Came, Expected, Joins, Pending, PendingCall};
use self::start_end::StartEnd;
pub use self::totals::{AttributionLosses, Function, Projection, Range, RangeKernel, Totals};
use crate::record::{Api, ApiCall, GpuOp, Note, Ticks, Work};
use range_report::stats::Distribution;
use range_report::{MemoryKind, RangeStyle};
use rustc_hash::FxHashMap;

/// The node of the lineage tree that stands for no span.
pub const OUTSIDE: u32 = 0;

/// Bounds on memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls remembered until what they launched has come: at most 122 bytes each. Where API calls are recorded, in
    /// each of three drains as many of these, at most 80 bytes each.
    pub launches: usize,
    /// Whether API calls are recorded.
    pub has_calls: bool,
    /// Instances that are not in the totals yet: some 250 bytes each, and 16 for each kernel launched in it. In a drain
    /// there may be more, and one that was folded early stays while a launch in it is remembered: at most 64 and two
    /// and a half times as many. What runs in others counts as late.
    pub instances: usize,
}

/// What is known elsewhere at the time of a drain.
pub struct Context<'a> {
    /// Parent of each node of the lineage tree, which is a lower number. Node 0 is the root and its own parent.
    pub parents: &'a [u32],
    /// Whether one more duration is kept by itself, by the number of those kept in its row.
    pub keep: &'a dyn Fn(u64) -> bool,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("parents", &self.parents).finish_non_exhaustive()
    }
}

/// The whole of attribution: notes and records in, [`Totals`] out.
///
/// In each drain, first the notes of all threads, then operations and calls in any order, then
/// [`drained`](Self::drained).
#[derive(Debug)]
pub struct Attribution {
    pending: Pending,
    instances: Instances,
    lineage: Lineage,
    range_kernels: RangeKernels,
    start_end: StartEnd,
    kernels: FxHashMap<u32, Distribution>,
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
            pending: Pending::new(limits.launches, limits.has_calls),
            instances: Instances::new(limits.instances),
            lineage: Lineage::default(),
            range_kernels: RangeKernels::default(),
            start_end: StartEnd::default(),
            kernels: FxHashMap::default(),
            memory: BTreeMap::new(),
            calls: Calls::new(limits.launches),
            losses: AttributionLosses::default(),
            operations: 0,
        }
    }

    /// What a thread noted: all of it, in its order, before the operations of the same drain.
    pub fn note(&mut self, tid: u32, note: &Note) {
        let Self { pending, instances, start_end, .. } = self;
        pending.goes_on(tid, note);
        match *note {
            Note::Began(instance) => {
                let slot = instances.begin(tid, &instance);
                if let Some(slot) = slot.filter(|_| instance.style == RangeStyle::StartEnd) {
                    start_end.begin(tid, slot);
                }
            }
            Note::Ended { instance, end } => {
                if let Some(ended) = instances.end(instance, Some(end)) {
                    start_end.end(ended);
                }
            }
            Note::Left { instance } => {
                if let Some(left) = instances.end(instance, None) {
                    start_end.end(left);
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
                let launch = PendingCall::new(tid, node, slot, expected);
                let joins = pending.joins(correlation, &launch);
                if joins == Joins::Yes {
                    return;
                }
                instances.hold(launch.instance);
                if joins == Joins::No {
                    pending.insert(correlation, launch, |slot| instances.release(slot));
                }
                let around = start_end.around(tid).filter(|around| pending.put_within(correlation, around));
                if let Some(around) = around {
                    around.iter().for_each(|&slot| instances.hold(slot));
                }
            }
            Note::Own { correlation } => {
                pending.insert(correlation, PendingCall::own(), |slot| instances.release(slot));
            }
        }
    }

    /// An operation that ran.
    pub fn operation(&mut self, op: &GpuOp, context: &Context<'_>) {
        let timed = op.start != 0 && op.end >= op.start;
        let launch = self.pending.came(op.correlation, timed);
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

    /// An operation that was over before the window. Its launch may have been noted in the window, and waits for it no
    /// longer.
    pub fn passed(&mut self, op: &GpuOp) {
        let _counted_nowhere = self.pending.came(op.correlation, false);
    }

    /// Counts an operation in the instance of its launch, in those below it on the stack, and in the start/end ranges
    /// around it. False if there are none. Where only open start/end ranges are around a kernel, it counts in them or
    /// outside when these end.
    fn in_instances(
        &mut self,
        launch: &PendingCall,
        correlation: u32,
        timed: Timed,
        execution: Option<Execution>,
        keep: &dyn Fn(u64) -> bool,
    ) -> bool {
        let Self { pending, instances, range_kernels, start_end, .. } = self;
        let mut late = false;
        let mut on_stack = false;
        let mut slot = launch.instance;
        while slot != NO_SLOT {
            if let Some((instance, folded)) = instances.count(slot, timed) {
                (late, on_stack) = (late || folded, true);
                if let Some(execution) = execution {
                    range_kernels.inside(instance, folded, execution, keep);
                }
            }
            slot = instances.parent(slot);
        }
        let (mut open, mut counted) = (Vec::new(), BTreeSet::new());
        for &slot in pending.within(correlation) {
            let Some((instance, folded)) = instances.count(slot, timed) else { continue };
            late |= folded;
            if instance.is_undecided() {
                open.push(slot);
                continue;
            }
            counted.insert(instance.range());
            if let Some(execution) = execution {
                range_kernels.inside(instance, folded, execution, keep);
            }
        }
        self.losses.late += u64::from(late || launch.instance == REFUSED);
        let inside = on_stack || !counted.is_empty() || !open.is_empty();
        if let Some(execution) = execution.filter(|_| !open.is_empty()) {
            start_end.wait(open, counted, on_stack, execution);
        }
        inside
    }

    /// A call of the API that is over.
    pub fn call(&mut self, call: &ApiCall, context: &Context<'_>) {
        self.calls.remember(call);
        let known = self.pending.recorded(call.correlation);
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
        let _counted_nowhere = self.pending.recorded(call.correlation);
    }

    fn count_call(&mut self, function: Function, duration: u64, node: Option<u32>, keep: &dyn Fn(u64) -> bool) {
        self.calls.table.entry(function).or_default().add(duration, keep);
        if let Some(node) = node {
            self.lineage.call(node, function, duration);
        }
    }

    /// A drain is over: instances that are over go into the totals. If the drain `counts`, what is old is forgotten,
    /// and driver calls that have waited for two such drains count, unless a call of the runtime has their id. A drain
    /// does not count if it follows another sooner than CUPTI delivers what belongs together.
    pub fn drained(&mut self, context: &Context<'_>, counts: bool) {
        self.lineage.drained();
        if counts {
            for held in self.calls.drained(&self.pending.running()) {
                self.count_call(held.function, held.duration, held.node, context.keep);
            }
            self.pending.drained(|slot| self.instances.release(slot));
        }
        self.start_end.drained(&mut self.instances, &mut self.range_kernels, context.keep);
        self.instances.fold(context);
        while self.instances.is_crowded() && self.pending.forget_oldest(|slot| self.instances.release(slot)) {
            self.instances.fold(context);
        }
    }

    /// What was counted so far. Open instances count up to `now`, and waiting driver calls as if no call of the runtime
    /// had their id. Changes nothing.
    #[must_use]
    pub fn totals(&self, now: Ticks) -> Totals {
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
            outstanding: self.pending.awaited(),
            forgotten_launches: self.pending.forgotten,
            forgotten_calls: self.pending.forgotten_calls,
            ..self.losses
        };
        Totals {
            kernels: self.kernels.iter().map(|(&name, times)| (name, times.clone())).collect(),
            memory: self.memory.clone(),
            calls,
            nodes,
            total,
            unmatched,
            projections: self.instances.totals(now),
            range_kernels: self.start_end.totals(&self.instances, &self.range_kernels),
            losses,
        }
    }

    /// A new window from `now` on: all that was counted is forgotten, and what launches of before still bring is
    /// dropped. Open instances go on, as if they began now.
    pub fn clear(&mut self, now: Ticks) {
        self.pending.clear(|slot| self.instances.release(slot));
        self.instances.clear(now);
        self.lineage = Lineage::default();
        self.range_kernels.clear();
        self.start_end.clear();
        self.kernels.clear();
        self.memory.clear();
        self.calls.clear();
        self.losses = AttributionLosses::default();
    }
}
