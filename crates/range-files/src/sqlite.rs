//! A timeline as a database in the schema of an `nsys export` file, so that `nsys stats run.sqlite` prints NVIDIA's own
//! reports over a run that no tool attended.
//!
//! - Every range is a row of `NVTX_EVENTS`, in the order in which ranges end; names are registered strings.
//! - Every operation is a row of `CUPTI_ACTIVITY_KIND_KERNEL`, `_MEMCPY` or `_MEMSET`. The reports find the range of an
//!   operation through its launching call, a row of `CUPTI_ACTIVITY_KIND_RUNTIME`. **If no call was recorded, the call
//!   is made up**: it has the launching thread and the name of a function that does such work, and starts and ends at
//!   the moment of the launch. Its duration is not known: it is 0 ns, and so is the API time in `kernexecsum`.
//! - **Numbers of spans and calls** are in columns of our own behind those of Nsight Systems: `spanId`, `callId` and
//!   `parentId` of `NVTX_EVENTS`, and `callId` of kernels, copies and sets. `TRACING_GPU_CALLS` has the calls that
//!   differ from their only range.
//! - Columns without a known value are NULL, also some that are never NULL in an export of Nsight Systems (`gridId`,
//!   `localMemoryPerThread`, `localMemoryTotal`).
//!
//! **An existing file is overwritten**, whatever it contains, as with `nsys export --force-overwrite true`. A file that
//! another process has open is not overwritten.
//!
//! **A killed process** leaves all committed rows: those before the last [`flush`](Sink::flush), and of later rows all
//! but the last 100,000 or so. Between two commits the file is whole. A kill during a commit leaves the rollback
//! journal `run.sqlite-journal` beside the file. Any program that opens the file for writing then repairs it
//! (`sqlite3 run.sqlite .tables`). `nsys stats` does not read journals: before the repair it may call the file
//! malformed. Nothing waits for the disk (`synchronous=OFF`): a crash of the machine, unlike one of the process, may
//! leave an unreadable file.
//!
//! **A program that closes our descriptors** loses the rest of the database, and an error reports it. `descriptors`
//! keeps SQLite from writing to files that the program opens under the same numbers.

mod api_calls;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod descriptors;
mod events;
mod file;
mod gpu;
mod ids;
#[cfg(feature = "join")]
pub(super) mod joined;
mod json;
mod names;
mod rows;
mod schema;
mod stamps;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use range_model::summary::{Process, Summary};
use range_model::timeline::{Item, Sink};

use events::Events;
use file::File;
use gpu::Gpu;
use ids::Ids;

/// The sink. Nothing is touched before [`begin`](Sink::begin). After an error it writes nothing more.
#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    writer: Option<Writer>,
}

#[derive(Debug)]
struct Writer {
    file: File,
    events: Events,
    gpu: Gpu,
}

impl Sqlite {
    /// `nsys stats` wants a name that ends in `.sqlite`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), writer: None }
    }

    fn write(&mut self, write: impl FnOnce(&mut Writer) -> io::Result<()>) -> io::Result<()> {
        let Some(writer) = &mut self.writer else {
            return Err(io::Error::other("not open: given up after an error, or ended"));
        };
        let written = write(writer);
        if written.is_err() {
            self.writer = None; // rolls back to the last commit
        }
        written
    }
}

impl Sink for Sqlite {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        self.writer = None;
        let mut file = File::create(&self.path, Ids::of(process.pid))?;
        schema::write(&mut file, process)?;
        file.commit()?;
        self.writer = Some(Writer { file, events: Events::default(), gpu: Gpu::default() });
        Ok(())
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        self.write(|writer| writer.item(item))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write(Writer::flush)
    }

    fn end(&mut self, summary: &Summary, lost: u64) -> io::Result<()> {
        self.write(|writer| {
            writer.flush()?;
            writer.gpu.end(&mut writer.file)?;
            schema::complete(&mut writer.file, summary.elapsed_ns, lost, writer.gpu.api_calls.made_up)?;
            writer.file.commit()
        })?;
        self.writer.take().map_or(Ok(()), |writer| writer.file.close())
    }
}

impl Writer {
    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        let Self { file, events, gpu } = self;
        match item {
            Item::Thread { thread, name } => events.thread(file, *thread, name),
            Item::Device { device, name } => gpu.device(file, *device, name),
            Item::Range(range) => events.range(file, range),
            Item::Mark(mark) => events.mark(file, mark),
            Item::Operation(operation) => gpu.operation(file, operation),
            Item::Call(call) => events.call(file, call),
            Item::ApiCall(call) => gpu.api_call(file, call),
            _ => Ok(()), // also projections: the reports project by themselves
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.gpu.flush(&mut self.file)?;
        self.file.commit()
    }
}
