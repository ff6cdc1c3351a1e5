//! Snapshots of a process's measurements in the folder of the run, for a process that ends by `_exit`, a crash or
//! SIGKILL. They are the only record of GPU work, and of ranges without a row file.

use std::ffi::c_int;
use std::io;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::time::{Duration, Instant};

use tracing_gpu::{Profiler, has_given_up, on_own_stack};

use crate::folder::Folder;
use crate::system;

/// The time of the first snapshot, and the shortest and longest pause between two.
const FIRST: Duration = Duration::from_millis(5);
const SHORTEST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(1);
/// Snapshots use at most 2 % of a core; if that makes them too old, more, but at most a tenth.
const SPARED: u32 = 50;
const SPARED_AT_LEAST: u32 = 10;

/// Whether a thread forks, or a profiler is being started or asked for a summary, which takes locks that a child would
/// find locked for ever. It is no ordinary lock, because a child may inherit it in any state.
static BUSY: AtomicBool = AtomicBool::new(false);

/// The snapshots of one process.
pub(super) struct Snapshots {
    folder: Folder,
    name: String,
    started: Once,
}

impl Snapshots {
    pub(super) const fn new(folder: Folder, name: String) -> Self {
        Self { folder, name, started: Once::new() }
    }

    /// Starts snapshots. Only the first call has an effect.
    #[inline]
    pub(super) fn start(&'static self, profiler: &'static Profiler) {
        if !self.started.is_completed() {
            self.spawn(profiler);
        }
    }

    #[cold]
    fn spawn(&'static self, profiler: &'static Profiler) {
        self.started.call_once(|| {
            let thread = std::thread::Builder::new().name("tracing-gpu".to_owned());
            // On a separate stack, because large thread-locals of the program may leave little.
            let make = || match on_own_stack(|| self.make(profiler)) {
                None => {}
                Some(0) => std::process::exit(0), // as the C library does when the last thread ends
                Some(status) => {
                    profiler.end(false);
                    system::end_at_once(status);
                }
            };
            let _none_to_be_had = on_own_stack(|| tracing_gpu::without_signals(|| thread.spawn(make)));
        });
    }

    /// Makes snapshots until the end. Returns the status with which the process would have ended by then without this
    /// thread.
    fn make(&self, profiler: &Profiler) -> Option<c_int> {
        let mut pause = FIRST;
        loop {
            std::thread::sleep(pause);
            if let Some(status) = system::status_without_us() {
                return Some(status);
            }
            if has_given_up() {
                return None; // a summary needs memory
            }
            let began = Instant::now();
            if !profiler.has_memory() || !take() {
                continue; // the file of rows will do; a fork takes no time
            }
            let summary = profiler.summary();
            give_back();
            if self.folder.summary(&self.name).exists() {
                return None; // the process has ended in order
            }
            let written = self.folder.write_snapshot(&self.name, &summary);
            if written.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                return None; // the command has ended; a full disk may have room later
            }
            let cost = began.elapsed();
            pause = (cost * SPARED).clamp(SHORTEST, LONGEST).max(cost * SPARED_AT_LEAST);
        }
    }
}

/// Makes forks wait while a child would inherit a taken lock.
pub(super) fn watch_forks(after_in_child: extern "C" fn()) {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| system::at_fork(before_fork, after_fork_in_parent, after_in_child));
}

/// Runs this while no thread forks. Must not be nested.
pub(super) fn while_not_forking<R>(run: impl FnOnce() -> R) -> R {
    struct Exclusion;
    impl Drop for Exclusion {
        fn drop(&mut self) {
            give_back();
        }
    }
    wait();
    let _until_it_has_run = Exclusion;
    run()
}

extern "C" fn before_fork() {
    wait();
}

extern "C" fn after_fork_in_parent() {
    give_back();
}

pub(super) fn after_fork_in_child() {
    give_back();
}

fn take() -> bool {
    BUSY.compare_exchange(false, true, AcqRel, Acquire).is_ok()
}

fn wait() {
    while !take() {
        std::thread::sleep(Duration::from_micros(50));
    }
}

fn give_back() {
    BUSY.store(false, Release);
}
