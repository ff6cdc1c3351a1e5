//! A thread's log of its calls into CUDA, the lifetimes around these, and whose helper the thread is.

#[cfg(feature = "cuda")]
pub(crate) mod helper;
#[cfg(feature = "cuda")]
pub(crate) mod launch_log;
#[cfg(not(feature = "cuda"))]
#[path = "launch_log/disabled.rs"]
pub(crate) mod launch_log;
pub(crate) mod lifetimes;
#[cfg(feature = "cuda")]
pub(crate) mod note_line;
#[cfg(feature = "cuda")]
pub(crate) mod notes;
pub(crate) mod paths;
#[cfg(feature = "cuda")]
pub(crate) mod waiting;
