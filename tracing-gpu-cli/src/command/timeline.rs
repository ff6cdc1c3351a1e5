//! Timelines in Perfetto's format, as the commands read them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use tracing_gpu::{FindingKinds, Summary, import};

/// The first byte of such a timeline.
const FIRST: u8 = 10;

fn said(path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("`{}` {why}", path.display()))
}

/// Whether the file is a timeline in Perfetto's format, by its first byte. JSON may begin with a line feed, which is
/// the same byte, so the name decides as well.
pub(super) fn is_one(path: &Path) -> io::Result<bool> {
    if path.extension().is_none_or(|kind| kind != "pftrace") {
        return Ok(false);
    }
    let mut start = Vec::new();
    let file = File::open(path).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
    file.take(1).read_to_end(&mut start)?;
    Ok(start == [FIRST])
}

/// The summaries in it: one of each process.
pub(super) fn summaries(path: &Path) -> io::Result<Vec<Summary>> {
    let summaries = import::summaries(path).map_err(|error| said(path, &error))?;
    match summaries.is_empty() {
        true => Err(said(path, &"has no summary: its process was killed, or it is not the last of its files")),
        false => Ok(summaries),
    }
}

/// The summary in it, of the only process.
pub(super) fn summary(path: &Path) -> io::Result<Summary> {
    match <[Summary; 1]>::try_from(summaries(path)?) {
        Ok([summary]) => Ok(summary),
        Err(all) => {
            Err(said(path, &format!("has the summaries of {} processes: `tracing-gpu merge` takes them", all.len())))
        }
    }
}

/// The page of a timeline. `scratch` is a folder with room for a database of its items.
pub(super) fn page(path: &Path, scratch: &Path, without: FindingKinds) -> io::Result<Vec<u8>> {
    import::page(path, scratch, without).map_err(|error| said(path, &error))
}
