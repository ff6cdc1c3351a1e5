//! The pairs of events of a thread's open ranges.

pub(crate) mod open_pairs;
pub(crate) mod paths;
