//! Statistics as mergeable values: the measurements of one thread, and of many together.

pub mod distribution;
pub mod histogram;
pub mod keyed;
#[doc(hidden)] // for the crates of this workspace
pub mod lean;
#[doc(hidden)] // for the crates of this workspace
pub mod order;
mod shares;

pub use distribution::{Between, Buckets, Distribution};
pub use keyed::{Keyed, Named};
#[doc(hidden)]
pub use lean::Lean;
#[doc(hidden)]
pub use shares::parts;
