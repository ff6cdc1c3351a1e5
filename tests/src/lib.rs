//! Cross-crate tests.

pub mod csv;
#[cfg(feature = "cupti")]
pub mod cupti;
#[cfg(doctest)]
mod docs;
pub mod installed;
pub mod json_schema;
#[cfg(feature = "nsight")]
pub mod nsight;
pub mod recorder;
pub mod usage;
