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
pub(super) mod draw;
pub(super) mod drawing;
#[cfg(feature = "gzip")]
mod gzip;
pub(crate) mod host;
#[cfg(feature = "join")]
pub(super) mod joined;
mod lanes;
mod line;
mod polls;
#[cfg(test)]
mod tests;
pub(super) mod text;

#[cfg(feature = "gzip")]
use std::io::Seek;
use std::io::{self, Write};

pub use destination::is_compressed;

use destination::Destination;
use drawing::Drawing;
use line::Lines;
use range_model::summary::{Process, Summary};
use range_model::timeline::{Item, Sink};

/// Lines are written when they have this many bytes.
const CHUNK: usize = 128 * 1024;

/// Writes a timeline as Chrome trace events.
#[derive(Debug)]
pub struct Chrome<W: Write> {
    out: Destination<W>,
    lines: Lines,
    drawing: Drawing,
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
        Self { out, lines: Lines::default(), drawing: Drawing::default() }
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
        self.drawing = Drawing::begin(&mut self.lines, process);
        self.write()
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        self.drawing.item(&mut self.lines, item);
        if self.lines.bytes().len() >= CHUNK { self.write() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write()?;
        self.out.flush()
    }

    fn end(&mut self, _: &Summary, lost: u64) -> io::Result<()> {
        self.drawing.end(&mut self.lines, lost);
        self.lines.finish();
        self.write()?;
        self.out.finish()
    }
}
