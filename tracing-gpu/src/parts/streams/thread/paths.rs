//! Ranges that are timed on a stream.

use crate::clock::read_counter;
use crate::core::record::{Place, RangeKey};
use crate::core::thread::state::{CountingExit, ThreadState};
use crate::parts::streams::StreamId;
use crate::parts::streams::device as stream;
use crate::parts::streams::device::StartedPair;

impl ThreadState {
    /// Path `on_stream`: opens a range of a span without values of its own, timed on `stream` if that is not 0.
    #[inline(never)]
    pub(crate) fn enter_on_stream(&self, span: u64, place: Place, stream: StreamId) {
        let pair = if stream == 0 { None } else { stream::begin(&self.session.parts.streams, stream) };
        // Without a reading of the processor time, which would count as time on the stream.
        let is_open =
            self.lacks_tool() && self.stack.is_under_top(place) && self.stack.push_near(span, place, read_counter());
        if !is_open {
            self.enter_begun(span, self.place_of_entry(place, 0), None, pair);
            return;
        }
        if let Some(pair) = pair {
            self.keep_pair(place, pair);
        }
    }

    /// Keeps the start of the innermost range.
    #[inline(always)]
    pub(crate) fn keep_pair(&self, place: Place, pair: StartedPair) {
        let below = self.stack.depth().wrapping_sub(1);
        self.parts.pairs.keep(below, place, self.window.start(), pair, || self.key(place));
    }

    #[inline(never)]
    pub(crate) fn key(&self, place: Place) -> Option<RangeKey> {
        self.identity(place).map(|identity| identity.key)
    }

    /// Path `on_stream`. Returns false, and changes nothing, if it does not apply.
    #[inline(never)]
    pub(crate) fn exit_on_stream(&self, span: u64) -> bool {
        match self.exit_counting(span) {
            CountingExit::Done => {}
            CountingExit::Uncounted(ended) => {
                self.add_uncounted(ended.place, ended.entered, ended.duration, ended.nested)
            }
            CountingExit::Noted if self.exit_noted(span) => {}
            CountingExit::Noted | CountingExit::Not => return false,
        }
        self.end_pair();
        true
    }

    /// Records the end of the range that has just left the top of the stack, if it is timed.
    #[inline(always)]
    pub(crate) fn end_pair(&self) {
        if self.parts.pairs.end_top(self.stack.depth(), &self.session.parts.streams) {
            self.left_pair();
        }
    }

    #[inline(always)]
    pub(crate) fn left_pair(&self) {
        if !self.parts.pairs.any() && stream::current() == 0 {
            (self.choose_paths)(); // the stream was left before the range
        }
    }

    /// Remembers the stream that a parent of the span with this registry id names (0 for none). Called for each new
    /// span once any span names a stream.
    pub(crate) fn inherit(&self, id: u64, stream: StreamId) {
        self.remembered.inherit(id, stream);
    }

    /// The stream that a parent of a remembered span names.
    pub(crate) fn inherited(&self, id: u64) -> StreamId {
        self.remembered.inherited(id)
    }
}
