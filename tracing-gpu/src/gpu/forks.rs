//! Forked children: nothing of CUDA works in them, and threads that do not exist in them may hold locks. So a child times nothing and
//! waits for no lock.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::cupti;
use crate::process;

/// Stored by the only thread of a child before it goes on, and passed to those that it makes.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked off one that had called [`watch`].
#[inline]
pub(super) fn is_child() -> bool {
    IS_CHILD.load(Relaxed)
}

/// Makes children of this process know that they are. To be called before anything is locked that a child might lock.
pub(super) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| process::in_forked_child(begin_child));
}

extern "C" fn begin_child() {
    IS_CHILD.store(true, Relaxed);
    cupti::forked();
}
