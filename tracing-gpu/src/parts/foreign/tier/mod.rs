//! Who receives NVTX calls of other code, and turns them into ranges.

#[cfg(feature = "foreign")]
pub(crate) mod linked;
#[cfg(feature = "injection")]
pub(crate) mod tails;
#[cfg(feature = "injection")]
pub(crate) mod tool;
