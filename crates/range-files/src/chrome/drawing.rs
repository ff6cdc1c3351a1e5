//! What a timeline shows, in any format: which item becomes which event.

use super::device::Devices;
use super::draw::{Describe, Draw, Track};
use super::host::Host;
use range_model::summary::Process;
use range_model::summary::origin;
use range_model::timeline::Item;

/// A process and its devices, as far as they were drawn.
#[derive(Debug)]
pub(crate) struct Drawing {
    pid: u32,
    host: Host,
    devices: Devices,
    /// The last moment that was seen.
    last: u64,
}

impl Default for Drawing {
    fn default() -> Self {
        Self { pid: 0, host: Host::new(0), devices: Devices::new(0, String::new()), last: 0 }
    }
}

impl Drawing {
    pub(crate) fn begin(lines: &mut impl Draw, process: &Process) -> Self {
        let track = Track { pid: process.pid, tid: process.pid };
        lines.metadata(track, "process_name", program(process));
        let labels = [origin::labels(process), process.command.clone()].into_iter().filter(|label| !label.is_empty());
        let event = lines.event("M", track, "process_labels");
        event.args().text("labels", &range_model::names::joined(labels, ", "));
        // The same for programs, such as our import.
        for (key, text) in [("run", &process.run_id), ("host", &process.host)] {
            if !text.is_empty() {
                event.text(key, text);
            }
        }
        for (key, number) in [("rank", process.rank.map(u64::from)), ("started_unix_ns", Some(process.started_unix_ns))]
        {
            if let Some(number) = number {
                event.integer(key, number);
            }
        }
        event.end();
        lines.order(track, "process_sort_index", 0);
        let devices = Devices::new(process.pid, origin::labels(process));
        Self { pid: process.pid, host: Host::new(process.pid), devices, last: 0 }
    }

    pub(crate) fn item(&mut self, lines: &mut impl Draw, item: &Item<'_>) {
        let Self { host, devices, last, .. } = self;
        match item {
            Item::Thread { thread, name } => host.thread(lines, *thread, name),
            Item::Device { device, name } => devices.device(lines, *device, name),
            Item::Range(range) => {
                host.range(lines, range);
                *last = range.end.max(*last);
            }
            Item::Mark(mark) => {
                host.mark(lines, mark);
                *last = mark.at.max(*last);
            }
            Item::Operation(operation) => {
                devices.operation(lines, operation);
                *last = operation.end.max(*last);
            }
            Item::Call(call) => {
                host.call(lines, call);
                *last = call.end.max(*last);
            }
            Item::ApiCall(call) => host.api_call(lines, call),
            Item::Projection(projection) => devices.projection(lines, projection),
            Item::Link(link) => host.link(lines, *link),
            _ => {}
        }
    }

    /// Says how many items are missing.
    pub(crate) fn end(&self, lines: &mut impl Draw, lost: u64) {
        if lost > 0 {
            let text = format!("{lost} items of this timeline are missing");
            let event = lines.event("i", Track { pid: self.pid, tid: self.pid }, &text);
            event.time("ts", self.last).text("s", "g").text("cat", "lost").text("cname", "terrible");
            event.args().integer("lost", lost).end();
        }
    }
}

/// The name of the program, without its folder and arguments.
fn program(process: &Process) -> &str {
    let path = process.command.split(' ').next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    if name.is_empty() { "process" } else { name }
}
