//! Timelines of profiled runs as files: written while a program runs, joined, and read again.
//!
//! - [`Chrome`] writes the JSON that trace viewers read; with features, `Perfetto` its own format, `Sqlite` the schema
//!   of Nsight Systems' exports, and `Parquet` datasets of a run. Each is a [`Sink`](range_model::timeline::Sink).
//! - `joined` (feature `join`) makes one timeline of those of several processes.
//! - `import` (feature `import`) reads timelines: databases, also of `nsys export`, and traces.
//!
//! Nothing here measures. Items come in, files come out, and the other way round.
//!
//! ```
//! use range_files::Chrome;
//! use range_model::timeline::{Item, Range, Sink as _};
//! use range_model::{Process, Summary};
//!
//! let mut trace = Chrome::new(std::io::Cursor::new(Vec::new()));
//! trace.begin(&Process::default())?;
//! trace.item(&Item::Range(Range { thread: 1, start: 0, end: 1_000, name: "step", ..Range::default() }))?;
//! trace.end(&Summary::default(), 0)?; // no item was lost
//! # Ok::<(), std::io::Error>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_debug_implementations, clippy::missing_errors_doc, clippy::must_use_candidate)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod chrome;
#[cfg(feature = "import")]
pub mod import;
#[cfg(feature = "join")]
pub mod joined;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "join")]
mod part;
#[cfg(feature = "perfetto")]
mod perfetto;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(test)]
mod tests;

pub use chrome::{Chrome, is_compressed};
#[cfg(feature = "parquet")]
pub use parquet::Parquet;
#[cfg(feature = "perfetto")]
pub use perfetto::Perfetto;
#[cfg(feature = "sqlite")]
pub use sqlite::Sqlite;
