//! The page of a timeline.

#[cfg(feature = "perfetto")]
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::figures::conclude;
#[cfg(feature = "perfetto")]
use super::outcome::Identity;
use super::outcome::ImportError;
#[cfg(feature = "perfetto")]
use super::perfetto::perfetto;
use range_model::Fold;
use range_page::HtmlSink;
use range_report::FindingKinds;

/// A text that a sink writes, and its maker reads.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The page of one process.
#[derive(Debug)]
#[non_exhaustive]
pub struct Page {
    /// The page.
    pub html: Vec<u8>,
    /// Number of the process.
    pub pid: u32,
    /// Processes in the file.
    pub processes: usize,
}

/// The page of a timeline of `Perfetto`, without findings of these kinds. It has the tables of the run, too,
/// unless its process was killed. `scratch` is a folder with room for a database of the items, which is removed.
///
/// # Errors
///
/// If the file cannot be read, has no timeline or those of several processes.
#[cfg(feature = "perfetto")]
pub fn page(path: &Path, scratch: &Path, without: FindingKinds) -> Result<Page, ImportError> {
    let (page, mut pid) = (Shared::default(), 0);
    let file = File::open(path).map_err(|error| ImportError::Unreadable(error.to_string()))?;
    let imported = perfetto(file, &Identity::default(), scratch, &mut |process| {
        pid = process.pid;
        Box::new(HtmlSink::new(page.clone()).without(without))
    })?;
    if imported.processes > 1 {
        return Err(ImportError::Several(imported.processes));
    }
    Ok(Page { html: page.take(), pid, processes: 1 })
}

/// The page of a database of `Sqlite` or of `nsys export --type sqlite`, without findings of these kinds. The file has
/// no tables of the run: they are concluded from its items, to which `folds` add answers. Of several processes the page
/// shows the one with the most work on a GPU or, where none has any, with the most ranges.
///
/// # Errors
///
/// If the file cannot be read, or has no timeline.
pub fn page_of_database(
    path: &Path,
    without: FindingKinds,
    folds: impl Fn() -> Vec<Box<dyn Fold>>,
) -> Result<Page, ImportError> {
    let mut pages = Vec::new();
    let all = conclude(path, folds, |_| {
        let page = Shared::default();
        pages.push(page.clone());
        Box::new(HtmlSink::new(page).without(without))
    })?;
    let largest = all.iter().zip(&pages).max_by_key(|(summary, _)| {
        let operations = summary.gpu.as_ref().map_or(0, |gpu| gpu.total.operations);
        (operations, summary.ranges.iter().map(|row| row.times.instances).sum::<u64>())
    });
    let (summary, page) = largest.ok_or(ImportError::NoTimeline)?;
    Ok(Page { html: page.take(), pid: summary.process.pid, processes: all.len() })
}
