//! Rows of a process that has ended.

use std::mem::offset_of;

use crate::core::record::OnCpu;
use crate::core::thread::durations::Durations;
use crate::core::thread::row::{Row, RowCopy, UNUSED};
use crate::core::thread::sequence::is_torn;
use crate::parts::row_file::image::RowImage;
use crate::parts::row_file::thread::durations;
use crate::sync::RECENT;

/// Number of words of a row.
pub(crate) const WORDS: usize = size_of::<Row>() / 8;

/// Offset in a row that owns its durations.
pub(crate) const SAMPLES: usize = offset_of!(Row, durations) + durations::SAMPLES;

impl RowCopy {
    /// The row of a process that has ended, and whether its thread was stopped during a change of the sums, which are
    /// then inconsistent.
    pub(crate) fn in_image(node: u32, row: &RowImage<'_>) -> (Self, bool) {
        let word = |offset| {
            let [word] = row.words(offset);
            word
        };
        let recent: [u64; RECENT] = row.words(offset_of!(Row, recent));
        let room = usize::try_from(word(offset_of!(Row, room))).unwrap_or(UNUSED);
        let copy = Self {
            node,
            calls: word(offset_of!(Row, calls)),
            first: word(offset_of!(Row, first)),
            nested: word(offset_of!(Row, nested)),
            cpu: OnCpu { on: word(offset_of!(Row, on_cpu)), off: word(offset_of!(Row, off_cpu)) },
            longest: word(offset_of!(Row, longest)),
            longest_at: word(offset_of!(Row, longest_at)),
            times: Durations::in_image(row, offset_of!(Row, durations)),
        };
        let recent = recent.get(room.wrapping_sub(1)..).unwrap_or_default();
        (copy.with_recent(0, recent.iter().rev().copied()), is_torn(row.words(offset_of!(Row, sequence))))
    }
}
