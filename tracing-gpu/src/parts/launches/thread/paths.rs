//! CUDA calls, and the lifetimes around them.

#[cfg(feature = "cuda")]
use std::sync::atomic::Ordering::Relaxed;

#[cfg(feature = "cuda")]
use gpu_activity::record::Note;

use crate::clock::{Ticks, read_counter};
use crate::core::record::{Ended, InstanceId};
#[cfg(feature = "cuda")]
use crate::core::session::catalog::ROOT;
use crate::core::thread::state::ThreadState;
#[cfg(feature = "cuda")]
use crate::parts::launches::thread::helper::{ContestedCalls, Helper, ThreadView};
#[cfg(feature = "cuda")]
use crate::parts::launches::thread::launch_log::AnyCall;
use crate::parts::launches::thread::launch_log::Around;
use crate::parts::launches::thread::lifetimes::OpenLifetimes;
#[cfg(feature = "cuda")]
use crate::parts::launches::thread::notes::{Dropped, Taken};

/// CUDA calls.
#[cfg(feature = "cuda")]
impl ThreadState {
    /// Notes a call that is about to be made on this thread. `outside` finds the node of a call outside of ranges.
    #[inline]
    pub(crate) fn note_call(&self, correlation: u32, graph: bool, enqueues: bool, outside: impl FnOnce(&Self) -> u32) {
        // This path calls no function, so that no registers are saved.
        let rows = |row| self.rows.near(row);
        if self.flags.is_taped
            || self.may_help()
            || self.parts.launches.note_near(&self.stack, rows, correlation, graph, enqueues).is_none()
        {
            self.note_call_far(correlation, graph, enqueues, outside);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_call_far(&self, correlation: u32, graph: bool, enqueues: bool, outside: impl FnOnce(&Self) -> u32) {
        let rows = |row| self.rows.get_inline(row);
        let outside = if self.may_help() { outside(self) } else { ROOT };
        if self.flags.is_taped
            || outside != ROOT
            || self.parts.launches.note_near(&self.stack, rows, correlation, graph, enqueues).is_none()
        {
            self.note_any_call(correlation, graph, enqueues, outside);
        }
    }

    /// Whether a call now would be outside of ranges, on another thread than the process's first.
    #[inline]
    pub(crate) fn may_help(&self) -> bool {
        self.stack.is_empty() && self.thread_id() != self.session.process
    }

    /// What another thread may look at.
    pub(crate) fn view(&'static self) -> ThreadView {
        ThreadView { stack: &self.stack, notes: &self.parts.launches.notes }
    }

    /// A number that changes with each range of this thread in which calls are made.
    pub(crate) fn own_ranges(&self) -> u64 {
        self.parts.launches.next_number.load(Relaxed)
    }

    /// Memory of calls outside of ranges.
    pub(crate) fn helper(&self) -> &Helper {
        self.parts.helper.get_or_init(Box::default)
    }

    /// Calls outside of ranges that could belong to either of two. On any thread.
    pub(crate) fn contested_calls(&self, window: Ticks) -> Vec<ContestedCalls> {
        self.parts.helper.get().map_or_else(Vec::new, |helper| helper.contested(window))
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn note_any_call(&self, correlation: u32, graph: bool, enqueues: bool, outside: u32) {
        let at = if self.flags.is_taped { self.session.clock.now() } else { 0 };
        let call = self.parts.numbers.as_ref().map_or(0, |numbers| numbers.innermost(self.stack.depth()));
        self.parts.launches.note(&self.around(), &AnyCall { correlation, graph, enqueues, at, call, outside });
    }

    /// The innermost open range, as a node of the tree; outside of ranges the row of this thread as a helper.
    pub(crate) fn innermost_node(&self) -> u32 {
        self.current_node()
    }

    /// Notes a call of the profiler itself.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_own(&self, correlation: u32) {
        self.note(&Note::Own { correlation });
    }

    pub(crate) fn note(&self, note: &Note) -> bool {
        self.parts.launches.notes.push(note, &self.session.parts.note_room)
    }

    /// Passes the new notes on. On any thread. Returns which notes were dropped since the last time.
    pub(crate) fn take_notes(&self, into: &mut Taken) -> Dropped {
        self.parts.launches.notes.take(into, &self.session.parts.note_room)
    }

    /// Returns the memory of notes that were read.
    pub(crate) fn give_back(&self, taken: &mut Taken) {
        self.parts.launches.notes.keep(taken.clear(&self.session.parts.note_room));
    }
}

/// Exits of ranges with CUDA calls.
impl ThreadState {
    /// Path `counting`, for a range with CUDA calls. Returns false, and changes nothing, if it does not apply. Only
    /// after [`exit_counting`](Self::exit_counting) has asked for it.
    #[inline(always)]
    pub(crate) fn exit_noted(&self, span: u64) -> bool {
        let now = read_counter();
        // This path calls no function, so that no registers are saved.
        let Some((below, top)) = self.stack.top_near(span) else { return false };
        let Some(row) = self.rows.near(top.place().row_without_call()).filter(|_| {
            now.saturating_sub(top.start()) < self.thresholds.long
                && self.parts.launches.end_near(&self.stack, below, now)
        }) else {
            return self.exit_noted_far(span, now);
        };
        let ended = self.stack.pop_top(below, top, now);
        row.add_near(ended.duration, ended.nested, self.thresholds.long) || self.count(ended)
    }

    #[cold]
    #[inline(never)]
    fn exit_noted_far(&self, span: u64, now: Ticks) -> bool {
        let Some(ended) = self.stack.pop_near(span, now) else { return false };
        let end = self.end(ended);
        self.parts.launches.end_gone(&self.around(), end);
        true
    }

    #[cold]
    #[inline(never)]
    fn count(&self, ended: Ended) -> bool {
        self.add(ended);
        true
    }
}

/// Lifetimes, which surround CUDA calls.
impl ThreadState {
    /// Begins a lifetime on this thread. Returns its number, by which it ends.
    pub(crate) fn begin_lifetime(&self, label: u32, start: Ticks) -> InstanceId {
        self.parts.launches.begin_lifetime(label, start, self.session, || self.name.lock().clone())
    }

    /// Ends a lifetime that began on this thread, at `end` if that is measured. On any thread.
    pub(crate) fn end_lifetime(&self, instance: InstanceId, end: Option<Ticks>) {
        self.parts.launches.end_lifetime(instance, end, self.session);
    }

    /// Open lifetimes that began here. On any thread.
    pub(crate) fn open_lifetimes(&self) -> Vec<OpenLifetimes> {
        self.parts.launches.open_lifetimes()
    }

    pub(crate) fn around(&self) -> Around<'_> {
        Around::new(&self.stack, &self.rows, self.session)
    }
}
