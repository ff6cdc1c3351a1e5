//! The page of a timeline.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::outcome::{Identity, ImportError};
use super::perfetto::perfetto;
use range_page::HtmlSink;
use range_report::FindingKinds;

/// A text that a sink writes, and its maker reads.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The page of a timeline of `Perfetto`, without findings of these kinds. It has the tables of the run, too,
/// unless its process was killed. `scratch` is a folder with room for a database of the items, which is removed.
///
/// # Errors
///
/// If the file cannot be read, has no timeline or those of several processes.
pub fn page(path: &Path, scratch: &Path, without: FindingKinds) -> Result<Vec<u8>, ImportError> {
    let page = Shared::default();
    let identity = Identity::default();
    let file = File::open(path).map_err(|error| ImportError::Unreadable(error.to_string()))?;
    let imported = perfetto(file, &identity, scratch, &mut |_| Box::new(HtmlSink::new(page.clone()).without(without)))?;
    if imported.processes > 1 {
        return Err(ImportError::Several(imported.processes));
    }
    Ok(std::mem::take(&mut *page.0.lock().unwrap_or_else(PoisonError::into_inner)))
}
