//! A profiled run as plain data.
//!
//! - A [`Summary`] holds the figures of a run: ranges, categories, the tree, work on the GPU, losses.
//! - [`timeline`] has the items of a run one by one: a [`Sink`](timeline::Sink) writes them, a [`Fold`] answers a
//!   question about them.
//! - [`stats`] has statistics that merge in any order.
//!
//! Nothing here measures, prints or opens a file.
//!
//! ```
//! use range_model::Summary;
//! use range_model::summary::{RangeStats, Times};
//!
//! let mut summary = Summary::default();
//! summary.ranges.push(RangeStats::new("Load Module", Times::new(2, 3_000)));
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_debug_implementations, clippy::missing_errors_doc, clippy::must_use_candidate)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[doc(hidden)] // for the crates of this workspace
pub mod names;
pub mod stats;
pub mod summary;
pub mod timeline;
mod unknown_name;

#[doc(hidden)] // for the crates of this workspace
pub use names::in_domain;
pub use summary::{
    ActivityLosses, ApiCallStats, CallStats, CallTotals, CapturedKernel, CapturedWork, CategoryStats, GpuActivity,
    GpuWork, GraphWork, KernelStats, Losses, MemoryKind, MemoryStats, MemoryWork, NodeCalls, NodeKernel, NodeTotals,
    NodeWork, Note, OpenAccStats, OpenRange, Process, ProjectionStats, Quantile, RangeKernelStats, RangeStats,
    RangeStyle, Sizes, StreamLosses, StreamStats, StreamTimes, Summary, Times, TreeNode,
};
#[cfg(feature = "merge")]
pub use summary::{
    CallLabel, Merged, MergedActivity, MergedSummary, PhaseLabel, Projected, RangeLabel, RankTotal, RankTotals,
    StreamLabel, WorkPart,
};
pub use timeline::fold::Fold;
pub use unknown_name::UnknownName;
