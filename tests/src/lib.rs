//! Cross-crate tests.

#[cfg(feature = "nsight")]
pub mod nsight;
pub mod recorder;
