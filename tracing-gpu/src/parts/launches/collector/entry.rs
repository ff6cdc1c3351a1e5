//! CUPTI's callbacks: a thread notes its own CUDA calls, and buffers of records are kept for the collector.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use gpu_activity::cupti::{self, Filled, Sink};
use gpu_activity::graph::GraphChange;
use gpu_activity::source::Lost;
use gpu_activity::{forks, own_calls as own};
use once_cell::sync::OnceCell;

use super::strays::Strays;
use crate::core::session::catalog::ROOT;
use crate::core::thread::engine::Engine;
use crate::parts::launches::thread::waiting::waiting_node;
use crate::process;

/// The data that each call needs, in one cache line. Nothing happens before the session is known.
#[repr(align(64))]
pub(crate) struct Entry {
    engine: &'static Engine,
    /// Whether calls are noted. The first call sets this and registers the exit hook once more, so that it runs before
    /// CUDA's. A forked child clears it.
    hooked: AtomicBool,
    /// What a collector has opened: its notes of calls on threads without a state, and the session.
    collecting: OnceCell<(&'static Strays, &'static cupti::Session)>,
}

impl Entry {
    pub(crate) fn new(engine: &'static Engine) -> Self {
        Self { engine, hooked: AtomicBool::new(false), collecting: OnceCell::new() }
    }

    /// Starts noting calls.
    pub(crate) fn open(&self, strays: &'static Strays, session: &'static cupti::Session) {
        let _first = self.collecting.set((strays, session));
    }

    /// Whether this process notes calls.
    #[cold]
    #[inline(never)]
    fn hook(&self) -> bool {
        let is_there = self.collecting.get().is_some() && !forks::is_child();
        if is_there && !self.hooked.swap(true, Relaxed) {
            process::at_exit_again();
        }
        is_there
    }
}

impl Sink for Entry {
    /// Runs on the thread that makes a driver call.
    #[inline(always)]
    fn entered(&self, function: u32, correlation: u32, enqueues: bool) {
        // Reads first, because a write would take the cache line from all other launching threads.
        if !self.hooked.load(Relaxed) && !self.hook() {
            return;
        }
        let graph = cupti::is_graph_launch(function);
        match self.engine.calling_thread() {
            Some(thread) if own::is_own() => thread.note_own(correlation),
            Some(thread) => thread.note_call(correlation, graph, enqueues, |thread| waiting_node(thread, self.engine)),
            None => {
                if let Some((strays, _)) = self.collecting.get().filter(|_| !forks::is_child()) {
                    strays.note(&self.engine.session.parts.note_room, correlation, graph, enqueues);
                }
            }
        }
    }

    /// Makes calls go to [`hook`](Self::hook) again, which recognises the child. Takes no lock, because a thread that
    /// does not exist here may hold it.
    fn forked(&self) {
        self.hooked.store(false, Relaxed);
    }

    fn filled(&self, buffer: Filled) {
        if let Some((_, session)) = self.collecting.get() {
            session.keep(buffer);
        }
    }

    fn span(&self) -> u32 {
        if self.collecting.get().is_none() || forks::is_child() {
            return ROOT;
        }
        self.engine.calling_thread().map_or(ROOT, |thread| thread.innermost_node())
    }

    fn changed(&self, change: GraphChange) {
        if let Some((_, session)) = self.collecting.get() {
            session.keep_change(change);
        }
    }

    fn lost(&self, records: Lost) {
        if let Some((_, session)) = self.collecting.get() {
            session.lose(records);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::session::SessionOptions;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn all_that_a_call_needs_is_in_one_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
    }

    /// A thread's first call takes a lock to find its state.
    #[test]
    fn a_forked_child_notes_nothing() {
        let entry = Entry::new(Box::leak(Box::new(Engine::new(SessionOptions {
            active: true,
            statistics: true,
            ..SessionOptions::default()
        }))));
        let threads = || entry.engine.all_threads().len();
        entry.entered(307, 1, true);
        assert_eq!(threads(), 0, "nobody collects yet");
        entry.hooked.store(true, Relaxed); // the state after a first call
        entry.forked();
        entry.entered(307, 1, true);
        assert_eq!(threads(), 0);
        entry.hooked.store(true, Relaxed);
        entry.entered(307, 1, true);
        assert_eq!(threads(), 1, "else they are noted");
    }
}
