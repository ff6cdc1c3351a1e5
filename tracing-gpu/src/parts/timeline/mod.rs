//! Records of ranges, calls and marks, for timelines and for the analysis of the GPU's time.
//!
//! Only the thread that created a span remembers its registry id, and keeps the span's number there as well, where
//! others find it (`numbers.rs`). Fields leave the thread as raw words when the span is created (`raw_fields.rs`); the
//! recorder finds them by that number.

pub(crate) mod recorder;
pub(crate) mod session;
pub(crate) mod thread;
pub(crate) mod tier;
