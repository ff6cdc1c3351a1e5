//! What the thread that writes windows shares with the end of the profiler.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::core::drain::Cursor;

/// Windows that are written at regular intervals.
#[derive(Debug, Default)]
pub(super) struct Periodic {
    pub(super) cursor: Mutex<Cursor>,
    pub(super) stop: AtomicBool,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
    /// The last complaint, which is not repeated.
    pub(super) complaint: Mutex<String>,
}

impl Periodic {
    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.lock().take() {
            thread.thread().unpark();
            let _panicked = thread.join();
        }
    }
}
