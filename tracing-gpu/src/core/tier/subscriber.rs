//! The front end without a registry: the fastest, for programs that only profile.

use std::sync::Arc;

use tracing_core::{Dispatch, Event, Interest, Metadata, Subscriber, span};

use super::home::{Beside, EnteredSpan, Home};
use crate::core::record::{CallId, Inherited, Place};
use crate::core::session::catalog::ROOT;
use crate::core::thread::engine::Engine;
use crate::core::thread::slab::{Closed, SpanRef, untracked};
use crate::core::thread::state::ThreadState;
use crate::parts::thread::choice;
use crate::parts::tier::{Created, SpanValues, follows_from, general, own_values};

/// A [`Subscriber`] that only measures: see [`Profiler::subscriber`](crate::Profiler::subscriber).
///
/// Events become NVTX marks and are not printed. Other layers do not work with it, because it has no registry. It is
/// the only subscriber, so it turns off rejected call sites for good.
#[derive(Debug)]
pub struct GpuSubscriber {
    engine: &'static Engine,
}

impl GpuSubscriber {
    pub(crate) fn new(engine: &'static Engine) -> Self {
        Self { engine }
    }

    #[inline(never)]
    fn try_close_general(&self, span: SpanRef) -> bool {
        let engine = self.engine;
        if engine.session.is_of_parent() {
            return false;
        }
        let thread = engine.thread();
        // Spans are still closed after the finish, so that slots become free; then nobody owns the slab.
        let (home, is_owner) = match thread {
            Some(thread) if thread.index == span.thread => {
                if thread.slab.close_near(span) {
                    return true;
                }
                (thread, true)
            }
            _ => match engine.thread_at(span.thread) {
                Some(home) => (home, false),
                None => return false,
            },
        };
        match home.slab.drop_handle(span, is_owner) {
            Closed::No => false,
            Closed::Yes { values, call } => {
                match values {
                    Some(values) => own_values::close(engine, thread, &values),
                    None if call != 0 => own_values::close_call(engine, thread, call),
                    None => {}
                }
                true
            }
        }
    }
}

impl Drop for GpuSubscriber {
    fn drop(&mut self) {
        self.engine.leave();
    }
}

impl Subscriber for GpuSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.engine.session.meet(metadata);
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.engine.session.is_running() && self.engine.session.is_enabled(metadata)
    }

    // There is no hint of the most verbose level: otherwise more verbose call sites would never be seen, and the report
    // could not name the spans that the filter has rejected.

    fn on_register_dispatch(&self, _: &Dispatch) {
        self.engine.session.front_end.install();
    }

    #[inline]
    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        super::new_span(self.engine, &Slabs, (), attributes).unwrap_or_else(untracked)
    }

    #[inline]
    fn enter(&self, id: &span::Id) {
        super::enter(self.engine, &Slabs, id.into_u64());
    }

    #[inline]
    fn exit(&self, id: &span::Id) {
        super::exit(self.engine, &Slabs, id.into_u64());
    }

    fn clone_span(&self, id: &span::Id) -> span::Id {
        let span = SpanRef::from_id(id.into_u64());
        if let Some(home) = self.engine.thread_at(span.thread) {
            home.slab.add_handle(span);
        }
        id.clone()
    }

    #[inline]
    fn try_close(&self, id: span::Id) -> bool {
        let span = SpanRef::from_id(id.into_u64());
        let thread = self.engine.creating().or_else(|| self.engine.open(choice::recording()));
        let is_closed = thread.is_some_and(|thread| thread.index == span.thread && thread.slab.close_near(span));
        is_closed || self.try_close_general(span)
    }

    fn record(&self, id: &span::Id, record: &span::Record<'_>) {
        general::record(self.engine, &Slabs, id.into_u64(), record);
    }

    fn record_follows_from(&self, id: &span::Id, follows: &span::Id) {
        follows_from(self.engine, &Slabs, id.into_u64(), follows.into_u64());
    }

    fn event(&self, event: &Event<'_>) {
        crate::parts::tier::event(self.engine, event);
    }

    fn current_span(&self) -> span::Current {
        let current = self.engine.thread().and_then(|thread| {
            let top = thread.stack.innermost_span()?;
            // Its last handle may be dropped while it is still entered.
            let (home, span, place) = locate(self.engine, top.span())?;
            let metadata = match metadata_of(home, span, place).filter(|_| place.has_own_values()) {
                Some(metadata) => metadata,
                None => thread.identity(top.place())?.metadata?,
            };
            Some(span::Current::new(span::Id::from_u64(top.span()), metadata))
        });
        current.unwrap_or_else(span::Current::none)
    }
}

/// The thread that creates a span stores all of it in its slab.
struct Slabs;

impl Home for Slabs {
    type Given = ();
    type Created = span::Id;

    #[inline]
    fn keep_counting(thread: &ThreadState, (): (), place: Place) -> Option<span::Id> {
        thread.slab.create_near(thread.index, place).map(SpanRef::to_id)
    }

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

    #[inline]
    fn id((): (), created: &span::Id) -> u64 {
        created.into_u64()
    }

    fn keep_inherited(thread: &ThreadState, (): (), created: &span::Id, number: Inherited) {
        thread.slab.inherit(SpanRef::from_id(created.into_u64()), number);
    }

    #[inline]
    fn place_here(thread: &ThreadState, id: u64) -> Option<Place> {
        let span = SpanRef::from_id(id);
        thread.slab.near_place(span).filter(|_| span.thread == thread.index)
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
fn metadata_of(home: &ThreadState, span: SpanRef, place: Place) -> Option<&'static Metadata<'static>> {
    match place.has_own_values() {
        true => Some(home.slab.values(span)?.metadata),
        false => home.identity(place)?.metadata,
    }
}

/// A live span, and the state of the thread on which it was created.
fn locate(engine: &'static Engine, id: u64) -> Option<(&'static ThreadState, SpanRef, Place)> {
    let span = SpanRef::from_id(id);
    let home = engine.thread_at(span.thread)?;
    Some((home, span, home.slab.place(span)?))
}
