//! What a thread records for a timeline: each range as it ends, and each event.
//!
//! Only while a timeline is written. A range is four words that its thread writes into a page of its own, with plain stores and no lock; a page that is
//! full goes to the list of the thread, under a lock that is taken once a page. What is not a plain range goes there at once. Whoever writes the files takes
//! the list away, with what is in the page so far. All lists of a profiler share one bound; what does not fit is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use nvtx_rs::{Color, Payload};
use parking_lot::{Condvar, Mutex};

use super::page::{Line, PAGE, Page};
use super::shard::Shard;
use crate::clock::Ticks;
use crate::record::{Ended, RangeKey};
use crate::summary::RangeStyle;
use crate::timeline::Value;

#[cfg(test)]
#[path = "tape/tests.rs"]
mod tests;

/// Fields of a span that are not ours, by name; most spans have none. In one piece: what one thread makes and another frees costs both.
pub(crate) type Fields = Option<Arc<[(&'static str, Value)]>>;

/// What is recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// A thread begins, under this name: what follows of its number is its.
    Thread { name: Box<str> },
    /// A range that has ended.
    Range(RangeRecord),
    /// Values of the range that starts then on this thread: they come before it.
    Values { start: Ticks, color: Option<Color>, payload: Option<Payload>, fields: Fields },
    /// A new window begins at `start`, and with it what counts of the open range at this depth, which began `before`.
    Restarted { depth: u32, before: Ticks, start: Ticks },
    /// An event.
    Mark { at: Ticks, domain: Option<&'static str>, level: u8, text: Box<str> },
}

/// A range that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RangeRecord {
    pub(crate) key: RangeKey,
    pub(crate) start: Ticks,
    pub(crate) end: Ticks,
    pub(crate) depth: u32,
    /// For start/end ranges that ended on another thread than they began on: that one.
    pub(crate) began_on: Option<u32>,
    pub(crate) cut: bool,
}

/// Bits beside the depth, which has 28 (see `chunked.rs`).
const CUT: u64 = 1 << 31;
const START_END: u64 = 1 << 30;
const OTHER: u64 = 1 << 29;

/// A record in four words: start and end; label and thread; category, and depth with the bits above. Or the number of one that does not fit.
fn line_of(range: &RangeRecord, thread: u32) -> Line {
    let cut = if range.cut { CUT } else { 0 };
    let style = if range.key.style == RangeStyle::StartEnd { START_END } else { 0 };
    let depth = (u64::from(range.depth) % OTHER) | cut | style;
    let RangeKey { label, category, .. } = range.key;
    [range.start, range.end, u64::from(label) << 32 | u64::from(thread), u64::from(category) << 32 | depth]
}

fn range_of(line: &Line) -> RangeRecord {
    let &[start, end, label, bits] = line;
    let style = if bits & START_END == 0 { RangeStyle::PushPop } else { RangeStyle::StartEnd };
    let key = RangeKey { label: (label >> 32) as u32, category: (bits >> 32) as u32, style };
    RangeRecord { key, start, end, depth: (bits % OTHER) as u32, began_on: None, cut: bits & CUT != 0 }
}

/// Records in the order in which they came, each with the operating system's number of the thread that it is of.
#[derive(Debug, Default)]
pub(crate) struct Records {
    lines: Vec<Line>,
    others: Vec<Record>,
    /// Room of the texts of `others`, in lines.
    texts: usize,
}

/// Lines that a list keeps the memory of: 2 MiB.
const KEPT: usize = 1 << 16;

/// Room of what a record has elsewhere, in lines.
fn lines_of_text(record: &Record) -> usize {
    match record {
        Record::Thread { name: text } | Record::Mark { text, .. } => text.len().div_ceil(size_of::<Line>()),
        _ => 0,
    }
}

/// A record that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Recorded<'a> {
    Range(RangeRecord),
    Other(&'a Record),
}

impl Records {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// What they take of the bound.
    pub(crate) fn room(&self) -> usize {
        self.lines.len() + self.others.len() * (OTHER_LINES - 1) + self.texts
    }

    /// Forgets them, and keeps the memory, but for that of a burst: it would come to every thread in turn.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.lines.shrink_to(KEPT);
        self.others.clear();
        self.others.shrink_to(KEPT / OTHER_LINES);
        self.texts = 0;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Recorded<'_>)> {
        self.lines.iter().filter_map(|line| {
            let record = match line {
                [number, _, _, OTHER] => match self.others.get(*number as usize)? {
                    Record::Range(range) => Recorded::Range(*range),
                    other => Recorded::Other(other),
                },
                line => Recorded::Range(range_of(line)),
            };
            Some((line[2] as u32, record))
        })
    }

    fn push(&mut self, thread: u32, record: Record) {
        self.lines.push([self.others.len() as u64, 0, u64::from(thread), OTHER]);
        self.texts += lines_of_text(&record);
        self.others.push(record);
    }
}

/// What one thread has recorded and nobody has taken away.
#[derive(Debug)]
pub(crate) struct Tape {
    /// Where a timeline is written.
    page: Option<Box<Page>>,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    records: Records,
    /// How much of the page is in `records`.
    taken: usize,
    lost: u64,
}

/// Room of a record that is no plain range, in lines: one refers to it.
const OTHER_LINES: usize = 1 + size_of::<Record>().div_ceil(size_of::<Line>());

/// What all tapes of a profiler share. Room is counted in lines.
#[derive(Debug)]
pub(crate) struct TapeRoom {
    left: AtomicUsize,
    all: usize,
    /// Wakes whoever takes the records away.
    pub(crate) wake: Condvar,
}

impl TapeRoom {
    /// Room for as many records as go into `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let all = bytes / size_of::<Line>();
        Self { left: AtomicUsize::new(all), all, wake: Condvar::new() }
    }

    fn take(&self, lines: usize) -> bool {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(lines));
        if taken.is_ok_and(|left| left < self.all / 4 * 3) {
            self.wake.notify_one(); // a quarter is full
        }
        taken.is_ok()
    }

    /// So much has been written.
    pub(crate) fn give_back(&self, lines: usize) {
        self.left.fetch_add(lines, Relaxed);
    }
}

impl Log {
    /// Takes over what is in the page and was not before.
    fn take_over(&mut self, page: &Page) {
        let lines = page.since(self.taken);
        self.taken += lines.len();
        self.records.lines.extend(lines);
    }
}

impl Tape {
    pub(super) fn new(is_written: bool) -> Self {
        let log = Log { taken: PAGE, ..Log::default() };
        Self { page: is_written.then(|| Box::new(Page::new())), log: Mutex::new(log) } // no room was taken for it yet
    }
}

impl Shard {
    /// Records a range of this thread that has ended, if a timeline is written.
    #[inline]
    pub(super) fn record_ended(&self, ended: Ended, end: Ticks, depth: usize) {
        if let (Some(page), Some(identity)) = (&self.tape.page, self.identity(ended.place)) {
            let (start, depth, cut) = (end.saturating_sub(ended.duration), depth as u32, !self.core.is_running());
            let range = RangeRecord { key: identity.key, start, end, depth, began_on: None, cut };
            self.record_range(page, &range);
        }
    }

    #[inline(always)]
    fn record_range(&self, page: &Page, range: &RangeRecord) {
        let line = line_of(range, self.thread_id());
        if !page.write(line) {
            self.turn_page(page, line);
        }
    }

    /// Begins the page anew, if there is room for one.
    #[inline(never)]
    fn turn_page(&self, page: &Page, line: Line) {
        if self.core.process != std::process::id() {
            return; // a forked child: nobody writes here, and a thread that is not there may hold the lock
        }
        let mut log = self.tape.log.lock();
        log.take_over(page);
        if self.core.tape_room.as_ref().is_some_and(|room| room.take(PAGE)) {
            log.taken = 0;
            page.begin();
            page.write(line);
        } else {
            log.lost += 1;
        }
    }

    /// Records something of this thread, if a timeline is written.
    pub(crate) fn record(&self, record: impl FnOnce() -> Record) {
        let (Some(page), Some(room)) = (&self.tape.page, &self.core.tape_room) else { return };
        let record = record();
        let mut log = match self.tape.log.try_lock() {
            Some(log) => log,
            None if self.core.process != std::process::id() => return, // held by a thread that this forked child does not have
            None => self.tape.log.lock(),
        };
        log.take_over(page); // it was before
        if room.take(OTHER_LINES + lines_of_text(&record)) {
            log.records.push(self.thread_id(), record);
        } else {
            log.lost += 1;
        }
    }

    /// Hands over what was recorded since the last time, in place of the empty `into`. Any thread. Returns the number of records that were lost since then.
    pub(crate) fn take_records(&self, into: &mut Records) -> u64 {
        let mut log = self.tape.log.lock();
        if let Some(page) = &self.tape.page {
            log.take_over(page);
        }
        if !log.records.is_empty() {
            std::mem::swap(&mut log.records, into);
        }
        std::mem::take(&mut log.lost)
    }
}
