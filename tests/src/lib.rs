//! Cross-crate tests.

pub mod csv;
#[cfg(feature = "cupti")]
pub mod cupti;
#[cfg(doctest)]
mod docs;
#[cfg(feature = "foreign")]
pub mod foreign;
pub mod installed;
pub mod json_schema;
pub mod launcher;
#[cfg(feature = "nsight")]
pub mod nsight;
pub mod recorder;
pub mod usage;

/// A value with some of its fields set: for types that cannot be written as literals outside of their crate.
pub fn with<T>(mut value: T, set: impl FnOnce(&mut T)) -> T {
    set(&mut value);
    value
}
