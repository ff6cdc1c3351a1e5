//! Kinds of memory by name.

/// CUPTI's memory kinds.
#[must_use]
pub const fn memory_name(kind: u8) -> Option<&'static str> {
    match kind {
        1 => Some("pageable"),
        2 => Some("pinned"),
        3 => Some("device"),
        4 => Some("array"),
        5 => Some("managed"),
        6 | 7 => Some("static"),
        _ => None,
    }
}
