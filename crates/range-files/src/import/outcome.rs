//! What an import takes, and what comes of it.

use std::{fmt, io};

use range_model::summary::Process;
use range_model::timeline::Sink;

/// What is known of a run beside its file, and wins over what the file tells.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Identity {
    /// [`Process::run_id`].
    pub run_id: Option<String>,
    /// [`Process::host`].
    pub host: Option<String>,
    /// [`Process::rank`].
    pub rank: Option<u32>,
}

/// How many items were passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Processes that have items: each has a sink of its own.
    pub processes: u64,
    /// Ranges.
    pub ranges: u64,
    /// Calls of spans.
    pub calls: u64,
    /// Kernels, copies and sets.
    pub operations: u64,
    /// Calls of the CUDA API.
    pub api_calls: u64,
    /// Fields that were left out: their text is no JSON, or there are too many names.
    pub lost_fields: u64,
    /// The byte at which the file was cut: what follows cannot be read.
    pub cut: Option<u64>,
}

impl std::ops::AddAssign for Imported {
    fn add_assign(&mut self, other: Self) {
        self.processes += other.processes;
        self.ranges += other.ranges;
        self.calls += other.calls;
        self.operations += other.operations;
        self.api_calls += other.api_calls;
        self.lost_fields += other.lost_fields;
        self.cut = self.cut.or(other.cut);
    }
}

/// Why a file was not read to its end.
#[derive(Debug)]
#[non_exhaustive]
pub enum ImportError {
    /// It cannot be read, or is neither a database nor a trace.
    Unreadable(String),
    /// It has no table of a timeline.
    NoTimeline,
    /// It has several processes, where one was expected.
    Several(u64),
    /// The sink cannot be written.
    Sink(io::Error),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::NoTimeline => f.write_str("has no ranges and no GPU work: no timeline of tracing-gpu or nsys export"),
            Self::Several(processes) => {
                write!(f, "has {processes} processes, and a page shows one: `--processes each` leaves a file of each")
            }
            Self::Sink(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {}

impl From<rusqlite::Error> for ImportError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        Self::Sink(error)
    }
}

/// Makes the sink of a process. `begin` and `end` are called by the import.
pub type NewSink<'a> = &'a mut dyn FnMut(&Process) -> Box<dyn Sink>;
