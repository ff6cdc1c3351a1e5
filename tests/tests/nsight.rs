//! Our figures against those of the real Nsight Systems, which runs here without a GPU.
//!
//! The durations cannot be equal: two clocks are read one after the other. What is allowed is 1 % or 100 ns an instance in a total, and
//! 60 ns or 1 % in a median. A clock that is read after the push instead of before it goes beyond that.

#[path = "nsight/attributes.rs"]
mod attributes;
#[path = "nsight/compare.rs"]
mod compare;
#[path = "nsight/examples.rs"]
mod examples;
#[path = "nsight/programs.rs"]
mod programs;
