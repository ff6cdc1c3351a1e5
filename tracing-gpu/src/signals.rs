//! SIGINT and SIGTERM print the reports, where they would end the program.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::process::{self, Bell};

const WATCHED: [i32; 2] = [libc::SIGINT, libc::SIGTERM];

/// The process whose thread waits for signals. In a forked child, which has no such thread, this still says so. Nothing
/// is published by it.
static WATCHED_IN: AtomicU32 = AtomicU32::new(0);

/// The signal that has come, and what wakes the thread.
static CAME: AtomicI32 = AtomicI32::new(0);
static BELL: Bell = Bell::new();

/// When the first signal came, by CLOCK_MONOTONIC in nanoseconds; 0 before.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// A signal that comes so long after the first is meant once more. `timeout` sends one twice at a time.
const ONCE_MORE: Duration = Duration::from_secs(1);

/// A thread that sends its own process a signal waits this number of seconds for the reports. Then the signal ends the
/// process without them: the thread may hold a lock that they wait for.
const LONGEST: u8 = 30;

/// Starts a thread, one in a process, that waits for SIGINT and SIGTERM, calls `finish`, and lets the signal take its
/// default course. A signal takes its default course at once in a forked child, and where it comes again: `finish` may
/// wait for ever, for a lock of standard error that the program holds.
///
/// Only a signal whose course is the default one is watched: whoever ignores or handles it wants the program to go on.
/// That is asked again when it comes, since a handler that is installed later may call ours first, as tokio's does.
pub(crate) fn finish_on_signal(finish: extern "C" fn()) -> io::Result<()> {
    let process = std::process::id();
    if WATCHED_IN.swap(process, Relaxed) == process {
        return Ok(());
    }
    FIRST.store(0, Relaxed);
    watch(finish).inspect_err(|_| WATCHED_IN.store(0, Relaxed)) // the next profiler tries again
}

fn watch(finish: extern "C" fn()) -> io::Result<()> {
    // In a forked child it is ours already.
    let is_free = |signal: &i32| process::takes_default_course(*signal) || process::is_handled_by(*signal, came);
    let watched: Vec<i32> = WATCHED.into_iter().filter(is_free).collect();
    if watched.is_empty() {
        return Ok(());
    }
    BELL.hang()?;
    std::thread::Builder::new().name("tracing-gpu signals".to_owned()).spawn(move || {
        BELL.wait();
        finish();
        process::take_default_course(CAME.load(Relaxed)); // ends the process
    })?;
    watched.into_iter().try_for_each(|signal| process::handle_signal(signal, came))
}

/// Handles a signal. Calls only what is safe in a handler.
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
        // What follows a `raise` must not run.
        process::sleep_in_handler(LONGEST);
        process::take_default_course(signal);
    }
}

/// Whether a signal is not for the thread that waits for one.
fn is_not_for_the_thread() -> bool {
    if WATCHED_IN.load(Relaxed) != std::process::id() {
        return true;
    }
    let now = process::monotonic_ns();
    let first = FIRST.compare_exchange(0, now, Relaxed, Relaxed);
    first.err().is_some_and(|first| u128::from(now.saturating_sub(first)) >= ONCE_MORE.as_nanos())
}
