//! Spans with all parts: from a callback to the thread's state where counting does not do.

use tracing_core::span;

use super::home::{Beside, EnteredSpan, PartsHome};
use crate::core::record::{Child, Place, Unnamed};
use crate::core::session::catalog::ROOT;
use crate::core::thread::engine::Engine;
use crate::core::thread::row::Row;
use crate::core::thread::state::ThreadState;
use crate::core::tier::counting::{known_child, new_span_counting};
use crate::parts::streams::StreamId;
use crate::parts::streams::device as stream;
use crate::parts::thread::choice;
use crate::parts::timeline::thread::numbers::{Created, NewSpan};
use crate::parts::values::tier as own_values;

/// A span that a call follows, and that takes no more than counting besides; `None` if there is no room for it.
#[inline(never)]
pub(crate) fn new_span_called<H: PartsHome>(
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
pub(crate) fn new_span_otherwise<H: PartsHome>(
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
fn create_called<H: PartsHome>(
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
            own_values::code(thread, place, call, attributes);
            home.keep(engine, thread, given, place.with_call(), Beside::Call(call))
        }
    }
}

#[inline(never)]
fn new_span_general<H: PartsHome>(
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
        let hide = |new: &mut NewSpan| {
            *new = NewSpan { parent: new.parent, ..NewSpan::default() };
            home.keep(engine, thread, given, Place::hidden(parent), Beside::Nothing)
        };
        let (counted, is_named) = match thread.child(parent, attributes.metadata()) {
            Child::Hidden => return hide(&mut new),
            Child::Counted(place) => (Some(place), false),
            Child::Unnamed(Unnamed::WithValues) => (None, false),
            Child::Unnamed(Unnamed::Split) => {
                let (place, is_named) = own_values::split(thread, parent, attributes);
                (Some(place), is_named)
            }
        };
        if counted.is_some_and(Place::is_none) {
            return hide(&mut new); // there is no room for its row
        }
        let above = match attributes.parent() {
            None if attributes.is_contextual() => Some(thread.stack.innermost_call()),
            None => None,
            Some(parent) => Some(home.call(engine, thread, parent.into_u64())),
        };
        let Some(place) = counted else {
            let values = own_values::create(thread, parent, (above, &new), attributes);
            let place = Place::new(values.node, 0).under(parent).with_own_values();
            return home.keep(engine, thread, given, place, Beside::Values(values));
        };
        thread.add_call(place);
        match thread.begin_call(place, above, &new) {
            0 if is_named => home.keep(engine, thread, given, place, Beside::Named),
            0 => home.keep(engine, thread, given, place, Beside::Nothing),
            call => {
                own_values::code(thread, place, call, attributes);
                home.keep(engine, thread, given, place.with_call(), Beside::Call(call))
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
fn number<H: PartsHome>(
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
fn parent_stream<H: PartsHome>(
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
        0 => home.inherited(engine, thread, parent),
        own => own,
    }
}

/// A separate function, so that entries of spans without calls save no registers for it.
#[inline(never)]
pub(crate) fn enter_called<H: PartsHome>(thread: &ThreadState, id: u64, place: Place) -> bool {
    !place.has_own_values() && thread.enter_called(id, place, H::call_here(thread, id))
}

#[inline(never)]
pub(crate) fn enter_otherwise<H: PartsHome>(engine: &'static Engine, home: &H, id: u64) {
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
fn enter_inherited<H: PartsHome>(thread: &ThreadState, id: u64, place: Place) {
    thread.enter_on_stream(id, place, stream_of_entry(thread, 0, || H::inherited_here(thread, id)));
}

/// Enters any span, even one that was created on another thread, has values of its own, or is no longer remembered.
#[inline(never)]
fn enter_general<H: PartsHome>(engine: &'static Engine, home: &H, id: u64) {
    let Some(thread) = engine.thread() else {
        return engine.count_unfollowed(|| home.measured_site(engine, id).is_some());
    };
    let inherited = || home.inherited(engine, thread, id);
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

/// A separate function, so that exits of ranges without calls save no registers for it.
#[inline(never)]
pub(crate) fn exit_noted<H: PartsHome>(engine: &'static Engine, home: &H, thread: &ThreadState, id: u64) {
    if !thread.exit_noted(id) {
        exit_otherwise(engine, home, id);
    }
}

#[inline(never)]
pub(crate) fn exit_otherwise<H: PartsHome>(engine: &'static Engine, home: &H, id: u64) {
    let is_done = engine.open(choice::on_stream()).is_some_and(|thread| thread.exit_on_stream(id))
        || engine.open(choice::recording()).is_some_and(|thread| thread.exit_recording(id));
    if !is_done {
        exit_general(engine, home, id);
    }
}

#[inline(never)]
fn exit_general<H: PartsHome>(engine: &'static Engine, home: &H, id: u64) {
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
pub(crate) fn record<H: PartsHome>(engine: &'static Engine, home: &H, id: u64, record: &span::Record<'_>) {
    let Some(thread) = engine.thread() else { return };
    if let Some(values) = home.values(engine, id) {
        own_values::record(thread, &values, record);
    }
    if thread.flags.is_taped
        && let Some(created) = home.created(engine, thread, id)
    {
        thread.record_later_fields(created, |visit| record.record(visit));
    }
}

/// The state of this thread, if the path `recording` applies.
#[inline]
pub(crate) fn recording(engine: &'static Engine) -> Option<&'static ThreadState> {
    engine.open(choice::recording())
}
