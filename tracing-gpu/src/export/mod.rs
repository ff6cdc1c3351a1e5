//! Files made from a [`Summary`](crate::Summary), for other programs: comma-separated values, folded stacks, flame graphs. (JSON is
//! `Summary::to_json`.)
//!
//! All of it takes data and a writer, and knows no file. Profilers write files at the end of a run when they are told to:
//! `ProfilerBuilder::json`, [`ProfilerBuilder::folded`](crate::ProfilerBuilder::folded), `ProfilerBuilder::flamegraph`.
//!
//! ```
//! use tracing_gpu::{Report, Summary, export};
//!
//! let summary = Summary::default(); // of `Profiler::summary`, or read from a file
//! let (mut table, mut stacks) = (Vec::new(), Vec::new());
//! export::csv(&summary, Report::Tree, &mut table)?;
//! export::folded(&summary, &mut stacks)?;
//! # Ok::<(), std::io::Error>(())
//! ```

#[allow(unreachable_pub, missing_docs)] // public for the feature `internals`
pub(crate) mod chrome;
mod csv;
mod folded;
#[cfg(feature = "html")]
#[allow(unreachable_pub, missing_docs)] // as above
pub(crate) mod html;
#[cfg(feature = "json")]
pub(crate) mod json;
mod origin;
mod path;
#[cfg(feature = "sqlite")]
#[allow(unreachable_pub, missing_docs)] // as above
pub(crate) mod sqlite;

#[cfg(feature = "csv")]
pub use csv::CsvFlavor;
pub use csv::{csv, stream_csv};
#[cfg(feature = "flamegraph")]
pub use folded::flamegraph;
pub use folded::{folded, folded_gpu};
pub(crate) use path::{expand, unknown};
