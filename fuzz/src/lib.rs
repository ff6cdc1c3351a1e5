//! What the fuzzers call, and `tests/tests/corpora.rs` with what they found: one function a target, which panics where
//! a promise is broken. `fuzz/README.md` says how to run them.

#[path = "../../tests/src/csv.rs"]
mod csv;
#[path = "../../tests/src/json_schema.rs"]
mod json_schema;

pub mod cupti;
pub mod merge;
pub mod names;
pub mod nvtx;
pub mod settings;
pub mod spans;
pub mod summary;
