//! The numbers of threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

thread_local! {
    /// A number for this thread, which is valid even while its thread-locals are destroyed; 0 before it has one.
    static THREAD: Cell<u64> = const { Cell::new(0) };
}

/// A number for the calling thread, even while it is being torn down.
pub(crate) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if THREAD.get() == 0 {
        THREAD.set(NEXT.fetch_add(1, Relaxed));
    }
    THREAD.get()
}
