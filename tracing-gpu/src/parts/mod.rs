//! The capabilities around the core, a folder each. The core is the path from a span to a row: `tier`,
//! [`thread`](crate::core::thread), [`session`](crate::core::session), [`drain`](crate::core::drain).
//!
//! A folder has what its part keeps at each layer, in a file or folder of that layer's name: `session` what all threads
//! share, `thread` what one thread has and its paths, `tier` what front ends receive, `drain` what it adds to a
//! summary; and what a part has alone (`device`, `collector`, `recorder`, ...) at a layer that the test names. A layer
//! imports what a layer of the core may import. `tests/tests/architecture.rs` keeps that.

pub(crate) mod batches;
pub(crate) mod calls;
pub(crate) mod cpu_time;
pub(crate) mod drain;
pub(crate) mod foreign;
pub(crate) mod launches;
pub(crate) mod off_cpu;
#[cfg(feature = "injection")]
pub(crate) mod openacc;
pub(crate) mod row_file;
pub(crate) mod session;
pub(crate) mod splits;
pub(crate) mod streams;
pub(crate) mod thread;
pub(crate) mod tier;
pub(crate) mod timeline;
pub(crate) mod values;
pub(crate) mod waits;
