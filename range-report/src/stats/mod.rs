//! Statistics as mergeable values: what one thread measured, and what many threads measured together.

pub mod distribution;
pub mod histogram;
pub mod keyed;
#[doc(hidden)] // for the crates of this workspace
pub mod order;

pub use distribution::{Between, Buckets, Distribution};
pub use keyed::{Keyed, Named};
