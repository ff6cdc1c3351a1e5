//! The thread that reads finished pairs, so that the program's threads only record.
//!
//! There is one while a profiler runs that times streams and a stream has been named. It is in the driver, and holds a lock, only while it is
//! counted in [`AT_WORK`]: whoever ends it waits for that, and a fork does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::collector;
use super::driver::Driver;
use super::events;
use super::own;
use super::streams;
use crate::process;
use crate::profiler::finish_all;

/// How often finished pairs are read.
const PERIOD: Duration = Duration::from_millis(20);
/// Periods without any pairs after which it sleeps until there are some: a second.
const LONGEST_IDLE: u32 = 50;
/// Waiting pairs of a stream, and multiples of them, that wake it before the period has passed.
pub(super) const WAKE_AT: usize = 1_024;
/// An end waits no longer than this until the thread is out of the driver, and a fork no longer than that.
const LONGEST_END: Duration = Duration::from_secs(1);
const LONGEST_FORK: Duration = Duration::from_millis(100);
/// For a lock that nobody holds for long, but in a child of a fork perhaps for ever.
const LONGEST_LOCK: Duration = Duration::from_secs(1);

static STATE: Mutex<State> = Mutex::new(State { profilers: 0, running: None, is_hooked: false });

/// Readers that are at work. Together with `PAUSES` and [`Running::stop`] it is a flag and its answer, so all are `SeqCst`: either the reader sees
/// that it is to stop, or whoever stops it sees that it is at work.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);
/// Forks that are under way.
static PAUSES: AtomicUsize = AtomicUsize::new(0);
/// Whether the reader sleeps until it is woken. `Relaxed`: ordered by the locks of the queues, each of which it takes after it has said so.
static ASLEEP: AtomicBool = AtomicBool::new(false);

struct State {
    /// Profilers that run and time streams.
    profilers: usize,
    running: Option<Running>,
    /// Whether it is seen to that the thread is still at the end of the process and in a fork.
    is_hooked: bool,
}

struct Running {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    /// After a fork the child has no such thread.
    process: u32,
}

/// A profiler that times streams begins.
pub(crate) fn profiler_started() {
    if let Some(mut state) = STATE.try_lock_for(LONGEST_LOCK) {
        state.profilers += 1;
        state.start();
    }
}

/// A stream has got a number.
pub(super) fn stream_named() {
    if let Some(mut state) = STATE.try_lock_for(LONGEST_LOCK) {
        state.start();
    }
}

/// A profiler that times streams ends; with the last one the thread does. `orderly` where the process goes on.
pub(crate) fn profiler_ended(orderly: bool) {
    let last = STATE.try_lock_for(LONGEST_LOCK).and_then(|mut state| {
        state.profilers = state.profilers.saturating_sub(1);
        if state.profilers == 0 { state.running.take() } else { None }
    });
    last.into_iter().for_each(|running| running.end(orderly));
}

/// The process ends: the thread must not be in the driver when CUDA's own exit hooks run.
pub(crate) fn process_ends() {
    let running = STATE.try_lock_for(LONGEST_LOCK).and_then(|mut state| state.running.take());
    running.into_iter().for_each(|running| running.end(false));
}

/// Whether the reader wants to be woken for a single pair. Asked under the lock of its queue, or after.
#[inline]
pub(super) fn is_asleep() -> bool {
    ASLEEP.load(Relaxed)
}

/// Has pairs read soon. Returns false where there is no thread for it.
#[inline(never)]
pub(super) fn wake() -> bool {
    let Some(state) = STATE.try_lock() else { return true }; // it is being started, woken or ended
    let running = state.running.as_ref().filter(|running| running.process == std::process::id());
    running.inspect(|running| running.thread.thread().unpark()).is_some()
}

impl State {
    /// Starts the thread where it is wanted and there is none.
    fn start(&mut self) {
        if self.profilers == 0 || streams::all().next().is_none() {
            return;
        }
        let process = std::process::id();
        if let Some(other) = self.running.take_if(|running| running.process != process) {
            std::mem::forget(other); // of the parent: there is nothing to join or detach
        }
        if self.running.is_some() {
            return;
        }
        if !std::mem::replace(&mut self.is_hooked, true) {
            process::at_exit_again(finish_all); // so that it runs before what CUDA has registered up to now
            process::at_fork(pause, go_on, forget);
        }
        ASLEEP.store(false, Relaxed);
        let stop = Arc::new(AtomicBool::new(false));
        let reader = Reader { stop: Arc::clone(&stop) };
        let thread = std::thread::Builder::new().name("tracing-gpu-events".to_owned()).spawn(move || reader.run());
        // Without, the program's threads read by themselves.
        self.running = thread.ok().map(|thread| Running { thread, stop, process });
    }
}

impl Running {
    /// Ends the thread. When this returns it is out of the driver, or has been in there for long.
    fn end(self, orderly: bool) {
        if self.process != std::process::id() {
            return std::mem::forget(self);
        }
        self.stop.store(true, SeqCst);
        self.thread.thread().unpark();
        if wait_until_idle(LONGEST_END) && orderly {
            let _panicked = self.thread.join();
        }
    }
}

/// Waits until no reader is at work. Returns false where that takes too long.
fn wait_until_idle(longest: Duration) -> bool {
    let start = Instant::now();
    while AT_WORK.load(SeqCst) > 0 {
        if start.elapsed() > longest {
            return false;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    true
}

/// Before a fork: no lock may be held by a thread that the child will not have.
extern "C" fn pause() {
    PAUSES.fetch_add(1, SeqCst);
    wait_until_idle(LONGEST_FORK);
}

/// After a fork, in the parent.
extern "C" fn go_on() {
    PAUSES.fetch_sub(1, SeqCst);
}

/// After a fork, in the child, which has no reader.
extern "C" fn forget() {
    PAUSES.store(0, SeqCst);
    AT_WORK.store(0, SeqCst);
    ASLEEP.store(false, Relaxed);
}

struct Reader {
    stop: Arc<AtomicBool>,
}

/// While there is one, the reader is at work.
struct Working;

impl Drop for Working {
    fn drop(&mut self) {
        AT_WORK.fetch_sub(1, SeqCst);
    }
}

impl Reader {
    fn run(&self) {
        own::whole_thread();
        let mut idle = 0;
        while !self.stop.load(SeqCst) {
            let found = self.read_all_streams();
            idle = if found { 0 } else { idle + 1 };
            if idle < LONGEST_IDLE {
                std::thread::park_timeout(PERIOD);
                continue;
            }
            // Whoever records from here on wakes it; what was recorded before is seen now.
            ASLEEP.store(true, Relaxed);
            if !self.read_all_streams() && !self.stop.load(SeqCst) {
                std::thread::park();
            }
            ASLEEP.store(false, Relaxed);
            idle = 0;
        }
    }

    /// Leave to work, in which it neither ends nor is copied; `None` when it is to stop.
    fn begin(&self) -> Option<Working> {
        loop {
            AT_WORK.fetch_add(1, SeqCst);
            let working = Working;
            if self.stop.load(SeqCst) {
                return None;
            }
            if PAUSES.load(SeqCst) == 0 {
                return Some(working);
            }
            drop(working);
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Reads what has finished. Returns whether there was anything to be read.
    fn read_all_streams(&self) -> bool {
        let mut found = false;
        for stream in streams::all() {
            // Between two batches it can be stopped, and others can read.
            while let Some(_working) = self.begin() {
                if stream.queue.lock().waiting() == 0 {
                    break;
                }
                found = true;
                collector::own_calls_begin();
                let Ok(driver) = Driver::get() else { break };
                let goes_on = || !self.stop.load(Relaxed) && PAUSES.load(Relaxed) == 0;
                if !events::read_batch_if_free(driver, stream, goes_on) {
                    break;
                }
            }
        }
        found
    }
}
