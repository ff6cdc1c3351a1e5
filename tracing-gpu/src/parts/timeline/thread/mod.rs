//! What a thread records, and the numbers by which records find each other.

pub(crate) mod numbers;
pub(crate) mod paths;
pub(crate) mod raw_fields;
pub(crate) mod tape;
