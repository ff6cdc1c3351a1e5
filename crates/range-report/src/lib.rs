//! The data of a profiled run, and all ways to look at it.
//!
//! ```text
//! Summary --> merge, Comparison --> analysis (findings, the gate) --> report (tables), export (files)
//! timeline::Item --> timeline::Sink (the page here; files in the crate range-files), Fold (in gpu-analysis)
//! ```
//!
//! - A [`Summary`] is the plain data of a run: ranges, categories, the tree, work on the GPU, losses.
//!   [`Summary::merge`] joins the processes of a run, [`Comparison`] puts runs side by side.
//! - [`analysis`] draws the conclusions: where the time goes and why ([`Summary::findings`]), and what became slower.
//! - [`report`] prints them as tables in the forms of `nsys stats`, `nvprof` and `torch.profiler`.
//! - [`export`] writes them as files: CSV, JSON, folded stacks, flame graphs, pages. [`timeline`] has the types of a
//!   timeline.
//!
//! Nothing here measures: no `tracing`, no NVTX, no CUDA, no clock and no environment variable. Data comes in, text and
//! files come out.
//!
//! ```
//! use range_report::{RenderOptions, Report, Summary};
//!
//! let summary = Summary::default(); // of a profiler, or read from a file
//! let mut text = Vec::new();
//! summary.render(&[Report::Ranges, Report::Tree], &RenderOptions::default(), &mut text)?;
//! assert!(String::from_utf8_lossy(&text).contains("No range was recorded"));
//! # Ok::<(), std::io::Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "compare"), allow(rustdoc::broken_intra_doc_links))]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_debug_implementations, clippy::missing_errors_doc, clippy::must_use_candidate)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod analysis;
#[cfg(feature = "compare")]
pub mod compare;
pub mod export;
pub mod report;
pub mod stats;
pub mod summary;
mod text;
pub mod timeline;

#[cfg(feature = "compare")]
pub use analysis::{Added, Basis, Change, Figure, Gate, Reason, Regression};
pub use analysis::{Evidence, Finding, FindingKind};
#[cfg(feature = "compare")]
pub use compare::{ComparedFigure, ComparedRange, Comparison, FigureInRun, InRun, Verdict};
#[cfg(feature = "json")]
pub use export::json::JsonError;
#[cfg(feature = "compare")]
pub use report::MergedTable;
pub use report::{FindingKinds, RenderOptions, Report, TableStyle};
pub use summary::{
    ActivityLosses, ApiCallStats, CallStats, CallTotals, CapturedKernel, CapturedWork, CategoryStats, GpuActivity,
    GpuWork, GraphWork, KernelStats, Losses, MemoryKind, MemoryStats, MemoryWork, NodeCalls, NodeTotals, NodeWork,
    OpenAccStats, OpenRange, Process, ProjectionStats, Quantile, RangeKernelStats, RangeStats, RangeStyle, Sizes,
    StreamLosses, StreamStats, StreamTimes, Summary, Times, TreeNode,
};
#[cfg(feature = "compare")]
pub use summary::{
    CallLabel, Merged, MergedActivity, MergedSummary, PhaseLabel, Projected, RangeLabel, RankTotal, RankTotals,
    StreamLabel, WorkPart,
};
pub use text::UnknownName;
pub use text::joined;
#[doc(hidden)] // for the crates of this workspace
pub use text::names::in_domain;
pub use timeline::fold::Fold;
