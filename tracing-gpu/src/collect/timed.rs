//! Ranges that are timed on a stream, and those beside them: entries and exits on threads where streams are in play.
//!
//! As in `near`, whatever is special goes to the general path; a pair of events is what most of the time goes to.

use super::near::NearExit;
use super::shard::Shard;
use super::values::SpanValues;
use crate::record::{Place, StreamId};
use crate::stream;

impl Shard {
    /// Opens a range, timed on `stream` if that is not 0. Its place is of this thread.
    #[inline(never)]
    pub(crate) fn enter(&self, span: u64, place: Place, values: Option<&SpanValues>, stream: StreamId) {
        // Outside of what the CPU's clock and the tool see: a pair of events costs more than all the rest.
        let mark = if stream == 0 { None } else { stream::begin(&self.core.streams, stream) };
        self.enter_begun(span, place, values, mark);
    }

    /// [`enter`](Self::enter) of a span without values of its own where [`timed_shard`](super::core::Core::timed_shard) gave this.
    #[inline(never)]
    pub(crate) fn enter_timed(&self, span: u64, place: Place, stream: StreamId) {
        let mark = if stream == 0 { None } else { stream::begin(&self.core.streams, stream) };
        if !self.enter_near(span, place) {
            return self.enter_begun(span, place, None, mark);
        }
        if let Some(mark) = mark {
            self.keep_mark(place, mark);
        }
    }

    /// [`exit`](Self::exit) where [`timed_shard`](super::core::Core::timed_shard) gave this and nothing else is in the way; else false, and
    /// nothing has happened.
    #[inline(never)]
    pub(crate) fn exit_timed(&self, span: u64) -> bool {
        match self.exit_near(span) {
            NearExit::Done => {}
            NearExit::Uncounted(ended) => self.add_uncounted(ended.place, ended.duration, ended.nested),
            NearExit::Noted if self.exit_noted(span) => {}
            NearExit::Noted | NearExit::Not => return false,
        }
        self.end_mark();
        true
    }
}
