//! The GPU's side of a timeline: operations with the calls that launched them, and ranges projected onto streams.

use range_model::stats::Keyed;

use gpu_activity::join::{Capture, Event, Launch, StreamSpan};
use gpu_activity::record::{self, Work};
use range_model::timeline::{ApiCall, Item, Operation, PlacedDetail, Projection, graph_name};

use super::labels::Labels;
use super::moments::Moments;
use crate::core::session::catalog::ROOT;
pub(crate) use crate::parts::launches::collector::GpuRecords;

/// State that is kept between writes.
pub(crate) struct GpuTracks {
    /// Reading of the records' clock when the profiler's clock began.
    origin: u64,
    /// Devices that the files have announced.
    devices: Keyed<u32, ()>,
    /// Paths of nodes that have launched operations.
    paths: Keyed<u32, Vec<String>>,
    /// Paths of the captures of graph nodes.
    captured: Keyed<Capture, Vec<String>>,
    /// Names of graphs.
    graphs: Keyed<u32, String>,
}

type Give<'a> = &'a mut dyn FnMut(&Item<'_>);

impl GpuTracks {
    pub(crate) fn new(origin: u64) -> Self {
        Self {
            origin,
            devices: Keyed::default(),
            paths: Keyed::default(),
            captured: Keyed::default(),
            graphs: Keyed::default(),
        }
    }

    pub(crate) fn write(&mut self, records: &GpuRecords, moments: &Moments, labels: &Labels, give: Give<'_>) {
        // Thread and time of a launch, its span, and its call. A thread without a state has none of these.
        let place = |launch: Option<Launch>| match launch.filter(|launch| launch.thread != 0) {
            Some(Launch { thread, node, at, call }) => (Some((thread, moments.ns(at))), labels.node(node), call),
            None => (None, None, 0),
        };
        let origin = self.origin;
        let moment = |ns: u64| ns.saturating_sub(origin).max(1); // nanoseconds since the profiler's start
        for event in &records.events {
            match event {
                Event::Operation(op, launch, capture) => {
                    if self.devices.insert(op.device, ()) {
                        let name: &str = records.devices.get(&op.device).map_or("", |name| name);
                        give(&Item::Device { device: op.device, name });
                    }
                    let (kernel, symbol): (&str, &str) = match op.work {
                        Work::Kernel(kernel) => {
                            records.kernels.get(&kernel.name).map_or(("", ""), |(shown, symbol)| (shown, symbol))
                        }
                        Work::Memory(_) => ("", ""),
                        Work::Graph(graph) => (self.graphs.row_or(graph, || graph_name(graph)), ""),
                    };
                    let node = launch.filter(|launch| launch.thread != 0).map_or(ROOT, |launch| launch.node);
                    let (launch, span, call) = place(*launch);
                    let (start, end) = (moment(op.start), moment(op.end));
                    give(&Item::Operation(Operation {
                        start,
                        end,
                        device: op.device,
                        context: op.context,
                        stream: op.stream,
                        correlation: op.correlation,
                        graph_node: op.graph_node,
                        work: op.work,
                        kernel,
                        symbol,
                        launch,
                        span,
                        path: self.paths.row_or(node, || labels.path(node, ROOT)),
                        captured: self.captured.row_or(*capture, || labels.path(capture.span, capture.base)),
                        call,
                    }));
                }
                Event::Call(call, thread) => {
                    let record::ApiCall { api, function, correlation, result, .. } = *call;
                    let (start, end) = (moment(call.start), moment(call.end));
                    let name = records.functions.get(&(api, function)).map_or("", |name| name);
                    give(&Item::ApiCall(ApiCall { api, name, thread: *thread, start, end, correlation, result }));
                }
                Event::Detail(detail, launch) => {
                    let (launch, span, call) = place(*launch);
                    let detail = detail.on_clock(moment);
                    give(&Item::Detail(PlacedDetail { detail, launch, span, call }));
                }
                Event::Projection { label, level, streams } => {
                    let (domain, name) = labels.label(*label);
                    for &StreamSpan { device, context, stream, start, end } in streams {
                        let (start, end, level) = (moment(start), moment(end), *level);
                        let range = Projection { device, context, stream, start, end, domain, name, level };
                        give(&Item::Projection(range));
                    }
                }
            }
        }
    }
}
