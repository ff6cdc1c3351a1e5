//! Durations of a process that has ended.

use std::mem::offset_of;

use range_model::stats::Distribution;

use crate::core::samples;
use crate::core::thread::durations::{Durations, Sums};
use crate::parts::row_file::image::RowImage;

/// Offset of the single durations.
pub(crate) const SAMPLES: usize = offset_of!(Durations, samples);

impl Durations {
    /// The durations in a row of a file, from this byte on.
    pub(crate) fn in_image(row: &RowImage<'_>, offset: usize) -> Distribution {
        let mut all = Sums::of(row.words(offset + offset_of!(Self, sums))).distribution();
        for (start, chunk) in &row.chunks {
            let length = usize::try_from(all.count.saturating_sub(*start)).unwrap_or(usize::MAX).min(chunk.len());
            all.samples.extend(chunk[..length].iter().filter(|duration| **duration != samples::EMPTY));
        }
        for (octave, page) in &row.pages {
            let counters = page.iter().flat_map(|word| [word & u64::from(u32::MAX), word >> 32]);
            for (bucket, count) in counters.enumerate().filter(|(_, count)| *count > 0) {
                all.buckets.add((*octave, bucket), count);
            }
        }
        all
    }
}
