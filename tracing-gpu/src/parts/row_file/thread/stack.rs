//! The stack of a thread of another process, or of one that has ended.

use std::mem::offset_of;

use crate::clock::Ticks;
use crate::core::record::Place;
use crate::core::thread::stack::{Frame, NEAR, Stack};

/// Words of a stack up to its open ranges beyond the outermost 64: the argument of [`open_of_words`].
pub(crate) const WORDS: usize = (offset_of!(Stack, frames) + NEAR * size_of::<Frame>()) / 8;

/// The places and starts of the outermost open ranges, from the words of a stack in a file.
pub(crate) fn open_of_words(words: &[u64]) -> impl DoubleEndedIterator<Item = (Place, Ticks)> {
    let depth = words.first().map_or(0, |word| *word as u32 as usize); // the lower half, on all known platforms
    let frames = words.get(offset_of!(Stack, frames) / 8..).unwrap_or_default().chunks_exact(size_of::<Frame>() / 8);
    let word = |frame: &[u64], offset: usize| frame.get(offset / 8).copied();
    frames.take(depth.min(NEAR)).filter_map(move |frame| {
        let (place, start) = (word(frame, offset_of!(Frame, place))?, word(frame, offset_of!(Frame, start))?);
        Some((Place::from_bits(place), start))
    })
}
