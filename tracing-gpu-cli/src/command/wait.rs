//! Starts the program and waits for it and for the processes that it leaves behind, but not longer than the time limit.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::options::Wait;
use crate::system::Waited;
use crate::{complain, system};

/// The time between asking a program to end and killing it.
const GRACE: Duration = Duration::from_secs(5);
/// A program that ends earlier is not looked at.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(10);
/// The pause between two requests to end the waiting: a request right before a wait begins does not interrupt it.
const AGAIN: Duration = Duration::from_millis(50);
/// After this time a line names the awaited processes.
const WORTH_A_LINE: Duration = Duration::from_secs(2);

/// Whether the waiting has ended.
static WAITED: AtomicBool = AtomicBool::new(false);

/// A program that was started.
pub(super) struct Program {
    id: i32,
    wait: Wait,
    /// Is told that it has ended.
    ended: mpsc::Sender<()>,
}

/// Starts the program. Returns an error if it cannot be started.
pub(super) fn start(command: &mut Command, wait: Wait, timeout: Option<Duration>) -> io::Result<Program> {
    system::pass_signals_on();
    if wait == Wait::All {
        system::adopt_descendants();
    }
    system::close_what_was_closed(command);
    let id = i32::try_from(system::spawn(command)?.id()).unwrap_or(0);
    system::keep_ends(true);
    system::pass_on_to(id);
    let (ended, end_of_program) = mpsc::channel();
    if let Some(timeout) = timeout {
        end_after(timeout, end_of_program);
    }
    Ok(Program { id, wait, ended })
}

impl Program {
    /// Waits for its end, and meanwhile looks at its processes. A look returns the pause until the next, if there is
    /// one.
    pub(super) fn wait(self, mut look: impl FnMut() -> Option<Duration>) -> io::Result<ExitStatus> {
        let (mut ended, mut due) = (None, Some(Instant::now() + FIRST_LOOK));
        loop {
            let (process, status) = match system::wait_for_any(self.id, due) {
                Waited::Ended(process, status) => (process, status),
                Waited::Due => {
                    due = look().map(|pause| Instant::now() + pause);
                    continue;
                }
                Waited::Over => break,
            };
            // Another process may get its id later.
            if process == self.id && ended.is_none() {
                ended = Some(status);
                let _nobody_waits = self.ended.send(());
                if self.wait == Wait::Primary || !system::has_children() {
                    break;
                }
                name_waiting();
            }
        }
        WAITED.store(true, Relaxed);
        system::waiting_is_over();
        system::keep_ends(false);
        ended.ok_or_else(|| io::Error::other("it was lost"))
    }
}

/// Asks the program to end, and kills it unless it does. Then stops waiting for the processes that it leaves behind,
/// which continue.
fn end_after(timeout: Duration, end_of_program: Receiver<()>) {
    // Without this thread the program has no time limit.
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

/// Prints a line that explains the waiting, if it takes long.
fn name_waiting() {
    let _none_to_be_had = std::thread::Builder::new().spawn(|| {
        std::thread::sleep(WORTH_A_LINE);
        if !WAITED.load(Relaxed) {
            complain("the program has ended, and processes that it started go on: Ctrl-C or SIGTERM prints the report");
        }
    });
}
