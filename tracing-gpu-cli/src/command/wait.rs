//! Starts the program and waits: for it, for what it leaves behind, not longer than it may take.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::options::Wait;
use crate::{complain, system};

/// What a program gets after its time is up, before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// After this time a line says who is waited for.
const WORTH_A_LINE: Duration = Duration::from_secs(2);

/// Runs it to its end. An error where it could not be started.
pub(super) fn run(command: &mut Command, wait: Wait, timeout: Option<Duration>) -> io::Result<ExitStatus> {
    system::pass_signals_on();
    if wait == Wait::All {
        system::adopt_descendants();
    }
    system::close_what_was_closed(command);
    let program = i32::try_from(command.spawn()?.id()).unwrap_or(0);
    system::pass_on_to(program);
    if let Some(timeout) = timeout {
        end_after(timeout);
    }
    let mut ended = None;
    static ALL_ENDED: AtomicBool = AtomicBool::new(false);
    while let Some((process, status)) = system::wait_for_any(program) {
        // Its id may be another's later.
        if process == program && ended.is_none() {
            ended = Some(status);
            if wait == Wait::Primary || !system::has_children() {
                break;
            }
            name_waiting(|| !ALL_ENDED.load(Relaxed));
        }
    }
    ALL_ENDED.store(true, Relaxed);
    ended.ok_or_else(|| io::Error::other("it was lost"))
}

/// Asks it to end, then kills it, and then no longer waits for what it leaves behind, which goes on.
fn end_after(timeout: Duration) {
    // Without this thread the program runs as long as it likes.
    let _none_to_be_had = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(timeout);
        system::send(libc::SIGTERM);
        std::thread::sleep(GRACE);
        system::send(libc::SIGKILL);
        system::ask_to_end();
    });
}

/// A line says why nothing happens, if this takes long.
fn name_waiting(still: impl Fn() -> bool + Send + 'static) {
    let _none_to_be_had = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(WORTH_A_LINE);
        if still() {
            complain("the program has ended, and processes that it started go on: Ctrl-C or SIGTERM prints the report");
        }
    });
}
