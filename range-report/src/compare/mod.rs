//! Runs side by side: the same program before and after a change, or the same phases on several backends.

mod comparison;
mod gate;
mod interval;
mod judge;
#[cfg(test)]
mod tests;

pub use comparison::{ComparedRange, Comparison, InRun};
pub(crate) use comparison::{by_self_time, with_ratios};
pub use gate::{Added, Basis, Change, Gate, Regression};
pub(crate) use interval::LEAST_PAIRS;
pub(crate) use judge::confidence;
