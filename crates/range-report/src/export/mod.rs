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

pub(crate) mod chrome;
mod csv;
mod folded;
mod gpu_trace;
#[cfg(feature = "html")]
pub(crate) mod html;
#[cfg(feature = "join")]
pub mod joined;
#[cfg(feature = "json")]
pub(crate) mod json;
#[cfg(any(feature = "html", feature = "parquet"))]
mod memory;
#[cfg(feature = "metrics")]
mod openmetrics;
mod origin;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;
#[cfg(feature = "join")]
mod part;
#[cfg(feature = "perfetto")]
pub(crate) mod perfetto;
#[cfg(feature = "sqlite")]
pub(crate) mod sqlite;

pub use chrome::{Chrome, is_compressed};
#[cfg(feature = "csv")]
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
#[cfg(feature = "parquet")]
pub use parquet::Parquet;
#[cfg(feature = "perfetto")]
pub use perfetto::Perfetto;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
