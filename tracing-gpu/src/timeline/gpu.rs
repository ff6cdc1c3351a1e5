//! The GPU's side of a timeline: operations with the calls that launched them, and ranges projected onto streams.

use rustc_hash::FxHashSet;
use std::sync::Arc;

use gpu_activity::join::{Event, Launch};
use gpu_activity::record::{Detail, GpuOp, Work};
use range_report::timeline::{ApiCall, Item, Operation, PlacedDetail, Projection};

use super::Labels;
use super::moments::Moments;
pub(crate) use crate::collector::GpuRecords;
use crate::session::catalog::ROOT;

impl Labels {
    /// Name of the spans of a node; `None` outside of any.
    fn node(&self, node: u32) -> Option<&str> {
        let label = self.nodes.get(node as usize).filter(|_| node != ROOT)?;
        Some(self.label(*label).1)
    }
}

/// State that is kept between writes.
#[derive(Debug)]
pub(super) struct GpuTracks {
    /// Reading of the records' clock when the profiler's clock began.
    origin: u64,
    /// Devices that the files have announced.
    devices: FxHashSet<u32>,
}

type Give<'a> = &'a mut dyn FnMut(&Item<'_>);

impl GpuTracks {
    pub(super) fn new(origin: u64) -> Self {
        Self { origin, devices: FxHashSet::default() }
    }

    /// Nanoseconds since the profiler's start, as for all times of a timeline.
    fn moment(&self, ns: u64) -> u64 {
        ns.saturating_sub(self.origin).max(1)
    }

    /// Writes the records.
    pub(super) fn write(&mut self, records: &GpuRecords, moments: &Moments, labels: &Labels, give: Give<'_>) {
        for event in &records.events {
            match event {
                Event::Operation(op, launch) => self.operation(op, *launch, records, moments, labels, give),
                Event::Call(call, thread) => {
                    let name = records.functions.get(&(call.api, call.function)).map_or("", |name| name);
                    give(&Item::ApiCall(ApiCall {
                        api: call.api,
                        name,
                        thread: *thread,
                        start: self.moment(call.start),
                        end: self.moment(call.end),
                        correlation: call.correlation,
                        result: call.result,
                    }));
                }
                Event::Detail(detail, launch) => give(&Item::Detail(self.detail(*detail, *launch, moments, labels))),
                Event::Projection { label, level, streams } => {
                    let (domain, name) = labels.label(*label);
                    for on in streams {
                        give(&Item::Projection(Projection {
                            device: on.device,
                            context: on.context,
                            stream: on.stream,
                            start: self.moment(on.start),
                            end: self.moment(on.end),
                            domain,
                            name,
                            level: *level,
                        }));
                    }
                }
            }
        }
    }

    fn detail<'a>(
        &self,
        detail: Detail,
        launch: Option<Launch>,
        moments: &Moments,
        labels: &'a Labels,
    ) -> PlacedDetail<'a> {
        let launch = launch.filter(has_state);
        PlacedDetail {
            detail: detail.on_clock(|ns| self.moment(ns)),
            launch: launch.map(|launch| (launch.thread, moments.ns(launch.at))),
            span: launch.and_then(|launch| labels.node(launch.node)),
            call: launch.map_or(0, |launch| launch.call),
        }
    }

    fn operation(
        &mut self,
        op: &GpuOp,
        launch: Option<Launch>,
        records: &GpuRecords,
        moments: &Moments,
        labels: &Labels,
        give: Give<'_>,
    ) {
        if self.devices.insert(op.device) {
            let name: &str = records.devices.get(&op.device).map_or("", |name| name);
            give(&Item::Device { device: op.device, name });
        }
        let names: Option<&(Arc<str>, Arc<str>)> = match op.work {
            Work::Kernel(kernel) => records.kernels.get(&kernel.name),
            Work::Memory(_) => None,
        };
        let launch = launch.filter(has_state);
        give(&Item::Operation(Operation {
            start: self.moment(op.start),
            end: self.moment(op.end),
            device: op.device,
            context: op.context,
            stream: op.stream,
            correlation: op.correlation,
            graph_node: op.graph_node,
            work: op.work,
            kernel: names.map_or("", |(shown, _)| shown),
            symbol: names.map_or("", |(_, symbol)| symbol),
            launch: launch.map(|launch| (launch.thread, moments.ns(launch.at))),
            span: launch.and_then(|launch| labels.node(launch.node)),
            call: launch.map_or(0, |launch| launch.call),
        }));
    }
}

/// Whether the thread that made a call has a state.
fn has_state(launch: &Launch) -> bool {
    launch.thread != 0
}
