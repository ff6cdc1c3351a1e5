//! The state of one thread. `counting` has the path from a callback to a row.
//!
//! A path named after a condition either handles the whole callback, or changes nothing and reports that; then the next
//! path is tried. [`choice`](crate::parts::thread::choice) lists which path applies when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use tracing_core::Metadata;

use super::caches::{Children, Remembered};
use super::gate::{Gate, RowsWindow};
use super::known::{Known, Lookup};
use super::row::{Row, RowIdentity};
use super::rows::Rows;
use super::slab::Slab;
use super::stack::{Ranges, Stack};
use crate::clock::Ticks;
use crate::core::record::{CallId, Ended, Place, RangeKey};
use crate::core::session::{NvtxRange, Session};
use crate::core::span::site::Site;
use crate::core::thresholds::Thresholds;
use crate::parts::thread::{OfThread, PartFlags, SpanValues};

mod counting;
mod new;
mod spans;
#[cfg(all(test, target_pointer_width = "64", feature = "cuda"))]
mod tests;

/// The largest number of exits on other threads that are kept until their thread reads them.
const TOLD: usize = 1024;

/// The state of one thread in one session. Only that thread writes it (plain loads and stores); any thread reads it for
/// a summary. When a thread ends, its state, with all statistics, goes to the next new thread.
///
/// The fields do not know each other: a path joins what it needs.
#[derive(Debug)]
// Two states never share a pair of adjacent cache lines, which processors fetch together. For the order see
// `row::WRITTEN`.
#[repr(C, align(512))]
pub(crate) struct ThreadState {
    pub(crate) gate: Gate,
    pub(crate) index: u32,
    nvtx: bool,
    pub(crate) statistics: bool,
    pub(crate) flags: PartFlags,
    pub(crate) thresholds: Thresholds,
    pub(crate) session: &'static Session,
    /// Its frames begin in the middle of a cache line, so that none of the first ones lies in two.
    pub(crate) stack: Stack,
    pub(crate) rows: Rows,
    pub(crate) slab: Slab,
    pub(crate) children: Children,
    pub(crate) remembered: Remembered,
    pub(crate) parts: OfThread,
    pub(crate) window: RowsWindow,
    pub(crate) known: Mutex<Known>,
    /// Ranges that were exited on other threads, with the times.
    pub(crate) told: Mutex<Vec<(u64, Ticks)>>,
    /// The name of the thread.
    pub(crate) name: Mutex<String>,
    /// Chooses the paths of this thread's entries and exits again.
    pub(crate) choose_paths: fn(),
    /// The drop time of the last front end whose drop this thread has handled.
    left: AtomicU64,
}

/// The result of an exit on the path `counting`.
pub(crate) enum CountingExit {
    /// The exit is complete.
    Done,
    /// The range is closed, but its instance must still be counted, which needs memory.
    Uncounted(Ended),
    /// Nothing has changed, because a part must note the end of the range, or there is no such range.
    Noted,
    /// Nothing has changed.
    Not,
}

/// Finds the values of a span that has its own.
pub(crate) type FindValues<'a> = &'a dyn Fn(u64) -> Option<Arc<SpanValues>>;

/// Starts and ends of threads and windows.
impl ThreadState {
    /// Handles events since this thread's last callback: the drop of its front end, the start of a window.
    pub(crate) fn catch_up(&self) {
        if !self.is_up_to_date() {
            let left = self.session.front_end.left();
            self.unwind_at(Some(left));
            self.remembered.clear(); // a registry that remains reuses the ids for other spans
            self.left.store(left, Relaxed);
        }
        let window = self.session.window();
        self.window.catch_up(window, || self.restart(window));
    }

    /// Whether the open ranges of this thread belong to a live front end. On any thread.
    pub(crate) fn is_up_to_date(&self) -> bool {
        self.left.load(Relaxed) == self.session.front_end.left()
    }

    /// The open ranges of a dropped front end, which ended with it. On any thread.
    pub(crate) fn left_open(&self) -> Vec<Ended> {
        if self.is_up_to_date() { Vec::new() } else { self.stack.ended_at(self.session.front_end.left()) }
    }

    /// Forgets open ranges and remembered spans, for the next thread.
    pub(crate) fn abandon(&self) -> Vec<Place> {
        struct Nothing<'a>(&'a ThreadState);
        impl Ranges for Nothing<'_> {
            fn close(&mut self, _: Place, _: u64) -> Ticks {
                0
            }
            fn reopen(&mut self, _: Place, _: u64) -> Ticks {
                0
            }
            fn ended(&mut self, ended: Ended, call: CallId, _: Ticks, _: usize) {
                self.0.abandon_range(&ended, call);
            }
            fn domain(&self, _: Place) -> u32 {
                0
            }
        }
        self.remembered.clear();
        self.left.store(self.session.front_end.left(), Relaxed);
        self.told.lock().clear();
        self.begin_abandon();
        let places = self.stack.unwind(&mut Nothing(self));
        self.end_abandon();
        places
    }

    /// Begins the session's new window.
    fn restart(&self, start: Ticks) {
        for row in self.rows.iter() {
            row.clear();
        }
        self.restart_parts(start);
        self.stack.restart(start);
    }
}

/// Accessors for the paths and other modules.
impl ThreadState {
    /// All rows. On any thread.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    #[inline]
    pub(crate) fn identity(&self, place: Place) -> Option<&RowIdentity> {
        self.rows.identity(place)
    }

    /// The cache of this thread. Other code that runs meanwhile finds the gate closed, and so does not lock it.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// The sources for cache misses.
    pub(crate) fn lookup(&self) -> Lookup<'_> {
        let Self { session, index: thread, gate, rows, parts, .. } = self;
        Lookup { session, thread: *thread, gate, rows, call_rows: &parts.call_rows }
    }

    /// The facts about a call site.
    pub(crate) fn site(&self, metadata: &'static Metadata<'static>) -> Site {
        self.known.lock().site(&self.lookup(), metadata)
    }

    /// Node of a range under a parent.
    pub(crate) fn node(&self, parent: u32, key: RangeKey) -> u32 {
        self.known.lock().node(&self.lookup(), parent, key)
    }

    /// The place of a node and key on this thread. Makes the row the first time.
    pub(crate) fn place(
        &self,
        node: u32,
        key: RangeKey,
        metadata: impl Into<Option<&'static Metadata<'static>>>,
    ) -> Place {
        self.known.lock().place(&self.lookup(), node, key, metadata.into())
    }

    /// Whether our ranges go to a tool.
    #[inline]
    pub(crate) fn has_tool(&self) -> bool {
        self.nvtx && nvtx_rs::is_tool_attached()
    }

    /// Whether our ranges certainly go to no tool. Without NVTX, nobody looks for a tool.
    #[inline(always)]
    pub(crate) fn lacks_tool(&self) -> bool {
        nvtx_rs::is_tool_absent() || !self.nvtx
    }

    pub(crate) fn nvtx_range(&self, place: Place) -> Option<NvtxRange> {
        self.identity(place).and_then(|identity| identity.nvtx)
    }

    /// The clock, if anything is measured or recorded.
    #[inline(always)]
    pub(crate) fn now(&self) -> Ticks {
        if self.statistics || self.flags.is_taped { self.session.clock.now() } else { 0 }
    }

    /// [`now`](Self::now), for a moment that a tool reads, too, right afterwards.
    pub(crate) fn now_in_order(&self) -> Ticks {
        if self.statistics || self.flags.is_taped { self.session.clock.now_in_order() } else { 0 }
    }
}
