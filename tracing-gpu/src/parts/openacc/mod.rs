//! TODO crate::parts::openacc

#[cfg(feature = "injection")]
pub(crate) mod drain;
#[cfg(feature = "injection")]
pub(crate) mod runtime;
#[cfg(feature = "injection")]
pub(crate) mod thread;
