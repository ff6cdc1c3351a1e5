//! Stamps by which the ranges of a thread find their places.
//!
//! The reports find the parent of a range by its stamps: the range of its thread that holds it most tightly, bounds
//! included. Where the clock stands still between two readings that goes wrong: of two ranges with the same start and
//! the same end each is the parent of the other, and an empty range is inside of the one that ended before it. Ranges
//! come in the order of their ends, children before parents. So one that would begin at the end of another that was
//! over begins 1 ns later, and one with the stamps of its child ends 1 ns later. With a clock that moves between any
//! two readings nothing changes.

/// The ranges of one thread that are over, as far as those that follow need them: of each depth the last, unless one
/// with fewer ranges below it came later.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamps(Vec<Over>);

#[derive(Clone, Copy, Debug)]
struct Over {
    depth: u32,
    /// As it came.
    came: u64,
    /// As they were written.
    start: u64,
    end: u64,
}

impl Stamps {
    /// What to write for a push/pop range.
    pub(super) fn of(&mut self, start: u64, end: u64, depth: u32) -> (u64, u64) {
        let came = end;
        let below = self.0.partition_point(|over| over.depth <= depth);
        let before = self.0.get(..below).and_then(<[Over]>::last);
        if before.is_some_and(|before| start < before.came) {
            return (start, end); // not in the order of their ends, which is not promised of what was lost in part
        }
        let start = before.map_or(start, |before| start.max(before.end + 1));
        let mut end = end.max(start);
        for inside in self.0.drain(below..) {
            end = end.max(inside.end);
            end += u64::from((inside.start, inside.end) == (start, end));
        }
        let over = Over { depth, came, start, end };
        match self.0.last_mut().filter(|last| last.depth == depth) {
            Some(last) => *last = over,
            None => self.0.push(over),
        }
        (start, end)
    }

    /// What to write for a start/end range, which is on no stack.
    pub(super) fn of_lifetime(&self, start: u64, end: u64) -> (u64, u64) {
        let same = self.0.last().is_some_and(|over| (over.start, over.end) == (start, end));
        (start, end + u64::from(same))
    }
}
