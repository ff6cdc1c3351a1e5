//! The atomics and locks of lock-free data, and its buffer lengths, in one place. The models (`tests/models`) compile
//! the same files with atomics that try every order, and with lengths small enough to be tried exhaustively.

use std::time::Duration;

pub(crate) use parking_lot::{Mutex, MutexGuard};
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, fence};

/// Lines of a page.
pub(crate) const PAGE: usize = 128;
/// Number of instances that a row holds before it adds them to its sums.
pub(crate) const RECENT: usize = 23;

/// Waits until another thread has finished a few stores. `attempt` counts the calls.
pub(crate) fn pause(attempt: u32) {
    match attempt {
        0..100 => std::hint::spin_loop(),
        // The other thread was preempted in the middle: gives it time to continue.
        100..1_000 => std::thread::yield_now(),
        _ => std::thread::sleep(Duration::from_micros(100)),
    }
}
