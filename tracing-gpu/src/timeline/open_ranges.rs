//! Data of ranges that are still open: their values, and the original starts of those that a new window cut.

use std::collections::BTreeMap;

use nvtx_rs::{Color, Payload};

use crate::clock::Ticks;
use crate::span::fields::Fields;

/// The largest number of remembered ranges of each kind. Beyond it, the earliest ones are forgotten: their threads may
/// have ended.
const OPEN: usize = 1 << 16;

/// Values of a range.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenValues {
    pub(super) color: Option<Color>,
    pub(super) payload: Option<Payload>,
    pub(super) fields: Fields,
}

/// Values by the start of a range and its thread.
#[derive(Debug, Default)]
pub(super) struct OpenRanges {
    values: BTreeMap<(Ticks, u32), OpenValues>,
    /// Original starts by start of the window, thread and depth.
    began: BTreeMap<(Ticks, u32, u32), Ticks>,
    /// Number of forgotten ranges, not yet told: they lack their values, or their time before a window.
    pub(super) lost: u64,
}

impl OpenRanges {
    /// Keeps the values of a range.
    pub(super) fn keep(&mut self, thread: u32, start: Ticks, values: OpenValues) {
        // More values of the same range arrive at its end.
        let range = self.values.entry((start, thread)).and_modify(|known| known.fields.append(&values.fields));
        range.or_insert(values);
        if self.values.len() > OPEN {
            self.values.pop_first();
            self.lost += 1;
        }
    }

    /// A window that begins at `start` cut the range at this depth, which began at `before`.
    pub(super) fn cut(&mut self, thread: u32, depth: u32, before: Ticks, start: Ticks) {
        let began = self.began.remove(&(before, thread, depth)).unwrap_or(before); // it may have been cut before
        self.began.insert((start, thread, depth), began);
        if self.began.len() > OPEN {
            self.began.pop_first();
            self.lost += 1;
        }
    }

    /// The original start of an ended range: `start`, unless a window cut it.
    pub(super) fn began(&mut self, thread: u32, depth: u32, start: Ticks) -> Ticks {
        if self.began.is_empty() { start } else { self.began.remove(&(start, thread, depth)).unwrap_or(start) }
    }

    /// The values of an ended range.
    pub(super) fn values(&mut self, thread: u32, start: Ticks) -> Option<OpenValues> {
        if self.values.is_empty() { None } else { self.values.remove(&(start, thread)) }
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
        assert!(open.began.is_empty() && open.lost == 0);
    }
}
