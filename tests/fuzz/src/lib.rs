//! The functions of the fuzzers, one for each target, which panic if a promise is broken. `tests/tests/corpora.rs`
//! calls them with the inputs found so far; `tests/fuzz/README.md` explains how to run them.

#[path = "../../src/csv.rs"]
mod csv;
#[path = "../../src/json_schema.rs"]
mod json_schema;

pub mod cupti;
pub mod merge;
pub mod names;
pub mod nvtx;
pub mod settings;
pub mod spans;
pub mod summary;
