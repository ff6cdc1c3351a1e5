//! The timelines of several processes as one file: on one clock, which begins with the first process, and with a group
//! of tracks a process.
//!
//! The files are those of [`Chrome`](super::Chrome), `Perfetto` and [`Sqlite`](super::Sqlite). They are read from
//! front to back, and nothing grows with their size. The file of a process that was killed is read as far as it goes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use super::part::{Part, unreadable};
use super::{chrome, sqlite};

/// The format of timelines that are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Traces of [`Chrome`](super::Chrome). The one that is written is compressed if its name ends in `.gz`.
    Trace,
    /// Timelines of `Perfetto`, in one file each.
    #[cfg(feature = "perfetto")]
    Perfetto,
    /// Databases of [`Sqlite`](super::Sqlite).
    Sqlite,
}

/// Who wrote a file, and when that process began.
type Began = (u32, u64);

/// Writes the timelines of several processes of one run as one to `to`, a file that is not there.
///
/// # Errors
///
/// If a file cannot be read, or the new one not be written. Then there may be a part of it.
pub fn join(format: Format, files: &[PathBuf], to: &Path) -> io::Result<()> {
    type Steps = (fn(&Path) -> io::Result<Option<Began>>, fn(&[Part<'_>], &Path) -> io::Result<()>);
    let (began, join): Steps = match format {
        Format::Trace => (chrome::joined::began, chrome::joined::join),
        #[cfg(feature = "perfetto")]
        Format::Perfetto => (super::perfetto::joined::began, super::perfetto::joined::join),
        Format::Sqlite => (sqlite::joined::began, sqlite::joined::join),
    };
    let mut found = Vec::new();
    for path in files {
        // A process that was killed at its start has written nothing.
        let began = began(path).map_err(|error| unreadable(path, &error))?;
        found.extend(began.map(|(pid, started)| (started, pid, path.as_path())));
    }
    found.sort();
    let origin_unix_ns = found.iter().map(|(started, ..)| *started).find(|started| *started > 0).unwrap_or(0);
    let part = |(place, (started, pid, path))| {
        let later_ns = u64::saturating_sub(started, origin_unix_ns);
        Part { path, pid, place, origin_unix_ns, later_ns }
    };
    let parts: Vec<Part<'_>> = (0..).zip(found).map(part).collect();
    if parts.is_empty() {
        return Err(io::Error::other("none of them has a timeline"));
    }
    join(&parts, to)?;
    // Some disks report only now that they are full, and the files that were joined will be removed.
    File::options().write(true).open(to)?.sync_all()
}
