//! A file with the rows of a process, for the case that it is killed.
//!
//! **A killed process leaves its ranges and calls.** `file.rs` maps a file where rows, open ranges and durations lie.
//! It is read by offsets, by the command that wrote it: the same binary. Only names and room for more take system
//! calls.

#[cfg(all(target_os = "linux", feature = "command"))]
pub(crate) mod drain;
#[cfg(all(target_os = "linux", feature = "command"))]
pub(crate) mod file;
#[cfg(not(all(target_os = "linux", feature = "command")))]
#[path = "file/disabled.rs"]
pub(crate) mod file;
#[cfg(all(target_os = "linux", feature = "command"))]
pub(crate) mod image;
pub(crate) mod session;
pub(crate) mod thread;
