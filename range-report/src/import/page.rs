//! The page of a timeline.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use super::outcome::{Identity, ImportError};
use crate::FindingKinds;
use crate::export::HtmlSink;

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

/// The page of the timeline in a file, of one process, without findings of these kinds. Of a timeline of
/// `export::Perfetto` it has the tables, too, unless the process was killed. `scratch` is as for
/// [`timeline`](super::timeline()).
///
/// # Errors
///
/// Those of [`timeline`](super::timeline()).
pub fn page(path: &Path, scratch: &Path, without: FindingKinds) -> Result<Vec<u8>, ImportError> {
    let page = Shared::default();
    let identity = Identity::default();
    super::timeline(path, &identity, scratch, &mut |_| Box::new(HtmlSink::new(page.clone()).without(without)))?;
    Ok(std::mem::take(&mut *page.0.lock().unwrap_or_else(PoisonError::into_inner)))
}
