//! What the thread that pushes metrics shares with the end of the profiler.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use range_model::Summary;

use crate::core::drain::Cursor;

/// What the pushing thread and the end of the profiler tell each other.
#[derive(Debug, Default)]
pub(super) struct Pusher {
    pub(super) cursor: Mutex<Cursor>,
    pub(super) shared: Mutex<PushState>,
    pub(super) changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct PushState {
    /// The last window, for the thread.
    pub(super) last: Option<Box<Summary>>,
    /// Whether the thread has to end.
    pub(super) stop: bool,
    /// Whether the thread has ended.
    pub(super) ended: bool,
    pub(super) pushes: u64,
    pub(super) failed: u64,
    /// Why the last push that failed did.
    pub(super) error: String,
}

impl Pusher {
    /// Ends the thread without a last push.
    pub(super) fn stop(&self) {
        self.shared.lock().stop = true;
        self.changed.notify_all();
    }

    /// Waits until it is time, or until the profiler ends. Returns whether it ends, and the last window.
    pub(super) fn wait(&self, until: Instant) -> (bool, Option<Box<Summary>>) {
        let mut shared = self.shared.lock();
        while !shared.stop && !self.changed.wait_until(&mut shared, until).timed_out() {}
        (shared.stop, shared.last.take())
    }

    pub(super) fn count(&self, result: Result<(), String>) {
        let mut shared = self.shared.lock();
        shared.pushes += 1;
        if let Err(error) = result {
            shared.failed += 1;
            shared.error = error;
        }
    }
}
