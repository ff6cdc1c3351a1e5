//! One of several files that become one.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// The file of one process of a run.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) path: &'a Path,
    pub(super) pid: u32,
    /// Its place among the processes of the run, in the order in which they began.
    pub(super) place: u32,
    /// When the first process of the run began: there, all times of the joined file are 0.
    pub(super) origin_unix_ns: u64,
    /// How much later this process began.
    pub(super) later_ns: u64,
}

/// The numbers for processes and devices in the order of viewers that a process may have.
const PLACES: u32 = 1000;

impl Part<'_> {
    /// The position of the process, or of one of its devices, in a viewer.
    pub(super) fn position(&self, among_its_own: u32) -> u32 {
        let first = self.place.saturating_mul(PLACES);
        first.saturating_add(among_its_own.min(PLACES - 1)).min(i32::MAX as u32)
    }

    /// The name of a device, which other processes of the run may have used, too. `program` is empty if not known.
    pub(super) fn device(&self, name: &str, program: &str) -> String {
        format!("{name} of {} {program}", self.pid).trim_end().to_owned()
    }
}

/// The error of reading this file.
pub(super) fn unreadable(path: &Path, error: &dyn Display) -> io::Error {
    io::Error::other(format!("cannot read `{}`: {error}", path.display()))
}
