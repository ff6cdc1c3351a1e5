//! The state of a thread of another process, or of one that has ended.

use std::mem::offset_of;
use std::ops::Range;

use range_model::stats::Lean;

use crate::clock::Ticks;
use crate::core::record::Place;
use crate::core::thread::state::ThreadState;
use crate::parts::row_file::thread::stack::{WORDS, open_of_words};

/// Words of a state up to its rows: the argument of [`open_in_file`].
pub(crate) const OPEN_WORDS: usize = offset_of!(ThreadState, rows) / 8;

/// The places of the open ranges of an ended thread, outermost first, from the words of its state in a file.
pub(crate) fn open_in_file(words: &[u64]) -> Vec<Place> {
    let stack = words.get(offset_of!(ThreadState, stack) / 8..).unwrap_or_default();
    open_of_words(stack).map(|(place, _)| place).in_vec()
}

/// The bytes of a state in a file that hold its open ranges.
pub(crate) const OPEN_BYTES: Range<u64> = {
    let start = offset_of!(ThreadState, stack) as u64;
    start..start + 8 * WORDS as u64
};

/// Place and start of the innermost range that is measured, from these bytes.
pub(crate) fn innermost_in_file(words: &[u64]) -> Option<(Place, Ticks)> {
    open_of_words(words).rev().find(|(place, _)| place.is_measured())
}
