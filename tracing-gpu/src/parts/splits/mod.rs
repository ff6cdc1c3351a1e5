//! Call sites whose spans a field names.

pub(crate) mod session;
