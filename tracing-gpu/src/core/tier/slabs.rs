//! Where the subscriber stores its spans.

use tracing_core::span;

use super::home::Home;
use crate::core::record::Place;
use crate::core::thread::engine::Engine;
use crate::core::thread::slab::SpanRef;
use crate::core::thread::state::ThreadState;

/// The thread that creates a span stores all of it in its slab.
pub(crate) struct Slabs;

impl Home for Slabs {
    type Given = ();
    type Created = span::Id;

    #[inline]
    fn keep_counting(thread: &ThreadState, (): (), place: Place) -> Option<span::Id> {
        thread.slab.create_near(thread.index, place).map(SpanRef::to_id)
    }

    #[inline]
    fn id((): (), created: &span::Id) -> u64 {
        created.into_u64()
    }

    #[inline]
    fn place_here(thread: &ThreadState, id: u64) -> Option<Place> {
        let span = SpanRef::from_id(id);
        thread.slab.near_place(span).filter(|_| span.thread == thread.index)
    }
}

/// A live span, and the state of the thread on which it was created.
pub(crate) fn locate(engine: &'static Engine, id: u64) -> Option<(&'static ThreadState, SpanRef, Place)> {
    let span = SpanRef::from_id(id);
    let home = engine.thread_at(span.thread)?;
    Some((home, span, home.slab.place(span)?))
}
