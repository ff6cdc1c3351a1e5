//! Work of the GPUs: each GPU is shown as a process, and its streams as threads.

use super::draw::{At, Describe, Draw, Track};
use super::lanes::Lanes;
use range_model::stats::Keyed;
use range_model::summary::MemoryKind;
use range_model::timeline::{Kernel, Memory, Operation, Projection, Work, graph_name};

/// The category and the name of launches and their arrows.
pub(crate) const LAUNCH: &str = "launch";
/// The process ids of two neighbouring devices differ by this number. The id of the process is added, so that files of
/// several processes can be joined.
pub(crate) const APART: u32 = 10_000_000;
/// Numbers of tracks for one stream: those of its ranges by level, then that of its operations.
const PLACES: u32 = 100;
const OPERATIONS: u32 = 50;
/// Where the numbers of all other tracks of a device begin.
const MORE_TRACKS: u32 = 1_000_000;

/// The devices of the process.
#[derive(Debug)]
pub(super) struct Devices {
    pid: u32,
    /// The label of these devices: the process that used them.
    labels: String,
    devices: Keyed<u32, Device>,
    next_flow: u64,
    /// The launch at which the last arrow begins.
    anchor: Option<At>,
}

#[derive(Debug)]
struct Device {
    /// Id of the process that stands for the device.
    pid: u32,
    streams: Keyed<(u32, u32), Stream>,
    /// The context that was seen first. The names of its streams do not contain the context.
    context: Option<u32>,
    next_track: u32,
    copied: Keyed<MemoryKind, Copied>,
}

#[derive(Debug)]
struct Stream {
    /// Streams are numbered in the order in which they were seen.
    number: u32,
    /// The tracks of operations, at the place [`OPERATIONS`], and those of ranges, by level. Each level has its own,
    /// because a range and the range inside it often begin with the same operation. In one track, their order in the
    /// file would decide which of them contains the other.
    rows: Keyed<u32, Lanes>,
}

#[derive(Debug, Default)]
struct Copied {
    bytes: u64,
    at: u64,
}

impl Devices {
    pub(super) fn new(pid: u32, labels: String) -> Self {
        Self { pid, labels, devices: Keyed::default(), next_flow: 1, anchor: None }
    }

    pub(super) fn device(&mut self, lines: &mut impl Draw, number: u32, name: &str) {
        let track = Track { pid: device_pid(self.pid, number), tid: 0 };
        let blank = if name.is_empty() { "" } else { " " };
        lines.metadata(track, "process_name", &format!("GPU {number}{blank}{name}"));
        if !self.labels.is_empty() {
            lines.metadata(track, "process_labels", &self.labels);
        }
        lines.order(track, "process_sort_index", number.saturating_add(1).min(i32::MAX as u32));
        self.devices.row_or(number, || Device::new(track.pid));
    }

    pub(super) fn operation(&mut self, lines: &mut impl Draw, operation: &Operation<'_>) {
        let device = self.known(lines, operation.device);
        let stream = (operation.context, operation.stream);
        let track = device.place(lines, stream, OPERATIONS, operation.start, operation.end);
        let (name, category) = match operation.work {
            Work::Kernel(_) if operation.kernel.is_empty() => (operation.symbol.to_owned(), "kernel"),
            Work::Kernel(_) => (operation.kernel.to_owned(), "kernel"),
            Work::Memory(memory) => memory_name(memory),
            Work::Graph(graph) => (graph_name(graph), "graph"),
        };
        let event = lines.slice(track, &name, operation.start, operation.end);
        event.text("cat", category).args();
        match operation.work {
            Work::Kernel(kernel) => kernel_args(event, kernel, operation),
            Work::Memory(memory) => memory_args(event, memory, operation.end.saturating_sub(operation.start)),
            Work::Graph(graph) => _ = event.integer("graph", u64::from(graph)),
        }
        for (key, number) in
            [("correlation", operation.correlation), ("context", operation.context), ("stream", operation.stream)]
        {
            event.integer(key, u64::from(number));
        }
        if operation.graph_node != 0 {
            event.integer("graph_node", operation.graph_node);
        }
        if let Some(span) = operation.span {
            event.text("span", span);
        }
        if !operation.captured.is_empty() {
            event.text("captured_in", &operation.captured.join(" > "));
        }
        if operation.call != 0 {
            event.integer("call", operation.call);
        }
        event.end();
        let at = At { track, time: operation.start, slice: lines.slice_of(track) };
        if let Work::Memory(memory @ Memory { bytes: 1.., .. }) = operation.work {
            device.copied(lines, memory, operation);
        }
        self.flow(lines, operation, at);
    }

    /// Draws an arrow from the launch to the operation. Each arrow has its own id, so that the launch of a graph has an
    /// arrow to each of its operations.
    fn flow(&mut self, lines: &mut impl Draw, operation: &Operation<'_>, to: At) {
        let Some((thread, at)) = operation.launch else { return };
        let launch = Track { pid: self.pid, tid: thread };
        let at = at.min(operation.start); // an arrow does not go back in time
        let from = match self.anchor.filter(|anchor| (anchor.track, anchor.time) == (launch, at)) {
            Some(anchor) => anchor,
            None => {
                // Perfetto starts an arrow at the slice that began last, even if that slice has ended. So a slice must
                // begin at the launch.
                let event = lines.slice(launch, LAUNCH, at, at);
                event.text("cat", LAUNCH).args().integer("correlation", u64::from(operation.correlation)).end();
                *self.anchor.insert(At { track: launch, time: at, slice: lines.slice_of(launch) })
            }
        };
        let id = self.next_flow;
        self.next_flow += 1;
        lines.arrow(LAUNCH, id, from, to);
    }

    pub(super) fn projection(&mut self, lines: &mut impl Draw, projection: &Projection<'_>) {
        let device = self.known(lines, projection.device);
        let (stream, row) = ((projection.context, projection.stream), projection.level.min(OPERATIONS - 1));
        let track = device.place(lines, stream, row, projection.start, projection.end);
        let event = lines.slice(track, projection.name, projection.start, projection.end);
        event.text("cat", projection.domain.unwrap_or("range"));
        event.args().integer("level", u64::from(projection.level)).end();
    }

    /// The device. If it was not announced, announces it by its number.
    fn known(&mut self, lines: &mut impl Draw, number: u32) -> &mut Device {
        if !self.devices.contains_key(&number) {
            self.device(lines, number, "");
        }
        let pid = device_pid(self.pid, number);
        self.devices.row_or(number, || Device::new(pid))
    }
}

impl Device {
    fn new(pid: u32) -> Self {
        Self { pid, streams: Keyed::default(), context: None, next_track: MORE_TRACKS, copied: Keyed::default() }
    }

    /// The track for a slice of this row of a stream.
    fn place(&mut self, lines: &mut impl Draw, id: (u32, u32), row: u32, start: u64, end: u64) -> Track {
        let first_context = *self.context.get_or_insert(id.0);
        let number = self.streams.len() as u32 + 1;
        let stream = self.streams.row_or(id, || Stream { number, rows: Keyed::default() });
        let base = stream.number.saturating_mul(PLACES).saturating_add(row);
        let (pid, next) = (self.pid, &mut self.next_track);
        let new = |lane| match lane {
            1 => Track { pid, tid: base },
            _ => Track { pid, tid: std::mem::replace(next, next.saturating_add(1)) },
        };
        let (track, new) = stream.rows.row_or(row, || Lanes::new(false)).place(start, end, new);
        let Some(lane) = new else { return track };
        let mut name = format!("Stream {}", id.1);
        if id.0 != first_context {
            name += &format!(" of context {}", id.0);
        }
        match row {
            OPERATIONS => {}
            0 => name += " ranges",
            level => name += &format!(" ranges, level {level}"),
        }
        if lane > 1 {
            name += &format!(" ({lane})");
        }
        lines.metadata(track, "thread_name", &name);
        lines.order(track, "thread_sort_index", base.min(i32::MAX as u32));
        track
    }

    /// Counts the bytes copied so far in this direction. The times of a counter never decrease, although the operations
    /// of several streams may arrive out of order.
    fn copied(&mut self, lines: &mut impl Draw, memory: Memory, operation: &Operation<'_>) {
        let Some(direction) = memory.kind.direction() else { return };
        let (track, name) = (Track { pid: self.pid, tid: 0 }, format!("Copied {direction}"));
        let first = !self.copied.contains_key(&memory.kind);
        let copied = self.copied.row(memory.kind);
        if first {
            lines.event("C", track, &name).time("ts", operation.start).args().count("bytes", 0).end();
        }
        copied.at = copied.at.max(operation.end);
        copied.bytes = copied.bytes.saturating_add(memory.bytes);
        lines.event("C", track, &name).time("ts", copied.at).args().count("bytes", copied.bytes).end();
    }
}

fn device_pid(pid: u32, device: u32) -> u32 {
    device.saturating_add(1).saturating_mul(APART).saturating_add(pid)
}

/// The name of a copy or set in torch.profiler: `Memcpy HtoD (Pageable -> Device)`.
fn memory_name(memory: Memory) -> (String, &'static str) {
    let (from, to) = (memory_kind(memory.source), memory_kind(memory.destination));
    match memory.kind.direction() {
        Some(direction) => (format!("Memcpy {direction} ({from} -> {to})"), "memcpy"),
        None => (format!("Memset ({to})"), "memset"),
    }
}

/// The names of CUPTI's `CUpti_ActivityMemoryKind`.
pub(crate) const fn memory_kind(kind: u8) -> &'static str {
    match kind {
        1 => "Pageable",
        2 => "Pinned",
        3 => "Device",
        4 => "Array",
        5 => "Managed",
        6 => "Device Static",
        7 => "Managed Static",
        _ => "Unknown",
    }
}

fn kernel_args(event: &mut impl Describe, kernel: Kernel, operation: &Operation<'_>) {
    event.triple("grid", kernel.grid).triple("block", kernel.block);
    event.integer("registers", u64::from(kernel.registers));
    event.signed_integer("static_shared", i64::from(kernel.static_shared));
    event.signed_integer("dynamic_shared", i64::from(kernel.dynamic_shared));
    if !operation.symbol.is_empty() && operation.symbol != operation.kernel {
        event.text("symbol", operation.symbol);
    }
}

fn memory_args(event: &mut impl Describe, memory: Memory, ns: u64) {
    event.integer("bytes", memory.bytes);
    if ns > 0 {
        let gigabytes_per_second = memory.bytes as f64 / ns as f64;
        event.float("GB/s", (gigabytes_per_second * 1000.0).round() / 1000.0);
    }
    if memory.kind == MemoryKind::Set {
        event.hex("value", memory.value.into(), 0);
    }
}
