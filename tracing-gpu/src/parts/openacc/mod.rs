//! The calls of an OpenACC runtime.

pub(crate) mod drain;
pub(crate) mod runtime;
pub(crate) mod thread;
