//! Cross-crate tests.

pub mod json_schema;
#[cfg(feature = "nsight")]
pub mod nsight;
pub mod recorder;
