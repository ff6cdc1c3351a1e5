//! TODO crate::parts::calls

pub(crate) mod drain;
pub(crate) mod session;
pub(crate) mod thread;
