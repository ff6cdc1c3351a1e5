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

/// Start of a range or of the window that cut it, thread, and depth, if that matters.
type Key = (Ticks, u32, u32);

/// Values, or an original start. One type, because the compiler takes long for a map of another one.
type Data = (Option<Box<OpenValues>>, Ticks);

#[derive(Debug, Default)]
pub(super) struct OpenRanges {
    values: BTreeMap<Key, Data>,
    /// Original starts.
    began: BTreeMap<Key, Data>,
    lost: u64,
}

impl OpenRanges {
    /// Keeps the values of a range.
    pub(super) fn keep(&mut self, thread: u32, start: Ticks, values: OpenValues) {
        // More values of the same range arrive at its end.
        if let Some(known) = self.values.get_mut(&(start, thread, 0)).and_then(|(known, _)| known.as_mut()) {
            known.fields.append(&values.fields);
            return;
        }
        self.lost += insert(&mut self.values, (start, thread, 0), (Some(Box::new(values)), start));
    }

    /// A window that begins at `start` cut the range at this depth, which began at `before`.
    pub(super) fn cut(&mut self, thread: u32, depth: u32, before: Ticks, start: Ticks) {
        let began = self.began(thread, depth, before); // it may have been cut before
        self.lost += insert(&mut self.began, (start, thread, depth), (None, began));
    }

    /// The original start of an ended range: `start`, unless a window cut it.
    pub(super) fn began(&mut self, thread: u32, depth: u32, start: Ticks) -> Ticks {
        remove(&mut self.began, (start, thread, depth)).map_or(start, |(_, began)| began)
    }

    /// The values of an ended range.
    pub(super) fn values(&mut self, thread: u32, start: Ticks) -> Option<OpenValues> {
        remove(&mut self.values, (start, thread, 0)).and_then(|(values, _)| values).map(|values| *values)
    }

    /// Number of ranges forgotten since the last call: they lack their values, or their time before a window.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }
}

/// Returns the number of ranges that were forgotten.
#[inline(never)]
fn insert(ranges: &mut BTreeMap<Key, Data>, key: Key, data: Data) -> u64 {
    ranges.insert(key, data);
    if ranges.len() <= OPEN {
        return 0;
    }
    ranges.pop_first();
    1
}

#[inline(never)]
fn remove(ranges: &mut BTreeMap<Key, Data>, key: Key) -> Option<Data> {
    if ranges.is_empty() { None } else { ranges.remove(&key) }
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
        assert_eq!((open.take_lost(), open.take_lost()), (10, 0));
        assert_eq!((start_of(open.values(1, 9)), start_of(open.values(1, 10))), (None, Some(10)));
        assert_eq!(start_of(open.values(2, 11)), None, "of another thread");
        assert_eq!(start_of(open.values(1, most + 9)), Some(most + 9));
        (0..most + 3).for_each(|thread| open.cut(thread as u32, 0, 5, 100 + thread));
        assert_eq!(open.take_lost(), 3);
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
