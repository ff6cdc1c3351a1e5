//! Calls into CUDA, the GPU's work that they launch, and the ranges around them.
//!
//! **A span without a launch pays nothing for launches.** An instance gets a number at its first call into CUDA. A
//! launch logs itself with plain stores, and takes one lock per 128 lines of the log. The launch path does not check
//! for a fork: CUPTI's sink learns of it (`forked`).
//!
//! **CUPTI is called without a lock**, except to look up a name or the next record. Its callbacks only log, or store
//! buffers for later. The collector takes records first, then logs, because a launch is logged before its record
//! arrives.

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
