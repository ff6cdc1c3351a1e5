//! Data of ranges that are still open: their values, and the original starts of those that a new window cut.

use nvtx_rs::{Color, Payload};
use range_model::stats::{Keyed, order};

use crate::clock::Ticks;
use crate::parts::values::span::fields::Fields;

/// The largest number of remembered ranges of each kind. Beyond it, the earliest ones are forgotten: their threads may
/// have ended.
const OPEN: usize = 1 << 16;

/// Values of a range.
#[derive(Clone, Default)]
pub(crate) struct OpenValues {
    pub(crate) color: Option<Color>,
    pub(crate) payload: Option<Payload>,
    pub(crate) fields: Fields,
}

/// The start of a range or of its window, its thread, and its depth where that is known.
type Key = (Ticks, u32, u32);

/// Data of at most [`OPEN`] ranges.
struct Bounded<T> {
    all: Keyed<Key, T>,
    /// The next ones to be forgotten, the earliest last.
    earliest: Vec<Key>,
}

impl<T> Default for Bounded<T> {
    fn default() -> Self {
        Self { all: Keyed::default(), earliest: Vec::new() }
    }
}

impl<T> Bounded<T> {
    /// Forgets the earliest ranges beyond the bound, and returns their number.
    fn forget(&mut self) -> u64 {
        let before = self.all.len();
        while self.all.len() > OPEN {
            if self.earliest.is_empty() {
                self.earliest.extend(self.all.keys());
                order::by(&mut self.earliest, |a, b| b.cmp(a));
            }
            self.earliest.pop().and_then(|key| self.all.remove(&key));
        }
        (before - self.all.len()) as u64
    }

    fn remove(&mut self, key: Key) -> Option<T> {
        if self.all.is_empty() { None } else { self.all.remove(&key) }
    }
}

/// What is known of open ranges.
#[derive(Default)]
pub(crate) struct OpenRanges {
    values: Bounded<OpenValues>,
    /// Original starts.
    began: Bounded<Ticks>,
    /// Number of forgotten ranges, not yet told: they lack their values, or their time before a window.
    pub(crate) lost: u64,
}

impl OpenRanges {
    /// Keeps the values of a range.
    pub(crate) fn keep(&mut self, thread: u32, start: Ticks, values: OpenValues) {
        // More values of the same range arrive at its end.
        match self.values.all.get_mut(&(start, thread, 0)) {
            Some(known) => known.fields.append(&values.fields),
            None => _ = self.values.all.insert((start, thread, 0), values),
        }
        self.lost += self.values.forget();
    }

    /// A window that begins at `start` cut the range at this depth, which began at `before`.
    pub(crate) fn cut(&mut self, thread: u32, depth: u32, before: Ticks, start: Ticks) {
        let began = self.began.remove((before, thread, depth)).unwrap_or(before); // it may have been cut before
        self.began.all.insert((start, thread, depth), began);
        self.lost += self.began.forget();
    }

    /// The original start of an ended range: `start`, unless a window cut it.
    pub(crate) fn began(&mut self, thread: u32, depth: u32, start: Ticks) -> Ticks {
        self.began.remove((start, thread, depth)).unwrap_or(start)
    }

    /// The values of an ended range.
    pub(crate) fn values(&mut self, thread: u32, start: Ticks) -> Option<OpenValues> {
        self.values.remove((start, thread, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(start: Ticks) -> OpenValues {
        OpenValues { payload: Some(Payload::U64(start)), ..OpenValues::default() }
    }

    fn start_of(values: Option<OpenValues>) -> Option<Ticks> {
        match values?.payload? {
            Payload::U64(start) => Some(start),
            _ => None,
        }
    }

    #[test]
    fn beyond_the_bound_those_that_began_first_are_forgotten_and_counted() {
        let mut open = OpenRanges::default();
        let most = OPEN as u64;
        (0..most + 10).for_each(|start| open.keep(1, start, values(start)));
        assert_eq!(std::mem::take(&mut open.lost), 10);
        assert_eq!((start_of(open.values(1, 9)), start_of(open.values(1, 10))), (None, Some(10)));
        assert_eq!(start_of(open.values(2, 11)), None, "of another thread");
        assert_eq!(start_of(open.values(1, most + 9)), Some(most + 9));
        (0..most + 3).for_each(|thread| open.cut(thread as u32, 0, 5, 100 + thread));
        assert_eq!(open.lost, 3);
    }

    #[test]
    fn a_range_that_windows_cut_began_when_it_did() {
        let mut open = OpenRanges::default();
        for (depth, start) in [(0, 10), (1, 20)] {
            open.cut(1, depth, start, 100);
        }
        open.cut(2, 1, 30, 100);
        assert_eq!(open.began(1, 1, 100), 20);
        assert_eq!(open.began(1, 1, 100), 100, "the next one there, which began then");
        open.cut(1, 0, 100, 200);
        assert_eq!((open.began(1, 0, 200), open.began(2, 1, 100)), (10, 30));
        assert!(open.began.all.is_empty() && open.lost == 0);
    }
}
