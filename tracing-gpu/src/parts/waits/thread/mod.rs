//! TODO crate::parts::waits::thread

pub(crate) mod coincidence;
pub(crate) mod paths;
pub(crate) mod polled_tasks;
pub(crate) mod thread_waits;
pub(crate) mod waits;
pub(crate) mod woken;
