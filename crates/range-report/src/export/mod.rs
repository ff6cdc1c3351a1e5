//! Files made from a [`Summary`](range_model::Summary), for other programs: comma-separated values, folded stacks,
//! JSON; its figures for Prometheus.
//!
//! All of it takes data and a writer, and opens no file. The profiler of the crate `tracing-gpu` writes files at the
//! end of a run, by `ProfilerBuilder::json` and `ProfilerBuilder::folded`.
//!
//! ```
//! use range_report::{Report, SummaryExt as _};
//! use range_model::Summary;
//!
//! let summary = Summary::default(); // of `Profiler::summary`, or read from a file
//! let (mut table, mut stacks) = (Vec::new(), Vec::new());
//! summary.write_csv(Report::Tree, &mut table)?;
//! summary.write_folded(&mut stacks)?;
//! # Ok::<(), std::io::Error>(())
//! ```

pub(crate) mod csv;
pub(crate) mod folded;
mod gpu_trace;
#[cfg(feature = "json")]
pub(crate) mod json;
#[cfg(feature = "metrics")]
mod openmetrics;

pub use csv::CsvFlavor;
pub use gpu_trace::GpuTrace;
#[cfg(feature = "metrics")]
#[doc(hidden)]
pub use openmetrics::{Family, Labels, Rows};
#[cfg(feature = "metrics")]
pub use openmetrics::{MOST_ROWS, Metrics, openmetrics, prometheus};
