//! Forked children: nothing of CUDA works in them, and locks may be held by threads that do not exist in the child. So
//! nothing is recorded there, and no lock is waited for.
#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Stored by the only thread of a child before it goes on, and passed to those that it makes.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked off one that had called [`watch`].
#[inline]
pub fn is_child() -> bool {
    IS_CHILD.load(Relaxed)
}

/// Has children of this process know that they are. Call it before anything is locked that a child would want.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| in_forked_child(begin_child));
}

/// Has `hook` called in each child that is forked off, before it goes on. The hook may do nothing but store: a child
/// has one thread, and any lock may be held by another.
#[cfg(unix)]
pub fn in_forked_child(hook: extern "C" fn()) {
    // SAFETY: the hook is a function without arguments that lives as long as the program, does not unwind (a panic at
    // the edge of an `extern "C"` function aborts), and does only what is allowed between fork and exec.
    let _no_memory = unsafe { libc::pthread_atfork(None, None, Some(hook)) };
}

/// Has `hook` called in each child that is forked off: there are none here.
#[cfg(not(unix))]
pub fn in_forked_child(_hook: extern "C" fn()) {}

extern "C" fn begin_child() {
    IS_CHILD.store(true, Relaxed);
}
