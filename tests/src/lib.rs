//! Cross-crate tests.

pub mod recorder;
