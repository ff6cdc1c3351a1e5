//! Files made from a [`Summary`](crate::Summary), for other programs: comma-separated values, folded stacks, flame
//! graphs. (JSON is `Summary::write_json`.)
//!
//! All of it takes data and a writer, and opens no file. The profiler of the crate `tracing-gpu` writes files at the
//! end of a run, by `ProfilerBuilder::json`, `ProfilerBuilder::folded`, `ProfilerBuilder::flamegraph`.
//!
//! ```
//! use range_report::{Report, Summary};
//!
//! let summary = Summary::default(); // of `Profiler::summary`, or read from a file
//! let (mut table, mut stacks) = (Vec::new(), Vec::new());
//! summary.write_csv(Report::Tree, &mut table)?;
//! summary.write_folded(&mut stacks)?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod csv;
mod folded;
mod gpu_trace;
#[cfg(feature = "html")]
pub(crate) mod html;
#[cfg(feature = "json")]
pub(crate) mod json;
#[doc(hidden)] // for the crates of this workspace
pub mod memory;
#[cfg(feature = "metrics")]
mod openmetrics;
#[doc(hidden)] // for the crates of this workspace
pub mod origin;

pub use csv::CsvFlavor;
pub use gpu_trace::GpuTrace;
#[cfg(feature = "html")]
pub use html::{HtmlSink, Limits as HtmlLimits};
#[cfg(feature = "metrics")]
#[doc(hidden)]
pub use openmetrics::{Family, Labels, Rows};
#[cfg(feature = "metrics")]
pub use openmetrics::{MOST_ROWS, Metrics, openmetrics, prometheus};
pub use origin::utc;
