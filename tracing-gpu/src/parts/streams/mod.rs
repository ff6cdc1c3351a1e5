//! Ranges that are timed on a stream by CUDA events.

#[cfg(feature = "cuda")]
pub(crate) mod device;
#[cfg(not(feature = "cuda"))]
#[path = "device/disabled.rs"]
pub(crate) mod device;
#[cfg(feature = "cuda")]
pub(crate) mod drain;
pub(crate) mod thread;

/// Number of a named stream; 0 for none.
pub(crate) type StreamId = u32;
