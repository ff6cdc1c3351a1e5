//! Durations that one thread adds and any thread copies: their count and sums, and single durations as far as there is
//! room.

use std::sync::atomic::Ordering::Relaxed;

use range_model::stats::Distribution;

use crate::core::samples::Samples;
use crate::sync::AtomicU64;

/// Part of a row. The row writes the sums within [`Sequence::change`](super::sequence::Sequence::change), and keeps
/// single durations before that, because a reader reads only as many as the count. So no reader waits for an
/// allocation.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Durations {
    pub(crate) samples: Samples,
    pub(crate) sums: [AtomicU64; SUMS],
}

/// Number of words of [`Sums`].
const SUMS: usize = 6;

impl Durations {
    #[inline]
    pub(crate) fn sums(&self) -> Sums {
        Sums::of(self.sums.each_ref().map(|word| word.load(Relaxed)))
    }

    #[inline]
    pub(crate) fn write(&self, sums: &Sums) {
        let Sums { count, total, min, max, squares } = *sums;
        let words = [count, total, min, max, squares as u64, (squares >> 64) as u64];
        self.sums.iter().zip(words).for_each(|(to, word)| to.store(word, Relaxed));
    }
}

/// Sums over durations.
#[derive(Clone, Copy)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    total: u64,
    /// The largest number if there are no durations.
    min: u64,
    max: u64,
    squares: u128,
}

/// The sums of no durations.
impl Default for Sums {
    fn default() -> Self {
        Self::of([0; SUMS])
    }
}

impl Sums {
    #[inline]
    pub(crate) fn of([count, total, min, max, low, high]: [u64; SUMS]) -> Self {
        let min = if count == 0 { u64::MAX } else { min };
        Self { count, total, min, max, squares: u128::from(high) << 64 | u128::from(low) }
    }

    #[inline]
    pub(crate) fn add(&mut self, duration: u64) {
        self.min = self.min.min(duration);
        self.max = self.max.max(duration);
        self.count += 1;
        self.total = self.total.wrapping_add(duration);
        self.squares = self.squares.wrapping_add(u128::from(duration) * u128::from(duration));
    }

    pub(crate) fn mean(&self) -> Option<u64> {
        self.total.checked_div(self.count)
    }

    /// A distribution without single durations.
    pub(crate) fn distribution(&self) -> Distribution {
        let Self { count, total, min, max, squares } = *self;
        let min = if count == 0 { 0 } else { min };
        Distribution { count, total: u128::from(total), min, max, squares, ..Distribution::default() }
    }
}
