//! New spans that take no more than counting.

use tracing_core::span;

use super::home::Home;
use crate::core::record::Place;
use crate::core::thread::row::Row;
use crate::core::thread::state::ThreadState;

/// The place and the row of a span that takes no more than counting, and perhaps a call.
#[inline]
pub(crate) fn known_child<'a>(thread: &'a ThreadState, attributes: &span::Attributes<'_>) -> Option<(Place, &'a Row)> {
    if attributes.is_contextual() { thread.child_counting(attributes.metadata()) } else { None }
}

/// A span that takes no more than counting.
#[inline]
pub(crate) fn new_span_counting<H: Home>(
    thread: &ThreadState,
    given: H::Given,
    (place, row): (Place, &Row),
) -> Option<H::Created> {
    if !row.is_plain() {
        return None;
    }
    let created = H::keep_counting(thread, given, place)?;
    row.change_calls(1);
    Some(created)
}
