//! Entries of any range, with all parts: the path `general`.

use range_model::RangeStyle;

use crate::clock::Ticks;
use crate::core::record::{CallId, Place, RangeKey};
use crate::core::thread::state::ThreadState;
use crate::parts::calls::session::{Call, LastExit};
use crate::parts::streams::StreamId;
use crate::parts::streams::device::{self as stream, StartedPair};
use crate::parts::timeline::thread::numbers::Created;
use crate::parts::values::span::fields::Fields;
use crate::parts::values::span::values::{Changing, SpanValues};

/// Entries. Places belong to this thread.
impl ThreadState {
    /// Path `general`: opens any range, timed on `stream` if that is not 0.
    #[inline(never)]
    pub(crate) fn enter_general(
        &self,
        span: u64,
        place: Place,
        call: CallId,
        values: Option<&SpanValues>,
        stream: StreamId,
        created: Option<&Created>,
    ) {
        let known = self.session.parts.calls.get(call);
        let left = known.map_or(LastExit::Other, |known| self.look_before(place, call, known));
        // Outside of the times on the CPU's clock and in the tool: a pair of events costs more than everything else.
        let pair = if stream == 0 { None } else { stream::begin(&self.session.parts.streams, stream) };
        let start = self.enter_begun(span, self.place_of_entry(place, call), values, pair);
        if let Some(numbers) = self.parts.numbers.as_ref().filter(|_| start.is_some()) {
            let has_fields = || self.has_fields(place);
            // A future that is handed over stays in the call in which it was created.
            let stays = self.session.by_creation() || known.is_some_and(Call::is_visiting);
            let own = numbers.enter_any(&self.stack, place, created, stays, has_fields);
            known.inspect(|call| call.enter_numbered(own.call, own.parent));
        }
        if let Some((start, known)) = start.zip(known) {
            self.stack.set_call(call);
            self.enter_call(place, known, start, left);
        }
    }

    /// Path `general`, for a span with values of its own.
    #[inline(never)]
    pub(crate) fn enter_with_values(
        &self,
        span: u64,
        values: &SpanValues,
        now: &Changing,
        stream: StreamId,
        created: Option<&Created>,
    ) {
        let place = self.place_now(values, now.category);
        if place.is_none() {
            return self.session.drop_span();
        }
        let call = values.call();
        let flagged = if call == 0 { place } else { place.with_call() };
        self.enter_general(span, flagged.with_own_values(), call, Some(values), stream, created);
        if let Some((_, start)) = self.stack.depth().checked_sub(1).and_then(|top| self.stack.at(top)) {
            self.record_values(start, now, &Fields::default());
        }
    }

    /// The place of an entry of this span: `record` may have changed its category.
    pub(crate) fn place_now(&self, values: &SpanValues, category: u32) -> Place {
        values.place(self.index, category).unwrap_or_else(|| {
            let key = RangeKey { label: values.label, category, style: RangeStyle::PushPop };
            self.place(values.node, key, values.metadata).under_if_any(values.parent())
        })
    }

    /// Continues after the start was recorded on a stream, if it was. Returns the start of the range; `None` if the
    /// stack was full, so that it is not open.
    #[inline(never)]
    pub(crate) fn enter_begun(
        &self,
        span: u64,
        place: Place,
        values: Option<&SpanValues>,
        pair: Option<StartedPair>,
    ) -> Option<Ticks> {
        let range = if self.has_tool() { self.nvtx_range(place) } else { None };
        let attributes = range.map(|range| values.map_or(range.attributes, |own| own.now().apply(range.attributes)));
        // With a tool, the start is set below.
        let start = match (range, &pair) {
            (Some(_), _) if !self.flags.credits.any() => 0,
            (_, None) => self.start(),
            (_, Some(_)) => self.now(), // a reading would count as time on the stream
        };
        let Some(frame) = self.stack.push(span, place, start) else {
            pair.into_iter().for_each(stream::abandon);
            self.session.drop_span();
            return None;
        };
        if let (Some(range), Some(attributes)) = (range, attributes) {
            self.gate.while_closed(|| {
                // Almost nothing stands between the clock and the tool, which may call CUDA in this range: one store,
                // and no branch, whose other side might have to be fetched.
                range.domain.push_timed(&attributes, || frame.start_at(self.now_in_order()));
            });
        }
        if let Some(pair) = pair {
            self.keep_pair(place, pair);
        }
        Some(frame.start())
    }
}
