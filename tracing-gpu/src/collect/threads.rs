//! Which shard a thread writes: handed out at its first span, found again by a thread-local, given back when the thread ends.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use super::core::{ABANDONED, Abandoned, CLOSED, Core, FINISHED, Threads};
use super::shard::Shard;
use super::slab::MAX_SHARDS;
use super::tape::Record;
use crate::process;
use crate::stream;

/// Gate of a shard that has not been used yet.
const OPENING: u64 = u64::MAX - 2;
/// Shards with open ranges of ended threads that are kept.
const ORPHANS: usize = 64;
/// Threads whose names are not remembered.
const OTHERS: &str = "other ended threads";

thread_local! {
    /// The shard of the profiler that was last called on this thread, if the fast paths of entries and exits apply to it: they measure, and
    /// know one clock. Needs no destructor, so that reading it is one load.
    static NEAR: Cell<Option<&'static Shard>> = const { Cell::new(None) };
    /// The same for the fast paths of new and closed spans, which read no clock and no stream: they apply where no span has named one.
    static NEAR_NEW: Cell<Option<&'static Shard>> = const { Cell::new(None) };
    /// As `NEAR`, where a timeline is written, or where nothing is measured: then `NEAR` is none, so that the fast paths need not know of it.
    static APART: Cell<Option<&'static Shard>> = const { Cell::new(None) };
    /// As `NEAR`, where streams are in play and nothing else is: then `NEAR` and `APART` are none.
    static TIMED: Cell<Option<&'static Shard>> = const { Cell::new(None) };
    /// The shard of the profiler that was last called on this thread.
    static LAST: Cell<Option<&'static Shard>> = const { Cell::new(None) };
    /// A number for this thread, which outlives the destructors of its thread-locals; 0 before it has a shard.
    static THREAD: Cell<u64> = const { Cell::new(0) };
    /// All shards of this thread; gives them back when it ends.
    static HELD: Held = const { Held(RefCell::new(Vec::new())) };
}

struct Held(RefCell<Vec<&'static Shard>>);

impl Drop for Held {
    fn drop(&mut self) {
        set_near(None);
        NEAR_NEW.set(None);
        LAST.set(None);
        let process = std::process::id();
        for shard in self.0.take().into_iter().filter(|shard| shard.core.process == process) {
            shard.release(); // not in a forked child, where a thread that is not there may hold the lock that this takes
        }
    }
}

/// Has the fast paths of entries and exits switched on or off again on this thread, after something they depend on has changed.
pub(crate) fn look_again() {
    set_near(LAST.get());
}

fn set_near(shard: Option<&'static Shard>) {
    let plain = shard.filter(|shard| shard.core.is_plain());
    let timed = plain.filter(|shard| shard.core.has_streams_on(shard));
    let is_near = |shard: &&Shard| shard.statistics && !shard.is_taped;
    TIMED.set(timed.filter(is_near));
    let plain = plain.filter(|_| timed.is_none());
    NEAR.set(plain.filter(is_near));
    APART.set(plain.filter(|_| NEAR.get().is_none()));
}

/// A number for the calling thread, also while it is being torn down.
pub(crate) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if THREAD.get() == 0 {
        THREAD.set(NEXT.fetch_add(1, Relaxed));
    }
    THREAD.get()
}

impl Threads {
    /// Notes what a thread that has ended left open.
    fn note_abandoned(&mut self, labels: Vec<u32>, thread: &str) {
        for label in labels {
            let is_same = |range: &&mut Abandoned| range.label == label && [thread, OTHERS].contains(&&*range.thread);
            if let Some(range) = self.abandoned.iter_mut().find(is_same) {
                range.count += 1;
                continue;
            }
            let thread = if self.abandoned.len() < ABANDONED { thread } else { OTHERS };
            self.abandoned.push(Abandoned { label, thread: thread.to_owned(), count: 1 });
        }
    }
}

impl Core {
    /// The shard of this thread if it was the last one used on it and nothing has changed since: for entries and exits.
    #[inline(always)]
    pub(crate) fn near_shard(&self) -> Option<&'static Shard> {
        NEAR.get().filter(|shard| self.is_open(shard))
    }

    /// [`near_shard`](Self::near_shard) for new and closed spans.
    #[inline(always)]
    pub(crate) fn near_shard_of_new(&self) -> Option<&'static Shard> {
        NEAR_NEW.get().filter(|shard| self.is_open(shard))
    }

    /// As [`near_shard`](Self::near_shard), where a timeline is written or nothing is measured.
    #[inline(always)]
    pub(crate) fn shard_apart(&self) -> Option<&'static Shard> {
        APART.get().filter(|shard| self.is_open(shard))
    }

    /// As [`near_shard`](Self::near_shard), where a range may be timed on a stream.
    #[inline(always)]
    pub(crate) fn timed_shard(&self) -> Option<&'static Shard> {
        TIMED.get().filter(|shard| self.is_open(shard))
    }

    /// The shard of this thread, ready to be written; `None` when this callback is to do nothing.
    pub(crate) fn shard(&'static self) -> Option<&'static Shard> {
        LAST.get().filter(|shard| self.is_open(shard)).or_else(|| self.find_shard())
    }

    #[inline(always)]
    fn is_open(&self, shard: &Shard) -> bool {
        shard.gate.load(Relaxed) == self.gate.load(Relaxed)
    }

    /// The shard of this thread for a call into CUDA that is made on it, also while callbacks do nothing.
    #[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
    #[inline]
    pub(crate) fn calling_shard(&'static self) -> Option<&'static Shard> {
        LAST.get().filter(|shard| std::ptr::eq(shard.core, self)).or_else(|| self.find_shard())
    }

    #[inline(never)]
    fn find_shard(&'static self) -> Option<&'static Shard> {
        let gate = self.gate.load(Acquire); // pairs with `restart`: the window read below is this gate's
        if gate == FINISHED {
            return None;
        }
        let Ok(found) = HELD.try_with(|held| self.held_shard(held)) else {
            return None; // this thread is being torn down
        };
        let shard = found?;
        if shard.gate.load(Relaxed) == CLOSED {
            return None;
        }
        let window = self.window();
        if shard.window.load(Relaxed) != window {
            shard.restart(window);
        }
        shard.gate.store(gate, Relaxed);
        set_near(Some(shard));
        NEAR_NEW.set(Some(shard).filter(|_| !self.gpu || !self.has_streams()));
        LAST.set(Some(shard));
        Some(shard)
    }

    /// Whether fast paths of entries and exits apply, one or another: durations are measured with the one clock they know, or not at all.
    fn is_plain(&self) -> bool {
        if self.statistics { self.clock.is_tsc() } else { self.tape_room.is_none() }
    }

    /// Whether streams are in play on this thread.
    fn has_streams_on(&self, shard: &Shard) -> bool {
        self.gpu && (stream::current() != 0 || self.has_streams() || shard.has_marks())
    }

    /// Counts a new span that no shard was found for because its thread is being torn down.
    pub(crate) fn count_unfollowed(&self) {
        if self.is_running() && HELD.try_with(|_| ()).is_err() {
            self.drop_span();
        }
    }

    fn held_shard(&'static self, held: &Held) -> Option<&'static Shard> {
        let mut held = held.0.try_borrow_mut().ok()?; // borrowed: this callback comes from inside the lines below
        if let Some(shard) = held.iter().find(|shard| shard.profiler == self.id) {
            return Some(shard);
        }
        let shard = self.acquire_shard()?;
        number();
        *shard.thread.lock() = thread_name(shard.index);
        shard.set_thread(process::thread_id());
        shard.record(|| Record::Thread { name: shard.thread.lock().as_str().into() });
        if self.nvtx && nvtx_rs::is_tool_attached() {
            nvtx_rs::naming::name_current_thread(&shard.thread.lock());
        }
        shard.gate.store(OPENING, Relaxed);
        held.push(shard);
        Some(shard)
    }

    fn acquire_shard(&'static self) -> Option<&'static Shard> {
        let mut threads = self.threads.lock();
        if let Some(shard) = threads.free.pop() {
            return Some(shard);
        }
        let index = threads.all.len();
        if index >= MAX_SHARDS {
            drop(threads);
            self.drop_span();
            return None;
        }
        let shard: &'static Shard = Box::leak(Box::new(Shard::new(self, index as u32)));
        if let Some(slot) = self.shards.get_or_grow(index) {
            let _ = slot.set(shard);
        }
        threads.all.push(shard);
        Some(shard)
    }

    /// Takes a shard back from a thread that has ended. One with open ranges is kept as it is for a while: `process::exit` runs the
    /// destructors of thread-locals first and the exit hook after them, on the same thread, and the hook ends those ranges.
    pub(crate) fn release(&'static self, shard: &'static Shard) {
        shard.gate.store(CLOSED, Relaxed);
        if !shard.stack.is_empty() {
            let mut threads = self.threads.lock();
            if threads.orphans.len() < ORPHANS {
                threads.orphans.push((THREAD.get(), shard));
                return;
            }
        }
        let places = shard.abandon();
        let thread = std::mem::take(&mut *shard.thread.lock());
        let labels: Vec<u32> = places.into_iter().filter_map(|place| Some(shard.identity(place)?.key.label)).collect();
        let mut threads = self.threads.lock();
        threads.note_abandoned(labels, &thread);
        threads.free.push(shard);
    }

    /// Forgets what ended threads have left open.
    pub(super) fn forget_ended_threads(&self) {
        let orphans = {
            let mut threads = self.threads.lock();
            threads.abandoned.clear();
            std::mem::take(&mut threads.orphans)
        };
        for (_, shard) in orphans {
            shard.abandon(); // not under the lock: it may let a stream go, and what the driver calls then may look for a shard
            self.threads.lock().free.push(shard);
        }
    }

    /// The shard of this thread after the gate was closed, in the current window.
    pub(crate) fn own_shard(&self) -> Option<&'static Shard> {
        let held =
            HELD.try_with(|held| held.0.try_borrow().ok()?.iter().find(|shard| shard.profiler == self.id).copied());
        let orphan = || {
            let mut threads = self.threads.lock();
            let of_this_thread = threads.orphans.iter().position(|(thread, _)| *thread == THREAD.get())?;
            Some(threads.orphans.swap_remove(of_this_thread).1)
        };
        let shard = held.ok().flatten().or_else(orphan)?;
        if shard.window.load(Relaxed) != self.window() {
            shard.restart(self.window());
        }
        Some(shard)
    }
}

/// The name of this thread: Rust's, else the operating system's, else its number.
fn thread_name(index: u32) -> String {
    if let Some(name) = std::thread::current().name() {
        return name.to_owned();
    }
    match std::fs::read_to_string("/proc/thread-self/comm") {
        Ok(name) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => format!("thread {index}"),
    }
}
