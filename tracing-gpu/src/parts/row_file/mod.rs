//! A file with the rows of a process, for the case that it is killed.

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
