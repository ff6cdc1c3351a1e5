//! Starts the program and waits: for it, for what it leaves behind, not longer than it may take.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use super::options::Wait;
use crate::{complain, system};

/// What a program gets after its time is up, before it is killed.
const GRACE: Duration = Duration::from_secs(5);
/// What is between two requests to end the waiting: one that comes right before the wait begins interrupts nothing.
const AGAIN: Duration = Duration::from_millis(50);
/// After this time a line says who is waited for.
const WORTH_A_LINE: Duration = Duration::from_secs(2);

/// Whether nobody is waited for any more.
static WAITED: AtomicBool = AtomicBool::new(false);

/// Runs it to its end. An error where it could not be started.
pub(super) fn run(command: &mut Command, wait: Wait, timeout: Option<Duration>) -> io::Result<ExitStatus> {
    system::pass_signals_on();
    if wait == Wait::All {
        system::adopt_descendants();
    }
    system::close_what_was_closed(command);
    let program = i32::try_from(command.spawn()?.id()).unwrap_or(0);
    system::pass_on_to(program);
    let (program_ended, end_of_program) = mpsc::channel();
    if let Some(timeout) = timeout {
        end_after(timeout, end_of_program);
    }
    let mut ended = None;
    while let Some((process, status)) = system::wait_for_any(program) {
        // Its id may be another's later.
        if process == program && ended.is_none() {
            ended = Some(status);
            let _nobody_waits = program_ended.send(());
            if wait == Wait::Primary || !system::has_children() {
                break;
            }
            name_waiting();
        }
    }
    WAITED.store(true, Relaxed);
    ended.ok_or_else(|| io::Error::other("it was lost"))
}

/// Asks it to end, kills it unless it does, and then no longer waits for what it leaves behind, which goes on.
fn end_after(timeout: Duration, end_of_program: Receiver<()>) {
    // Without this thread the program runs as long as it likes.
    let _none_to_be_had = std::thread::Builder::new().spawn(move || {
        std::thread::sleep(timeout);
        system::send(libc::SIGTERM);
        if end_of_program.recv_timeout(GRACE) == Err(RecvTimeoutError::Timeout) {
            system::send(libc::SIGKILL);
        }
        while !WAITED.load(Relaxed) {
            system::ask_to_end();
            std::thread::sleep(AGAIN);
        }
    });
}

/// A line says why nothing happens, if this takes long.
fn name_waiting() {
    let _none_to_be_had = std::thread::Builder::new().spawn(|| {
        std::thread::sleep(WORTH_A_LINE);
        if !WAITED.load(Relaxed) {
            complain("the program has ended, and processes that it started go on: Ctrl-C or SIGTERM prints the report");
        }
    });
}
