//! Forked children: CUDA does not work in them, and locks may be held by threads that do not exist there. So nothing is
//! recorded in a child, and it waits for no lock.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Set by the only thread of a child before the child continues; inherited by children of the child.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Whether this process is a forked child of one that had called [`watch`].
#[inline]
pub fn is_child() -> bool {
    IS_CHILD.load(Relaxed)
}

/// Lets children of this process know that they are children. Call it before taking a lock that a child would need.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| in_forked_child(begin_child));
}

/// Registers `hook` to run at the start of each forked child. The hook may only store values: a child has one thread,
/// and any lock may be held by another.
#[cfg(unix)]
pub fn in_forked_child(hook: extern "C" fn()) {
    // SAFETY: the hook is a function without arguments that lives as long as the program. It does not unwind (a panic
    // at the edge of an `extern "C"` function aborts), and does only what is allowed between fork and exec.
    let _no_memory = unsafe { libc::pthread_atfork(None, None, Some(hook)) };
}

/// Registers `hook` for forked children; this system has none.
#[cfg(not(unix))]
pub fn in_forked_child(_hook: extern "C" fn()) {}

extern "C" fn begin_child() {
    IS_CHILD.store(true, Relaxed);
}
