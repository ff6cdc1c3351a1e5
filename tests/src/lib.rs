//! Cross-crate tests.

pub mod csv;
pub mod installed;
pub mod json_schema;
#[cfg(feature = "nsight")]
pub mod nsight;
pub mod recorder;
pub mod usage;
