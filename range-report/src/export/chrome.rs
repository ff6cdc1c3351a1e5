//! The timeline as Chrome trace events: a file that ui.perfetto.dev and chrome://tracing open.
//!
//! The file is a JSON array with one event per line. The comma of an event is written with the next event, and the
//! bracket at the end may be missing: readers of the format accept a file that was cut off. So the file of a process
//! that was killed opens too, with everything up to the last [`Sink::flush`].
//!
//! | shown | as |
//! |---|---|
//! | a thread | a track of the process, with its ranges (`X`) and marks (`i`); `cat` is the domain, then the category |
//! | a range of style start/end | `b` and `e` with an id of its own |
//! | a call that is not the same as its one range | `b` and `e` with an id of its own, `cat` "call" |
//! | the API calls of a thread | a track "CUDA API of" that thread |
//! | a GPU | a process, with a track a stream for its operations, and above it one a level for the ranges projected onto it |
//! | a launch | a slice without length on its thread, and an arrow (`s`, `f`) from there to each operation |
//! | a call that a batch serves | an arrow from its first range to that of the batch, `cat` "batch" |
//! | copied bytes | a counter (`C`) a direction, from the start |
//!
//! Two slices of one track must be nested or apart, or a reader drops one. A slice that would cross another (kernels at
//! once on one stream, ranges of different domains) goes to a further track of the same name, with a number. Times are
//! nanoseconds from the start of the profiler, written as microseconds with three decimals. In arguments, integers
//! beyond 2^53 are strings, because most readers hold numbers as doubles. The values of counters are always numbers.

mod batches;
mod color;
mod destination;
pub(crate) mod device;
#[cfg(feature = "gzip")]
mod gzip;
pub(crate) mod host;
mod lanes;
mod line;
#[cfg(test)]
mod tests;
pub(super) mod text;

#[cfg(feature = "gzip")]
use std::io::Seek;
use std::io::{self, Write};

pub use destination::is_compressed;

use super::origin;
use crate::summary::{Process, Summary};
use crate::timeline::{Item, Sink};
use destination::Destination;
use device::Devices;
use host::Host;
use line::{Lines, Track};

/// Lines are written when they have this many bytes.
const CHUNK: usize = 128 * 1024;

/// Writes a timeline as Chrome trace events.
#[derive(Debug)]
pub struct Chrome<W: Write> {
    out: Destination<W>,
    lines: Lines,
    pid: u32,
    host: Host,
    devices: Devices,
    /// The last moment that was seen.
    last: u64,
}

#[cfg(feature = "gzip")]
impl<W: Write + Seek> Chrome<W> {
    /// A compressed timeline, which the readers accept, too. The file is complete after each write, because the next
    /// write overwrites its end. If `out` cannot go back (a pipe), the file is complete only at the end.
    #[must_use]
    pub fn gzip(out: W) -> Self {
        Self::to(Destination::gzip(out))
    }
}

impl<W: Write> Chrome<W> {
    /// A timeline as plain text.
    #[must_use]
    pub fn new(out: W) -> Self {
        Self::to(Destination::Plain(out))
    }

    fn to(out: Destination<W>) -> Self {
        Self {
            out,
            lines: Lines::default(),
            pid: 0,
            host: Host::new(0),
            devices: Devices::new(0, String::new()),
            last: 0,
        }
    }

    /// Writes whole lines only.
    fn write(&mut self) -> io::Result<()> {
        let written = self.out.write_all(self.lines.bytes());
        self.lines.clear();
        written
    }
}

impl<W: Write + Send> Sink for Chrome<W> {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        self.pid = process.pid;
        self.host = Host::new(process.pid);
        self.devices = Devices::new(process.pid, origin::labels(process));
        let track = Track { pid: process.pid, tid: process.pid };
        self.lines.metadata(track, "process_name", program(process));
        let labels = [origin::labels(process), process.command.clone()].into_iter().filter(|label| !label.is_empty());
        let mut event = self.lines.event("M", track, "process_labels");
        event.args().text("labels", &crate::text::joined(labels, ", "));
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
        self.lines.order(track, "process_sort_index", 0);
        self.write()
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        let Self { lines, host, devices, last, .. } = self;
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
            Item::Detail(_) | Item::Idle(_) | Item::Wait(_) => {}
        }
        if self.lines.bytes().len() >= CHUNK { self.write() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write()?;
        self.out.flush()
    }

    fn end(&mut self, _: &Summary, lost: u64) -> io::Result<()> {
        if lost > 0 {
            let text = format!("{lost} items of this timeline are missing");
            let mut event = self.lines.event("i", Track { pid: self.pid, tid: self.pid }, &text);
            event.time("ts", self.last).text("s", "g").text("cat", "lost").text("cname", "terrible");
            event.args().integer("lost", lost).end();
        }
        self.lines.finish();
        self.write()?;
        self.out.finish()
    }
}

/// The name of the program, without its folder and arguments.
fn program(process: &Process) -> &str {
    let path = process.command.split(' ').next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    if name.is_empty() { "process" } else { name }
}
