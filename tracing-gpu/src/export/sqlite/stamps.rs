//! Distinct stamps for the ranges of a thread.
//!
//! The reports find the parent of a range by its stamps. Of two ranges of one thread with the same start and the same end, each is the parent of the other,
//! and both are lost. That happens where the clock stands still between two readings. Ranges come in the order of their ends, children before parents, so
//! the outer one is made longer, by 1 ns; and with it those around it that end at the same moment.

/// The ranges of one thread that ended last.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamps {
    /// Their end, as it came and as it was written.
    came: u64,
    written: u64,
    /// Ranges below the last one.
    depth: u32,
    /// Where they start, as written: those that end at `written`.
    starts: Vec<u64>,
}

impl Stamps {
    /// What to write for a push/pop range.
    pub(super) fn of(&mut self, start: u64, end: u64, depth: u32) -> (u64, u64) {
        let around = depth < self.depth;
        self.depth = depth;
        if end > self.written {
            (self.came, self.written) = (end, end);
            self.starts.clear();
            self.starts.push(start);
            return (start, end);
        }
        if end < self.came {
            return (start, end); // not in order: not promised
        }
        self.came = end;
        let empty = start == end && !around; // came after the others: it is to be inside of none
        let mut start = if empty { self.written } else { start };
        if self.starts.contains(&start) {
            self.written += 1;
            self.starts.clear();
            if empty {
                start = self.written;
            }
        }
        self.starts.push(start);
        (start, self.written)
    }

    /// What to write for a start/end range, which is on no stack.
    pub(super) fn of_lifetime(&self, start: u64, end: u64) -> (u64, u64) {
        let same = end == self.written && self.starts.contains(&start);
        (start, end + u64::from(same))
    }
}
