//! Call sites: properties of a span before it is created.

use tracing_core::Metadata;

/// A call site as one profiler sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// Whether the filter lets it through.
    pub(crate) enabled: bool,
    /// Interned name in the domain of this call site.
    pub(crate) label: u32,
    /// Number of that domain.
    pub(crate) domain: u32,
    /// Whether it declares a field that this crate reads, so that the fields of each span must be read.
    pub(crate) own_values: bool,
    /// Whether a field names its spans by default, which holds while it has few values.
    pub(crate) is_split: bool,
}

/// The key of a call site in maps and caches: the address of its metadata, because each call site has its own static.
#[inline]
pub(crate) fn site_key(metadata: &'static Metadata<'static>) -> u64 {
    std::ptr::from_ref(metadata).addr() as u64
}

/// File and line of a call site.
pub(crate) fn place_of(metadata: &Metadata<'_>) -> Option<String> {
    Some(format!("{}:{}", metadata.file()?, metadata.line()?))
}
