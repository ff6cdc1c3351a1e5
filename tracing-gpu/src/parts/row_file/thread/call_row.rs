//! Rows of calls of a process that has ended.

use std::mem::offset_of;

use crate::core::record::CallIdentity;
use crate::core::thread::durations::Durations;
use crate::core::thread::sequence::is_torn;
use crate::parts::calls::thread::call_row::{CallCopy, CallRow, CallSums, ServedSums};
use crate::parts::row_file::image::RowImage;
use crate::parts::row_file::thread::durations;

/// Number of words of a row.
pub(crate) const WORDS: usize = size_of::<CallRow>() / 8;

/// Offset in a row that owns its latencies.
pub(crate) const SAMPLES: usize = offset_of!(CallRow, latencies) + durations::SAMPLES;

impl<'a> CallCopy<'a> {
    /// The row of a process that has ended, and whether its thread was stopped during a change of the row.
    pub(crate) fn in_image(identity: CallIdentity<'a>, row: &RowImage<'_>) -> (Self, bool) {
        let latency = Durations::in_image(row, offset_of!(CallRow, latencies));
        let sums = CallSums::of(row.words(offset_of!(CallRow, sums)));
        let served = ServedSums::of(row.words(offset_of!(CallRow, served)));
        (
            Self { identity, latency, sums, served, by_length: Vec::new() },
            is_torn(row.words(offset_of!(CallRow, sequence))),
        )
    }
}
