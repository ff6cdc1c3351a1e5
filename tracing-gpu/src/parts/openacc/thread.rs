//! A thread's data from an OpenACC runtime: its open events, and the rows of ended ones.
//!
//! A row has the events of one kind and place. An event counts with its own time, without the events inside it. Events
//! without an end, and ends without a start, are counted but are in no row.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use range_model::stats::Distribution;
use rustc_hash::FxBuildHasher;

use crate::clock::Ticks;
use crate::core::budget::Budget;
use crate::core::chunked::Chunked;
use crate::core::thread::row::Row;

/// The largest number of rows of a thread.
const MOST_ROWS: u32 = 4_096;
/// The largest number of open events of a thread. No runtime nests so deeply, so ends are missing.
const DEEPEST: usize = 256;

/// The row of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key<'a> {
    /// Index in the receiver's table of kinds.
    pub(crate) kind: u8,
    pub(crate) site: Site<'a>,
    /// The kernel or variable.
    pub(crate) detail: Option<Cow<'a, CStr>>,
}

/// The place in the program that caused an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Site<'a> {
    /// File and line, from the runtime.
    Line(Cow<'a, CStr>, u32),
    /// The return address of the call of the runtime.
    Code(usize),
    Unknown,
}

/// Only the owning thread writes, with plain stores; any thread reads the rows and the counters.
#[derive(Debug)]
pub(crate) struct OpenAccLog {
    rows: Chunked<Events, 8>,
    count: AtomicU32,
    losses: Counters,
    /// No other thread takes this lock.
    own: Mutex<Own>,
}

#[derive(Debug, Default)]
struct Events {
    key: OnceCell<Key<'static>>,
    times: Row,
}

#[derive(Debug, Default)]
struct Counters {
    unended: AtomicU64,
    unbegun: AtomicU64,
    over_limit: AtomicU64,
}

/// Events of a thread that are in no row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenAccLosses {
    /// Events that were still open when an event around them ended, or their thread.
    pub(crate) unended: u64,
    /// Ends without a start.
    pub(crate) unbegun: u64,
    /// Events of a kind and place without room.
    pub(crate) over_limit: u64,
}

#[derive(Debug, Default)]
struct Own {
    index: HashMap<Key<'static>, Option<u32>, FxBuildHasher>,
    open: Vec<OpenCall>,
}

#[derive(Debug)]
struct OpenCall {
    kind: u8,
    /// `None` if there is no room for it.
    row: Option<u32>,
    start: Ticks,
    /// Durations of the events directly inside.
    nested: u64,
}

impl Default for OpenAccLog {
    fn default() -> Self {
        Self { rows: Chunked::new(), count: AtomicU32::new(0), losses: Counters::default(), own: Mutex::default() }
    }
}

impl OpenAccLog {
    /// Starts an event; `now` is called last.
    pub(crate) fn start(&self, key: &Key<'_>, now: impl FnOnce() -> Ticks) {
        let mut own = self.own.lock();
        let row = self.row_of(&mut own, key);
        if own.open.len() >= DEEPEST {
            add(&self.losses.unended, own.open.drain(..).len());
        }
        own.open.push(OpenCall { kind: key.kind, row, start: now(), nested: 0 });
    }

    /// Ends the innermost open event of a kind, and drops those inside it, which are then in no row.
    pub(crate) fn end(&self, kind: u8, now: Ticks, budget: &Budget) {
        let mut own = self.own.lock();
        let Some(place) = own.open.iter().rposition(|open| open.kind == kind) else {
            add(&self.losses.unbegun, 1);
            return;
        };
        add(&self.losses.unended, own.open.len() - place - 1);
        let mut ended = own.open.drain(place..);
        let Some(OpenCall { row, start, nested, .. }) = ended.next() else { return };
        let nested = ended.fold(nested, |nested, inside| nested.saturating_add(inside.nested));
        let duration = now.saturating_sub(start);
        if let Some(around) = own.open.last_mut() {
            around.nested = around.nested.saturating_add(duration);
        }
        self.count(row, duration.saturating_sub(nested), budget);
    }

    /// Counts an event without a duration.
    pub(crate) fn instant(&self, key: &Key<'_>, budget: &Budget) {
        let row = self.row_of(&mut self.own.lock(), key);
        self.count(row, 0, budget);
    }

    fn count(&self, row: Option<u32>, duration: u64, budget: &Budget) {
        match row.and_then(|row| self.rows.get(row as usize)) {
            Some(events) => {
                events.times.add(duration, 0, budget);
            }
            None => add(&self.losses.over_limit, 1),
        }
    }

    fn row_of(&self, own: &mut Own, key: &Key<'_>) -> Option<u32> {
        let index: &HashMap<Key<'_>, Option<u32>, FxBuildHasher> = &own.index;
        if let Some(row) = index.get(key) {
            return *row;
        }
        let count = Some(self.count.load(Relaxed)).filter(|count| *count < MOST_ROWS)?;
        let key = key.to_owned();
        let events = self.rows.get_or_grow(count as usize)?;
        let _first = events.key.set(key.clone());
        self.count.store(count + 1, Release); // pairs with `rows`: a reader that counts the row sees its key
        own.index.insert(key, Some(count));
        Some(count)
    }

    /// All rows with an event. On any thread.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Key<'static>, Distribution)> {
        let rows = (0..self.count.load(Acquire) as usize).filter_map(|row| self.rows.get(row));
        rows.filter_map(|events| Some((events.key.get()?, events.times.copy().times))).filter(|(_, all)| all.count > 0)
    }

    /// On any thread.
    pub(crate) fn losses(&self) -> OpenAccLosses {
        let Counters { unended, unbegun, over_limit } = &self.losses;
        let [unended, unbegun, over_limit] = [unended, unbegun, over_limit].map(|counter| counter.load(Relaxed));
        OpenAccLosses { unended, unbegun, over_limit }
    }

    /// Begins a new window: open events count from then on.
    pub(crate) fn restart(&self, start: Ticks) {
        for row in 0..self.count.load(Relaxed) as usize {
            self.rows.get(row).into_iter().for_each(|events| events.times.clear());
        }
        let Counters { unended, unbegun, over_limit } = &self.losses;
        [unended, unbegun, over_limit].iter().for_each(|counter| counter.store(0, Relaxed));
        for open in &mut self.own.lock().open {
            (open.start, open.nested) = (start, 0);
        }
    }

    /// Forgets open events, for the next thread.
    pub(crate) fn abandon(&self) {
        add(&self.losses.unended, self.own.lock().open.drain(..).len());
    }
}

/// Only for the one writing thread.
fn add(counter: &AtomicU64, more: usize) {
    counter.store(counter.load(Relaxed).wrapping_add(more as u64), Relaxed);
}

impl Key<'_> {
    fn to_owned(&self) -> Key<'static> {
        let owned = |text: &Cow<'_, CStr>| Cow::Owned(text.clone().into_owned());
        let site = match &self.site {
            Site::Line(file, line) => Site::Line(owned(file), *line),
            Site::Code(address) => Site::Code(*address),
            Site::Unknown => Site::Unknown,
        };
        Key { kind: self.kind, site, detail: self.detail.as_ref().map(owned) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(kind: u8) -> Key<'static> {
        Key { kind, site: Site::Unknown, detail: None }
    }

    /// Instances and summed own time, by kind.
    fn own_times(log: &OpenAccLog) -> Vec<(u8, u64, u128)> {
        let mut rows: Vec<_> = log.rows().map(|(key, all)| (key.kind, all.count, all.total)).collect();
        rows.sort_unstable();
        rows
    }

    /// Plays calls by letters, each standing for a kind: capitals start, small letters end, a digit lets that much time
    /// pass.
    fn played(calls: &str) -> OpenAccLog {
        let (log, budget) = (OpenAccLog::default(), Budget::new(1 << 20));
        calls.bytes().fold(1_000, |now, call| {
            match call {
                b'A'..=b'Z' => log.start(&key(call - b'A'), || now),
                b'a'..=b'z' => log.end(call - b'a', now, &budget),
                _ => return now + u64::from(call - b'0'),
            }
            now
        });
        log
    }

    #[test]
    fn own_time_is_without_the_events_inside() {
        let log = played("1A1B2C4cC1c3b2B1b1a9A5a");
        assert_eq!(own_times(&log), [(0, 2, 1 + 2 + 1 + 5), (1, 2, 2 + 3 + 1), (2, 2, 4 + 1)]);
        assert_eq!(log.losses(), OpenAccLosses::default());
    }

    #[test]
    fn what_is_missing_is_counted_and_counts_for_nothing_else() {
        // B has no end, so its time belongs to A; events that have ended in B still do not.
        let log = played("A1B2C4c3a2b");
        assert_eq!(own_times(&log), [(0, 1, 1 + 2 + 3), (2, 1, 4)]);
        assert_eq!(log.losses(), OpenAccLosses { unended: 1, unbegun: 1, over_limit: 0 });
        log.abandon();
        assert_eq!(played(&"AB".repeat(DEEPEST)).losses().unended, DEEPEST as u64);
    }

    #[test]
    fn a_new_window_counts_from_its_start() {
        let log = played("A5B5");
        log.restart(1_008);
        log.end(1, 1_012, &Budget::new(1 << 20));
        log.end(0, 1_013, &Budget::new(1 << 20));
        assert_eq!(own_times(&log), [(0, 1, 1), (1, 1, 4)]);
    }

    #[test]
    fn rows_are_told_apart_by_place_and_name() {
        let (log, budget) = (OpenAccLog::default(), Budget::new(1 << 20));
        let at = |line, detail: Option<&'static CStr>| Key {
            kind: 3,
            site: Site::Line(c"a.c".into(), line),
            detail: detail.map(Cow::from),
        };
        for key in [at(1, None), at(1, Some(c"x")), at(2, None), at(1, Some(c"x"))] {
            log.instant(&key, &budget);
        }
        let counts: Vec<u64> = log.rows().map(|(_, all)| all.count).collect();
        assert_eq!((counts, log.losses()), (vec![1, 2, 1], OpenAccLosses::default()));
        (0..2 * MOST_ROWS).for_each(|line| log.instant(&at(line + 10, None), &budget));
        assert_eq!((log.rows().count() as u32, log.losses().over_limit), (MOST_ROWS, u64::from(MOST_ROWS) + 3));
    }

    proptest! {
        /// Whatever ends are missing, nothing panics, no time counts twice, and every call is in a row or in a counter.
        #[test]
        fn any_calls_add_up(calls in "[A-Da-d0-9]{0,200}") {
            let log = played(&calls);
            let number = |of: fn(&u8) -> bool| calls.bytes().filter(of).count() as u64;
            let passed: u64 = calls.bytes().filter(u8::is_ascii_digit).map(|digit| u64::from(digit - b'0')).sum();
            let rows = own_times(&log);
            prop_assert!(rows.iter().map(|(.., own)| own).sum::<u128>() <= u128::from(passed));
            log.abandon();
            let (counted, losses) = (rows.iter().map(|(_, count, _)| count).sum::<u64>(), log.losses());
            prop_assert_eq!(counted + losses.unended, number(u8::is_ascii_uppercase));
            prop_assert_eq!(counted + losses.unbegun, number(u8::is_ascii_lowercase));
        }

        /// If nothing is missing, the own times add up to the time in which anything was open.
        #[test]
        fn whole_calls_add_up_to_the_whole(steps in prop::collection::vec((any::<bool>(), 0_u8..4, 0_u8..10), 0..100)) {
            let (mut calls, mut open, mut expected) = (String::new(), Vec::new(), 0);
            for (starts, kind, passes) in steps {
                if starts {
                    open.push(kind);
                    calls.push(char::from(b'A' + kind));
                } else if let Some(kind) = open.pop() {
                    calls.push(char::from(b'a' + kind));
                }
                calls.push(char::from(b'0' + passes));
                expected += if open.is_empty() { 0 } else { u128::from(passes) };
            }
            open.iter().rev().for_each(|kind| calls.push(char::from(b'a' + kind)));
            let log = played(&calls);
            prop_assert_eq!(own_times(&log).iter().map(|(.., own)| own).sum::<u128>(), expected);
            prop_assert_eq!(log.losses(), OpenAccLosses::default());
        }
    }
}
