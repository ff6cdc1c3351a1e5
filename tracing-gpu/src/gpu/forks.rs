//! Forked children: nothing of CUDA works in them, and locks may be held by threads that they do not have. So nothing is timed there, and no lock is waited for.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{cupti, scope};
use crate::process;

/// Stored by the only thread of a child before it goes on, and passed to those that it makes.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// Whether this process was forked off one that had called [`watch`].
#[inline]
pub(super) fn is_child() -> bool {
    IS_CHILD.load(Relaxed)
}

/// Has children of this process know that they are. Before anything is locked that a child would want.
pub(super) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| process::in_forked_child(begin_child));
}

extern "C" fn begin_child() {
    IS_CHILD.store(true, Relaxed);
    scope::forget();
    cupti::forked();
}
