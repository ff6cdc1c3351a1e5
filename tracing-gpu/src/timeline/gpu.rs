//! The GPU's side of a timeline: operations, the calls that launched them, and ranges projected onto streams.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use gpu_activity::record::{Api, ApiCall as ApiRecord, GpuOp, InstanceId, Note, Work};
use parking_lot::Mutex;
use range_report::timeline::{ApiCall, Item, Operation, Projection};

use super::moments::Moments;
use super::projections::{Kept, Projections};
use super::{Labels, Recorder};
use crate::collector::{GpuRecords, TakesRecords};
use crate::session::catalog::ROOT;

/// Memory of a launch and of an instance that are remembered for what is still to come of them, on one stream.
const REMEMBERED_BYTES: usize = 512;
/// Drains of the collector, ten a second, after the last operation of a launch in which more of it may come: they come
/// together.
const GRACE: u64 = 10;
/// The same for a graph, whose operations may come long after one another: a minute.
const GRAPH_GRACE: u64 = 600;

/// What waits to be written.
pub(super) struct Waiting(Mutex<GpuRecords>);

impl Waiting {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Mutex::new(GpuRecords::new(bytes)))
    }

    pub(super) fn take(&self) -> GpuRecords {
        self.0.lock().take()
    }
}

impl TakesRecords for Recorder {
    fn take_over(&self, add: &mut dyn FnMut(&mut GpuRecords)) {
        add(&mut self.gpu.0.lock());
    }
}

impl Labels {
    /// Name of the spans of a node; `None` outside of any.
    fn node(&self, node: u32) -> Option<&str> {
        let label = self.nodes.get(node as usize).filter(|_| node != ROOT)?;
        Some(self.label(*label).1)
    }
}

#[derive(Clone, Copy, Debug)]
struct Launch {
    thread: u32,
    at: u64,
    node: u32,
    /// Of the span that it is in.
    call: u64,
    instance: InstanceId,
    graph: bool,
    /// Whether its instance waits for operations of it.
    holds: bool,
    /// The drain in which the last operation came; 0 before any.
    came: u64,
}

/// What is remembered between writes.
#[derive(Debug)]
pub(super) struct GpuTracks {
    /// Bound on launches, on instances, and on calls of our own.
    most: usize,
    launches: HashMap<u32, Launch>,
    order: VecDeque<u32>,
    /// Launches by the drain in which an operation came: those that launch no graph, and those that do.
    came: [VecDeque<(u64, u32)>; 2],
    projections: Projections,
    own: HashSet<u32>,
    /// The operating system's numbers of threads by CUPTI's.
    threads: HashMap<u32, u32>,
    devices: HashSet<u32>,
    /// The number of the drain that is not over.
    drain: u64,
}

type Give<'a> = &'a mut dyn FnMut(&Item<'_>);

impl GpuTracks {
    /// Remembers as many launches and instances as go into this memory.
    pub(super) fn new(bytes: usize) -> Self {
        let most = bytes / REMEMBERED_BYTES;
        Self {
            most,
            launches: HashMap::new(),
            order: VecDeque::new(),
            came: [VecDeque::new(), VecDeque::new()],
            projections: Projections::new(most),
            own: HashSet::new(),
            threads: HashMap::new(),
            devices: HashSet::new(),
            drain: 1,
        }
    }

    /// Projections that are missing or may be cut short for want of room, since this was asked last.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.projections.lost)
    }

    /// Writes what has come.
    pub(super) fn write(&mut self, records: GpuRecords, moments: &Moments, labels: &Labels, give: Give<'_>) {
        for (thread, note) in &records.notes {
            self.note(*thread, note, moments, labels, give);
        }
        let of_runtime: HashSet<u32> = records
            .calls
            .iter()
            .filter(|(call, _)| call.api == Api::Runtime)
            .map(|(call, _)| call.correlation)
            .collect();
        for (call, name) in &records.calls {
            let nested = call.api == Api::Driver && of_runtime.contains(&call.correlation);
            let own = self.own.remove(&call.correlation); // nothing else comes of it
            if !nested && !own && call.start > 0 && call.end >= call.start {
                self.call(call, name, give);
            }
        }
        for op in records.ops.iter().filter(|op| op.start > 0 && op.end >= op.start) {
            if self.devices.insert(op.device) {
                let name = records.devices.get(&op.device).map_or("", |name| name);
                give(&Item::Device { device: op.device, name });
            }
            self.operation(op, &records.kernels, labels, give);
        }
        self.drain += records.drains;
        self.settle();
        self.projections.settle(|kept| project(kept, labels, give));
        while self.order.len() > self.most {
            if let Some(launch) = self.order.pop_front().and_then(|oldest| self.launches.remove(&oldest)) {
                self.forget(launch);
            }
        }
        if self.own.len() > self.most {
            self.own.clear(); // of most no record will come
        }
    }

    fn note(&mut self, thread: u32, note: &Note, moments: &Moments, labels: &Labels, give: Give<'_>) {
        match *note {
            Note::Began(instance) => self.projections.begin(&instance, |kept| project(kept, labels, give)),
            Note::Ended { instance, .. } | Note::Left { instance } => self.projections.end(instance),
            Note::Called { correlation, node, instance, graph, at, call, enqueues } => {
                // The driver calls of one runtime call have one number: the first that enqueues is the launch.
                let is_same = |before: &&mut Launch| {
                    (before.thread, before.node, before.instance, before.came) == (thread, node, instance, 0)
                };
                if let Some(before) = self.launches.get_mut(&correlation).filter(is_same) {
                    before.graph |= graph;
                    before.holds = before.holds || enqueues && self.projections.hold(instance);
                    return;
                }
                let holds = enqueues && self.projections.hold(instance);
                let launch = Launch { thread, at: moments.ns(at), node, call, instance, graph, holds, came: 0 };
                match self.launches.insert(correlation, launch) {
                    Some(before) if before.holds => self.projections.release(before.instance),
                    Some(_) => {}
                    None => self.order.push_back(correlation),
                }
            }
            Note::Own { correlation } => _ = self.own.insert(correlation),
        }
    }

    /// Drops launches from which no more operations are expected.
    fn settle(&mut self) {
        for (came, grace) in self.came.iter_mut().zip([GRACE, GRAPH_GRACE]) {
            while let Some(&(drain, correlation)) = came.front().filter(|(drain, _)| drain + grace <= self.drain) {
                came.pop_front();
                let launch = self.launches.get_mut(&correlation).filter(|launch| launch.came == drain && launch.holds);
                if let Some(launch) = launch {
                    launch.holds = false;
                    self.projections.release(launch.instance);
                }
            }
            if came.len() > 2 * self.launches.len() + 64 {
                let launches = &self.launches;
                came.retain(|(drain, correlation)| launches.get(correlation).is_some_and(|it| it.came == *drain));
            }
        }
    }

    /// A launch is no longer remembered. Where nothing has come of it, what comes is missing in the projection.
    fn forget(&mut self, launch: Launch) {
        if launch.holds {
            self.projections.lost += u64::from(launch.came == 0);
            self.projections.release(launch.instance);
        }
    }

    fn call(&mut self, call: &ApiRecord, name: &str, give: Give<'_>) {
        let known = self.launches.get(&call.correlation).map(|launch| launch.thread);
        if let Some(thread) = known {
            self.threads.insert(call.thread, thread);
        }
        let thread = known.or_else(|| self.threads.get(&call.thread).copied()).unwrap_or(0);
        give(&Item::ApiCall(ApiCall {
            api: call.api,
            name,
            thread,
            start: call.start,
            end: call.end,
            correlation: call.correlation,
            result: call.result,
        }));
    }

    fn operation(&mut self, op: &GpuOp, kernels: &HashMap<u32, (Arc<str>, Arc<str>)>, labels: &Labels, give: Give<'_>) {
        let drain = self.drain;
        let launch = self.launches.get_mut(&op.correlation).map(|launch| {
            if std::mem::replace(&mut launch.came, drain) != drain {
                self.came[usize::from(launch.graph)].push_back((drain, op.correlation));
            }
            *launch
        });
        let names = match op.work {
            Work::Kernel(kernel) => kernels.get(&kernel.name),
            Work::Memory(_) => None,
        };
        give(&Item::Operation(Operation {
            start: op.start,
            end: op.end,
            device: op.device,
            context: op.context,
            stream: op.stream,
            correlation: op.correlation,
            graph_node: op.graph_node,
            work: op.work,
            kernel: names.map_or("", |(shown, _)| shown),
            symbol: names.map_or("", |(_, symbol)| symbol),
            launch: launch.map(|launch| (launch.thread, launch.at)),
            span: launch.and_then(|launch| labels.node(launch.node)),
            call: launch.map_or(0, |launch| launch.call),
        }));
        self.projections.ran(launch.map_or(0, |launch| launch.instance), op);
    }

    /// Nothing more comes: writes all projections.
    pub(super) fn end(&mut self, labels: &Labels, give: Give<'_>) {
        self.projections.take_all().for_each(|kept| project(&kept, labels, give));
    }
}

/// Writes the projection of an instance.
fn project(kept: &Kept, labels: &Labels, give: Give<'_>) {
    let (domain, name) = labels.label(kept.label);
    for &((device, context, stream), start, end) in &kept.streams {
        let level = kept.level;
        give(&Item::Projection(Projection { device, context, stream, start, end, domain, name, level }));
    }
}

#[cfg(test)]
mod tests;
