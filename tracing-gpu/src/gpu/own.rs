//! Which calls of the driver are our own: they are in no table.

use std::cell::Cell;

thread_local! {
    /// Depth of our own code around the driver on this thread. Needs no destructor.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Runs driver calls of our own.
#[inline]
pub(super) fn during<T>(calls: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            DEPTH.set(DEPTH.get().saturating_sub(1));
        }
    }
    DEPTH.set(DEPTH.get() + 1);
    let _leave = Leave;
    calls()
}

/// All calls of this thread are our own from here on.
pub(super) fn whole_thread() {
    DEPTH.set(1);
}

/// Whether the call that is being made on this thread is our own.
pub(super) fn is_own() -> bool {
    DEPTH.get() > 0
}
