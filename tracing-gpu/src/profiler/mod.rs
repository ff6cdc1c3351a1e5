//! The profiler: how it is built, starts, measures and ends.

mod builder;
mod complaint;
mod ending;
mod environment;
mod explain;
#[cfg(feature = "cuda")]
mod gpu_folds;
mod handle;
mod identity;
#[cfg(feature = "cuda")]
mod ingest;
mod init;
#[cfg(feature = "json")]
mod machine;
#[cfg(feature = "server")]
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod periodic;
mod phase;
#[cfg(feature = "otlp")]
mod pusher;
mod rejected;
mod start;
mod summary;
mod windows;

pub use builder::{Chosen, ProfilerBuilder};
pub use complaint::complain;
pub use handle::Profiler;
#[cfg(feature = "cuda")]
pub use ingest::{ClockPair, Submission, TimedQueue};
pub use init::{Guard, InstallError, init};
#[cfg(feature = "server")]
pub use metrics::Scraped;
pub use start::watch_forks;
pub use windows::Windows;
