//! Panics must not pass through C.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs foreign Rust code; none if it panicked.
pub(crate) fn contain<R>(code: impl FnOnce() -> R) -> Option<R> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(result) => Some(result),
        Err(payload) => {
            // Dropping what was thrown could panic again.
            std::mem::forget(payload);
            None
        }
    }
}
