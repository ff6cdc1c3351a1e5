//! Turns `tracing` spans into NVTX ranges and prints range statistics that agree with Nsight Systems.
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod clock;
mod collect;
mod config;
mod drain;
mod init;
mod layer;
mod marks;
mod nesting;
mod own_values;
mod process;
mod profiler;
mod record;
pub mod report;
#[cfg(feature = "signals")]
mod signals;
mod stats;
mod subscriber;
mod summary;

pub use config::{ConfigError, Domain, Output};
pub use init::{Guard, init};
pub use layer::GpuLayer;
pub use profiler::{Profiler, ProfilerBuilder};
pub use report::{RenderOptions, Report, TableStyle};
pub use subscriber::GpuSubscriber;
pub use summary::{CategoryStats, Losses, OpenRange, Process, RangeStats, RangeStyle, Summary, Times, TreeNode};
