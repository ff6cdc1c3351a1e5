//! The join: matches each operation on the GPU with the call, the thread, the span and the ranges that launched it.
//!
//! Threads note their launches; the source of records later delivers operations, in any order. Both have the
//! correlation id of the call, by which `pending` finds the launch of a record. There is one limit on remembered calls,
//! one order (a drain: notes first, then records), and one rule for driver calls inside calls of the runtime
//! (`nested`).
//!
//! Joined data goes two ways. The totals count it at once: by kind and by span (`totals`), and by the instances of
//! ranges around its launch (`instances`, `kernels`, `start_end`), as Nsight Systems does. If a timeline asks for it,
//! it is also emitted as [`Event`]s.
//!
//! **Late records.** A launch is remembered until two drains after its last operation and its own record. A graph, and
//! a launch without any operation yet, is remembered until the limit. So a kernel that runs for a minute, which also
//! delays the buffer of its record, finds its launch. A driver call waits two drains for the runtime's call around it,
//! and longer while its thread has made no other call.
//!
//! Memory is bounded: launches by [`Limits::launches`], other calls by [`Limits::calls`], instances by
//! [`Limits::instances`], unions of time by node and device, and data that waits for the end of a drain by the arrivals
//! in it. Tables have a row for each name.
//!
//! The join is pure: data in, data out.

mod context;
mod event;
mod instances;
mod kernels;
mod mere_calls;
mod nested;
mod nodes;
mod pending;
mod pending_call;
mod start_end;

#[cfg(test)]
mod tests;

pub use self::context::Context;
use self::event::MadeCall;
pub use self::event::{Event, Launch, StreamSpan};
use self::instances::{Instances, NO_SLOT, REFUSED, Timed};
use self::kernels::{Execution, RangeKernels};
use self::nested::NestedCalls;
use self::nodes::GraphNodes;
use self::pending::Pending;
use self::pending_call::{Expected, PendingCall, Progress};
use self::start_end::StartEnd;
use crate::record::{Api, ApiCall, Detail, GpuOp, Note, Ticks, Work};
use crate::totals::{AttributionLosses, Totals, UNMATCHED, WorkTotals};
use range_report::RangeStyle;

/// The node of the lineage tree that stands for no span.
pub const OUTSIDE: u32 = 0;

/// Bounds on memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Launches that are remembered until their work has arrived: at most 168 bytes each. If API calls are recorded,
    /// 163 bytes more: as many driver calls wait for the runtime's call around them, and as many calls of the runtime
    /// that nobody noted are remembered in each of three drains.
    pub launches: usize,
    /// Calls without work that are remembered until their record or detail has arrived, if any is expected: at most
    /// 44 bytes each, and 1.1 MB for a table that grows. They push out no launch.
    pub calls: usize,
    /// Whether API calls are recorded.
    pub has_calls: bool,
    /// Instances that are not in the totals yet: some 250 bytes each, and 16 for each kernel launched in it. During a
    /// drain there may be more. An instance that was folded early stays while a launch in it is remembered: at most 64
    /// and two and a half times as many. Work of further instances counts as late.
    pub instances: usize,
}

/// Takes notes and records, returns [`Totals`] and [`Event`]s.
///
/// The order of each drain: first the notes of all threads, then operations and calls in any order, then
/// [`drained`](Self::drained).
#[derive(Debug)]
pub struct Join {
    pending: Pending,
    instances: Instances,
    nested: NestedCalls,
    work: WorkTotals,
    range_kernels: RangeKernels,
    start_end: StartEnd,
    nodes: GraphNodes,
    /// The largest number of remembered graph nodes.
    most_nodes: usize,
    losses: AttributionLosses,
    /// Number of operations so far, which gives each one its serial number.
    operations: u64,
    /// Events that wait to be taken, if they are asked for.
    events: Option<Vec<Event>>,
}

impl Join {
    /// An empty join.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            pending: Pending::new(limits.launches, limits.calls, limits.has_calls),
            instances: Instances::new(limits.instances),
            nested: NestedCalls::new(limits.launches),
            work: WorkTotals::default(),
            range_kernels: RangeKernels::default(),
            start_end: StartEnd::default(),
            nodes: GraphNodes::default(),
            most_nodes: limits.launches,
            losses: AttributionLosses::default(),
            operations: 0,
            events: None,
        }
    }

    /// Collects events from now on. The caller must take them regularly.
    pub fn ask_for_events(&mut self) {
        self.events.get_or_insert_with(Vec::new);
        self.instances.ask_for_projections();
    }

    /// Collects details from now on. A noted call without expected operations is remembered until its detail has
    /// arrived, or its record if calls are recorded. A detail that arrives later has no launch. If calls are recorded,
    /// the [`Event::Call`] of its correlation id has the thread.
    ///
    /// Nodes of graphs are remembered: as many as launches, at most 80 bytes each.
    pub fn ask_for_details(&mut self) {
        self.pending.ask_for_details();
    }

    /// Number of graph nodes without room. Their clones have no launch.
    #[must_use]
    pub fn forgotten_nodes(&self) -> u64 {
        self.nodes.forgotten
    }

    /// The events since the last call.
    pub fn take_events(&mut self) -> impl Iterator<Item = Event> + '_ {
        let projections = self.instances.take_projections();
        self.events.iter_mut().flat_map(|events| events.drain(..)).chain(projections)
    }

    /// Ends the join: waiting driver calls count, and open instances are over for events.
    pub fn finish(&mut self, context: &Context<'_>) {
        for made in self.nested.take_waiting(&self.pending) {
            self.count_call(made, context.keep);
        }
        self.instances.project_all();
    }

    /// Takes a thread's note. Pass all notes of a thread, in order, before the operations of the same drain.
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
            Note::Called { correlation, node, instance, graph, at, call, enqueues } => {
                let expected = match (enqueues, graph) {
                    (true, true) => Expected::Graph,
                    (true, false) => Expected::Operations,
                    (false, _) => Expected::Record,
                };
                let slot = match instances.slot(instance) {
                    NO_SLOT if instance != 0 => REFUSED,
                    slot => slot,
                };
                let mut launch = PendingCall::new(Launch { thread: tid, node, at, call }, slot, expected);
                if pending.joins(correlation, &mut launch) {
                    return;
                }
                instances.hold(launch.instance);
                pending.insert(correlation, launch, &mut |slot| instances.release(slot));
                let around = start_end.around(tid).filter(|around| pending.put_within(correlation, around));
                if let Some(around) = around {
                    around.iter().for_each(|&slot| instances.hold(slot));
                }
            }
            Note::Own { correlation } => {
                pending.insert(correlation, PendingCall::own(), &mut |slot| instances.release(slot));
            }
        }
    }

    /// Takes an operation that ran.
    pub fn operation(&mut self, op: &GpuOp, context: &Context<'_>) {
        let timed = op.is_timed();
        let pending = self.pending.came(op.correlation, timed);
        if timed {
            self.emit_operation(op, pending.as_ref());
        }
        if pending.is_some_and(|pending| pending.is_dropped()) {
            return;
        }
        if !timed {
            self.losses.without_time += 1;
            return;
        }
        self.operations += 1;
        let (duration, mark) = (op.end - op.start, self.operations);
        let thread = pending.map_or(0, |pending| pending.launch.thread);
        let execution = match op.work {
            Work::Kernel(kernel) => Some(Execution { kernel: kernel.name, thread, duration, mark }),
            Work::Memory(_) => None,
        };
        let node = match pending {
            Some(pending) => self.work.lineage.place(pending.launch.node, context.parents),
            None => UNMATCHED,
        };
        self.work.operation(node, op, context.keep);
        let mut inside = false;
        if let Some(pending) = pending {
            let timed = Timed { start: op.start, end: op.end, first: pending.came != Progress::Operation, mark };
            inside = self.in_instances(&pending, op.correlation, timed, execution, context.keep);
        } else {
            self.losses.unmatched += 1;
        }
        if let (false, Some(execution)) = (inside, execution) {
            self.range_kernels.outside(execution, context.keep);
        }
    }

    /// Takes an operation that was over before the window. Its launch may have been noted in the window and stops
    /// waiting for it.
    pub fn passed(&mut self, op: &GpuOp) {
        let pending = self.pending.came(op.correlation, false);
        if op.is_timed() {
            self.emit_operation(op, pending.as_ref());
        }
    }

    /// Emits an operation with a time, unless it is the profiler's own.
    fn emit_operation(&mut self, op: &GpuOp, pending: Option<&PendingCall>) {
        if self.events.is_none() || pending.is_some_and(PendingCall::is_own) {
            return;
        }
        if let Some(pending) = pending {
            self.instances.ran(pending.instance, op);
        }
        emit(&mut self.events, || Event::Operation(*op, pending.map(|pending| pending.launch)));
    }

    /// Counts an operation in the instance of its launch, in the instances below on the stack, and in the start/end
    /// ranges around it. Returns false if there are none. If only open start/end ranges surround a kernel, it counts in
    /// them or outside when they end.
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
        let (mut open, mut counted) = (Vec::new(), Vec::new());
        for &slot in pending.within(correlation) {
            let Some((instance, folded)) = instances.count(slot, timed) else { continue };
            late |= folded;
            if instance.is_undecided() {
                open.push(slot);
                continue;
            }
            start_end::insert(&mut counted, instance.range());
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

    /// Takes a finished call of the API.
    pub fn call(&mut self, call: &ApiCall, context: &Context<'_>) {
        self.called(call, true, context);
    }

    /// Takes a call that began before the window.
    pub fn passed_call(&mut self, call: &ApiCall, context: &Context<'_>) {
        self.called(call, false, context);
    }

    /// Takes a detail. It belongs to no window, because it becomes only an event.
    pub fn detail(&mut self, detail: &Detail) {
        let pending = self.pending.detailed(detail);
        if pending.is_some_and(|pending| pending.is_own()) {
            return;
        }
        let mut launch = pending.map(|pending| pending.launch);
        if let Detail::Node(node) = detail {
            launch = self.nodes.made(node, launch, self.most_nodes);
        }
        emit(&mut self.events, || Event::Detail(*detail, launch));
    }

    fn called(&mut self, call: &ApiCall, of_window: bool, context: &Context<'_>) {
        let (pending, thread) = self.pending.recorded(call);
        if pending.is_none() && call.api == Api::Runtime {
            self.nested.remember(call);
        }
        if pending.is_some_and(|pending| pending.is_own()) || self.nested.leaves_out(call, &self.pending) {
            return;
        }
        let counts = of_window && pending.is_none_or(|pending| !pending.is_dropped());
        if call.start == 0 || call.end < call.start {
            self.losses.without_time += u64::from(counts);
            return;
        }
        let node =
            pending.filter(|_| counts).map(|pending| self.work.lineage.place(pending.launch.node, context.parents));
        let made = MadeCall { call: *call, thread, node, counts };
        if counts || self.events.is_some() {
            if call.api == Api::Runtime {
                self.count_call(made, context.keep);
                return;
            }
            for made in self.nested.hold(made, &self.pending) {
                self.count_call(made, context.keep);
            }
        }
    }

    fn count_call(&mut self, made: MadeCall, keep: &dyn Fn(u64) -> bool) {
        if made.counts {
            self.work.call(made.function(), made.duration(), made.node, keep);
        }
        emit(&mut self.events, || Event::Call(made.call, made.thread));
    }

    /// Ends a drain: finished instances go into the totals. If the drain `counts`, old calls are forgotten, and driver
    /// calls that have waited for two such drains count, unless a call of the runtime has their id. A drain does not
    /// count if it follows another too soon for CUPTI to deliver related records.
    pub fn drained(&mut self, context: &Context<'_>, counts: bool) {
        self.work.lineage.drained();
        if counts {
            for made in self.nested.drained(&self.pending) {
                self.count_call(made, context.keep);
            }
            self.pending.drained(&mut |slot| self.instances.release(slot));
            self.instances.project_quiet();
        }
        self.start_end.drained(&mut self.instances, &mut self.range_kernels, context.keep);
        self.instances.fold(context);
        while self.instances.is_crowded() && self.pending.forget_oldest(&mut |slot| self.instances.release(slot)) {
            self.instances.fold(context);
        }
    }

    /// The counts so far. Open instances count up to `now`; waiting driver calls count as if no call of the runtime had
    /// their id. Changes nothing.
    #[must_use]
    pub fn totals(&self, now: Ticks) -> Totals {
        let mut totals = self.work.totals();
        for made in self.nested.waiting(&self.pending).filter(|made| made.counts) {
            totals.add_call(made.function(), made.duration(), made.node);
        }
        let losses = AttributionLosses {
            outstanding: self.pending.awaited(),
            forgotten_launches: self.pending.forgotten,
            forgotten_calls: self.pending.forgotten_calls(),
            ..self.losses
        };
        totals.losses = losses;
        totals.projections = self.instances.totals(now);
        totals.range_kernels = self.start_end.totals(&self.instances, &self.range_kernels);
        totals
    }

    /// Begins a new window at `now`: discards all counts, and drops later operations of earlier launches. Open
    /// instances continue as if they began now.
    pub fn clear(&mut self, now: Ticks) {
        self.pending.clear(self.events.is_some(), &mut |slot| self.instances.release(slot));
        self.instances.clear(now);
        self.work = WorkTotals::default();
        self.range_kernels.clear();
        self.start_end.clear();
        self.nested.clear();
        self.losses = AttributionLosses::default();
    }
}

/// Adds an event, if events are asked for.
fn emit(events: &mut Option<Vec<Event>>, event: impl FnOnce() -> Event) {
    if let Some(events) = events {
        events.push(event());
    }
}
