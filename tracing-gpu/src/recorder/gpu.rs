//! The GPU's side of a timeline: operations, the calls that launched them, and ranges projected onto streams.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::Labels;
use super::moments::Moments;
use crate::activity::{Api, ApiCall, GpuOp, InstanceId, Note, Work};
use crate::timeline::{Call, Item, Operation, Projection};

/// Records that wait to be written; what comes beyond is counted.
const WAITING: usize = 1 << 20;
/// Launches and instances that are remembered for what is still to come of them.
const REMEMBERED: usize = 1 << 18;
/// Writes after which nothing more is expected of an instance that is over.
const GRACE: u64 = 20;

/// What the collector hands over. Its times are those of CUPTI, from the start of the profiler's clock on.
#[derive(Debug, Default)]
pub(crate) struct GpuRecords {
    notes: Vec<(u32, Note)>,
    ops: Vec<GpuOp>,
    calls: Vec<(ApiCall, Arc<str>)>,
    /// Kernels by number: as a person writes them, and their symbols.
    kernels: HashMap<u32, (Arc<str>, Arc<str>)>,
    lost: u64,
}

impl GpuRecords {
    pub(super) fn is_empty(&self) -> bool {
        self.notes.is_empty() && self.ops.is_empty() && self.calls.is_empty() && self.lost == 0
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    fn has_room(&mut self) -> bool {
        let has_room = self.notes.len() + self.ops.len() + self.calls.len() < WAITING;
        self.lost += u64::from(!has_room);
        has_room
    }

    pub(crate) fn note(&mut self, thread: u32, note: &Note) {
        if self.has_room() {
            self.notes.push((thread, *note));
        }
    }

    /// `names` of its kernel, if it is one.
    pub(crate) fn operation(&mut self, op: &GpuOp, names: impl FnOnce(u32) -> (Arc<str>, Arc<str>)) {
        if self.has_room() {
            if let Work::Kernel(kernel) = op.work {
                self.kernels.entry(kernel.name).or_insert_with(|| names(kernel.name));
            }
            self.ops.push(*op);
        }
    }

    pub(crate) fn call(&mut self, call: &ApiCall, name: Arc<str>) {
        if self.has_room() {
            self.calls.push((*call, name));
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Launch {
    thread: u32,
    at: u64,
    node: u32,
    instance: InstanceId,
}

#[derive(Debug)]
struct Kept {
    parent: InstanceId,
    label: u32,
    level: u32,
    /// The write in which it ended; `None` while it is open.
    over: Option<u64>,
    /// First start and last end on each stream.
    streams: Vec<(Stream, u64, u64)>,
}

type Stream = (u32, u32, u32); // device, context, stream

/// What is remembered between writes.
#[derive(Debug, Default)]
pub(super) struct GpuTracks {
    launches: HashMap<u32, Launch>,
    order: VecDeque<u32>,
    instances: HashMap<InstanceId, Kept>,
    own: HashSet<u32>,
    /// The operating system's numbers of threads by CUPTI's.
    threads: HashMap<u32, u32>,
    devices: HashSet<u32>,
    writes: u64,
}

type Give<'a> = &'a mut dyn FnMut(&Item<'_>);

impl GpuTracks {
    /// Writes what has come.
    pub(super) fn write(&mut self, records: GpuRecords, moments: &Moments, labels: &Labels, give: Give<'_>) {
        self.writes += 1;
        for (thread, note) in &records.notes {
            self.note(*thread, note, moments);
        }
        let of_runtime: HashSet<u32> = records
            .calls
            .iter()
            .filter(|(call, _)| call.api == Api::Runtime)
            .map(|(call, _)| call.correlation)
            .collect();
        for (call, name) in &records.calls {
            let nested = call.api == Api::Driver && of_runtime.contains(&call.correlation);
            if !nested && !self.own.contains(&call.correlation) && call.start > 0 && call.end >= call.start {
                self.call(call, name, give);
            }
        }
        for op in records.ops.iter().filter(|op| op.start > 0 && op.end >= op.start) {
            if self.devices.insert(op.device) {
                give(&Item::Device { device: op.device, name: "" });
            }
            self.operation(op, &records.kernels, labels, give);
        }
        self.project(labels, give, false);
        while self.order.len() > REMEMBERED {
            if let Some(oldest) = self.order.pop_front() {
                self.launches.remove(&oldest);
            }
        }
        if self.own.len() > REMEMBERED {
            self.own.clear(); // their records came long ago
        }
    }

    fn note(&mut self, thread: u32, note: &Note, moments: &Moments) {
        match *note {
            Note::Began(instance) if self.instances.len() < REMEMBERED => {
                let level = self.instances.get(&instance.parent).map_or(0, |parent| parent.level + 1);
                let (parent, label) = (instance.parent, instance.label);
                self.instances.insert(instance.id, Kept { parent, label, level, over: None, streams: Vec::new() });
            }
            Note::Ended { instance, .. } => {
                if let Some(kept) = self.instances.get_mut(&instance) {
                    kept.over = Some(self.writes);
                }
            }
            Note::Called { correlation, node, instance, at, .. } => {
                let launch = Launch { thread, at: moments.ns(at), node, instance };
                if self.launches.insert(correlation, launch).is_none() {
                    self.order.push_back(correlation);
                }
            }
            Note::Own { correlation } => _ = self.own.insert(correlation),
            _ => {}
        }
    }

    fn call(&mut self, call: &ApiCall, name: &str, give: Give<'_>) {
        let known = self.launches.get(&call.correlation).map(|launch| launch.thread);
        if let Some(thread) = known {
            self.threads.insert(call.thread, thread);
        }
        let thread = known.or_else(|| self.threads.get(&call.thread).copied()).unwrap_or(0);
        give(&Item::Call(Call {
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
        let launch = self.launches.get(&op.correlation).copied();
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
        }));
        let mut next = launch.map_or(0, |launch| launch.instance);
        let stream = (op.device, op.context, op.stream);
        while let Some(kept) = self.instances.get_mut(&next) {
            match kept.streams.iter_mut().find(|(of, ..)| *of == stream) {
                Some((_, first, last)) => (*first, *last) = ((*first).min(op.start), (*last).max(op.end)),
                None => kept.streams.push((stream, op.start, op.end)),
            }
            next = kept.parent;
        }
    }

    /// Writes the projections of instances that nothing more is expected of, or of all.
    fn project(&mut self, labels: &Labels, give: Give<'_>, all: bool) {
        let writes = self.writes;
        self.instances.retain(|_, kept| {
            if !all && kept.over.is_none_or(|over| over + GRACE > writes) {
                return true;
            }
            let (domain, name) = labels.label(kept.label);
            for &((device, context, stream), start, end) in &kept.streams {
                let level = kept.level;
                give(&Item::Projection(Projection { device, context, stream, start, end, domain, name, level }));
            }
            false
        });
    }

    /// Nothing more comes.
    pub(super) fn end(&mut self, labels: &Labels, give: Give<'_>) {
        self.project(labels, give, true);
    }
}

#[cfg(test)]
mod tests;
