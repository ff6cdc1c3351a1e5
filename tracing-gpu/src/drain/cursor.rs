//! Windows: what came since a cursor's last reading.
//!
//! Rows of threads only grow, and anyone may copy them at any time. A cursor remembers the sums of its last copies, but
//! no single durations, and takes them away from the next ones. So it is as large as the rows, however many windows it
//! has read.

use std::hash::Hash;

use range_model::Losses;
#[cfg(feature = "injection")]
use range_model::OpenAccStats;
use range_model::stats::{Keyed, Lean};
use range_model::summary::{OffCpuStats, Since as _};

use crate::clock::Ticks;
use crate::parts::calls::thread::call_row::CallCopy;
#[cfg(feature = "cuda")]
use crate::parts::launches::collector::ActivityTotals;
#[cfg(feature = "cuda")]
use crate::parts::streams::device::{StreamRow, StreamRowKey, StreamTime};
use crate::parts::waits::thread::waits::{Length, LengthChange, ValueSums, WaitSums};
use crate::record::{Ended, RangeKey};
use crate::thread::row::RowCopy;
use crate::thread::state::ThreadState;

/// What was read so far: sums, in ticks, by the number of the thread and that of the row.
#[derive(Default)]
pub(crate) struct Cursor {
    /// Start of the profiler's window that it reads: a reset begins another.
    of: Ticks,
    /// End of its last window; `None` before the first.
    last: Option<Ticks>,
    rows: Keyed<(u32, u32), RowCopy>,
    calls: Keyed<(u32, u32), CallCopy<'static>>,
    #[cfg(feature = "cuda")]
    streams: Keyed<StreamRowKey, StreamTime>,
    waits: Keyed<[u32; 2], WaitSums>,
    held_up: Keyed<[u32; 2], WaitSums>,
    values: Keyed<[u32; 2], ValueSums>,
    shorter: Keyed<([u32; 2], Length), i64>,
    #[cfg(feature = "cuda")]
    activity: Option<ActivityTotals>,
    off_cpu: Vec<OffCpuStats>,
    #[cfg(feature = "injection")]
    openacc: Vec<OpenAccStats>,
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
    pub(super) fn new(mut cursor: Option<&'a mut Cursor>, window: Ticks) -> Self {
        if let Some(cursor) = cursor.as_mut().filter(|cursor| cursor.of != window) {
            **cursor = Cursor { of: window, ..Cursor::default() };
        }
        Self(cursor)
    }

    /// Whether a cursor reads.
    pub(crate) fn is_part(&self) -> bool {
        self.0.is_some()
    }

    /// The start of what is read, which ends now.
    pub(super) fn start(&mut self, window: Ticks, now: Ticks) -> Ticks {
        let last = self.0.as_mut().and_then(|cursor| cursor.last.replace(now));
        last.map_or(window, |last| last.min(now))
    }

    /// Adds the rows of a thread, and its ranges that a dropped front end has left open, in the order of the rows.
    pub(super) fn rows(&mut self, thread: &'static ThreadState, into: &mut Vec<(RangeKey, RowCopy)>) {
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

    /// The calls of a thread.
    pub(crate) fn calls(&mut self, thread: &'static ThreadState, into: &mut Vec<CallCopy<'_>>) {
        for (number, row) in (0..).zip(thread.call_rows()) {
            let key = (thread.index, number);
            let known = self.0.as_ref().and_then(|cursor| cursor.calls.get(&key));
            let Some(now) = row.copy(known.map_or(0, |before| before.latency.count)) else { continue };
            into.push(match &mut self.0 {
                None => now,
                Some(cursor) => {
                    let identity = now.identity;
                    now.since(cursor.calls.row_or(key, || CallCopy::empty(identity)))
                }
            });
        }
    }

    /// The number of the first time of a row of stream times that was not read yet.
    #[cfg(feature = "cuda")]
    pub(crate) fn first_time(&self, key: &StreamRowKey) -> u64 {
        self.0.as_ref().and_then(|cursor| cursor.streams.get(key)).map_or(0, |before| before.times.count)
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn streams(&mut self, rows: Vec<StreamRow>) -> Vec<StreamRow> {
        let Some(cursor) = &mut self.0 else { return rows };
        let since = |(stream, node, range, time): StreamRow| {
            let time = time.since(cursor.streams.row((stream, node, range)));
            (time.times.count > 0).then_some((stream, node, range, time))
        };
        rows.into_iter().filter_map(since).in_vec()
    }

    pub(crate) fn waits(&mut self, rows: Vec<([u32; 2], WaitSums)>) -> Vec<([u32; 2], WaitSums)> {
        let Some(cursor) = &mut self.0 else { return rows };
        waits_since(rows, &mut cursor.waits)
    }

    /// Waits for workers.
    pub(crate) fn held_up(&mut self, rows: Vec<([u32; 2], WaitSums)>) -> Vec<([u32; 2], WaitSums)> {
        let Some(cursor) = &mut self.0 else { return rows };
        waits_since(rows, &mut cursor.held_up)
    }

    pub(crate) fn values(&mut self, rows: Vec<([u32; 2], ValueSums)>) -> Vec<([u32; 2], ValueSums)> {
        let Some(cursor) = &mut self.0 else { return rows };
        rows_since(
            rows,
            &mut cursor.values,
            |all, more| {
                (all.waits, all.same, all.time) =
                    (all.waits + more.waits, all.same + more.same, all.time.wrapping_add(more.time));
            },
            |now, before| ValueSums {
                waits: now.waits.saturating_sub(before.waits),
                same: now.same.saturating_sub(before.same),
                time: now.time.saturating_sub(before.time),
            },
        )
    }

    pub(crate) fn shorter(&mut self, rows: Vec<LengthChange>) -> Vec<LengthChange> {
        let Some(cursor) = &mut self.0 else { return rows };
        let rows = rows.into_iter().map(|(labels, length, more)| ((labels, length), more)).in_vec();
        let rows = rows_since(rows, &mut cursor.shorter, |all, more| *all += more, |now, before| now - before);
        rows.into_iter().map(|((labels, length), more)| (labels, length, more)).in_vec()
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn activity(&mut self, now: ActivityTotals) -> ActivityTotals {
        let Some(cursor) = &mut self.0 else { return now };
        let since = now.since(cursor.activity.as_ref());
        cursor.activity = Some(now);
        since
    }

    pub(crate) fn off_cpu(&mut self, now: Vec<OffCpuStats>) -> Vec<OffCpuStats> {
        let Some(cursor) = &mut self.0 else { return now };
        let since = now.since(&cursor.off_cpu);
        cursor.off_cpu = now;
        since
    }

    #[cfg(feature = "injection")]
    pub(crate) fn openacc(&mut self, now: Vec<OpenAccStats>) -> Vec<OpenAccStats> {
        let Some(cursor) = &mut self.0 else { return now };
        let since = now.since(&cursor.openacc);
        cursor.openacc = now;
        since
    }

    /// What is open, or not read yet, stays as it is.
    pub(super) fn losses(&mut self, now: Losses) -> Losses {
        let Some(cursor) = &mut self.0 else { return now };
        let mut since = now.since(&cursor.losses);
        since.streams.pending = now.streams.pending;
        cursor.losses = now;
        since
    }
}

fn waits_since(rows: Vec<([u32; 2], WaitSums)>, before: &mut Keyed<[u32; 2], WaitSums>) -> Vec<([u32; 2], WaitSums)> {
    rows_since(
        rows,
        before,
        |all, more| {
            (all.waits, all.time, all.longest) =
                (all.waits + more.waits, all.time.wrapping_add(more.time), all.longest.max(more.longest));
        },
        |now, before| {
            let time = now.time.saturating_sub(before.time);
            // A part that is no longer than all before is as long as all of the window at most.
            let longest = if now.longest > before.longest { now.longest } else { now.longest.min(time) };
            WaitSums { waits: now.waits.saturating_sub(before.waits), time, longest }
        },
    )
}

/// The rows of all threads by key, without what they were before. Rows to which nothing was added are left out.
fn rows_since<K: Copy + Eq + Hash + Ord, V: Copy + Default + PartialEq>(
    rows: Vec<(K, V)>,
    before: &mut Keyed<K, V>,
    add: fn(&mut V, V),
    since: fn(V, V) -> V,
) -> Vec<(K, V)> {
    let mut all: Keyed<K, V> = Keyed::default();
    rows.into_iter().for_each(|(key, row)| add(all.row(key), row));
    let mut new = Vec::new();
    for (&key, &now) in all.iter() {
        let old = std::mem::replace(before.row(key), now);
        if old != now {
            new.push((key, since(now, old)));
        }
    }
    new
}
