//! There is no row file: it needs features of Linux, and the feature `command`.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Losses that the file counts, by their place in it.
#[derive(Clone, Copy)]
pub(crate) enum Lost {
    /// Rows and records that are not in the file.
    Rows = 1,
    /// Ranges that were not followed.
    Spans = 2,
    /// Ends of ranges that were not open.
    #[cfg(feature = "injection")]
    Exits = 3,
    /// Measurements other than ranges.
    Others = 4,
}

#[derive(Debug)]
pub(crate) enum RowFile {}

/// A record under construction.
#[derive(Default)]
pub(crate) struct Words(());

impl Words {
    pub(crate) fn number(&mut self, _number: u64) -> &mut Self {
        self
    }

    pub(crate) fn text(&mut self, _text: &str) -> &mut Self {
        self
    }
}

impl RowFile {
    pub(crate) fn create(_path: &Path, _missed: fn()) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn remove(&self) {}

    pub(crate) fn count(&self, _what: Lost) {}

    pub(crate) fn bytes(&self) -> usize {
        0
    }

    pub(crate) fn is_whole(&self) -> bool {
        false
    }

    /// # Safety
    /// Nothing is done.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn map_more(&self, _bytes: usize, _place: Option<*mut u8>) -> Option<(u64, *mut u8)> {
        None
    }

    pub(crate) fn offset_of(&self, _address: usize) -> Option<u64> {
        None
    }

    pub(crate) fn take_words(&self, _owner: usize, _length: usize) -> Option<(u64, u64, &'static [AtomicU64])> {
        None
    }

    pub(crate) fn log(&self, _kind: u64, _record: &Words) {}

    pub(crate) fn log_once(&self, _kind: u64, _number: u32, _record: impl FnOnce() -> Words) {}
}

pub(crate) fn counters(_words: &'static [AtomicU64]) -> &'static [AtomicU32] {
    &[]
}
