//! Runs side by side: the same program before and after a change, or the same phases on several backends.

mod check;
mod comparison;
mod figures;
mod sides;
#[cfg(test)]
mod tests;
mod verdict;

pub use crate::analysis::{Added, Basis, Change, Figure, Gate, Reason, Regression};
#[doc(hidden)] // for the crate range-page
pub use comparison::by_self_time;
pub(crate) use comparison::with_ratios;
pub use comparison::{ComparedRange, Comparison, InRun};
pub use figures::{ComparedFigure, FigureInRun};
pub use sides::Side;
pub use verdict::{Slower, Verdict};
