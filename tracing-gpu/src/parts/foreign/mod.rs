//! TODO crate::parts::foreign

#[cfg(feature = "injection")]
pub(crate) mod drain;
pub(crate) mod session;
#[cfg(feature = "injection")]
pub(crate) mod thread;
pub(crate) mod tier;
