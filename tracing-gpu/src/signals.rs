//! Prints the reports on SIGINT and SIGTERM, if the signal would end the program.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::process::{self, Bell};
use range_model::stats::Lean;

const WATCHED: [i32; 2] = [libc::SIGINT, libc::SIGTERM];

/// The process whose thread waits for signals. A forked child inherits the number, but has no such thread. The number
/// publishes nothing, so relaxed ordering suffices.
static WATCHED_IN: AtomicU32 = AtomicU32::new(0);

/// The signal that arrived, and the bell that wakes the thread.
static CAME: AtomicI32 = AtomicI32::new(0);
static BELL: Bell = Bell::new();

/// Time of the first signal, by CLOCK_MONOTONIC in nanoseconds; 0 before.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// After this time a further signal counts as a second one. `timeout` sends each signal twice at once.
const ONCE_MORE: Duration = Duration::from_secs(1);

/// A thread that sends its own process a signal waits this many seconds for the reports. Then the signal ends the
/// process without them: the thread may hold a lock that they need.
const LONGEST: u8 = 30;

/// Starts one thread per process that waits for SIGINT and SIGTERM, calls `finish`, and then performs the signal's
/// default action. In a forked child, and at a second signal, the default action follows at once: `finish` may wait for
/// ever for a lock of standard error that the program holds.
///
/// Only a signal with its default action is watched: a program that ignores or handles a signal wants to continue. The
/// handler checks that again, because a handler that is installed later, such as tokio's, may call ours first.
pub(crate) fn finish_on_signal(finish: extern "C" fn()) -> io::Result<()> {
    let process = std::process::id();
    if WATCHED_IN.swap(process, Relaxed) == process {
        return Ok(());
    }
    FIRST.store(0, Relaxed);
    watch(finish).inspect_err(|_| WATCHED_IN.store(0, Relaxed)) // the next profiler tries again
}

fn watch(finish: extern "C" fn()) -> io::Result<()> {
    // A forked child has our handler already.
    let is_free = |signal: &i32| process::takes_default_course(*signal) || process::is_handled_by(*signal, came);
    let watched: Vec<i32> = WATCHED.into_iter().filter(is_free).in_vec();
    if watched.is_empty() {
        return Ok(());
    }
    BELL.hang()?;
    let wait = move || {
        BELL.wait();
        finish();
        process::take_default_course(CAME.load(Relaxed)); // ends the process
    };
    process::spawn("tracing-gpu signals", Box::new(wait))?;
    watched.into_iter().try_for_each(|signal| process::handle_signal(signal, came))
}

/// The signal handler. Calls only async-signal-safe functions.
extern "C" fn came(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    if !process::is_handled_by(signal, came) {
        return; // called by the program's own handler
    }
    if is_not_for_the_thread() {
        return process::take_default_course(signal);
    }
    CAME.store(signal, Relaxed);
    BELL.ring();
    if process::is_from_itself(info) {
        // Code after a `raise` must not run.
        process::sleep_in_handler(LONGEST);
        process::take_default_course(signal);
    }
}

/// Whether the waiting thread must not handle the signal.
fn is_not_for_the_thread() -> bool {
    if WATCHED_IN.load(Relaxed) != std::process::id() {
        return true;
    }
    let now = process::monotonic_ns();
    let first = FIRST.compare_exchange(0, now, Relaxed, Relaxed);
    first.err().is_some_and(|first| u128::from(now.saturating_sub(first)) >= ONCE_MORE.as_nanos())
}
