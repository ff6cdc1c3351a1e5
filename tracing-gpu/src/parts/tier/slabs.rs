//! What the parts keep of spans of the subscriber, in its slabs.

use std::sync::Arc;

use tracing_core::{Metadata, span};

use super::home::{Beside, EnteredSpan, PartsHome};
use super::{Created, SpanValues, own_values};
use crate::core::record::{CallId, Inherited, Place};
use crate::core::session::catalog::ROOT;
use crate::core::thread::engine::Engine;
use crate::core::thread::slab::SpanRef;
use crate::core::thread::state::ThreadState;
use crate::core::tier::slabs::{Slabs, locate};

/// A span closes that had these values or this call (0 for none).
pub(crate) fn close(
    engine: &'static Engine,
    thread: Option<&'static ThreadState>,
    values: Option<Arc<SpanValues>>,
    call: CallId,
) {
    match values {
        Some(values) => own_values::close(engine, thread, &values),
        None if call != 0 => own_values::close_call(engine, thread, call),
        None => {}
    }
}

impl PartsHome for Slabs {
    #[inline]
    fn keep(&self, _: &'static Engine, thread: &ThreadState, (): (), place: Place, beside: Beside) -> Option<span::Id> {
        let (values, call) = match beside {
            Beside::Nothing | Beside::Named => (None, 0),
            Beside::Call(call) => (None, call),
            Beside::Values(values) => (Some(values), 0),
        };
        let created = thread.slab.create(thread.index, place, values, call);
        if created.is_none() {
            thread.session.drop_span();
            let _unfollowed =
                thread.session.parts.calls.end(Some(&thread.parts.spare_calls), call, thread.session.clock.now());
        }
        created.map(SpanRef::to_id)
    }

    fn keep_inherited(thread: &ThreadState, (): (), created: &span::Id, number: Inherited) {
        thread.slab.inherit(SpanRef::from_id(created.into_u64()), number);
    }

    #[inline]
    fn call_here(thread: &ThreadState, id: u64) -> CallId {
        thread.slab.call(SpanRef::from_id(id))
    }

    fn inherited_here(thread: &ThreadState, id: u64) -> Inherited {
        thread.slab.inherited(SpanRef::from_id(id))
    }

    #[inline]
    fn find(&self, engine: &'static Engine, thread: &'static ThreadState, id: u64) -> EnteredSpan {
        let Some((home, span, place)) = locate(engine, id).filter(|(_, _, place)| !place.is_none()) else {
            return EnteredSpan::Nothing;
        };
        if place.has_own_values() {
            return home.slab.values(span).map_or(EnteredSpan::Nothing, EnteredSpan::WithValues);
        }
        let here = if home.index == thread.index {
            place
        } else {
            thread.place_from(home.index, || Some(home), place.plain())
        };
        if here.is_none() {
            thread.session.drop_span();
            return EnteredSpan::Nothing;
        }
        EnteredSpan::Counted(here.flagged_as(place), if place.is_called() { home.slab.call(span) } else { 0 })
    }

    fn inherited(&self, engine: &'static Engine, _: &ThreadState, id: u64) -> Inherited {
        let span = SpanRef::from_id(id);
        engine.thread_at(span.thread).map_or(0, |home| home.slab.inherited(span))
    }

    fn call(&self, engine: &'static Engine, _: &ThreadState, id: u64) -> CallId {
        let Some((home, span, place)) = locate(engine, id).filter(|(_, _, place)| !place.is_none()) else { return 0 };
        match place.has_own_values() {
            true => home.slab.values(span).map_or(0, |values| values.call()),
            false if place.is_called() => home.slab.call(span),
            false => 0,
        }
    }

    fn keep_call(&self, engine: &'static Engine, thread: &ThreadState, id: u64, call: CallId) -> bool {
        match (self.values(engine, id), SpanRef::from_id(id)) {
            (Some(values), _) => values.set_call(call),
            (None, span) => span.thread == thread.index && thread.slab.keep_call(span, call),
        }
    }

    fn values(&self, engine: &'static Engine, id: u64) -> Option<Arc<SpanValues>> {
        let (home, span, place) = locate(engine, id)?;
        if place.is_none() || !place.has_own_values() { None } else { home.slab.values(span) }
    }

    #[inline]
    fn created(&self, engine: &'static Engine, _: &'static ThreadState, id: u64) -> Option<&'static Created> {
        engine.thread_at(SpanRef::from_id(id).thread)?.created(id)
    }

    #[inline]
    fn node(&self, engine: &'static Engine, _: &ThreadState, id: u64) -> u32 {
        locate(engine, id).filter(|(_, _, place)| !place.is_none()).map_or(ROOT, |(_, _, place)| place.node())
    }

    fn measured_site(&self, engine: &'static Engine, id: u64) -> Option<&'static Metadata<'static>> {
        let (home, span, place) = locate(engine, id).filter(|(_, _, place)| !place.is_none())?;
        metadata_of(home, span, place)
    }
}

/// The call site of a span. Call sites of one name share a row, so a span with values of its own stores its own call
/// site, whose fields a `record` needs.
pub(crate) fn metadata_of(home: &ThreadState, span: SpanRef, place: Place) -> Option<&'static Metadata<'static>> {
    match place.has_own_values() {
        true => Some(home.slab.values(span)?.metadata),
        false => home.identity(place)?.metadata,
    }
}
