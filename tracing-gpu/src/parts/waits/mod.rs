//! TODO crate::parts::waits

pub(crate) mod drain;
pub(crate) mod session;
pub(crate) mod thread;
pub(crate) mod tier;
