//! TODO crate::parts::waits::tier

pub(crate) mod follow;
pub(crate) mod tokio;
