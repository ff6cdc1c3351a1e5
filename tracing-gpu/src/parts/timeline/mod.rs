//! TODO crate::parts::timeline

pub(crate) mod recorder;
pub(crate) mod session;
pub(crate) mod thread;
pub(crate) mod tier;
