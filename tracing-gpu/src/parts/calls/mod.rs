//! Calls: one span of a future, from its creation to its close, over all its polls.

pub(crate) mod drain;
pub(crate) mod session;
pub(crate) mod thread;
