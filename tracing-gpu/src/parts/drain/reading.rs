//! Reading the parts' sums: what a cursor has not read yet.

use std::hash::Hash;

#[cfg(feature = "injection")]
use range_model::OpenAccStats;
use range_model::stats::{Keyed, Lean};
use range_model::summary::{OffCpuStats, Since as _};

use crate::core::drain::cursor::Reader;
use crate::core::thread::state::ThreadState;
use crate::parts::calls::thread::call_row::CallCopy;
#[cfg(feature = "cuda")]
use crate::parts::launches::collector::ActivityTotals;
#[cfg(feature = "cuda")]
use crate::parts::streams::device::{StreamRow, StreamRowKey};
use crate::parts::waits::thread::waits::{LengthChange, ValueSums, WaitSums};

impl Reader<'_> {
    /// The calls of a thread.
    pub(crate) fn calls(&mut self, thread: &'static ThreadState, into: &mut Vec<CallCopy<'_>>) {
        for (number, row) in (0..).zip(thread.call_rows()) {
            let key = (thread.index, number);
            let known = self.known_parts().and_then(|cursor| cursor.calls.get(&key));
            let Some(now) = row.copy(known.map_or(0, |before| before.latency.count)) else { continue };
            into.push(match self.parts() {
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
        self.known_parts().and_then(|cursor| cursor.streams.get(key)).map_or(0, |before| before.times.count)
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn streams(&mut self, rows: Vec<StreamRow>) -> Vec<StreamRow> {
        let Some(cursor) = self.parts() else { return rows };
        let since = |(stream, node, range, time): StreamRow| {
            let time = time.since(cursor.streams.row((stream, node, range)));
            (time.times.count > 0).then_some((stream, node, range, time))
        };
        rows.into_iter().filter_map(since).in_vec()
    }

    pub(crate) fn waits(&mut self, rows: Vec<([u32; 2], WaitSums)>) -> Vec<([u32; 2], WaitSums)> {
        let Some(cursor) = self.parts() else { return rows };
        waits_since(rows, &mut cursor.waits)
    }

    /// Waits for workers.
    pub(crate) fn held_up(&mut self, rows: Vec<([u32; 2], WaitSums)>) -> Vec<([u32; 2], WaitSums)> {
        let Some(cursor) = self.parts() else { return rows };
        waits_since(rows, &mut cursor.held_up)
    }

    pub(crate) fn values(&mut self, rows: Vec<([u32; 2], ValueSums)>) -> Vec<([u32; 2], ValueSums)> {
        let Some(cursor) = self.parts() else { return rows };
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
        let Some(cursor) = self.parts() else { return rows };
        let rows = rows.into_iter().map(|(labels, length, more)| ((labels, length), more)).in_vec();
        let rows = rows_since(rows, &mut cursor.shorter, |all, more| *all += more, |now, before| now - before);
        rows.into_iter().map(|((labels, length), more)| (labels, length, more)).in_vec()
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn activity(&mut self, now: ActivityTotals) -> ActivityTotals {
        let Some(cursor) = self.parts() else { return now };
        let since = now.since(cursor.activity.as_ref());
        cursor.activity = Some(now);
        since
    }

    pub(crate) fn off_cpu(&mut self, now: Vec<OffCpuStats>) -> Vec<OffCpuStats> {
        let Some(cursor) = self.parts() else { return now };
        let since = now.since(&cursor.off_cpu);
        cursor.off_cpu = now;
        since
    }

    #[cfg(feature = "injection")]
    pub(crate) fn openacc(&mut self, now: Vec<OpenAccStats>) -> Vec<OpenAccStats> {
        let Some(cursor) = self.parts() else { return now };
        let since = now.since(&cursor.openacc);
        cursor.openacc = now;
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
