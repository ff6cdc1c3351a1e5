//! What a session answers about ranges of other code and their domains.

use std::sync::atomic::Ordering::Relaxed;

use crate::core::session::{DEFAULT_LEVEL, Session};
use crate::parts::row_file::file::Lost;

/// The target of foreign ranges in the default domain, for filters.
const DEFAULT_DOMAIN_TARGET: &str = "nvtx";

/// Name of foreign ranges whose own name exceeds the limit.
const OTHER_NAMES: &str = "(other)";

impl Session {
    /// Counts a pop of a foreign range without an open one.
    #[cold]
    pub(crate) fn count_stray_pop(&self) {
        self.losses.stray_exits.fetch_add(1, Relaxed);
        self.parts.row_file.iter().for_each(|file| file.count(Lost::Exits));
    }

    /// Whether foreign ranges of this domain are measured. They count as spans of this target at the default level.
    pub(crate) fn is_foreign_enabled(&self, domain: Option<&str>) -> bool {
        let target = domain.unwrap_or(DEFAULT_DOMAIN_TARGET);
        let is_enabled = self.filter.as_ref().is_none_or(|filter| filter.would_enable(target, &DEFAULT_LEVEL));
        if !is_enabled {
            self.front_end.reject_domain(target, DEFAULT_LEVEL);
        }
        is_enabled
    }

    /// Number of a foreign domain.
    pub(crate) fn foreign_domain(&self, name: Option<&str>) -> u32 {
        self.names.lock().parts.foreign_domains.number(name)
    }

    /// Label for names beyond the limit in this domain.
    pub(crate) fn other_label(&self, domain: u32) -> u32 {
        self.names.lock().catalog.label(domain, OTHER_NAMES)
    }
}
