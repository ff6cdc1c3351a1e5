//! Runs side by side: the same program before and after a change, or the same phases on several backends.

mod check;
mod comparison;
#[cfg(test)]
mod tests;

pub use crate::analysis::{Added, Basis, Change, Gate, Regression};
pub use comparison::{ComparedRange, Comparison, InRun};
pub(crate) use comparison::{by_self_time, with_ratios};
