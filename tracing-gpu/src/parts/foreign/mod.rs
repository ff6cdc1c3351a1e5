//! Ranges of other code: NVTX calls of the program's own libraries.

#[cfg(feature = "injection")]
pub(crate) mod drain;
pub(crate) mod session;
#[cfg(feature = "injection")]
pub(crate) mod thread;
pub(crate) mod tier;
