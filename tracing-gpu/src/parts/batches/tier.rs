//! Links of a batch to the calls that it serves: `follows_from`.

use range_model::timeline::Link;

use crate::core::record::CallId;
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;
use crate::parts::tier::home::{EnteredSpan, PartsHome};
use crate::parts::timeline::thread::numbers::Created;
use crate::parts::timeline::thread::tape::Record;

/// Links a span to one that it follows from. Spans of both are followed by a call from now on, whatever their rows are.
#[inline(never)]
pub(crate) fn follows_from<H: PartsHome>(engine: &'static Engine, home: &H, batch: u64, served: u64) {
    let Some(thread) = engine.thread().filter(|thread| thread.session.statistics) else { return };
    if batch == served || [batch, served].iter().any(|span| home.measured_site(engine, *span).is_none()) {
        return;
    }
    let session = thread.session;
    let above = thread.stack.innermost_call();
    let spans = [batch, served];
    let [batch, call] = [(batch, above), (served, 0)].map(|(span, above)| call_of(engine, home, thread, span, above));
    let weight = home.values(engine, served).and_then(|values| values.now().weight);
    if session.parts.batches.link(&session.parts.calls, batch, call, weight) {
        record(engine, home, thread, (spans, weight.unwrap_or(1.0)));
    }
}

/// Records the link of a batch and what it serves, if a timeline is written.
fn record<H: PartsHome>(
    engine: &'static Engine,
    home: &H,
    thread: &'static ThreadState,
    (spans, weight): ([u64; 2], f64),
) {
    if thread.flags.is_taped {
        let [batch, served] = spans.map(|span| home.created(engine, thread, span).map_or(0, Created::call));
        if batch != 0 && served != 0 {
            thread.record(|| Record::Link(Link { batch, served, weight }));
        }
    }
}

/// The call of a live span, which begins now if there is none, in the call `above`. 0 if it cannot have one.
fn call_of<H: PartsHome>(
    engine: &'static Engine,
    home: &H,
    thread: &'static ThreadState,
    span: u64,
    above: CallId,
) -> CallId {
    if let call @ 1.. = home.call(engine, thread, span) {
        return call;
    }
    let place = match home.find(engine, thread, span) {
        EnteredSpan::Counted(place, 0) => place,
        EnteredSpan::Counted(_, call) => return call,
        EnteredSpan::WithValues(values) => thread.place_now(&values, values.now().category),
        EnteredSpan::Hidden(_) | EnteredSpan::Nothing => return 0,
    };
    let call = thread.begin_linked(span, place, above);
    if call == 0 || home.keep_call(engine, thread, span, call) {
        thread.follow_open(span, call);
        return call;
    }
    let _unused = thread.session.parts.calls.end(Some(&thread.parts.spare_calls), call, thread.session.clock.now());
    home.call(engine, thread, span)
}
