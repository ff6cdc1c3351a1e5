//! TODO crate::parts::splits

pub(crate) mod session;
