//! The command `tracing-gpu`: shows where the time of any program goes, without changing it.
//!
//! One file is both the command and the library that it injects (`build.rs`). The command starts the program with
//! variables that name its own file. NVTX, the CUDA driver and the OpenACC runtime load that file and call its entry
//! points (`main.rs`).
//!
//! ```text
//! command: options, run folder, spawn, wait ------------------------> read, merge, print
//!             | NVTX_INJECTION64_PATH, CUDA_INJECTION64_PATH, ...       ^ PID.json
//!             '-> program -> entry point -> inject: Profiler -----------'
//! ```
//!
//! - [`inject`] runs in the measured processes. It has one profiler per process, which writes its summary into the
//!   run's folder at the end. The rows lie in a file there. With CUDA it also writes a snapshot once a second.
//! - `command` runs in the command's own process, and measures nothing.
//!
//! `folder` is the folder of a run, which both use.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

#[cfg(not(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("the command `tracing-gpu` injects itself into programs for Linux with glibc, on x86-64 or AArch64");

mod command;
mod folder;
pub mod inject;
mod memory;
mod system;

pub use command::run;
pub use memory::Memory;

use tracing_gpu::complain;
