//! Compares our figures with those of the real Nsight Systems, which runs here without a GPU.
//!
//! The durations cannot be equal, because two clocks are read one after the other. Allowed are 1 % or 100 ns an
//! instance in a total, and 60 ns or 1 % in a median. A clock read after the push instead of before it exceeds that.
//! On a machine where Nsight Systems is slower, a fifth of what its push and pop take there is allowed instead.
//!
//! Even with our clock read directly before the call, Nsight Systems reads its own 0.1 to 0.3 us later if its code has
//! left the caches since the last call, and 13 us later in the very first call. So these limits fit frequent ranges of
//! any length, and rare ranges from some 40 us up.

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
