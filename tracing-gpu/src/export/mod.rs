//! Files made from what was measured, for other programs.

#[cfg(feature = "sqlite")]
#[cfg_attr(not(feature = "internals"), allow(dead_code))] // until the profiler writes timelines
pub(crate) mod sqlite;
