//! Calls into CUDA, and the lifetimes around them.

#[cfg(feature = "cuda")]
use gpu_activity::record::Note;

use super::ThreadState;
use crate::clock::Ticks;
use crate::record::InstanceId;
use crate::thread::launch_log::Around;
use crate::thread::lifetimes::OpenLifetimes;
#[cfg(feature = "cuda")]
use crate::thread::notes::{Dropped, Taken};

/// Calls into CUDA.
#[cfg(feature = "cuda")]
impl ThreadState {
    /// Notes a call that is about to be made on this thread.
    #[inline]
    pub(crate) fn note_call(&self, correlation: u32, graph: bool, enqueues: bool) {
        // Nothing is called on this way, so that nothing is saved for it.
        let rows = |row| self.rows.near(row);
        if self.is_taped || self.launches.note_near(&self.stack, rows, correlation, graph, enqueues).is_none() {
            self.note_call_far(correlation, graph, enqueues);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_call_far(&self, correlation: u32, graph: bool, enqueues: bool) {
        let rows = |row| self.rows.get_inline(row);
        if self.is_taped || self.launches.note_near(&self.stack, rows, correlation, graph, enqueues).is_none() {
            self.note_any_call(correlation, graph, enqueues);
        }
    }

    #[cold]
    #[inline(never)]
    pub(in crate::thread) fn note_any_call(&self, correlation: u32, graph: bool, enqueues: bool) {
        let at = if self.is_taped { self.session.clock.now() } else { 0 };
        let call = self.numbers.as_ref().map_or(0, |numbers| numbers.innermost(self.stack.depth()));
        self.launches.note(&self.around(), correlation, graph, enqueues, (at, call));
    }

    /// Notes a call of our own.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_own(&self, correlation: u32) {
        self.note(&Note::Own { correlation });
    }

    pub(in crate::thread) fn note(&self, note: &Note) -> bool {
        self.launches.notes.push(note, &self.session.note_room)
    }

    /// Hands over what was noted since the last time. Any thread. Returns which notes were dropped since then.
    pub(crate) fn take_notes(&self, into: &mut Taken) -> Dropped {
        self.launches.notes.take(into, &self.session.note_room)
    }

    /// That was read.
    pub(crate) fn give_back(&self, taken: &mut Taken) {
        self.launches.notes.keep(taken.clear(&self.session.note_room));
    }
}

/// Lifetimes, which are around calls into CUDA.
impl ThreadState {
    /// A lifetime begins on this thread: its number, by which it ends.
    pub(crate) fn begin_lifetime(&self, label: u32, start: Ticks) -> InstanceId {
        self.launches.begin_lifetime(label, start, self.session, || self.name.lock().clone())
    }

    /// A lifetime that began on this thread has ended, at `end` if that is measured. Any thread.
    pub(crate) fn end_lifetime(&self, instance: InstanceId, end: Option<Ticks>) {
        self.launches.end_lifetime(instance, end, self.session);
    }

    /// Lifetimes that began here and have not ended. Any thread.
    pub(crate) fn open_lifetimes(&self) -> Vec<OpenLifetimes> {
        self.launches.open_lifetimes()
    }

    pub(super) fn around(&self) -> Around<'_> {
        Around::new(&self.stack, &self.rows, self.session)
    }
}
