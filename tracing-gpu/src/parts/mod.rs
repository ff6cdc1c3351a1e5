//! TODO crate::parts

pub(crate) mod batches;
