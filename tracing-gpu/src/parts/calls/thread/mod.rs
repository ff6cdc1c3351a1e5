//! Rows of calls, and where a thread enters and leaves calls.

pub(crate) mod call_row;
pub(crate) mod call_rows;
pub(crate) mod paths;
