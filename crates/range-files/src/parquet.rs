//! A run as datasets of Parquet files, for engines such as DuckDB and Spark: those of all processes, hosts and runs
//! below one folder are one table each.
//!
//! ```text
//! DIR/run=RUN/host=HOST/rank=RANK/DATASET-PID-NNNN.parquet
//! ```
//!
//! The datasets are `ranges`, `calls`, `states`, `waits`, `kernels`, `copies`, `api`, `findings` and `collectives`.
//!
//! - A file is closed after 10 s or 256 MB. **A process that is killed** leaves all closed files, and loses the rows of
//!   the open ones. The name of an open file, `.ranges-PID-NNNN.parquet.open`, shows that it is open: engines ignore
//!   names that begin with a dot.
//! - Ranges, calls, operations and API calls are written while the program runs; states, waits and findings are those
//!   of a [`Summary`], or of the windows of a run and of what only the whole run has. So no time is there twice.
//!   Collective operations of NCCL are those that the summary of the whole run lists.
//! - All times are nanoseconds, and moments count from 1970, so that rows of several processes are on one clock.
//! - Marks, projections and what batches serve are in no dataset.
//!
//! Nothing waits for the disk: a crash of the machine, unlike one of the process, may leave incomplete files.

mod conclusions;
mod files;
mod group;
mod rows;
mod schema;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use range_model::summary::{Process, Summary};
use range_model::timeline::{Item, Sink};
use range_report::report::RenderOptions;

use conclusions::Window;
use files::{Files, Limits, Place};
use rows::Rows;

/// The sink. Nothing is touched before [`begin`](Sink::begin). After an error it writes nothing more.
///
/// ```
/// use range_files::Parquet;
/// use range_model::timeline::{Item, Range, Sink};
/// use range_model::{Process, Summary};
///
/// let folder = std::env::temp_dir().join(format!("parquet-example-{}", std::process::id()));
/// let start = std::time::Instant::now();
/// let mut sink = Parquet::new(&folder, move || start.elapsed());
/// let mut process = Process::default();
/// process.run_id = "7".to_owned();
/// sink.begin(&process)?;
/// sink.item(&Item::Range(Range { name: "step", start: 5, end: 7, ..Range::default() }))?;
/// sink.end(&Summary::default(), 0)?;
/// assert!(folder.join("run=7/host=unknown/rank=0/ranges-0-0000.parquet").is_file());
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Parquet {
    folder: PathBuf,
    now: Box<dyn Fn() -> Duration + Send>,
    options: RenderOptions,
    limits: Limits,
    has_windows: bool,
    writer: Option<Writer>,
}

struct Writer {
    started_unix_ns: u64,
    rows: Rows,
    files: Vec<Files>,
    /// The latest answer of the clock.
    now: Duration,
}

impl fmt::Debug for Parquet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parquet").field("folder", &self.folder).finish_non_exhaustive()
    }
}

impl Parquet {
    /// Writes below this folder. `now` tells the time since the process began: a file is closed by it, and the window
    /// of a summary that does not know its end ends at it.
    pub fn new(folder: impl Into<PathBuf>, now: impl Fn() -> Duration + Send + 'static) -> Self {
        Self {
            folder: folder.into(),
            now: Box::new(now),
            options: RenderOptions::default(),
            limits: Limits { age: Duration::from_secs(10), bytes: 256 << 20 },
            has_windows: false,
            writer: None,
        }
    }

    /// Concludes findings in the words, and without the kinds, that a reader has chosen.
    #[must_use]
    pub fn options(self, options: &RenderOptions) -> Self {
        Self { options: *options, ..self }
    }

    /// Closes files after this time, and once they have this many bytes, in place of 10 s and 256 MB.
    #[must_use]
    pub fn limits(self, age: Duration, bytes: usize) -> Self {
        Self { limits: Limits { age, bytes }, ..self }
    }

    /// Writes the rows of a window that ends now. `is_rest`: only those that windows do not have.
    fn conclude(&mut self, summary: &Summary, lost: u64, is_rest: bool) -> io::Result<()> {
        let (now, limits, options) = ((self.now)(), self.limits, self.options);
        self.write(|writer| {
            let now_unix = || writer.started_unix_ns.saturating_add(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
            let end = summary.ended_unix_ns.unwrap_or_else(now_unix);
            let origin = writer.started_unix_ns;
            let start_ns = end.saturating_sub(summary.elapsed_ns).max(origin);
            let files = &mut writer.files;
            let add = |dataset: schema::Dataset, cells: &[group::Cell<'_>]| match files.get_mut(dataset as usize) {
                Some(files) => files.add(cells, now, limits),
                None => Ok(()),
            };
            Window { summary, options: &options, origin, start_ns, lost, is_rest, add }.write()
        })
    }

    fn write(&mut self, write: impl FnOnce(&mut Writer) -> io::Result<()>) -> io::Result<()> {
        let Some(writer) = &mut self.writer else {
            return Err(io::Error::other("not open: given up after an error, or ended"));
        };
        let written = write(writer);
        if written.is_err() {
            self.writer = None;
        }
        written
    }
}

impl Sink for Parquet {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        (self.writer, self.has_windows) = (None, false);
        let folder = files::folder(&self.folder, process);
        std::fs::create_dir_all(&folder)?; // what is wrong with the folder is known now
        let files = schema::ALL
            .iter()
            .map(|(_, name, columns)| Files::new(Place { folder: folder.clone(), name, pid: process.pid }, columns));
        let files = files.collect::<io::Result<Vec<Files>>>()?;
        let (rows, now) = (Rows::new(process.pid, process.started_unix_ns), (self.now)());
        self.writer = Some(Writer { started_unix_ns: process.started_unix_ns, rows, files, now });
        Ok(())
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        let limits = self.limits;
        self.write(|Writer { rows, files, now, .. }| {
            rows.item(item, |dataset, cells| match files.get_mut(dataset as usize) {
                Some(files) => files.add(cells, *now, limits),
                None => Ok(()),
            })
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        let (current, limits) = ((self.now)(), self.limits);
        self.write(|Writer { files, now, .. }| {
            *now = current;
            files.iter_mut().try_for_each(|files| files.close_old(current, limits))
        })
    }

    fn window(&mut self, summary: &Summary) -> io::Result<()> {
        self.has_windows = true;
        self.conclude(summary, 0, false)
    }

    fn end(&mut self, summary: &Summary, lost: u64) -> io::Result<()> {
        self.conclude(summary, lost, self.has_windows)?;
        self.write(|writer| writer.files.iter_mut().try_for_each(Files::close))?;
        self.writer = None;
        Ok(())
    }
}
