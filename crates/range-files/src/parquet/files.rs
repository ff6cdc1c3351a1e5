//! The files of one dataset of one process: one after the other, each whole once it has its name.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;

use super::group::{Cell, Group};
use super::schema::{Column, properties, schema};

/// How long a file is open, and how long it gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) age: Duration,
    pub(super) bytes: usize,
}

/// Where the files go, and what they are called: `NAME-PID-0000.parquet`.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) name: &'static str,
    pub(super) pid: u32,
}

/// The files of a dataset.
pub(super) struct Files {
    place: Place,
    schema: TypePtr,
    properties: WriterPropertiesPtr,
    group: Group,
    open: Option<Open>,
    /// The number of the next file.
    next: u32,
}

/// The file that is being written. No descriptor of it is open between two writes: the program may close all.
struct Open {
    writer: SerializedFileWriter<Vec<u8>>,
    path: PathBuf,
    name: PathBuf,
    since: Duration,
    written: usize,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Files").field("place", &self.place).field("next", &self.next).finish_non_exhaustive()
    }
}

impl Files {
    pub(super) fn new(place: Place, columns: &[Column]) -> io::Result<Self> {
        let (schema, properties) = (schema(columns)?, properties(columns).into());
        Ok(Self { place, schema, properties, group: Group::new(columns), open: None, next: 0 })
    }

    /// Adds a row at the time `now`.
    pub(super) fn add(&mut self, cells: &[Cell<'_>], now: Duration, limits: Limits) -> io::Result<()> {
        if self.open.is_none() {
            self.begin(now)?;
        }
        if self.group.add(cells) {
            self.write_group()?;
            if self.open.as_ref().is_some_and(|open| open.written >= limits.bytes) {
                self.close()?;
            }
        }
        Ok(())
    }

    /// Closes the file if it has been open for long enough.
    pub(super) fn close_old(&mut self, now: Duration, limits: Limits) -> io::Result<()> {
        let is_old = self.open.as_ref().is_some_and(|open| now.saturating_sub(open.since) >= limits.age);
        if is_old { self.close() } else { Ok(()) }
    }

    /// Opens the next file. Its name until it is closed begins with a dot, so that no engine reads it.
    fn begin(&mut self, now: Duration) -> io::Result<()> {
        fs::create_dir_all(&self.place.folder)?;
        let (path, name) = loop {
            let (path, name) = self.place.file(self.next);
            self.next += 1;
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(_) if !name.exists() => break (path, name),
                Ok(_) => fs::remove_file(path)?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {} // of another profiler
                Err(error) => return Err(error),
            }
        };
        let writer = SerializedFileWriter::new(Vec::new(), self.schema.clone(), self.properties.clone())?;
        self.open = Some(Open { writer, path, name, since: now, written: 0 });
        Ok(())
    }

    /// Writes the waiting rows.
    fn write_group(&mut self) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        if self.group.rows() > 0 {
            self.group.write(&mut open.writer)?;
        }
        open.write_bytes()
    }

    /// Writes the waiting rows, and gives the file its name.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.write_group()?;
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.writer.finish()?;
        open.write_bytes()?;
        fs::rename(&open.path, &open.name)
    }
}

impl Open {
    /// Moves what has been encoded to the file.
    fn write_bytes(&mut self) -> io::Result<()> {
        self.writer.flush()?;
        let bytes = self.writer.inner_mut();
        self.written += bytes.len();
        // Without `create`: a file that somebody has removed does not come back without its beginning.
        OpenOptions::new().append(true).open(&self.path)?.write_all(bytes)?;
        bytes.clear();
        Ok(())
    }
}

impl Place {
    /// The name of an open file, and its name once it is closed.
    fn file(&self, number: u32) -> (PathBuf, PathBuf) {
        let name = format!("{}-{}-{number:04}.parquet", self.name, self.pid);
        (self.folder.join(format!(".{name}.open")), self.folder.join(name))
    }
}

/// The folder of a process: `run=.../host=.../rank=...`.
pub(super) fn folder(below: &Path, process: &range_model::summary::Process) -> PathBuf {
    let part = |key: &str, value: &str| format!("{key}={}", escaped(value));
    below
        .join(part("run", &process.run_id))
        .join(part("host", &process.host))
        .join(format!("rank={}", process.rank.unwrap_or(0)))
}

/// The value in a form that may be a part of a path, as Hive writes it.
fn escaped(value: &str) -> String {
    if value.is_empty() {
        return "unknown".to_owned();
    }
    let mut text = String::with_capacity(value.len());
    for byte in value.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-_".contains(&byte) || byte == b'.' && !text.is_empty();
        match is_plain {
            true => text.push(byte.into()),
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
