//! What a thread knows of waits, and where it looks for their causes.

pub(crate) mod coincidence;
pub(crate) mod paths;
pub(crate) mod polled_tasks;
pub(crate) mod polls;
pub(crate) mod thread_waits;
pub(crate) mod waits;
pub(crate) mod woken;
