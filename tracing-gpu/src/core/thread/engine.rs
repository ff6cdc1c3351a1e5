//! A profiler's engine: its session, the states of its threads, and the choice of a state and a path for each callback.
//!
//! A thread gets a state at its first span, finds it again through a thread-local, and returns it when the thread ends.
//! The paths, and which applies where: [`choice`](crate::parts::thread::choice).

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::Relaxed;

use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use range_model::stats::{Lean, order};

use super::hand_over::HandOver;
use super::number::number;
use super::slab::MAX_THREADS;
use super::state::ThreadState;
use crate::core::chunked::Chunked;
use crate::core::session::gate::FINISHED;
use crate::core::session::{Session, SessionOptions};
use crate::parts::thread::choice::choose;
use crate::process;

/// The largest number of ended threads' open ranges that are remembered with their thread. Of further ranges only the
/// name is remembered.
const ABANDONED: usize = 256;
/// The largest number of kept states that have open ranges of ended threads.
const ORPHANS: usize = 64;
/// The largest number of names for threads without a state.
#[cfg(feature = "injection")]
const NAMED: usize = 1024;
/// Stands for threads whose names are not remembered.
const OTHERS: &str = "other ended threads";

/// Shared by the front ends of one profiler. Lives as long as the process, because any thread may be inside a callback
/// at any time.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) session: Session,
    threads: Mutex<Threads>,
    /// The free states of ended threads.
    free: HandOver<&'static ThreadState>,
    /// The states by number.
    states: Chunked<OnceCell<&'static ThreadState>, 64>,
}

#[derive(Debug, Default)]
struct Threads {
    all: Vec<&'static ThreadState>,
    abandoned: Vec<Abandoned>,
    /// States of ended threads with open ranges, by thread.
    orphans: Vec<(u64, &'static ThreadState)>,
    /// Names given to threads before they had a state, by the operating system's numbers.
    named: Vec<(u32, String)>,
}

/// Ranges of one name left open on a thread that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Abandoned {
    pub(crate) label: u32,
    pub(crate) thread: String,
    pub(crate) count: u64,
}

thread_local! {
    /// The state of the engine that was last called on this thread, if the path `counting` applies. It needs no
    /// destructor, so that reading it is one load.
    static COUNTING: Cell<Option<&'static ThreadState>> = const { Cell::new(None) };
    /// The same for the fast paths of created and closed spans.
    static CREATING: Cell<Option<&'static ThreadState>> = const { Cell::new(None) };
    /// The state of the engine that was last called on this thread.
    static LAST: Cell<Option<&'static ThreadState>> = const { Cell::new(None) };
    /// All states of this thread. The destructor returns them when the thread ends.
    static HELD: ThreadStates = const { ThreadStates(RefCell::new(Vec::new())) };
}

struct ThreadStates(RefCell<Vec<(&'static Engine, &'static ThreadState)>>);

impl Drop for ThreadStates {
    fn drop(&mut self) {
        let states = std::mem::take(self.0.get_mut());
        if is_interrupted() {
            return std::mem::forget(states); // the list may be about to move
        }
        forget_thread();
        let process = std::process::id();
        for (engine, thread) in states {
            if engine.session.process == process {
                // Not in a forked child: a thread that does not exist there may hold the lock taken here.
                engine.release(thread);
            }
        }
    }
}

/// Whether a signal handler that ends the process has interrupted the measuring of a call on this thread, so that locks
/// may be held, and what the thread owns may be half changed.
pub(crate) fn is_interrupted() -> bool {
    #[cfg(feature = "injection")]
    let is_inside = nvtx_rs::tool::is_inside();
    #[cfg(not(feature = "injection"))]
    let is_inside = false;
    is_inside
}

/// Chooses the paths of this thread's entries and exits again, after a condition has changed.
pub(crate) fn choose_again() {
    choose_paths(LAST.get());
}

/// In a forked child: makes each callback search for its state, and so find that it must do nothing.
pub(crate) extern "C" fn forget_thread() {
    choose_paths(None);
    CREATING.set(None);
    LAST.set(None);
}

fn choose_paths(thread: Option<&'static ThreadState>) {
    COUNTING.set(choose(thread));
}

/// The state of the engine that was last called on this thread.
pub(crate) fn last() -> Option<&'static ThreadState> {
    LAST.get()
}

impl Engine {
    pub(crate) fn new(options: SessionOptions) -> Self {
        Self {
            session: Session::new(options),
            threads: Mutex::default(),
            free: HandOver::default(),
            states: Chunked::new(),
        }
    }

    /// The engine of a layer or subscriber that measures nothing.
    pub(crate) fn inert() -> &'static Self {
        static INERT: OnceCell<Engine> = OnceCell::new();
        INERT.get_or_init(|| Self {
            session: Session::new_inert(),
            threads: Mutex::default(),
            free: HandOver::default(),
            states: Chunked::new(),
        })
    }

    /// The state of this thread, if the path `counting` applies.
    #[inline(always)]
    pub(crate) fn counting(&self) -> Option<&'static ThreadState> {
        COUNTING.get().filter(|thread| self.is_open(thread))
    }

    /// The state of this thread, if the fast paths of created and closed spans apply.
    #[inline(always)]
    pub(crate) fn creating(&self) -> Option<&'static ThreadState> {
        CREATING.get().filter(|thread| self.is_open(thread))
    }

    /// A state of this thread, if it is ready to be written for this engine.
    #[inline(always)]
    pub(crate) fn open(&self, thread: Option<&'static ThreadState>) -> Option<&'static ThreadState> {
        thread.filter(|thread| self.is_open(thread))
    }

    /// The state of this thread, ready to be written; `None` if this callback must do nothing.
    pub(crate) fn thread(&'static self) -> Option<&'static ThreadState> {
        LAST.get().filter(|thread| self.is_open(thread)).or_else(|| self.find_thread())
    }

    #[inline(always)]
    fn is_open(&self, thread: &ThreadState) -> bool {
        thread.gate.is(self.session.gate.number())
    }

    /// The state of this thread for a CUDA call on it, even while callbacks do nothing.
    #[cfg(feature = "cuda")]
    #[inline]
    pub(crate) fn calling_thread(&'static self) -> Option<&'static ThreadState> {
        LAST.get().filter(|thread| self.owns(thread)).or_else(|| self.find_thread())
    }

    #[inline(always)]
    fn owns(&self, thread: &ThreadState) -> bool {
        std::ptr::eq(thread.session, &self.session)
    }

    #[inline(never)]
    fn find_thread(&'static self) -> Option<&'static ThreadState> {
        let gate = self.session.gate.number_in_order(); // the window read below belongs to this gate
        if gate == FINISHED || self.session.is_of_parent() {
            return None;
        }
        let Ok(found) = HELD.try_with(|held| self.held_thread(held)) else {
            return None; // this thread is being torn down
        };
        let thread = found?;
        if thread.gate.is_closed() {
            return None;
        }
        thread.catch_up();
        thread.gate.open(gate);
        choose_paths(Some(thread));
        CREATING.set(Some(thread).filter(|thread| thread.creates_plainly()));
        LAST.set(Some(thread));
        Some(thread)
    }

    /// Counts a measured span or range without a state, because its thread is being torn down.
    pub(crate) fn count_unfollowed(&self, is_measured: impl FnOnce() -> bool) {
        if self.session.is_running() && HELD.try_with(|_| ()).is_err() && is_measured() {
            self.session.drop_span();
        }
    }

    fn held_thread(&'static self, held: &ThreadStates) -> Option<&'static ThreadState> {
        let mut held = held.0.try_borrow_mut().ok()?; // already borrowed if a callback comes from within these lines
        if let Some((_, thread)) = held.iter().find(|(_, thread)| self.owns(thread)) {
            return Some(thread);
        }
        let thread = process::undisturbed(|| self.begin_thread())?;
        held.push((self, thread));
        Some(thread)
    }

    /// Gives the calling thread a state.
    fn begin_thread(&'static self) -> Option<&'static ThreadState> {
        let thread = self.acquire()?;
        number();
        let id = process::thread_id();
        *thread.name.lock() = self.given_name(id).unwrap_or_else(|| thread_name(thread.index));
        thread.begin_parts(id);
        if self.session.nvtx && nvtx_rs::is_tool_attached() {
            nvtx_rs::naming::name_current_thread(&thread.name.lock());
        }
        thread.gate.begin();
        Some(thread)
    }

    /// Names a thread for other code, by the operating system's number. The caller's thread must have a state.
    #[cfg(feature = "injection")]
    pub(crate) fn name_thread(&'static self, id: u32, name: &str) {
        let mut threads = self.threads.lock();
        let is_its =
            |thread: &&&ThreadState| thread.thread_id() == id && !self.free.holds(|free| free.index == thread.index);
        let found = threads.all.iter().find(is_its).copied();
        match found {
            Some(thread) => {
                drop(threads);
                let is_new = *thread.name.lock() != name;
                if is_new {
                    name.clone_into(&mut thread.name.lock());
                }
                thread.rename_in_parts(id, name, is_new);
            }
            None => {
                threads.named.retain(|(named, _)| *named != id);
                if threads.named.len() < NAMED {
                    threads.named.push((id, name.to_owned()));
                }
            }
        }
    }

    /// The name given to a thread before it had a state.
    fn given_name(&self, id: u32) -> Option<String> {
        let mut threads = self.threads.lock();
        let given = threads.named.iter().position(|(named, _)| *named == id)?;
        Some(threads.named.swap_remove(given).1)
    }

    fn acquire(&'static self) -> Option<&'static ThreadState> {
        if let Some(thread) = self.free.take() {
            return Some(thread);
        }
        let mut threads = self.threads.lock();
        let index = threads.all.len();
        if index >= MAX_THREADS {
            drop(threads);
            self.session.drop_span();
            return None;
        }
        let Some(thread) = ThreadState::new(&self.session, index as u32, choose_again) else {
            drop(threads);
            self.session.drop_span();
            return None;
        };
        if let Some(slot) = self.states.get_or_grow(index) {
            let _ = slot.set(thread);
        }
        threads.all.push(thread);
        Some(thread)
    }

    /// Takes a state back from a thread that has ended. A state with open ranges is kept for a while: `process::exit`
    /// runs the destructors of thread-locals first and then the exit hook, on the same thread, and the hook ends those
    /// ranges.
    fn release(&self, thread: &'static ThreadState) {
        thread.gate.close();
        self.session.parts.leave_thread(thread.index);
        if !thread.is_up_to_date() {
            thread.catch_up();
        }
        if !thread.stack.is_empty() {
            let mut threads = self.threads.lock();
            if threads.orphans.len() < ORPHANS {
                threads.orphans.push((number(), thread));
                return;
            }
        }
        self.free.offer(thread, |thread| {
            let places = thread.abandon();
            let name = std::mem::take(&mut *thread.name.lock());
            let labels = places.into_iter().filter_map(|place| Some(thread.identity(place)?.key.label)).in_vec();
            self.threads.lock().count_abandoned(labels, &name);
        });
    }

    /// The state with this number. On any thread, without a lock.
    #[inline(always)]
    pub(crate) fn thread_at(&self, index: u32) -> Option<&'static ThreadState> {
        self.states.get(index as usize)?.get().copied()
    }

    /// The states of all threads so far, including ended ones. On any thread, without a lock.
    pub(crate) fn states(&self) -> impl Iterator<Item = &'static ThreadState> {
        (0..).map_while(|index| self.thread_at(index))
    }

    /// The states of all threads, those of ended threads first.
    pub(crate) fn all_threads(&self) -> Vec<&'static ThreadState> {
        let threads = self.threads.lock();
        let mut all = threads.all.clone();
        order::by_key(&mut all, |thread| !threads.orphans.iter().any(|(_, orphan)| orphan.index == thread.index));
        all
    }

    pub(crate) fn abandoned(&self) -> Vec<Abandoned> {
        self.threads.lock().abandoned.clone()
    }

    /// Counts an exit on a thread without such an open range, and notifies the threads that have it open.
    #[inline(never)]
    pub(crate) fn stray_exit(&self, span: u64, from: &ThreadState) {
        self.session.losses.stray_exits.fetch_add(1, Relaxed);
        for thread in self.all_threads() {
            if thread.index != from.index && thread.stack.holds(span) {
                thread.tell(span);
            }
        }
    }

    /// The front end was dropped, and nobody else calls: ends the ranges that it has left open. Those of this thread
    /// end now; other threads end theirs at their next callback, counted up to now.
    pub(crate) fn leave(&'static self) {
        if !self.session.is_running() {
            return; // finished, inert, or in a forked child
        }
        self.session.leave();
        let _caught_up = self.own_thread();
        self.session.front_end.give_back();
    }

    /// Begins a new window, and discards earlier counts.
    pub(crate) fn restart(&self) {
        // Checked before taking the lock: in a forked child nobody may release it.
        if self.session.is_running() {
            self.session.restart(|| self.forget_ended_threads());
        }
    }

    /// Forgets the open ranges of ended threads.
    fn forget_ended_threads(&self) {
        let orphans = {
            let mut threads = self.threads.lock();
            threads.abandoned.clear();
            std::mem::take(&mut threads.orphans)
        };
        for (_, thread) in orphans {
            // Not under the lock: a part may call a driver, which may then call back and search for a state.
            self.free.offer(thread, |thread| thread.abandon());
        }
    }

    /// The state of this thread after the gate was closed, in the current window.
    pub(crate) fn own_thread(&self) -> Option<&'static ThreadState> {
        let held = HELD.try_with(|held| {
            let held = held.0.try_borrow().ok()?;
            held.iter().map(|(_, thread)| *thread).find(|thread| self.owns(thread))
        });
        let orphan = || {
            let mut threads = self.threads.lock();
            let of_this_thread = threads.orphans.iter().position(|(thread, _)| *thread == number())?;
            Some(threads.orphans.swap_remove(of_this_thread).1)
        };
        let thread = held.ok().flatten().or_else(orphan)?;
        thread.catch_up();
        Some(thread)
    }
}

impl Threads {
    /// Counts the ranges that an ended thread left open.
    fn count_abandoned(&mut self, labels: Vec<u32>, thread: &str) {
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
