//! What ran on the GPU, and which call of the program launched it.
//!
//! ```text
//! CUPTI's buffers -> cupti -> records --.            .-> Totals
//!                                       |-> join -> folds
//! the program's log of its launches ----'            '-> Events
//! ```
//!
//! - [`source`] records work: [`cupti`] finds and loads libcupti, keeps a session with it, and decodes its buffers into
//!   [`record`]s; [`timed`] takes operations that the program has timed itself.
//! - [`join`] joins these with the launch logs of the program's threads, once. It hands each joined record to the
//!   folds: the [`totals`], and the events of timelines. It is pure: data in, data out.
//! - `driver` (the few driver functions that measuring needs, found by name in the loaded library), `own_calls` (which
//!   calls are the profiler's own) and `forks` (whether this process is a forked child) are for the crates of this
//!   workspace: they take handles as numbers, for which the caller vouches.
//!
//! Nothing here knows spans, NVTX or the layout of reports. A machine without CUDA is no error: the caller gets a
//! sentence that names what is missing. It is tested on Linux.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_debug_implementations, clippy::missing_errors_doc, clippy::must_use_candidate)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod cupti;
#[doc(hidden)]
pub mod driver;
mod fold;
#[doc(hidden)]
pub mod forks;
pub mod graph;
pub mod join;
#[doc(hidden)]
pub mod nvml;
#[doc(hidden)]
pub mod own_calls;
pub mod record;
pub mod source;
pub mod timed;
pub mod totals;
