//! TODO crate::parts::calls::thread

pub(crate) mod call_row;
pub(crate) mod paths;
