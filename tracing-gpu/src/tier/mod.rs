//! The front ends and their shared code: from a callback to the thread's state.
//!
//! A layer and a subscriber differ in where a span's data is stored, which [`Home`] abstracts. All other code is here
//! once, and compiled for each of them. The paths and their conditions: [`engine`](crate::thread::engine).

pub(crate) mod layer;
pub(crate) mod subscriber;
#[cfg(feature = "server")]
pub mod tower;

use std::sync::Arc;

use tracing_core::{Event, Metadata, span};

use crate::parts::streams::device as stream;
use crate::parts::thread::choice;
use crate::parts::timeline::thread::numbers::{Created, NewSpan};
use crate::parts::values::span::values::SpanValues;
use crate::record::{CallId, Place, StreamId, Unnamed};
use crate::session::catalog::ROOT;
use crate::thread::engine::Engine;
use crate::thread::row::Row;
use crate::thread::state::{CountingExit, ThreadState};

/// The storage of a front end's spans: a registry, or slabs of our own.
pub(crate) trait Home {
    /// The identity of a new span, if the registry gives it: its id.
    type Given: Copy;
    /// The identity of a stored span, if nobody else gives it.
    type Created;

    /// Stores the place of a new span without values of its own. Returns `None`, and changes nothing, if that takes
    /// more than a few stores.
    fn keep_counting(thread: &ThreadState, given: Self::Given, place: Place) -> Option<Self::Created>;
    /// Stores any new span. `None` if there is no room.
    fn keep(
        &self,
        engine: &'static Engine,
        thread: &ThreadState,
        given: Self::Given,
        place: Place,
        beside: Beside,
    ) -> Option<Self::Created>;
    /// The id of a new span.
    fn id(given: Self::Given, created: &Self::Created) -> u64;
    /// Stores the stream that a parent of a new span names, 0 for none.
    fn keep_inherited(thread: &ThreadState, given: Self::Given, created: &Self::Created, stream: StreamId);

    /// The place of a span that was created on this thread: the only query of the fast paths.
    fn place_here(thread: &ThreadState, id: u64) -> Option<Place>;
    /// The call of such a span, if its place has the flag for one and it has no values of its own.
    fn call_here(thread: &ThreadState, id: u64) -> CallId;
    /// The stream that a parent of such a span names, 0 for none.
    fn inherited_here(thread: &ThreadState, id: u64) -> StreamId;

    /// Finds any span that is about to be entered.
    fn find(&self, engine: &'static Engine, thread: &'static ThreadState, id: u64) -> EnteredSpan;
    /// The stream of any span's nearest parent that names one; 0 for none.
    fn inherited_stream(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> StreamId;
    /// The call that follows any span, 0 for none.
    fn call(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> CallId;
    /// Lets this call follow a live span that none follows. False if that cannot be: then nothing changes.
    fn keep_call(&self, engine: &'static Engine, thread: &ThreadState, id: u64, call: CallId) -> bool;
    fn values(&self, engine: &'static Engine, id: u64) -> Option<Arc<SpanValues>>;
    /// The creating thread's data of a live span, if a timeline is written.
    fn created(&self, engine: &'static Engine, thread: &'static ThreadState, id: u64) -> Option<&'static Created>;
    /// The parent node for children of any span.
    fn node(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> u32;
    /// The call site of a live span that the filter lets through.
    fn measured_site(&self, engine: &'static Engine, id: u64) -> Option<&'static Metadata<'static>>;
}

/// The data of a new span besides its place.
pub(crate) enum Beside {
    Nothing,
    /// A mark that its call site does not determine its name; its place does.
    Named,
    /// The call that its place announces.
    Call(CallId),
    Values(Arc<SpanValues>),
}

/// A span that is about to be entered.
pub(crate) enum EnteredSpan {
    /// It is counted here, on this thread; the call is the one that its place announces.
    Counted(Place, CallId),
    WithValues(Arc<SpanValues>),
    /// It is filtered out, and was created under this node.
    Hidden(u32),
    Nothing,
}

/// A new span; `None` where it is not followed.
#[inline]
fn new_span<H: Home>(
    engine: &'static Engine,
    home: &H,
    given: H::Given,
    attributes: &span::Attributes<'_>,
) -> Option<H::Created> {
    if let Some(thread) = engine.creating()
        && let Some(known) = known_child(thread, attributes)
    {
        if let Some(created) = new_span_counting::<H>(thread, given, known) {
            return Some(created);
        }
        if known.1.is_reentered() {
            return new_span_called(engine, home, thread, given, attributes, known);
        }
    }
    new_span_otherwise(engine, home, given, attributes)
}

/// The place and the row of a span that takes no more than counting, and perhaps a call.
#[inline]
fn known_child<'a>(thread: &'a ThreadState, attributes: &span::Attributes<'_>) -> Option<(Place, &'a Row)> {
    if attributes.is_contextual() { thread.child_counting(attributes.metadata()) } else { None }
}

/// A span that takes no more than counting.
#[inline]
fn new_span_counting<H: Home>(
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

/// A span that a call follows, and that takes no more than counting besides; `None` if there is no room for it.
#[inline(never)]
fn new_span_called<H: Home>(
    engine: &'static Engine,
    home: &H,
    thread: &ThreadState,
    given: H::Given,
    attributes: &span::Attributes<'_>,
    known: (Place, &Row),
) -> Option<H::Created> {
    create_called(engine, home, thread, given, attributes, known, &NewSpan::default())
}

/// Creates a span that needs only counting and recording and perhaps a call, or else any span.
#[inline(never)]
fn new_span_otherwise<H: Home>(
    engine: &'static Engine,
    home: &H,
    given: H::Given,
    attributes: &span::Attributes<'_>,
) -> Option<H::Created> {
    let recording = engine.open(choice::recording()).and_then(|thread| {
        let known = known_child(thread, attributes)?;
        let new = || thread.number(None, attributes.metadata());
        let (created, new) = match new_span_counting::<H>(thread, given, known) {
            Some(created) => (Some(created), new()),
            None if known.1.is_reentered() => {
                let new = new();
                (create_called(engine, home, thread, given, attributes, known, &new), new)
            }
            None => return None,
        };
        let keep = |created: &_| thread.keep_numbers(H::id(given, created), new, |visit| attributes.record(visit));
        Some(created.inspect(keep))
    });
    recording.unwrap_or_else(|| new_span_general(engine, home, given, attributes))
}

#[inline]
fn create_called<H: Home>(
    engine: &'static Engine,
    home: &H,
    thread: &ThreadState,
    given: H::Given,
    attributes: &span::Attributes<'_>,
    (place, row): (Place, &Row),
    new: &NewSpan,
) -> Option<H::Created> {
    row.add_call(|| thread.session.clock.now());
    match thread.begin_call(place, Some(thread.stack.innermost_call()), new) {
        0 => home.keep(engine, thread, given, place, Beside::Nothing),
        call => {
            crate::parts::values::tier::code(thread, place, call, attributes);
            home.keep(engine, thread, given, place.with_call(), Beside::Call(call))
        }
    }
}

#[inline(never)]
fn new_span_general<H: Home>(
    engine: &'static Engine,
    home: &H,
    given: H::Given,
    attributes: &span::Attributes<'_>,
) -> Option<H::Created> {
    let Some(thread) = engine.thread() else {
        engine.count_unfollowed(|| engine.session.is_enabled(attributes.metadata()));
        return None;
    };
    let has_streams = thread.session.has_streams();
    let inherited = if has_streams { parent_stream(engine, home, thread, attributes) } else { 0 };
    let mut new = if thread.flags.is_taped { number(engine, home, thread, attributes) } else { NewSpan::default() };
    // A stream affects the fast path of entries, not that of creations.
    let counted = known_child(thread, attributes).and_then(|known| new_span_counting::<H>(thread, given, known));
    let created = counted.or_else(|| {
        let parent = match attributes.parent() {
            None if attributes.is_contextual() => thread.current_node(),
            None => ROOT,
            Some(parent) => home.node(engine, thread, parent.into_u64()),
        };
        let place = thread.child(parent, attributes.metadata());
        let is_split = place.is_unnamed(Unnamed::Split);
        let (place, is_named) =
            if is_split { crate::parts::values::tier::split(thread, parent, attributes) } else { (place, false) };
        if place.is_none() {
            new = NewSpan { parent: new.parent, ..NewSpan::default() };
            return home.keep(engine, thread, given, Place::hidden(parent), Beside::Nothing);
        }
        let above = match attributes.parent() {
            None if attributes.is_contextual() => Some(thread.stack.innermost_call()),
            None => None,
            Some(parent) => Some(home.call(engine, thread, parent.into_u64())),
        };
        if place.has_own_values() {
            let values = crate::parts::values::tier::create(thread, parent, (above, &new), attributes);
            let place = Place::new(values.node, 0).under(parent).with_own_values();
            home.keep(engine, thread, given, place, Beside::Values(values))
        } else {
            thread.add_call(place);
            match thread.begin_call(place, above, &new) {
                0 if is_named => home.keep(engine, thread, given, place, Beside::Named),
                0 => home.keep(engine, thread, given, place, Beside::Nothing),
                call => {
                    crate::parts::values::tier::code(thread, place, call, attributes);
                    home.keep(engine, thread, given, place.with_call(), Beside::Call(call))
                }
            }
        }
    });
    if let Some(created) = created.as_ref().filter(|_| has_streams) {
        H::keep_inherited(thread, given, created, inherited);
    }
    if let Some(created) = created.as_ref().filter(|_| thread.flags.is_taped) {
        thread.keep_numbers(H::id(given, created), new, |visit| attributes.record(visit));
    }
    created
}

/// The numbers for a span that is about to be created.
#[inline]
fn number<H: Home>(
    engine: &'static Engine,
    home: &H,
    thread: &'static ThreadState,
    attributes: &span::Attributes<'_>,
) -> NewSpan {
    let parent = match attributes.parent() {
        None if attributes.is_contextual() => None,
        None => Some(0),
        Some(parent) => Some(home.created(engine, thread, parent.into_u64()).map_or(0, Created::call)),
    };
    thread.number(parent, attributes.metadata())
}

/// The stream that the parent of a new span names or has inherited; 0 for none.
fn parent_stream<H: Home>(
    engine: &'static Engine,
    home: &H,
    thread: &ThreadState,
    attributes: &span::Attributes<'_>,
) -> StreamId {
    let parent = match attributes.parent() {
        Some(parent) => Some(parent.into_u64()),
        None if attributes.is_contextual() => thread.stack.innermost_span().map(|frame| frame.span()),
        None => None,
    };
    let Some(parent) = parent else { return 0 };
    if H::place_here(thread, parent).is_some_and(|place| !place.has_own_values()) {
        return H::inherited_here(thread, parent); // not looked up in a registry, however deep the span is
    }
    match home.values(engine, parent).map_or(0, |values| values.now().stream) {
        0 => home.inherited_stream(engine, thread, parent),
        own => own,
    }
}

#[inline]
fn enter<H: Home>(engine: &'static Engine, home: &H, id: u64) {
    if let Some(thread) = engine.counting()
        && let Some(place) = H::place_here(thread, id)
    {
        let is_plain = place.is_plain();
        if is_plain && thread.enter_counting(id, place) || !is_plain && enter_called::<H>(thread, id, place) {
            return;
        }
    }
    enter_otherwise(engine, home, id);
}

/// A separate function, so that entries of spans without calls save no registers for it.
#[inline(never)]
fn enter_called<H: Home>(thread: &ThreadState, id: u64, place: Place) -> bool {
    !place.has_own_values() && thread.enter_called(id, place, H::call_here(thread, id))
}

#[inline(never)]
fn enter_otherwise<H: Home>(engine: &'static Engine, home: &H, id: u64) {
    if let Some(thread) = engine.open(choice::on_stream())
        && let Some(place) = H::place_here(thread, id).filter(|place| place.is_plain())
    {
        return match stream::current() {
            0 => enter_inherited::<H>(thread, id, place),
            stream => thread.enter_on_stream(id, place, stream),
        };
    }
    if let Some(thread) = engine.open(choice::recording())
        && let Some(place) = H::place_here(thread, id)
        && match place.is_plain() {
            true => thread.enter_recording(id, place),
            false => enter_called::<H>(thread, id, place),
        }
    {
        return;
    }
    enter_general(engine, home, id);
}

/// Path `on_stream`, outside of any `with_stream`.
#[inline(never)]
fn enter_inherited<H: Home>(thread: &ThreadState, id: u64, place: Place) {
    thread.enter_on_stream(id, place, stream_of_entry(thread, 0, || H::inherited_here(thread, id)));
}

/// Enters any span, even one that was created on another thread, has values of its own, or is no longer remembered.
#[inline(never)]
fn enter_general<H: Home>(engine: &'static Engine, home: &H, id: u64) {
    let Some(thread) = engine.thread() else {
        return engine.count_unfollowed(|| home.measured_site(engine, id).is_some());
    };
    let inherited = || home.inherited_stream(engine, thread, id);
    let created = if thread.flags.is_taped { home.created(engine, thread, id) } else { None };
    let found = match H::place_here(thread, id).filter(|place| place.is_plain()) {
        Some(place) => EnteredSpan::Counted(place, 0),
        None => home.find(engine, thread, id),
    };
    match found {
        EnteredSpan::Counted(place, call) => {
            thread.enter_general(id, place, call, None, stream_of_entry(thread, 0, inherited), created);
        }
        EnteredSpan::WithValues(values) => {
            let now = values.now();
            thread.enter_with_values(id, &values, &now, stream_of_entry(thread, now.stream, inherited), created);
        }
        // If its parent is not open, spans created inside belong under that parent.
        EnteredSpan::Hidden(parent) if parent != ROOT && thread.stack.is_empty() => {
            thread.enter_general(id, Place::stand_in(parent), 0, None, 0, created);
        }
        EnteredSpan::Hidden(_) | EnteredSpan::Nothing if thread.session.parts.task_wakes.any() => thread.poll_task(id),
        EnteredSpan::Hidden(_) | EnteredSpan::Nothing => {}
    }
}

/// The stream on which an entry is timed, 0 for none: the span's own, else the thread's, else that of the nearest
/// parent that names one.
#[inline]
fn stream_of_entry(thread: &ThreadState, own: StreamId, inherited: impl FnOnce() -> StreamId) -> StreamId {
    let session = thread.session;
    if !session.parts.gpu || own != 0 {
        return if session.parts.gpu { own } else { 0 };
    }
    match stream::current() {
        0 if session.has_streams() => inherited(),
        current => current,
    }
}

#[inline]
fn exit<H: Home>(engine: &'static Engine, home: &H, id: u64) {
    let Some(thread) = engine.counting() else { return exit_otherwise(engine, home, id) };
    match thread.exit_counting(id) {
        CountingExit::Done => {}
        CountingExit::Uncounted(ended) => {
            thread.add_uncounted(ended.place, ended.entered, ended.duration, ended.nested)
        }
        CountingExit::Noted => exit_noted(engine, home, thread, id),
        CountingExit::Not => exit_otherwise(engine, home, id),
    }
}

/// A separate function, so that exits of ranges without calls save no registers for it.
#[inline(never)]
fn exit_noted<H: Home>(engine: &'static Engine, home: &H, thread: &ThreadState, id: u64) {
    if !thread.exit_noted(id) {
        exit_otherwise(engine, home, id);
    }
}

#[inline(never)]
fn exit_otherwise<H: Home>(engine: &'static Engine, home: &H, id: u64) {
    let is_done = engine.open(choice::on_stream()).is_some_and(|thread| thread.exit_on_stream(id))
        || engine.open(choice::recording()).is_some_and(|thread| thread.exit_recording(id));
    if !is_done {
        exit_general(engine, home, id);
    }
}

#[inline(never)]
fn exit_general<H: Home>(engine: &'static Engine, home: &H, id: u64) {
    let Some(thread) = engine.thread() else { return };
    if thread.exit_general(id) || thread.exit_below(id, &|span| home.values(engine, span)) {
        return;
    }
    if engine.session.parts.task_wakes.any() {
        thread.leave_task(id);
    }
    if let Some(metadata) = home.measured_site(engine, id) {
        engine.session.losses.misnested.count(metadata, |site| site.elsewhere += 1);
        engine.stray_exit(id, thread);
    }
}

#[inline]
fn record<H: Home>(engine: &'static Engine, home: &H, id: u64, record: &span::Record<'_>) {
    let Some(thread) = engine.thread() else { return };
    if let Some(values) = home.values(engine, id) {
        crate::parts::values::tier::record(thread, &values, record);
    }
    if thread.flags.is_taped
        && let Some(created) = home.created(engine, thread, id)
    {
        thread.record_later_fields(created, |visit| record.record(visit));
    }
}

#[inline]
fn event(engine: &'static Engine, event: &Event<'_>) {
    if let Some(thread) = engine.thread() {
        crate::parts::timeline::tier::mark(&engine.session, thread, event);
    }
}

#[cfg(test)]
mod tests;
