//! TODO crate::parts::cpu_time

pub(crate) mod thread;
