//! The join: matches each operation on the GPU with the call, the thread, the span and the ranges that launched it.
//!
//! Threads note their launches; the source of records later delivers operations, in any order. Both have the
//! correlation id of the call, by which `pending` finds the launch of a record. There is one limit on remembered calls,
//! one order (a drain: notes first, then records), and one rule for driver calls inside calls of the runtime
//! (`nested`).
//!
//! The join counts nothing but what it loses: it hands each joined record once to the folds (`fold`). These are the
//! [`totals`](crate::totals), and the [`Event`]s of a timeline that asks for them. What surrounds a launch is part of
//! the join: instances on the stack (`fold/instances.rs`) and open start/end ranges (`open_ranges`).
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

mod events;
mod graphs;
mod mere_calls;
mod nested;
mod open_ranges;
mod pending;
mod pending_call;

#[cfg(test)]
mod tests;

pub use self::events::Event;
use self::events::Events;
use self::graphs::{GraphNodes, PERIOD};
use self::nested::NestedCalls;
use self::open_ranges::OpenRanges;
use self::pending::Pending;
use self::pending_call::{Expected, PendingCall, Progress};
pub use crate::fold::{Capture, Context, Launch, OUTSIDE, StreamSpan, UNKNOWN};
use crate::fold::{Fold, Instances, MadeCall, NO_SLOT, Operation, REFUSED};
use crate::graph::GraphChange;
use crate::record::{Api, ApiCall, Detail, GpuOp, Note, Ticks};
use crate::totals::{RunningTotals, Totals};
use range_model::RangeStyle;

/// Bounds on memory.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Launches that are remembered until their work has arrived: at most 168 bytes each. If API calls are recorded,
    /// 163 bytes more: as many driver calls wait for the runtime's call around them, and as many calls of the runtime
    /// that nobody noted are remembered in each of three drains.
    pub launches: usize,
    /// Nodes of graphs, 12 bytes each: the span that captured each.
    pub nodes: usize,
    /// Calls without work that are remembered until their record or detail has arrived, if any is expected: at most
    /// 44 bytes each, and 1.1 MB for a table that grows. They push out no launch.
    pub calls: usize,
    /// Whether API calls are recorded.
    pub has_calls: bool,
    /// Instances that are not in the totals yet: some 250 bytes each, and 12 for each kernel launched in it. During a
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
    open_ranges: OpenRanges,
    nested: NestedCalls,
    graphs: GraphNodes,
    /// Operations of this drain that have no launch, and whether they are of the window.
    in_bodies: Vec<(GpuOp, bool)>,
    most_nodes: usize,
    /// Tenths of a second in this period.
    tenths: u32,
    /// Operations and calls of the window without a time, which no fold gets.
    without_time: u64,
    folds: (RunningTotals, Events),
}

impl Join {
    /// An empty join.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            pending: Pending::new(limits.launches, limits.calls, limits.has_calls),
            instances: Instances::new(limits.instances),
            open_ranges: OpenRanges::default(),
            nested: NestedCalls::new(limits.launches),
            graphs: GraphNodes::default(),
            in_bodies: Vec::new(),
            most_nodes: limits.nodes,
            tenths: 0,
            without_time: 0,
            folds: Default::default(),
        }
    }

    /// Collects events from now on. The caller must take them regularly.
    pub const fn ask_for_events(&mut self) {
        self.folds.1.are_asked_for = true;
    }

    /// Collects details from now on. A noted call without expected operations is remembered until its detail has
    /// arrived, or its record if calls are recorded. A detail that arrives later has no launch. If calls are recorded,
    /// the [`Event::Call`] of its correlation id has the thread.
    pub fn ask_for_details(&mut self) {
        self.pending.has_details = true;
    }

    /// Takes a change of a graph.
    pub fn graph(&mut self, change: &GraphChange) {
        self.graphs.change(change, self.most_nodes);
    }

    /// Number of graph nodes without room. The span that captured them is not known.
    #[must_use]
    pub fn forgotten_nodes(&self) -> u64 {
        self.graphs.forgotten
    }

    /// The events since the last call.
    pub fn take_events(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.folds.1.list.drain(..)
    }

    /// Ends the join: waiting driver calls count, and open instances are over for events.
    pub fn finish(&mut self, context: &Context<'_>) {
        for made in self.nested.take_waiting(&self.pending) {
            self.folds.call(&made, context);
        }
        self.folds.1.finish(&mut self.instances);
    }

    /// Takes a thread's note. Pass all notes of a thread, in order, before the operations of the same drain.
    pub fn note(&mut self, tid: u32, note: &Note) {
        let Self { pending, instances, open_ranges, .. } = self;
        pending.goes_on(tid, note);
        match *note {
            Note::Began(instance) => {
                let slot = instances.begin(tid, &instance);
                if let Some(slot) = slot.filter(|_| instance.style == RangeStyle::StartEnd) {
                    open_ranges.begin(tid, slot);
                }
            }
            Note::Ended { instance, end } => open_ranges.end(instances.end(instance, Some(end))),
            Note::Left { instance } => open_ranges.end(instances.end(instance, None)),
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
                let around = open_ranges.around(tid).filter(|around| pending.put_within(correlation, around));
                if let Some(around) = around {
                    around.iter().for_each(|&slot| instances.hold(slot));
                }
            }
            Note::Own { correlation } => {
                pending.insert(correlation, PendingCall::own(), &mut |slot| instances.release(slot));
            }
        }
    }

    /// Takes an operation that ran; `of_window`: not one that was over before the window. The launch of such an
    /// operation may have been noted in the window, and stops waiting for it.
    pub fn operation(&mut self, op: &GpuOp, of_window: bool, context: &Context<'_>) {
        if op.correlation == 0 && op.graph_node != 0 {
            // Records of its replay may follow.
            self.in_bodies.push((*op, of_window));
            return;
        }
        self.graphs.ran(op);
        self.launched(op, op.correlation, of_window, context);
    }

    /// Takes an operation with the correlation id of its launch.
    fn launched(&mut self, op: &GpuOp, correlation: u32, of_window: bool, context: &Context<'_>) {
        let timed = op.is_timed();
        let pending = self.pending.came(correlation, timed && of_window);
        let of_window = of_window && pending.is_none_or(|pending| !pending.is_dropped());
        if !timed {
            self.without_time += u64::from(of_window);
            return;
        }
        if pending.is_some_and(|pending| pending.is_own()) {
            return;
        }
        let ran = Operation {
            op,
            launch: pending.map(|pending| pending.launch),
            instance: pending.map_or(NO_SLOT, |pending| pending.instance),
            within: self.pending.within(correlation),
            graph: self.graphs.of(op),
            is_first: pending.is_none_or(|pending| pending.came != Progress::Operation),
            of_window,
        };
        self.folds.operation(&ran, &mut self.instances, context);
    }

    /// Takes a finished call of the API; `of_window`: not one that began before the window.
    pub fn call(&mut self, call: &ApiCall, of_window: bool, context: &Context<'_>) {
        let (pending, thread) = self.pending.recorded(call);
        if pending.is_none() && call.api == Api::Runtime {
            self.nested.remember(call);
        }
        if pending.is_some_and(|pending| pending.is_own()) || self.nested.leaves_out(call, &self.pending) {
            return;
        }
        let of_window = of_window && pending.is_none_or(|pending| !pending.is_dropped());
        if call.start == 0 || call.end < call.start {
            self.without_time += u64::from(of_window);
            return;
        }
        let made = MadeCall { call: *call, thread, node: pending.map(|pending| pending.launch.node), of_window };
        if call.api == Api::Runtime {
            self.folds.call(&made, context);
            return;
        }
        for made in self.nested.hold(made, &self.pending) {
            self.folds.call(&made, context);
        }
    }

    /// Takes a detail. It belongs to no window, because it becomes only an event.
    pub fn detail(&mut self, detail: &Detail) {
        let pending = self.pending.detailed(detail);
        if pending.is_some_and(|pending| pending.is_own()) {
            return;
        }
        self.folds.detail(detail, pending.map(|pending| pending.launch));
    }

    /// Ends a drain: finished instances go into the totals. If the drain counts, old calls are forgotten, and driver
    /// calls that have waited for two such drains count, unless a call of the runtime has their id. `tenths` are the
    /// tenths of a second since the last drain that counted; 0 if this one does not, because it follows another too
    /// soon for CUPTI to deliver related records.
    pub fn drained(&mut self, context: &Context<'_>, tenths: u32) {
        for (op, of_window) in std::mem::take(&mut self.in_bodies) {
            self.launched(&op, self.graphs.replay(&op), of_window, context);
        }
        let Self { pending, instances, folds, .. } = self;
        if tenths > 0 {
            for made in self.nested.drained(pending) {
                folds.call(&made, context);
            }
            pending.drained(&mut |slot| instances.release(slot));
        }
        self.tenths += tenths;
        let ends_period = self.tenths >= PERIOD;
        if ends_period {
            self.tenths = 0;
            self.graphs.next_period();
        }
        folds.drained(instances, ends_period, context);
        instances.fold(|instance| folds.instance(instance, context));
        while instances.is_crowded() && pending.forget_oldest(&mut |slot| instances.release(slot)) {
            instances.fold(|instance| folds.instance(instance, context));
        }
    }

    /// The counts so far. Open instances count up to `now`; waiting driver calls count as if no call of the runtime had
    /// their id. Changes nothing.
    #[must_use]
    pub fn totals(&self, now: Ticks) -> Totals {
        let mut totals = self.folds.0.totals(&self.instances, now);
        self.nested.waiting(&self.pending).filter(|made| made.of_window).for_each(|made| totals.add_call(made));
        totals.losses.without_time = self.without_time;
        totals.losses.outstanding = self.pending.awaited();
        totals.losses.forgotten_launches = self.pending.forgotten;
        totals.losses.forgotten_calls = self.pending.forgotten_calls();
        totals
    }

    /// Begins a new window at `now`: discards all counts, and drops later operations of earlier launches. Open
    /// instances continue as if they began now.
    pub fn clear(&mut self, now: Ticks) {
        let Self { pending, instances, folds, .. } = self;
        pending.clear(folds.1.are_asked_for, &mut |slot| instances.release(slot));
        folds.clear();
        instances.clear(now);
        instances.fold(|instance| folds.instance(instance, &Context { parents: &[], keep: &|_| false }));
        self.nested.clear();
        self.without_time = 0;
    }
}
