//! Who ended the waits of calls: as wakers tell, or inferred from what ended last.

pub(crate) mod drain;
pub(crate) mod session;
pub(crate) mod thread;
pub(crate) mod tier;
