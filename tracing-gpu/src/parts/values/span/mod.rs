//! What is read of a span's fields.

pub(crate) mod codes;
pub(crate) mod fields;
pub(crate) mod misread;
pub(crate) mod values;
