//! Which parts are active in a session.

use std::sync::atomic::Ordering::Relaxed;

use tracing_core::Metadata;

use crate::core::session::{Names, Session};

impl Session {
    pub(crate) fn has_streams(&self) -> bool {
        self.parts.has_streams.load(Relaxed)
    }

    /// A span has named a stream by its field: all threads look for streams from now on.
    pub(crate) fn announce_streams(&self) {
        if self.parts.gpu && !self.parts.has_streams.swap(true, Relaxed) {
            self.change_paths();
        }
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn is_collecting(&self) -> bool {
        self.parts.is_collecting.load(Relaxed)
    }

    /// Notes that the collector begins or ends. With CUPTI, and in most programs, it begins before any span is created.
    #[cfg(feature = "cuda")]
    pub(crate) fn set_collecting(&self, collecting: bool) {
        self.parts.is_collecting.store(collecting, Relaxed);
    }

    /// Whether a timeline shows values and fields of ranges, and marks.
    #[inline]
    pub(crate) fn records_values(&self) -> bool {
        self.parts.tape_room.as_ref().is_some_and(|room| room.with_values)
    }

    /// Whether ranges are recorded, for a timeline or for reports of the GPU's time.
    #[inline]
    pub(crate) const fn records_ranges(&self) -> bool {
        self.parts.tape_room.is_some()
    }

    /// Whether ranges have the numbers of their spans and calls.
    pub(crate) fn records_numbers(&self) -> bool {
        self.parts.tape_room.as_ref().is_some_and(|room| room.with_numbers)
    }

    /// Keeps a new call site whose fields a timeline shows.
    pub(crate) fn keep_site(&self, names: &mut Names, key: u64, metadata: &'static Metadata<'static>) {
        if self.records_ranges() && !metadata.fields().is_empty() {
            names.parts.with_fields.row_or(key, || metadata);
        }
    }
}

impl Names {
    /// Call sites whose fields a timeline shows, by their addresses.
    pub(crate) fn with_fields(&self) -> &range_model::stats::Keyed<u64, &'static Metadata<'static>> {
        &self.parts.with_fields
    }
}
