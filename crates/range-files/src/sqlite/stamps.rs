//! Time stamps from which reports find the parents of ranges.
//!
//! To a report, the parent of a range is the shortest range of its thread that contains it, bounds included. This goes
//! wrong if two readings of the clock are equal: two ranges with the same start and end are each other's parents, and
//! an empty range is inside the range that ended right before it. Ranges arrive in the order of their ends, children
//! before parents. So a range that would begin at the end of an earlier one begins 1 ns later, and a range with the
//! stamps of its child ends 1 ns later. If all readings of the clock differ, nothing changes.

/// The ended ranges of one thread that later ranges need: the last one of each depth, unless a range of lower depth
/// arrived after it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamps(Vec<Over>);

#[derive(Clone, Copy, Debug)]
struct Over {
    depth: u32,
    /// The end as it arrived.
    came: u64,
    /// Start and end as written.
    start: u64,
    end: u64,
}

impl Stamps {
    /// Start and end to write for a push/pop range.
    pub(super) fn of(&mut self, start: u64, end: u64, depth: u32) -> (u64, u64) {
        let came = end;
        let below = self.0.partition_point(|over| over.depth <= depth);
        let before = self.0.get(..below).and_then(<[Over]>::last);
        if before.is_some_and(|before| start < before.came) {
            return (start, end); // ranges arrive out of order if some were lost
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

    /// Start and end to write for a start/end range, which is on no stack.
    pub(super) fn of_lifetime(&self, start: u64, end: u64) -> (u64, u64) {
        let same = self.0.last().is_some_and(|over| (over.start, over.end) == (start, end));
        (start, end + u64::from(same))
    }
}
