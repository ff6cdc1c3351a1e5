//! The atomics and locks of what threads share without waiting for each other, and the lengths of what one fills before
//! it waits, in one place: the models (`tests/models`) compile the same files with atomics that try every order, and
//! with lengths that can be tried to the end.

use std::time::Duration;

pub(crate) use parking_lot::{Mutex, MutexGuard};
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, fence};

/// Lines of a page.
pub(crate) const PAGE: usize = 128;
/// Instances that a row holds before it adds them to its sums.
pub(crate) const RECENT: usize = 27;

/// Waits for another thread to finish a few stores, for the `attempt`-th time.
pub(crate) fn wait(attempt: u32) {
    match attempt {
        0..100 => std::hint::spin_loop(),
        // The other one has lost its processor in the middle of it: it is given the time to come back.
        100..1_000 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(100)),
    }
}
