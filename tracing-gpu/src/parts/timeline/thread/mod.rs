//! TODO crate::parts::timeline::thread

pub(crate) mod numbers;
pub(crate) mod paths;
pub(crate) mod raw_fields;
pub(crate) mod tape;
