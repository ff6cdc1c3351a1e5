//! The paths of entries and exits, and the choice among them.
//!
//! A front end tries the paths of an entry or an exit in this order. The first one that applies does everything. The
//! core has `counting`; parts have the others:
//!
//! | path | applies where the session | and on the thread | what it does |
//! |---|---|---|---|
//! | `counting` | measures by the processor's counter, and writes no timeline | no stream is in play, and no second look at a wait is to come | stack and row |
//! | `on_stream` | the same | a stream is in play: inside `with_stream`, with a pair of events open, or anywhere once a span has named a stream | the same, and event pairs |
//! | `recording` | writes a timeline, and measures by the processor's counter; or measures nothing and writes none | no stream is in play | stack, row and tape; or the stack alone |
//! | `general` | in all other cases | | all of it, a tool's ranges too |
//!
//! [`choose`] chooses among the first three, when the thread first uses a session or when a condition of this table has
//! changed. They handle spans that were created on the thread, have no values of their own, and stand under the
//! innermost open range by creation, while no NVTX tool is attached and at most 64 ranges are open. `on_stream` leaves
//! spans with a call alone. In all other cases they change nothing, and `general` does the work.
//!
//! Creation and close of a span read no clock: their fast path is `Engine::creating`, where no timeline is written and
//! no span has named a stream. Where a timeline is written, it is `recording`.
//!
//! `inline(always)` here, in the paths and in `tape.rs` saves 2 to 10 % of the instructions of a span in a timeline
//! (callgrind, a release build without link-time optimisation), and at the entry of a call (`parts/calls/session.rs`)
//! 2 % of the time of a request of the benchmark `requests`. Elsewhere `inline` does as well.

use std::cell::Cell;

use crate::core::thread::state::ThreadState;
use crate::parts::streams::device as stream;

thread_local! {
    /// The state of the engine that was last called on this thread, if the path `recording` applies.
    static RECORDING: Cell<Option<&'static ThreadState>> = const { Cell::new(None) };
    /// The same for the path `on_stream`.
    static ON_STREAM: Cell<Option<&'static ThreadState>> = const { Cell::new(None) };
}

/// The state of the engine that was last called on this thread, if the path `recording` applies.
#[inline(always)]
pub(crate) fn recording() -> Option<&'static ThreadState> {
    RECORDING.get()
}

/// The same for the path `on_stream`.
#[inline(always)]
pub(crate) fn on_stream() -> Option<&'static ThreadState> {
    ON_STREAM.get()
}

/// Chooses among the first three paths. Returns the state if `counting` applies.
pub(crate) fn choose(thread: Option<&'static ThreadState>) -> Option<&'static ThreadState> {
    let knows_clock = thread.filter(|thread| thread.session.has_one_clock() && !thread.looks_again());
    let on_stream = knows_clock.filter(|thread| has_streams(thread));
    let only_counts = |thread: &&ThreadState| thread.statistics && !thread.flags.is_taped;
    ON_STREAM.set(on_stream.filter(only_counts));
    let off_stream = knows_clock.filter(|_| on_stream.is_none());
    let counting = off_stream.filter(only_counts);
    RECORDING.set(off_stream.filter(|_| counting.is_none()));
    counting
}

/// Whether streams may matter on this thread.
fn has_streams(thread: &ThreadState) -> bool {
    let session = thread.session;
    session.parts.gpu && (stream::current() != 0 || session.has_streams() || thread.parts.pairs.any())
}

impl ThreadState {
    /// Whether new spans need no more than counting, as far as the session tells.
    pub(crate) fn creates_plainly(&self) -> bool {
        !self.flags.is_taped && (!self.session.parts.gpu || !self.session.has_streams())
    }
}
