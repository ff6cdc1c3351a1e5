//! SIGINT and SIGTERM print the reports, when asked for.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::process;

/// The process whose thread waits for signals. In a forked child, which has no such thread, this still says so. Nothing
/// is published by it.
static WATCHED_IN: AtomicU32 = AtomicU32::new(0);

/// When the first signal came, by CLOCK_MONOTONIC in nanoseconds; 0 before.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// A signal that comes so long after the first is meant once more. `timeout` sends one twice at a time.
const ONCE_MORE: Duration = Duration::from_secs(1);

/// Starts a thread, one in a process, that waits for SIGINT and SIGTERM, calls `finish`, and lets the signal take its
/// default course. A signal takes its default course at once in a forked child, and where it comes again: `finish` may
/// wait for ever, for a lock of standard error that the program holds. A signal that is ignored stays ignored: whoever
/// started the program wants it to go on.
pub(crate) fn finish_on_signal(finish: extern "C" fn()) -> io::Result<()> {
    let process = std::process::id();
    if WATCHED_IN.swap(process, Relaxed) == process {
        return Ok(());
    }
    FIRST.store(0, Relaxed);
    watch(finish).inspect_err(|_| WATCHED_IN.store(0, Relaxed)) // the next profiler tries again
}

fn watch(finish: extern "C" fn()) -> io::Result<()> {
    // Of Linux; elsewhere no signal is known to be ignored.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let watched: Vec<i32> = [SIGINT, SIGTERM].into_iter().filter(|&signal| !ignores(&status, signal)).collect();
    if watched.is_empty() {
        return Ok(());
    }
    let mut signals = Signals::new(&watched)?;
    std::thread::Builder::new().name("tracing-gpu signals".to_owned()).spawn(move || {
        if let Some(signal) = signals.forever().next() {
            finish();
            let _ = signal_hook::low_level::emulate_default_handler(signal); // ends the process
        }
    })?;
    watched.into_iter().try_for_each(|signal| process::take_default_course_if(is_not_for_the_thread, signal))
}

/// Whether a signal is not for the thread that waits for one. Called by the signal's handler: safe there.
fn is_not_for_the_thread() -> bool {
    if WATCHED_IN.load(Relaxed) != std::process::id() {
        return true;
    }
    let now = process::monotonic_ns();
    let first = FIRST.compare_exchange(0, now, Relaxed, Relaxed);
    first.err().is_some_and(|first| u128::from(now.saturating_sub(first)) >= ONCE_MORE.as_nanos())
}

/// Whether a process with this `/proc/PID/status` ignores the signal: `SigIgn` is a mask in hexadecimal, signal 1 the
/// lowest bit.
fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.1 writes it of a command that a shell script started in the background: SIGINT and SIGQUIT.
    #[test]
    fn the_mask_is_read() {
        let status = |mask: &str| {
            format!(
                "SigPnd:\t0000000000000000\nSigBlk:\t0000000000004002\nSigIgn:\t{mask}\nSigCgt:\t0000000000004002\n"
            )
        };
        let ignored = |status: &str| [SIGINT, SIGTERM].map(|signal| ignores(status, signal));
        assert_eq!(ignored(&status("0000000000000006")), [true, false]);
        assert_eq!(ignored(&status("0000000000004000")), [false, true]);
        assert_eq!(ignored(&status("ffffffffffffffff")), [true, true]);
        assert_eq!(ignored(&status("0000000000001000")), [false, false]);
        assert_eq!(ignored(&status("no mask")), [false, false]);
        assert_eq!(ignored(""), [false, false]);
    }
}
