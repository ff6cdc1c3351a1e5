//! TODO crate::parts::foreign::tier

#[cfg(feature = "foreign")]
pub(crate) mod linked;
#[cfg(feature = "injection")]
pub(crate) mod tails;
#[cfg(feature = "injection")]
pub(crate) mod tool;
