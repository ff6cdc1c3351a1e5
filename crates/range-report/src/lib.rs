//! What is said of a profiled run: findings, tables, comparisons, files.
//!
//! ```text
//! Summary --> analysis (findings, the gate) --> report (tables), export (files)
//! Summaries --> Comparison --> analysis, report, export
//! ```
//!
//! - [`SummaryExt`] and [`MergedSummaryExt`] list what a summary can be asked. The data itself is in `range-model`.
//! - [`report`] prints them as tables in the forms of `nsys stats`, `nvprof` and `torch.profiler`.
//! - [`export`] writes them as files: CSV, JSON, folded stacks. Pages are of the crate `range-page`,
//!   timelines of `range-files`.
//!
//! Nothing here measures: no `tracing`, no NVTX, no CUDA, no clock and no environment variable. Data comes in, text and
//! files come out.
//!
//! ```
//! use range_model::Summary;
//! use range_report::{RenderOptions, Report, SummaryExt as _};
//!
//! let summary = Summary::default(); // of a profiler, or read from a file
//! let mut text = Vec::new();
//! summary.render(&[Report::Ranges, Report::Tree], &RenderOptions::default(), &mut text)?;
//! assert!(String::from_utf8_lossy(&text).contains("No range was recorded"));
//! # Ok::<(), std::io::Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "compare"), allow(rustdoc::broken_intra_doc_links))]
#![cfg_attr(not(feature = "page"), allow(unreachable_pub))] // what the crate range-page takes
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_debug_implementations, clippy::missing_errors_doc, clippy::must_use_candidate)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod analysis;
#[cfg(feature = "compare")]
pub mod compare;
pub mod export;
mod notes;
#[cfg(feature = "page")]
#[doc(hidden)] // for the crate range-page
pub mod page;
pub mod report;
mod summary_ext;
mod text;

#[cfg(feature = "compare")]
pub use analysis::{Added, Basis, Change, Figure, Gate, Reason, Regression};
pub use analysis::{Evidence, Finding, FindingKind};
#[cfg(feature = "compare")]
pub use compare::{ComparedFigure, ComparedRange, Comparison, FigureInRun, InRun, Verdict};
#[cfg(feature = "json")]
pub use export::json::JsonError;
pub use notes::NoteExt;
#[cfg(feature = "compare")]
pub use report::MergedTable;
pub use report::{FindingKinds, RenderOptions, Report, TableStyle};
#[cfg(feature = "compare")]
pub use summary_ext::MergedSummaryExt;
pub use summary_ext::SummaryExt;
