//! The state of one thread, made of parts. Submodules contain the paths from a callback to a row through these parts.
//!
//! A path named after a condition either handles the whole callback, or changes nothing and reports that; then the next
//! path is tried. [`engine`](super::engine) lists which path applies when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

#[cfg(any(feature = "injection", feature = "cuda"))]
use once_cell::sync::OnceCell;
use parking_lot::{Mutex, MutexGuard};
use tracing_core::Metadata;

use super::caches::{Children, Remembered};
use super::gate::{Gate, RowsWindow};
use super::known::{Known, Lookup};
use super::row::{Row, RowIdentity};
use super::rows::{CallRows, Rows};
use super::slab::Slab;
use super::stack::{Ranges, Stack};
use crate::clock::Ticks;
use crate::parts::calls::session::table::Spare;
use crate::parts::calls::thread::call_row::CallRow;
use crate::parts::cpu_time::thread::{CpuTime, Credits};
#[cfg(feature = "cuda")]
use crate::parts::launches::thread::helper::Helper;
use crate::parts::launches::thread::launch_log::LaunchLog;
#[cfg(feature = "injection")]
use crate::parts::openacc::thread::OpenAccLog;
use crate::parts::streams::thread::open_pairs::OpenPairs;
use crate::parts::timeline::thread::numbers::Numbers;
use crate::parts::timeline::thread::tape::{Record, Tape};
use crate::parts::values::span::values::SpanValues;
use crate::parts::waits::thread::thread_waits::ThreadWaits;
use crate::record::{CallId, Ended, OnCpu, Place, RangeKey};
use crate::session::{NvtxRange, Session};
use crate::span::site::Site;
use crate::thresholds::Thresholds;

mod entries;
mod exits;
#[cfg(all(target_os = "linux", feature = "command"))]
pub(crate) mod image;
mod new;
mod spans;
#[cfg(all(test, target_pointer_width = "64", feature = "cuda"))]
mod tests;

/// The largest number of exits on other threads that are kept until their thread reads them.
const TOLD: usize = 1024;

/// The state of one thread in one session. Only that thread writes it (plain loads and stores); any thread reads it for
/// a summary. When a thread ends, its state, with all statistics, goes to the next new thread.
///
/// The parts do not know each other. Code that needs several of them is a path in the submodules.
#[derive(Debug)]
// Two states never share a pair of adjacent cache lines, which processors fetch together. For the order see
// `row::WRITTEN`.
#[repr(C, align(512))]
pub(crate) struct ThreadState {
    pub(crate) gate: Gate,
    pub(crate) index: u32,
    nvtx: bool,
    pub(crate) statistics: bool,
    /// Whether a timeline is written.
    pub(crate) is_taped: bool,
    /// Whether foreign ranges are open that are not on the stack: see `foreign`.
    pub(crate) has_untracked: AtomicBool,
    pub(crate) credits: Credits,
    pub(crate) thresholds: Thresholds,
    pub(crate) session: &'static Session,
    /// When the future that is polled now was woken; 0 where it is not known, or [`BY_TASK`](crate::parts::waits::thread::woken::BY_TASK).
    pub(crate) woken: AtomicU64,
    /// Whether what ends on this thread is noted, also after a poll.
    pub(crate) has_endings: AtomicBool,
    /// Whether one more look at the last wait is to come.
    pub(crate) looks_again: AtomicBool,
    /// Its frames begin in the middle of a cache line, so that none of the first ones lies in two.
    pub(crate) stack: Stack,
    pub(crate) rows: Rows,
    pub(crate) slab: Slab,
    pub(crate) children: Children,
    pub(crate) remembered: Remembered,
    pub(crate) pairs: OpenPairs,
    pub(crate) window: RowsWindow,
    pub(crate) known: Mutex<Known>,
    /// Ranges that were exited on other threads, with the times.
    told: Mutex<Vec<(u64, Ticks)>>,
    pub(crate) launches: LaunchLog,
    pub(crate) tape: Tape,
    /// Present if a timeline is written.
    pub(crate) numbers: Option<Box<Numbers>>,
    pub(crate) spare_calls: Spare,
    pub(crate) waits: ThreadWaits,
    pub(crate) call_rows: CallRows,
    /// The name of the thread.
    pub(crate) name: Mutex<String>,
    /// Chooses the paths of this thread's entries and exits again.
    pub(crate) choose_paths: fn(),
    /// The drop time of the last front end whose drop this thread has handled.
    left: AtomicU64,
    /// Present after the first event.
    #[cfg(feature = "injection")]
    pub(crate) openacc: OnceCell<Box<OpenAccLog>>,
    /// Present after the first call outside of ranges, if others have them.
    #[cfg(feature = "cuda")]
    pub(crate) helper: OnceCell<Box<Helper>>,
    /// The last part, because many a thread does not touch it.
    pub(crate) cpu_time: CpuTime,
}

/// The result of an exit on the path `counting`.
pub(crate) enum CountingExit {
    /// The exit is complete.
    Done,
    /// The range is closed, but its instance must still be counted, which needs memory.
    Uncounted(Ended),
    /// Nothing has changed, because CUDA calls were made in the range (see [`exit_noted`](ThreadState::exit_noted)) or
    /// there is no such range.
    Noted,
    /// Nothing has changed.
    Not,
}

/// Finds the values of a span that has its own.
pub(crate) type FindValues<'a> = &'a dyn Fn(u64) -> Option<Arc<SpanValues>>;

/// Starts and ends of threads and windows.
impl ThreadState {
    /// Gives this state to a thread with this operating-system number.
    pub(super) fn set_thread(&self, thread: u32) {
        self.numbers.iter().for_each(|numbers| numbers.begin_thread());
        if self.session.parts.on_cpu {
            self.cpu_time.begin_thread();
        }
        self.waits.begin_thread();
        self.looks_again.store(false, Relaxed);
        #[cfg(feature = "cuda")]
        self.helper.get().into_iter().for_each(|helper| helper.begin_thread());
        self.launches.set_thread(thread, self.session);
    }

    /// Forgets the open untracked ranges of other code on this thread.
    fn forget_untracked(&self) {
        if self.has_untracked.swap(false, Relaxed) {
            self.known.lock().untracked.clear();
        }
    }

    /// Handles events since this thread's last callback: the drop of its front end, the start of a window.
    pub(super) fn catch_up(&self) {
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
        struct Nothing(&'static Session, u32);
        impl Ranges for Nothing {
            fn close(&mut self, _: Place, _: u64) -> Ticks {
                0
            }
            fn reopen(&mut self, _: Place, _: u64) -> Ticks {
                0
            }
            fn ended(&mut self, ended: Ended, call: CallId, _: Ticks, _: usize) {
                self.0.parts.calls.exit(self.1, call, ended.entered, OnCpu::default());
            }
            fn domain(&self, _: Place) -> u32 {
                0
            }
        }
        self.remembered.clear();
        self.left.store(self.session.front_end.left(), Relaxed);
        self.told.lock().clear();
        self.forget_untracked();
        self.session.parts.calls.settle(&self.spare_calls);
        self.pairs.abandon(|_| true);
        let places = self.stack.unwind(&mut Nothing(self.session, self.index));
        self.launches.end_gone(&self.around(), self.now());
        self.launches.leave_lifetimes();
        #[cfg(feature = "injection")]
        self.openacc.get().into_iter().for_each(|log| log.abandon());
        places
    }

    /// Begins the session's new window.
    fn restart(&self, start: Ticks) {
        for row in self.rows.iter() {
            row.clear();
        }
        for row in self.call_rows() {
            row.clear();
        }
        self.waits.restart();
        for depth in 0..self.stack.depth() {
            if let Some((_, before)) = self.stack.at(depth).filter(|&(_, before)| before < start) {
                self.record(|| Record::Restarted { depth: depth as u32, before, start });
            }
        }
        self.stack.restart(start);
        #[cfg(feature = "injection")]
        self.openacc.get().into_iter().for_each(|log| log.restart(start));
    }
}

/// Accessors for the paths and other modules.
impl ThreadState {
    /// The operating system's number of the thread that owns this state.
    pub(crate) fn thread_id(&self) -> u32 {
        self.launches.thread()
    }

    /// All rows. On any thread.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    /// All rows of calls. On any thread.
    pub(crate) fn call_rows(&self) -> impl Iterator<Item = &'static CallRow> {
        self.call_rows.iter()
    }

    #[inline]
    pub(crate) fn identity(&self, place: Place) -> Option<&RowIdentity> {
        self.rows.identity(place)
    }

    /// The cache of this thread. Foreign code that runs meanwhile finds the gate closed, and so does not lock it.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// The sources for cache misses.
    pub(crate) fn lookup(&self) -> Lookup<'_> {
        let Self { session, index: thread, gate, rows, call_rows, .. } = self;
        Lookup { session, thread: *thread, gate, rows, call_rows }
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

    fn nvtx_range(&self, place: Place) -> Option<NvtxRange> {
        self.identity(place).and_then(|identity| identity.nvtx)
    }

    /// The clock, if anything is measured or recorded.
    #[inline(always)]
    pub(crate) fn now(&self) -> Ticks {
        if self.statistics || self.is_taped { self.session.clock.now() } else { 0 }
    }

    /// [`now`](Self::now), for a moment that a tool reads, too, right afterwards.
    pub(crate) fn now_in_order(&self) -> Ticks {
        if self.statistics || self.is_taped { self.session.clock.now_in_order() } else { 0 }
    }
}
