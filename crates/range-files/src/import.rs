//! Reads timelines that were written before, and passes them on as items: to write them in another format.
//!
//! [`timeline`] reads databases of `Sqlite` and of `nsys export --type sqlite`, traces of
//! [`Chrome`](crate::Chrome) and, with the feature `perfetto`, timelines of `Perfetto`.

mod database;
mod fields;
mod figures;
mod outcome;
#[cfg(feature = "html")]
mod page;
#[cfg(feature = "perfetto")]
mod perfetto;
mod tables;
#[cfg(test)]
mod tests;
mod trace;

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::Path;

#[cfg(feature = "perfetto")]
use crate::perfetto::blocks::FIRST;
pub use figures::conclusions;
pub use outcome::{Identity, ImportError, Imported, NewSink};
#[cfg(all(feature = "perfetto", feature = "html"))]
pub use page::page;
#[cfg(feature = "html")]
pub use page::{Page, page_of_database};

/// Passes all ranges, calls, operations and API calls in a file to sinks: one for each process in it. Those of a trace,
/// plain or compressed, go through a database in `scratch`, a folder with room for it, which is removed.
///
/// # Errors
///
/// If the file cannot be read or has no timeline, and those of the sinks.
pub fn timeline(path: &Path, identity: &Identity, scratch: &Path, new: NewSink<'_>) -> Result<Imported, ImportError> {
    let unreadable = |error: std::io::Error| ImportError::Unreadable(error.to_string());
    let mut file = File::open(path).map_err(unreadable)?;
    let mut start = Vec::new();
    (&mut file).take(2).read_to_end(&mut start).map_err(unreadable)?;
    file.rewind().map_err(unreadable)?;
    match start.as_slice() {
        [0x1F, 0x8B] => trace::trace(BufReader::new(flate2::read::MultiGzDecoder::new(file)), identity, scratch, new),
        [b'[', ..] => trace::trace(BufReader::new(file), identity, scratch, new),
        #[cfg(feature = "perfetto")]
        [FIRST, ..] => perfetto::perfetto(file, identity, scratch, new),
        _ => database::database(path, identity, new),
    }
}

/// The summaries in a timeline of `Perfetto`, of which a joined one has several. A process has none if it was
/// killed; and any other file has none.
///
/// # Errors
///
/// If the file cannot be read.
#[cfg(feature = "perfetto")]
pub fn summaries(path: &Path) -> Result<Vec<range_model::Summary>, ImportError> {
    let unreadable = |error: std::io::Error| ImportError::Unreadable(error.to_string());
    perfetto::summaries(File::open(path).map_err(unreadable)?)
}
