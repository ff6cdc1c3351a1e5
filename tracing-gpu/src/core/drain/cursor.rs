//! Windows: what came since a cursor's last reading.
//!
//! Rows of threads only grow, and anyone may copy them at any time. A cursor remembers the sums of its last copies, but
//! no single durations, and takes them away from the next ones. So it is as large as the rows, however many windows it
//! has read.

use range_model::Losses;
use range_model::stats::Keyed;
use range_model::summary::Since as _;

use crate::clock::Ticks;
use crate::core::record::{Ended, RangeKey};
use crate::core::thread::row::RowCopy;
use crate::core::thread::state::ThreadState;
use crate::parts::drain::cursor::{OfCursor, keep_pending};

/// What was read so far: sums, in ticks, by the number of the thread and that of the row.
#[derive(Default)]
pub(crate) struct Cursor {
    /// Start of the profiler's window that it reads: a reset begins another.
    of: Ticks,
    /// End of its last window; `None` before the first.
    last: Option<Ticks>,
    rows: Keyed<(u32, u32), RowCopy>,
    parts: OfCursor,
    losses: Losses,
}

impl std::fmt::Debug for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cursor").field("last", &self.last).finish_non_exhaustive()
    }
}

/// Reads what a cursor has not read yet; everything, if there is none.
pub(crate) struct Reader<'a>(Option<&'a mut Cursor>);

impl<'a> Reader<'a> {
    /// `window` is the start of the profiler's window.
    pub(crate) fn new(mut cursor: Option<&'a mut Cursor>, window: Ticks) -> Self {
        if let Some(cursor) = cursor.as_mut().filter(|cursor| cursor.of != window) {
            **cursor = Cursor { of: window, ..Cursor::default() };
        }
        Self(cursor)
    }

    /// Whether a cursor reads.
    pub(crate) fn is_part(&self) -> bool {
        self.0.is_some()
    }

    /// What the cursor has read of the parts, to look at.
    pub(crate) fn known_parts(&self) -> Option<&OfCursor> {
        self.0.as_ref().map(|cursor| &cursor.parts)
    }

    /// What the cursor has read of the parts, to change.
    pub(crate) fn parts(&mut self) -> Option<&mut OfCursor> {
        self.0.as_mut().map(|cursor| &mut cursor.parts)
    }

    /// The start of what is read, which ends now.
    pub(crate) fn start(&mut self, window: Ticks, now: Ticks) -> Ticks {
        let last = self.0.as_mut().and_then(|cursor| cursor.last.replace(now));
        last.map_or(window, |last| last.min(now))
    }

    /// Adds the rows of a thread, and its ranges that a dropped front end has left open, in the order of the rows.
    pub(crate) fn rows(&mut self, thread: &'static ThreadState, into: &mut Vec<(RangeKey, RowCopy)>) {
        let start = into.len();
        let first = |number| self.0.as_ref().and_then(|cursor| cursor.rows.get(&(thread.index, number)));
        let first = |number| first(number).map_or(0, |before| before.times.count);
        for (number, row) in (0..).zip(thread.rows()) {
            let Some(identity) = row.identity() else { break };
            into.push((identity.key, row.copy_from(first(number))));
        }
        let rows = into.get_mut(start..).unwrap_or_default();
        for ended in thread.left_open() {
            let Ended { place, .. } = ended;
            if let Some((_, row)) = rows.get_mut(place.row()).filter(|_| place.is_measured()) {
                row.add_ended(first(place.row() as u32), ended);
            }
        }
        let Some(cursor) = &mut self.0 else { return };
        for (number, (_, row)) in (0..).zip(rows) {
            let now = std::mem::take(row);
            *row = now.since(cursor.rows.row((thread.index, number)));
        }
    }

    /// What is open, or not read yet, stays as it is.
    pub(crate) fn losses(&mut self, now: Losses) -> Losses {
        let Some(cursor) = &mut self.0 else { return now };
        let mut since = now.since(&cursor.losses);
        keep_pending(&mut since, &now);
        cursor.losses = now;
        since
    }
}
