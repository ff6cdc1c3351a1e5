//! Statistics as mergeable values: what one thread measured, and what many threads measured together.

pub mod distribution;
pub mod histogram;
pub(crate) mod order;

pub use distribution::{Between, Distribution};
