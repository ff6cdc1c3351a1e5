//! Our figures against those of the real Nsight Systems, which runs here without a GPU.
//!
//! The durations cannot be equal: two clocks are read one after the other. What is allowed is 1 % or 100 ns an instance
//! in a total, and 60 ns or 1 % in a median. A clock that is read after the push instead of before it goes beyond that.
//!
//! With the clock read in the instruction before the call, Nsight Systems still takes its own stamp 0.1 to 0.3 us later
//! where its code has left the caches since the last call, and 13 us later in the first call of all. So the measure
//! fits ranges that are entered often, however short, and ranges that are entered seldom from some 40 us up.

#[path = "nsight/attributes.rs"]
mod attributes;
#[path = "nsight/compare.rs"]
mod compare;
#[path = "nsight/ends.rs"]
mod ends;
#[path = "nsight/examples.rs"]
mod examples;
#[path = "nsight/foreign.rs"]
mod foreign;
#[path = "nsight/nvidias.rs"]
mod nvidias;
#[path = "nsight/programs.rs"]
mod programs;
