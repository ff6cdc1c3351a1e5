//! GPU.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod report;
mod summary;

pub use report::{RenderOptions, Report, TableStyle};
pub use summary::{
    CategoryStats, Losses, OpenRange, Process, RangeStats, RangeStyle, Summary, Times, TreeNode,
};
