//! What CUPTI's callbacks come to: calls are noted by the thread that makes them, records put aside for the collector.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use cuda_activity::{forks, own_calls as own};
use once_cell::sync::OnceCell;

use super::Collector;
use super::cupti::{self, Filled, Lost, Sink};
use crate::activity::Note;
use crate::collect::core::Core;
use crate::process;

/// All that a call needs, in one cache line. There is nothing to do before the session that it belongs to is known.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Entry {
    core: &'static Core,
    /// Whether calls are noted: there was one since the collector is there, and the exit hook comes before what CUDA had registered until then. Not in forked children.
    hooked: AtomicBool,
    collector: OnceCell<&'static Collector>,
}

impl Entry {
    pub(super) fn new(core: &'static Core) -> Self {
        Self { core, hooked: AtomicBool::new(false), collector: OnceCell::new() }
    }

    /// From here on there is something to do.
    pub(super) fn open(&self, collector: &'static Collector) {
        let _first = self.collector.set(collector);
    }

    /// Whether the calls of this process are noted.
    #[cold]
    #[inline(never)]
    fn hook(&self) -> bool {
        let is_there = self.collector.get().is_some() && !forks::is_child();
        if is_there && !self.hooked.swap(true, Relaxed) {
            process::at_exit_again();
        }
        is_there
    }

    /// A call on a thread that has no shard.
    #[cold]
    #[inline(never)]
    fn note_stray(&self, called: Note) {
        let Some(collector) = self.collector.get().filter(|_| !forks::is_child()) else { return };
        let note = match called {
            Note::Called { correlation, .. } if own::is_own() => Note::Own { correlation },
            note => note,
        };
        let _counted_if_not = collector.strays.lock().push(&note, &self.core.note_room);
    }
}

impl Sink for Entry {
    /// On the thread that makes a driver call.
    #[inline(always)]
    fn entered(&self, function: u32, correlation: u32, enqueues: bool) {
        // Read first: a write would be one to what all threads that launch read.
        if !self.hooked.load(Relaxed) && !self.hook() {
            return;
        }
        let graph = cupti::is_graph_launch(function);
        match self.core.calling_shard() {
            Some(shard) if own::is_own() => shard.note_own(correlation),
            Some(shard) => shard.note_call(correlation, graph, enqueues),
            None => self.note_stray(Note::Called { correlation, node: 0, instance: 0, graph, at: 0, enqueues }),
        }
    }

    /// Calls come to [`hook`](Self::hook) again, which knows: here any lock may be held by a thread that there is not, be it one to find a shard, or a lifetime's.
    fn forked(&self) {
        self.hooked.store(false, Relaxed);
    }

    fn filled(&self, buffer: Filled) {
        if let Some(collector) = self.collector.get() {
            collector.arrived.lock().buffers.push(buffer);
        }
    }

    fn lost(&self, records: Lost) {
        if let Some(collector) = self.collector.get() {
            let lost = &mut collector.arrived.lock().lost;
            lost.unreadable += records.unreadable;
            lost.over_budget += records.over_budget;
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::Targets;

    use super::*;
    use crate::collect::catalog::Limits;
    use crate::collect::core::CoreOptions;

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn all_that_a_call_needs_is_in_one_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
    }

    /// A thread's first call takes a lock to find it a shard.
    #[test]
    fn a_forked_child_notes_nothing() {
        let entry = Entry::new(Box::leak(Box::new(Core::new(CoreOptions {
            active: true,
            nvtx: false,
            statistics: true,
            gpu: false,
            domain: crate::Domain::Default,
            filter: Targets::new(),
            sample_budget: 0,
            tape_bytes: None,
            limits: Limits { nodes: 1, run_time_names: 0 },
        }))));
        let shards = || entry.core.all_shards().len();
        entry.entered(307, 1, true);
        assert_eq!(shards(), 0, "nobody collects yet");
        entry.hooked.store(true, Relaxed); // as after the first call
        entry.forked();
        entry.entered(307, 1, true);
        assert_eq!(shards(), 0);
        entry.hooked.store(true, Relaxed);
        entry.entered(307, 1, true);
        assert_eq!(shards(), 1, "else they are noted");
    }
}
