//! Statistics as mergeable values: what one thread measured, and what many threads measured together.

pub(crate) mod distribution;
pub(crate) mod histogram;

pub use distribution::Distribution;
