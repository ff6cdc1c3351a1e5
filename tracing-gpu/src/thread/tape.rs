//! What a thread records for a timeline: each range as it ends, and each event.
//!
//! Only while a timeline is written. A range is four words that its thread writes into a page of its own, with plain
//! stores and no lock; a page that is full goes to the list of the thread, under a lock that is taken once a page. So
//! do the values of a range, before it, unless it has fields: these, and what is neither, go to the list at once, texts
//! into one string. Whoever writes the files takes the list away, with what is in the page so far. All lists of a
//! profiler share one bound; what does not fit is counted.

use std::collections::VecDeque;

use nvtx_rs::{Color, Payload};
use parking_lot::Mutex;

use crate::clock::Ticks;
use crate::page::{Cursor, Line, PAGE, Page};
use crate::record::RangeKey;
use crate::session::tape_room::TapeRoom;
use crate::span::fields::{Fields, FieldsAt};
use crate::span::values::Changing;
use range_report::RangeStyle;
use range_report::timeline::Value;

#[cfg(test)]
#[path = "tape/tests.rs"]
mod tests;

/// What is recorded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// A thread begins, under this name: what follows of its number is its.
    Thread { name: Box<str> },
    /// A range that has ended.
    Range(RangeRecord),
    /// A new window begins at `start`, and with it what counts of the open range at this depth, which began `before`.
    Restarted { depth: u32, before: Ticks, start: Ticks },
    /// An event.
    Mark { at: Ticks, domain: Option<&'static str>, level: u8, text: Box<str> },
}

/// Values of the range that starts then on this thread: they come before it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ValuesRecord {
    pub(crate) start: Ticks,
    pub(crate) color: Option<Color>,
    pub(crate) payload: Option<Payload>,
    /// Among those of the [`Records`].
    pub(crate) fields: FieldsAt,
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
/// Values of a range, in place of other records: start; payload; colour and thread; number of fields, and the bits
/// below beside these.
const VALUES: u64 = OTHER | CUT;
const COLORED: u64 = 1 << 3;
/// What the payload is, from 1 up.
const PAYLOAD: u64 = COLORED - 1;

fn line_of_values(start: Ticks, values: &Changing, fields: usize, thread: u32) -> Line {
    let (kind, payload) = match values.payload {
        None => (0, 0),
        Some(Payload::U64(value)) => (1, value),
        Some(Payload::I64(value)) => (2, value as u64),
        Some(Payload::F64(value)) => (3, value.to_bits()),
        Some(Payload::U32(value)) => (4, u64::from(value)),
        Some(Payload::I32(value)) => (5, value as u64),
        Some(Payload::F32(value)) => (6, u64::from(value.to_bits())),
    };
    let (colored, color) = values.color.map_or((0, 0), |color| (COLORED, u64::from(color.to_argb())));
    [start, payload, color << 32 | u64::from(thread), (fields as u64) << 32 | VALUES | colored | kind]
}

/// The values without the fields, and the number of fields.
fn values_of(line: &Line) -> (ValuesRecord, usize) {
    let &[start, payload, color, bits] = line;
    let payload = match bits & PAYLOAD {
        1 => Some(Payload::U64(payload)),
        2 => Some(Payload::I64(payload as i64)),
        3 => Some(Payload::F64(f64::from_bits(payload))),
        4 => Some(Payload::U32(payload as u32)),
        5 => Some(Payload::I32(payload as i32)),
        6 => Some(Payload::F32(f32::from_bits(payload as u32))),
        _ => None,
    };
    let color = (bits & COLORED != 0).then(|| Color::argb((color >> 32) as u32));
    (ValuesRecord { start, color, payload, fields: FieldsAt::default() }, (bits >> 32) as usize)
}

/// A record in four words: start and end; label and thread; category, and depth with the bits above. Or the number of
/// one that does not fit.
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
    /// Of all values.
    fields: Fields,
    /// Room of the texts of `others` and of the fields, in lines.
    elsewhere: usize,
}

/// Lines that a list keeps the memory of: 2 MiB, and as much for other records, for fields and for the texts of these.
const KEPT: usize = 1 << 16;
/// Room of what is taken away at once, about: its room comes back when it is written, and a burst takes seconds.
const PIECE: usize = KEPT;

/// Room of what a record has elsewhere, in lines.
fn lines_of_text(record: &Record) -> usize {
    match record {
        Record::Thread { name } => name.len().div_ceil(size_of::<Line>()),
        Record::Mark { text, .. } => text.len().div_ceil(size_of::<Line>()),
        Record::Range(_) | Record::Restarted { .. } => 0,
    }
}

/// Room of fields, in lines.
fn lines_of_fields(fields: &Fields) -> usize {
    fields.bytes().div_ceil(size_of::<Line>())
}

/// A record that is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Recorded<'a> {
    Range(RangeRecord),
    Values(ValuesRecord),
    /// With its fields, among those of the [`Records`].
    Other(&'a Record, FieldsAt),
}

impl Records {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// What they take of the bound.
    pub(crate) fn room(&self) -> usize {
        self.lines.len() + self.others.len() * (OTHER_LINES - 1) + self.elsewhere
    }

    /// Forgets the records and keeps their memory, except that of a burst, which would move from thread to thread.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.lines.shrink_to(KEPT);
        self.others.clear();
        self.others.shrink_to(KEPT / OTHER_LINES);
        self.fields.clear(KEPT * size_of::<Line>());
        self.elsewhere = 0;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Recorded<'_>)> {
        let mut fields = self.fields.places();
        self.lines.iter().filter_map(move |line| {
            let record = match line {
                [number, count, _, OTHER] => match self.others.get(*number as usize)? {
                    Record::Range(range) => Recorded::Range(*range),
                    other => Recorded::Other(other, fields.next(*count as usize)),
                },
                [_, _, _, bits] if bits & VALUES == VALUES => {
                    let (values, count) = values_of(line);
                    Recorded::Values(ValuesRecord { fields: fields.next(count), ..values })
                }
                line => Recorded::Range(range_of(line)),
            };
            Some((line[2] as u32, record))
        })
    }

    /// The fields of a range or an event that has some.
    pub(crate) fn fields(&self, at: FieldsAt) -> impl Iterator<Item = (&'static str, Value<'_>)> {
        self.fields.at(at)
    }

    fn push(&mut self, thread: u32, record: Record, fields: &Fields) {
        self.lines.push([self.others.len() as u64, fields.len() as u64, u64::from(thread), OTHER]);
        self.elsewhere += lines_of_text(&record) + lines_of_fields(fields);
        self.fields.append(fields);
        self.others.push(record);
    }
}

/// What one thread has recorded and nobody has taken away.
#[derive(Debug)]
pub(crate) struct Tape {
    /// Where a timeline is written.
    page: Option<Page>,
    log: Mutex<Log>,
    room: Option<&'static TapeRoom>,
}

#[derive(Debug, Default)]
struct Log {
    /// Pieces that are complete, of what came before `records`.
    before: VecDeque<Records>,
    records: Records,
    /// How much of the page is in `records`.
    cursor: Cursor,
    /// Room that was taken for records that do not go through the page, and is not used yet.
    ahead: usize,
    lost: u64,
}

/// Room of a record that is no plain range, in lines: one refers to it.
const OTHER_LINES: usize = 1 + size_of::<Record>().div_ceil(size_of::<Line>());

impl Log {
    /// Takes room for `lines` lines, and for some more in advance, so that not every record writes what all threads
    /// share.
    fn takes(&mut self, lines: usize, room: &TapeRoom) -> bool {
        if let Some(left) = self.ahead.checked_sub(lines) {
            self.ahead = left;
            return true;
        }
        if room.is_ample() && room.take(lines + PAGE) {
            self.ahead += PAGE;
            return true;
        }
        room.take(lines)
    }

    /// Takes over what is in the page and was not before.
    fn take_over(&mut self, page: &Page) {
        self.records.lines.extend(self.cursor.read(page));
        if self.records.room() >= PIECE {
            self.before.push_back(std::mem::take(&mut self.records));
        }
    }
}

impl Tape {
    /// With the room of a session that writes a timeline.
    pub(super) fn new(room: Option<&'static TapeRoom>) -> Self {
        Self { page: room.map(|_| Page::default()), log: Mutex::default(), room } // no room was taken for the page yet
    }

    /// Whether a timeline is written.
    #[inline(always)]
    pub(super) fn is_written(&self) -> bool {
        self.page.is_some()
    }

    /// Records a range of this thread, if a timeline is written.
    #[inline(always)]
    pub(super) fn record_range(&self, thread: u32, range: &RangeRecord) {
        if let Some(page) = &self.page {
            self.record_line(page, line_of(range, thread));
        }
    }

    /// Records something of this thread that has fields, if a timeline is written.
    pub(super) fn record(&self, thread: u32, record: Record, fields: &Fields) {
        let lines = OTHER_LINES + lines_of_text(&record) + lines_of_fields(fields);
        self.record_apart(lines, |records| records.push(thread, record, fields));
    }

    /// Records the values of the range that starts then, if a timeline is written.
    pub(super) fn record_values(&self, thread: u32, start: Ticks, values: &Changing, fields: &Fields) {
        let Some(page) = &self.page else { return };
        let line = line_of_values(start, values, fields.len(), thread);
        if fields.is_empty() {
            return self.record_line(page, line);
        }
        let lines = lines_of_fields(fields);
        self.record_apart(1 + lines, |records| {
            records.lines.push(line);
            records.elsewhere += lines;
            records.fields.append(fields);
        });
    }

    /// Hands over the next piece of what was recorded, in place of the empty `into`. Any thread. Returns the number of
    /// records that were lost since the last time, and that of the pieces that are left.
    pub(crate) fn take(&self, into: &mut Records) -> (u64, usize) {
        let mut log = self.log.lock();
        if let Some(page) = &self.page {
            log.take_over(page);
        }
        if let Some(room) = self.room.filter(|_| log.ahead > 0) {
            room.give_back(std::mem::take(&mut log.ahead));
        }
        match log.before.pop_front() {
            Some(piece) => *into = piece,
            None if !log.records.is_empty() => std::mem::swap(&mut log.records, into),
            None => {}
        }
        (std::mem::take(&mut log.lost), log.before.len() + usize::from(!log.records.is_empty()))
    }

    #[inline(always)]
    fn record_line(&self, page: &Page, line: Line) {
        if !page.write(line) {
            self.turn_page(page, line);
        }
    }

    /// Begins the page anew, if there is room for one.
    #[inline(never)]
    fn turn_page(&self, page: &Page, line: Line) {
        let Some(room) = self.room.filter(|room| !room.is_forked()) else { return }; // nobody writes in a forked child
        let mut log = self.log.lock();
        log.take_over(page);
        if room.take(PAGE) {
            log.cursor.begin(page);
            page.write(line);
        } else {
            log.lost += 1;
        }
    }

    /// What does not go through the page, and takes room for so many lines.
    fn record_apart(&self, lines: usize, record: impl FnOnce(&mut Records)) {
        let (Some(page), Some(room)) = (&self.page, self.room) else { return };
        let mut log = match self.log.try_lock() {
            Some(log) => log,
            None if room.is_forked() => return, // held by a thread that does not exist in the child
            None => self.log.lock(),
        };
        log.take_over(page); // it was before
        if log.takes(lines, room) {
            record(&mut log.records);
        } else {
            log.lost += 1;
        }
    }
}
