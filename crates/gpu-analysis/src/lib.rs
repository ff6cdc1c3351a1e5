//! Where the time of a GPU went, concluded from the stream of a run's ranges, calls and GPU work.
//!
//! ```text
//! items of a timeline -> Fold -> figures of a Summary
//! ```
//!
//! Each answer is a [`Fold`](range_model::Fold): the program that has the items hands them over one by one, and the
//! fold adds its figures to the summary at the end.
//!
//! - [`Idle`]: what the host did while the GPU was idle, and what was told of the GPU's use meanwhile.
//! - [`Interference`]: whose operations made those of others wait in a stream.
//! - [`States`]: how long calls of futures were in CUDA, and waited for the GPU work that they had launched.
//! - [`KernelExec`]: how long the calls that launch a kernel took, and how long it waited in its queue.
//!
//! It is pure: data in, figures out. Nothing here measures, prints, or reads a clock.
//!
//! ```
//! use gpu_analysis::Idle;
//! use range_model::timeline::{Item, Range};
//! use range_model::{Fold as _, Summary};
//!
//! let mut idle = Idle::default();
//! idle.item(&Item::Range(Range { thread: 1, start: 0, end: 1_000, name: "step", ..Range::default() }));
//! let mut summary = Summary::default();
//! idle.finish(&mut summary);
//! assert!(summary.idle.is_none()); // there was no GPU
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_debug_implementations, clippy::missing_errors_doc, clippy::must_use_candidate)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod idle;
mod interference;
mod kernel_exec;
mod states;
#[cfg(test)]
mod tests;
mod union;

pub use idle::Idle;
pub use interference::Interference;
pub use kernel_exec::KernelExec;
pub use states::States;
