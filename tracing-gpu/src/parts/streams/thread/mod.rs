//! TODO crate::parts::streams::thread

pub(crate) mod open_pairs;
pub(crate) mod paths;
