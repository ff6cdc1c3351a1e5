//! TODO crate::parts::batches

pub(crate) mod session;
pub(crate) mod tier;
