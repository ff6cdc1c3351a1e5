//! Spans with values of their own (`nvtx.name`, `nvtx.color`, ...): the slower path that both front ends share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nvtx_rs::text::sanitize;
use tracing_core::field::Field;
use tracing_core::{Metadata, span};

use crate::clock::Ticks;
use crate::core::record::{CallId, Ended, LinkedId, Place, RangeKey};
use crate::core::session::catalog::ROOT;
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;
use crate::parts::batches::session::ClosedSpan;
use crate::parts::calls::session::{Call, EndedCall};
use crate::parts::timeline::thread::numbers::NewSpan;
use crate::parts::timeline::thread::tape::{RangeRecord, Record};
use crate::parts::values::span::codes::CodeReader;
use crate::parts::values::span::fields::Fields;
use crate::parts::values::span::values::{Changing, FieldValues, Lifetime, SpanValues};
use crate::parts::waits::thread::coincidence::Read;
use range_model::RangeStyle;

/// Reads the fields of a new span and counts its creation. `parent` is its parent node, `above` its parent call, as for
/// [`begin_call`](ThreadState::begin_call).
#[inline(never)]
pub(crate) fn create(
    thread: &ThreadState,
    parent: u32,
    (above, new): (Option<CallId>, &NewSpan),
    attributes: &span::Attributes<'_>,
) -> Arc<SpanValues> {
    let (session, lookup) = (thread.session, &thread.lookup());
    let metadata = attributes.metadata();
    let mut known = thread.known();
    let mut read = FieldValues::new(known.scratch(), &session.fields);
    thread.gate.while_closed(|| attributes.record(&mut read));
    let (lifetime, names_a_stream) = (read.lifetime, read.stream.is_some());
    if let Some((misread, value)) = read.misread() {
        known.misread(lookup, metadata, misread, value);
    }
    let site = known.site(lookup, metadata);
    let name = match (read.name(), read.split()) {
        (Some(name), _) => known.run_time_label(lookup, site.domain, name),
        (None, Some(value)) if site.is_split => known.split_label(lookup, metadata, value),
        _ => None,
    };
    let label = name.unwrap_or(site.label);
    let node = known.node(lookup, parent, RangeKey { label, category: 0, style: RangeStyle::PushPop });
    let category = read.category().map_or(0, |category| known.category(lookup, category));
    let place = known.place(lookup, node, RangeKey { label, category, style: RangeStyle::PushPop }, Some(metadata));
    let place = place.under_if_any(parent);
    let (changing, texts) = read.begin(category);
    known.keep_texts(texts);
    drop(known);
    if names_a_stream {
        session.announce_streams();
    }
    if !place.is_none() {
        thread.add_call(place);
    }
    let call = if place.is_none() { 0 } else { thread.begin_call(place, above, new) };
    code(thread, place, call, attributes);
    let values = SpanValues::new(metadata, (node, label), (thread.index, place, call), changing);
    if lifetime {
        begin_lifetime(thread, &values, new);
    }
    Arc::new(values)
}

/// Reads the values of a new call, where calls of its name waited for each other.
#[inline]
pub(crate) fn code(thread: &ThreadState, place: Place, call: CallId, attributes: &span::Attributes<'_>) {
    if thread.session.parts.values.are_asked() && !attributes.metadata().fields().is_empty() {
        code_asked(thread, place, call, attributes);
    }
}

#[cold]
#[inline(never)]
fn code_asked(thread: &ThreadState, place: Place, call: CallId, attributes: &span::Attributes<'_>) {
    let session = thread.session;
    let label = thread.identity(place).map(|identity| identity.key.label);
    let Some(label) = label.filter(|label| session.parts.values.is_asked(*label)) else { return };
    let Some(call) = session.parts.calls.get(call) else { return };
    let read = || {
        let text = |field: &Field, value: &str| sanitize(&format!("{field}={value}")).into_owned();
        let mut reader = CodeReader::new(|code, field, value| session.parts.values.saw(code, || text(field, value)));
        // The program may never have formatted these values.
        let record = AssertUnwindSafe(|| thread.gate.while_closed(|| attributes.record(&mut reader)));
        let is_read = catch_unwind(record).is_ok();
        is_read.then_some(reader.codes)
    };
    match thread.parts.waits.coincidences.get_or_init(Box::default).read_values(&session.clock, read) {
        Read::Values(codes) => call.set_codes(codes),
        Read::Costly => session.parts.values.was_costly(label),
        Read::Nothing => {}
    }
}

/// The place of a new span without values of its own whose name may come from a known field, and whether it does. If
/// the call site is whole, or its first spans have no value at creation, later spans take the fast paths.
#[inline(never)]
pub(crate) fn split(thread: &ThreadState, parent: u32, attributes: &span::Attributes<'_>) -> (Place, bool) {
    let (session, lookup, metadata) = (thread.session, &thread.lookup(), attributes.metadata());
    let mut known = thread.known();
    let mut read = FieldValues::new(known.scratch(), &session.fields);
    thread.gate.while_closed(|| attributes.record(&mut read));
    let is_split = known.site(lookup, metadata).is_split;
    let label = read.split().filter(|_| is_split).and_then(|value| known.split_label(lookup, metadata, value));
    let may_have_none = is_split && read.split().is_none() && known.is_perhaps_unsplit(metadata);
    known.keep_texts(read.begin(0).1);
    if let Some(label) = label {
        let key = RangeKey { label, category: 0, style: RangeStyle::PushPop };
        let node = known.node(lookup, parent, key);
        return (known.place(lookup, node, key, Some(metadata)).under_if_any(parent), true);
    }
    drop(known);
    let place = thread.plain_child(parent, metadata);
    if !is_split {
        thread.know_plain(parent, metadata, place);
    } else if may_have_none && session.count_unsplit(metadata) {
        thread.known().know_split(metadata);
    }
    (place, false)
}

/// Stores the fields of a `record`.
pub(crate) fn record(thread: &ThreadState, values: &SpanValues, record: &span::Record<'_>) {
    let (session, lookup) = (thread.session, &thread.lookup());
    let mut known = thread.known();
    let mut read = FieldValues::new(known.scratch(), &session.fields);
    thread.gate.while_closed(|| record.record(&mut read));
    let names_a_stream = read.stream.is_some();
    if let Some((misread, value)) = read.misread() {
        known.misread(lookup, values.metadata, misread, value);
    }
    let category = read.category().map(|category| known.category(lookup, category));
    known.keep_texts(values.update(read, category));
    drop(known);
    if names_a_stream {
        session.announce_streams();
    }
}

fn lifetime_key(values: &SpanValues, changing: &Changing) -> RangeKey {
    RangeKey { label: values.label, category: changing.category, style: RangeStyle::StartEnd }
}

fn begin_lifetime(thread: &ThreadState, values: &SpanValues, new: &NewSpan) {
    let session = thread.session;
    let now = values.now();
    let range = (session.nvtx && nvtx_rs::is_tool_attached())
        .then(|| thread.gate.while_closed(|| session.nvtx_range(lifetime_key(values, &now))));
    let start = session.clock.now();
    let range = range.map(|range| thread.gate.while_closed(|| range.domain.start(&now.apply(range.attributes))));
    let instance = thread.begin_lifetime(values.label, start);
    values.begin_lifetime(Lifetime {
        start,
        range,
        state: thread.index,
        thread: thread.thread_id(),
        instance,
        numbers: new.numbers(),
    });
}

/// The span of a call has closed. Without a thread the call cannot be counted, which is noted. After the finish nothing
/// changes.
#[inline(never)]
pub(crate) fn close_call(engine: &'static Engine, thread: Option<&ThreadState>, call: CallId) {
    let session = &engine.session;
    if !session.is_running() {
        return;
    }
    let now = session.clock.now();
    let linked = session.parts.calls.get(call).filter(|call| call.linked() != 0).map(|call| close_linked(call, now));
    let held_up_by = session.parts.calls.get(call).and_then(Call::held_up_by);
    let Some(ended) = session.parts.calls.end(thread.map(|thread| &thread.parts.spare_calls), call, now) else {
        return;
    };
    let Some(home) = engine.thread_at(ended.thread) else { return };
    thread.into_iter().for_each(|thread| thread.record_call(home, &ended));
    // A call is neither a span created before the window, nor one entered at most once, as spans that are no futures
    // are.
    let is_call = home.judge(&ended) && ended.entries > 0 && ended.created >= session.window();
    if is_call {
        match thread {
            Some(thread) => {
                thread.add_call_ended(home, call, &ended);
                if let Some(held_up_by) = held_up_by {
                    let label = home.identity(ended.place).map(|identity| identity.key.label);
                    thread.add_held_up(label, [ended.created, ended.latency], &held_up_by);
                }
            }
            None => session.drop_span(),
        }
    }
    if let Some((linked, mut closed)) = linked {
        closed.is_call = is_call;
        count_served(engine, thread, linked, closed);
    }
}

/// What batches need of a linked span that closes now. Nothing is taken from the `EndedCall`, which would then be
/// copied at the close of each call.
#[cold]
#[inline(never)]
fn close_linked(call: &Call, now: Ticks) -> (LinkedId, ClosedSpan) {
    let (linked, stay) = call.take_linked();
    let EndedCall { created, closed, busy, entries, thread, place, node, .. } = call.end(now);
    let stay = Some(stay).filter(|_| entries > 0);
    (linked, ClosedSpan { created, closed, busy, stay, thread, place, node, is_call: false })
}

/// Counts what batches were for the calls that are settled by the close of a linked span.
#[cold]
#[inline(never)]
fn count_served(engine: &'static Engine, thread: Option<&ThreadState>, linked: LinkedId, closed: ClosedSpan) {
    let session = &engine.session;
    for served in session.parts.batches.close(linked, closed) {
        match (thread, engine.thread_at(served.thread)) {
            // Its call may have ended before the window began.
            (Some(thread), Some(home)) if served.is_call && served.created >= session.window() => {
                thread.add_served(home, &served);
            }
            _ => session.parts.batches.count_rowless(),
        }
    }
}

/// Ends the start/end range of a closed span, if it has one. Without a thread it cannot be measured, which is noted.
/// After the finish nothing changes.
pub(crate) fn close(engine: &'static Engine, thread: Option<&ThreadState>, values: &SpanValues) {
    if thread.is_none() && !engine.session.is_running() {
        return;
    }
    close_call(engine, thread, values.call());
    let (lifetime, changing) = values.end();
    if let Some(lifetime) = lifetime {
        let range = (lifetime_key(values, &changing), Some(values.metadata));
        end_lifetime(engine, thread, range, lifetime, &changing, &Fields::default());
    }
}

/// Ends a start/end range of a span with this call site, or of other code.
pub(crate) fn end_lifetime(
    engine: &'static Engine,
    thread: Option<&ThreadState>,
    (key, metadata): (RangeKey, Option<&'static Metadata<'static>>),
    lifetime: Lifetime,
    changing: &Changing,
    fields: &Fields,
) {
    let end = |end| {
        if let Some(creator) = engine.thread_at(lifetime.state) {
            creator.end_lifetime(lifetime.instance, end);
        }
    };
    let Some(thread) = thread else {
        end(None); // an unmeasured range is in no table
        return engine.session.drop_span();
    };
    let now = engine.session.clock.now();
    if let Some(range) = lifetime.range {
        // An id is unique in the process, whatever the domain.
        thread.gate.while_closed(|| nvtx_rs::Domain::DEFAULT.end(range));
    }
    end(Some(now));
    let place = thread.place(thread.node(ROOT, key), key, metadata);
    if place.is_none() {
        return engine.session.drop_span();
    }
    thread.add_call(place);
    let entered = lifetime.start.max(engine.session.window());
    thread.add(Ended { place, entered, duration: now.saturating_sub(entered), nested: 0 });
    let start = lifetime.start; // a timeline spans windows
    thread.record_values(start, changing, fields);
    let began_on = (lifetime.thread != thread.thread_id()).then_some(lifetime.thread);
    let numbers = lifetime.numbers;
    thread.record(|| Record::Range(RangeRecord { key, start, end: now, depth: 0, began_on, cut: false, numbers }));
}
