//! Writes the timeline in a format of its own: a line for each range, indented by its depth, when it has ended.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use tracing_gpu::summary::{Process, Summary};
use tracing_gpu::timeline::{Item, Sink};
use tracing_gpu::{Output, Profiler};

struct Outline<W>(W);

impl<W: Write + Send> Sink for Outline<W> {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        writeln!(self.0, "process {}", process.pid)
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        match item {
            Item::Range(range) => {
                let indent = 2 * range.depth as usize;
                writeln!(self.0, "{:indent$}{} {} us", "", range.name, (range.end - range.start) / 1_000)
            }
            Item::Operation(operation) => {
                writeln!(self.0, "GPU {} {} us", operation.device, (operation.end - operation.start) / 1_000)
            }
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn end(&mut self, summary: &Summary, lost: u64) -> io::Result<()> {
        writeln!(self.0, "{} rows, {lost} items lost", summary.ranges.len())?;
        self.0.flush()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: own_format FILE")?;
    let sink = Outline(BufWriter::new(File::create(path)?));
    let profiler = Profiler::builder().output(Output::None).sink(sink).build()?;
    tracing::subscriber::set_global_default(profiler.subscriber())?;
    tracing::info_span!("step").in_scope(|| {
        tracing::info_span!("load").in_scope(|| ());
        tracing::info_span!("compute").in_scope(|| ());
    });
    profiler.finish()?;
    Ok(())
}
