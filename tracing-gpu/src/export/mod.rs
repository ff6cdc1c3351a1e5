//! What was measured, in formats that other programs open.

pub(crate) mod chrome;
