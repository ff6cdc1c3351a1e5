//! Where a front end stores its spans.

use crate::core::record::Place;
use crate::core::thread::state::ThreadState;

/// The storage of a front end's spans: a registry, or slabs of our own. Beyond counting, it is a
/// [`PartsHome`](crate::parts::tier::home::PartsHome).
pub(crate) trait Home {
    /// The identity of a new span, if the registry gives it: its id.
    type Given: Copy;
    /// The identity of a stored span, if nobody else gives it.
    type Created;

    /// Stores the place of a new span without values of its own. Returns `None`, and changes nothing, if that takes
    /// more than a few stores.
    fn keep_counting(thread: &ThreadState, given: Self::Given, place: Place) -> Option<Self::Created>;
    /// The id of a new span.
    fn id(given: Self::Given, created: &Self::Created) -> u64;

    /// The place of a span that was created on this thread: the only query of the fast paths.
    fn place_here(thread: &ThreadState, id: u64) -> Option<Place>;
}
