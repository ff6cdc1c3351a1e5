//! Calls into CUDA, the GPU's work that they launch, and the ranges around them.

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
