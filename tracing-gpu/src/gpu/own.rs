//! Which calls of the driver are our own: they are in no table.

use super::thread::THREAD;

/// Runs driver calls of our own.
#[inline]
pub(super) fn during<T>(calls: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            THREAD.with(|thread| thread.own.set(thread.own.get().saturating_sub(1)));
        }
    }
    THREAD.with(|thread| thread.own.set(thread.own.get() + 1));
    let _leave = Leave;
    calls()
}

/// All calls of this thread are our own from here on.
pub(super) fn whole_thread() {
    THREAD.with(|thread| thread.own.set(1));
}

/// Whether the call that is being made on this thread is our own.
pub(super) fn is_own() -> bool {
    THREAD.with(|thread| thread.own.get() > 0)
}
