//! TODO crate::parts::launches

#[cfg(feature = "cuda")]
pub(crate) mod collector;
#[cfg(not(feature = "cuda"))]
#[path = "collector/disabled.rs"]
pub(crate) mod collector;
#[cfg(feature = "cuda")]
pub(crate) mod drain;
#[cfg(feature = "cuda")]
pub(crate) mod session;
pub(crate) mod thread;
