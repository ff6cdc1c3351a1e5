//! Timelines that were written before, as the commands read them: of Perfetto, and databases.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::complain;
use tracing_gpu::{FindingKinds, Fold, Idle, Summary, import};

/// The first byte of a timeline of Perfetto, and the first ones of a database.
const FIRST: u8 = 10;
const DATABASE: &[u8] = b"SQLite format 3\0";

fn said(path: &Path, why: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("`{}` {why}", path.display()))
}

/// Whether the file is a database: of `--sqlite`, or of `nsys export --type sqlite`.
pub(super) fn is_database(path: &Path) -> io::Result<bool> {
    if path.extension().is_some_and(|kind| kind == "nsys-rep" || kind == "qdrep") {
        let hint =
            "is a report of Nsight Systems: `nsys export --type sqlite` makes a database of it, which can be read";
        return Err(said(path, &hint));
    }
    Ok(starts(path, DATABASE.len())? == DATABASE)
}

/// The first bytes of a file.
fn starts(path: &Path, count: usize) -> io::Result<Vec<u8>> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
    let read = file.take(count as u64).read_to_end(&mut start);
    read.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
    Ok(start)
}

/// Whether the file is a timeline in Perfetto's format, by its first byte. JSON may begin with a line feed, which is
/// the same byte, so the name decides as well.
pub(super) fn is_one(path: &Path) -> io::Result<bool> {
    if path.extension().is_none_or(|kind| kind != "pftrace") {
        return Ok(false);
    }
    Ok(starts(path, 1)? == [FIRST])
}

/// What is asked about a database: why the GPU was idle.
fn folds() -> Vec<Box<dyn Fold>> {
    vec![Box::new(Idle::of_file())]
}

/// The summaries in it: one of each process.
pub(super) fn summaries(path: &Path) -> io::Result<Vec<Summary>> {
    let is_database = is_database(path)?;
    let summaries = if is_database { import::conclusions(path, folds) } else { import::summaries(path) };
    let summaries = summaries.map_err(|error| said(path, &error))?;
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

/// The page of a timeline. `scratch` is a folder with room for a database of its items. If a database has several
/// processes, a line says which one the page shows.
pub(super) fn page(path: &Path, scratch: &Path, without: FindingKinds) -> io::Result<Vec<u8>> {
    let page = match is_database(path)? {
        true => import::page_of_database(path, without, folds),
        false => import::page(path, scratch, without),
    };
    let page = page.map_err(|error| said(path, &error))?;
    if page.processes > 1 {
        let (count, pid, path) = (page.processes, page.pid, path.display());
        complain(&format!("`{path}` has {count} processes: the page shows {pid}, which has the most work"));
    }
    Ok(page.html)
}
