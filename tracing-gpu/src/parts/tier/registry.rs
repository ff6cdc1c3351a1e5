//! What the parts keep of spans of a layer, beside the registry's data.

use std::sync::Arc;

use range_model::stats::Lean;
use tracing_core::{Metadata, Subscriber, span};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::home::{Beside, EnteredSpan, PartsHome};
use super::{Call, Created, SpanValues, own_values};
use crate::core::record::{CallId, Child, Inherited, Place};
use crate::core::session::Session;
use crate::core::session::catalog::ROOT;
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;

/// A layer is dropped. It does not see the end of these calls, so they are in no figure.
pub(crate) fn leave(session: &Session) {
    if session.is_running() {
        for call in session.parts.calls.take_of_spans() {
            let _not_ended = session.parts.calls.end(None, call, session.clock.now());
        }
    }
}

/// A span closes.
#[inline]
pub(crate) fn close(engine: &'static Engine, span: u64) {
    if engine.session.parts.calls.may_have_span(span) {
        close_call_of(engine, span);
    }
}

/// Ends the call of a closed span, if it has one.
#[inline(never)]
fn close_call_of(engine: &'static Engine, span: u64) {
    if let call @ 1.. = engine.session.parts.calls.take_of_span(span) {
        own_values::close_call(engine, engine.thread(), call);
    }
}

/// Data of a span that has values or a name of its own, one for each profiler that measures it; or its call, if
/// `on_close` does not find that by the span's id. There is hardly ever more than the first, so only the extension
/// itself takes memory.
///
/// The registry drops the data when the span has closed, which ends its lifetime and its call.
struct OwnValues {
    first: (&'static Engine, SpanRecord),
    others: Vec<(&'static Engine, SpanRecord)>,
}

impl OwnValues {
    fn all(&self) -> impl Iterator<Item = &(&'static Engine, SpanRecord)> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Sets the data of this profiler, in place of what it has.
    fn set(&mut self, engine: &'static Engine, kept: SpanRecord) {
        if std::ptr::eq(self.first.0, engine) {
            self.first.1 = kept;
        } else {
            self.others.retain(|(profiler, _)| !std::ptr::eq(*profiler, engine));
            self.others.push((engine, kept));
        }
    }
}

#[derive(Clone)]
enum SpanRecord {
    /// Its values, which also name the call.
    Values(Arc<SpanValues>),
    Call(CallId),
    /// Its place, which has its name, on the state with this number.
    Named(u32, Place),
}

impl Drop for OwnValues {
    fn drop(&mut self) {
        for (engine, kept) in self.all() {
            match kept {
                SpanRecord::Values(values) => own_values::close(engine, engine.thread(), values),
                SpanRecord::Call(call) => own_values::close_call(engine, engine.thread(), *call),
                SpanRecord::Named(..) => {}
            }
        }
    }
}

/// Values of a span are among its extensions in the registry.
impl<S> PartsHome for Context<'_, S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    #[inline]
    fn keep(&self, engine: &'static Engine, thread: &ThreadState, id: u64, place: Place, beside: Beside) -> Option<()> {
        thread.remember(id, place);
        let (kept, call) = match beside {
            Beside::Nothing => return Some(()),
            Beside::Named => (SpanRecord::Named(thread.index, place), 0),
            Beside::Call(call) => {
                thread.remember_call(id, call);
                if thread.is_reentered(place) && thread.session.parts.calls.keep_span(thread.index, call, id) {
                    return Some(());
                }
                (SpanRecord::Call(call), call)
            }
            Beside::Values(values) => (SpanRecord::Values(values), 0),
        };
        if let Some(span) = self.span(&span::Id::from_u64(id)) {
            thread.remember_call(id, call);
            keep_beside(engine, &span, kept);
        }
        Some(())
    }

    fn keep_inherited(thread: &ThreadState, id: u64, (): &(), number: Inherited) {
        thread.inherit(id, number);
    }

    #[inline]
    fn call_here(thread: &ThreadState, id: u64) -> CallId {
        thread.remembered_call(id)
    }

    fn inherited_here(thread: &ThreadState, id: u64) -> Inherited {
        thread.inherited(id)
    }

    #[inline]
    fn find(&self, engine: &'static Engine, thread: &'static ThreadState, id: u64) -> EnteredSpan {
        match thread.remembered(id) {
            Some(place) if place.is_none() => return EnteredSpan::Hidden(place.node()),
            Some(place) if place.is_plain() => return EnteredSpan::Counted(place, 0),
            Some(place) if !place.has_own_values() => return EnteredSpan::Counted(place, thread.remembered_call(id)),
            _ => {}
        }
        if let call @ 1.. = engine.session.parts.calls.of_span(id) {
            return called(engine, thread, call);
        }
        let Some(span) = self.span(&span::Id::from_u64(id)) else { return EnteredSpan::Nothing };
        match kept_of(engine, &span) {
            Some(SpanRecord::Values(values)) => return EnteredSpan::WithValues(values),
            Some(SpanRecord::Call(call)) => return called(engine, thread, call),
            Some(SpanRecord::Named(creator, place)) => return counted(engine, thread, (creator, place), 0),
            None => {}
        }
        let parent = span.parent().map_or(ROOT, |parent| node_of(engine, thread, parent));
        match thread.counted_child(parent, span.metadata()) {
            Child::Counted(place) if !place.is_none() => EnteredSpan::Counted(place, 0),
            Child::Counted(_) | Child::Hidden => EnteredSpan::Hidden(parent),
            Child::Unnamed(_) => EnteredSpan::Nothing,
        }
    }

    fn inherited(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> Inherited {
        if thread.remembered(id).is_some() {
            return thread.inherited(id);
        }
        let Some(span) = self.span(&span::Id::from_u64(id)) else { return 0 };
        let own = |span: SpanRef<'_, S>| own_values_of(engine, &span).map_or(0, |values| values.inherited());
        span.scope().skip(1).map(own).find(|&number| number != 0).unwrap_or(0)
    }

    fn call(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> CallId {
        match thread.remembered(id) {
            Some(place) if place.is_plain() => 0,
            Some(place) if !place.has_own_values() => thread.remembered_call(id),
            _ => match engine.session.parts.calls.of_span(id) {
                0 => match self.span(&span::Id::from_u64(id)).and_then(|span| kept_of(engine, &span)) {
                    Some(SpanRecord::Values(values)) => values.call(),
                    Some(SpanRecord::Call(call)) => call,
                    Some(SpanRecord::Named(..)) | None => 0,
                },
                call => call,
            },
        }
    }

    fn keep_call(&self, engine: &'static Engine, thread: &ThreadState, id: u64, call: CallId) -> bool {
        let Some(span) = self.span(&span::Id::from_u64(id)) else { return false };
        if let Some(SpanRecord::Values(values)) = kept_of(engine, &span) {
            return values.set_call(call);
        }
        let here = thread.remembered(id);
        if here.is_none() || !engine.session.parts.calls.keep_span(thread.index, call, id) {
            keep_beside(engine, &span, SpanRecord::Call(call));
        }
        if let Some(place) = here {
            thread.remember(id, place.with_call());
            thread.remember_call(id, call);
        }
        true
    }

    #[inline]
    fn values(&self, engine: &'static Engine, id: u64) -> Option<Arc<SpanValues>> {
        own_values_of(engine, &self.span(&span::Id::from_u64(id))?)
    }

    #[inline]
    fn created(&self, engine: &'static Engine, thread: &'static ThreadState, id: u64) -> Option<&'static Created> {
        let elsewhere = || engine.states().filter_map(|other| other.created(id)).largest_by(|created| created.owner());
        thread.created_here(id).or_else(elsewhere)
    }

    #[inline]
    fn node(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> u32 {
        match thread.remembered(id).filter(|place| !place.has_own_values()) {
            Some(place) => place.node(),
            None => self.span(&span::Id::from_u64(id)).map_or(ROOT, |span| node_of(engine, thread, span)),
        }
    }

    fn measured_site(&self, engine: &'static Engine, id: u64) -> Option<&'static Metadata<'static>> {
        let metadata = self.span(&span::Id::from_u64(id))?.metadata();
        engine.session.is_enabled(metadata).then_some(metadata)
    }
}

/// Stores data of a span beside it in the registry.
#[inline(never)]
fn keep_beside<'a, S: LookupSpan<'a>>(engine: &'static Engine, span: &SpanRef<'a, S>, kept: SpanRecord) {
    let mut extensions = span.extensions_mut();
    match extensions.get_mut::<OwnValues>() {
        Some(own) => own.set(engine, kept),
        None => extensions.insert(OwnValues { first: (engine, kept), others: Vec::new() }),
    }
}

fn kept_of<'a, S: LookupSpan<'a>>(engine: &Engine, span: &SpanRef<'a, S>) -> Option<SpanRecord> {
    let extensions = span.extensions();
    let own: &OwnValues = extensions.get()?;
    own.all().find(|(profiler, _)| std::ptr::eq(*profiler, engine)).map(|(_, kept)| kept.clone())
}

fn own_values_of<'a, S: LookupSpan<'a>>(engine: &Engine, span: &SpanRef<'a, S>) -> Option<Arc<SpanValues>> {
    match kept_of(engine, span) {
        Some(SpanRecord::Values(values)) => Some(values),
        _ => None,
    }
}

/// An entry of a span with a call, created on another thread or no longer remembered here.
fn called(engine: &'static Engine, thread: &ThreadState, call: CallId) -> EnteredSpan {
    let home = engine.session.parts.calls.get(call).map(Call::home);
    home.map_or(EnteredSpan::Nothing, |home| counted(engine, thread, home, call))
}

/// An entry of a span with this place on the state with this number, and its call, 0 for none.
fn counted(engine: &'static Engine, thread: &ThreadState, (creator, place): (u32, Place), call: CallId) -> EnteredSpan {
    let elsewhere = || engine.thread_at(creator);
    let here = if creator == thread.index { place } else { thread.place_from(creator, elsewhere, place) };
    if here.is_none() {
        thread.session.drop_span();
        return EnteredSpan::Nothing;
    }
    EnteredSpan::Counted(if call == 0 { here } else { here.with_call() }, call)
}

/// The node of a span that is not remembered here, from its nearest remembered ancestor and the call sites below that.
fn node_of<'a, S: LookupSpan<'a>>(engine: &Engine, thread: &ThreadState, span: SpanRef<'a, S>) -> u32 {
    let mut sites = Vec::new();
    let mut node = ROOT;
    for ancestor in span.scope() {
        let id = ancestor.id().into_u64();
        if let Some(place) = thread.remembered(id).filter(|place| !place.has_own_values()) {
            node = place.node();
            break;
        }
        let kept = match engine.session.parts.calls.of_span(id) {
            0 => kept_of(engine, &ancestor),
            call => Some(SpanRecord::Call(call)),
        };
        match kept {
            Some(SpanRecord::Values(values)) => {
                node = values.node;
                break;
            }
            Some(SpanRecord::Call(call)) => {
                node = engine.session.parts.calls.get(call).map_or(ROOT, |call| call.home().1.node());
                break;
            }
            Some(SpanRecord::Named(_, place)) => {
                node = place.node();
                break;
            }
            None => {}
        }
        sites.push(ancestor.metadata());
    }
    for metadata in sites.into_iter().rev() {
        match thread.counted_child(node, metadata) {
            Child::Counted(place) if !place.is_none() => node = place.node(),
            _ => {}
        }
    }
    node
}
