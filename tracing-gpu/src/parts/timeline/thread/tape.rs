//! A thread's records for a timeline: each range at its end, and each event.
//!
//! Only while a timeline is written. A range or a call is eight words that its thread writes into a page of its own,
//! with plain stores and no lock. A full page is copied to the thread's list, under a lock that is taken once a page.
//! The fields of a span (`raw_fields`) use the page too, at its creation, and so do the values of a range, before the
//! range. Other records go directly to the list, with their texts in one string. The writer of the files takes the
//! list, and the page so far. All lists of a profiler share one limit; records beyond it are counted.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use nvtx_rs::{Color, Payload};
use parking_lot::Mutex;
use tracing_core::field::Visit;

use super::raw_fields::{LINE, SpareWords, Words};
use crate::clock::Ticks;
use crate::core::record::{OnCpu, RangeKey, RangeNumbers};
use crate::page::{Cursor, Line, PAGE, Page};
use crate::parts::timeline::session::TapeRoom;
use crate::parts::values::span::fields::{Fields, FieldsAt};
use crate::parts::values::span::values::Changing;
use range_model::RangeStyle;
use range_model::timeline::{Link, Value};

#[cfg(test)]
#[path = "tape/tests.rs"]
mod tests;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// A thread begins, under this name. Later records with its number belong to it.
    Thread { name: Box<str> },
    /// A range that has ended.
    Range(RangeRecord),
    /// A new window begins at `start`. The open range at this depth, which began `before`, counts from then on.
    Restarted { depth: u32, before: Ticks, start: Ticks },
    /// An event.
    Mark { at: Ticks, domain: Option<&'static str>, level: u8, text: Box<str> },
    /// A batch serves a call.
    Link(Link),
}

/// Values of the range that starts then on this thread. They come before the range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ValuesRecord {
    pub(crate) start: Ticks,
    pub(crate) color: Option<Color>,
    pub(crate) payload: Option<Payload>,
    /// Its fields among those of the [`Records`].
    pub(crate) fields: FieldsAt,
}

/// A range that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RangeRecord {
    pub(crate) key: RangeKey,
    pub(crate) start: Ticks,
    pub(crate) end: Ticks,
    pub(crate) depth: u32,
    /// For a start/end range that ended on another thread: the thread on which it began.
    pub(crate) began_on: Option<u32>,
    pub(crate) cut: bool,
    pub(crate) numbers: RangeNumbers,
}

/// An ended call that is not the same as its one range. Times are those of creation and close.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CallRecord {
    pub(crate) label: u32,
    pub(crate) start: Ticks,
    pub(crate) end: Ticks,
    pub(crate) is_cancelled: bool,
    pub(crate) numbers: RangeNumbers,
}

/// A part of a call's wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct WaitRecord {
    pub(crate) call: u64,
    /// The label of the span to which it is owed.
    pub(crate) by: u32,
    pub(crate) start: Ticks,
    pub(crate) end: Ticks,
    /// Whether the call was ready, and the span ran on its thread.
    pub(crate) is_for_worker: bool,
}

/// Flags beside the depth, which has 28 bits (see `chunked.rs`).
const CUT: u64 = 1 << 31;
const START_END: u64 = 1 << 30;
const OTHER: u64 = 1 << 29;
/// The next line has the numbers of the range.
const NUMBERED: u64 = 1 << 28;
/// Marks the values of a range. The words are start; payload; colour and thread; number of fields, with this mark and
/// the flags below.
const VALUES: u64 = OTHER | CUT;
/// Marks the processor time of a range. The words are start; time on the CPU; time off it, in units of 2^10 ticks, and
/// thread.
const ON_CPU: u64 = OTHER | CUT | START_END;
/// Marks a call. The words are creation and close; label and thread; whether it was cancelled, with this mark. Its
/// numbers follow.
const CALL: u64 = OTHER | NUMBERED;
const CANCELLED: u64 = 1;
/// Marks a part of a call's wait, beside [`CALL`]. The words are its start and end; label of the span to which it is
/// owed, and thread; these marks.
const WAIT: u64 = 2;
const FOR_WORKER: u64 = 4;
/// Marks the fields of a span. The words are its number; its call site; number of fields, and thread; number of lines
/// that follow, with this mark and [`UPDATE`].
const FIELDS: u64 = OTHER | START_END;
/// The fields were recorded later, at the time in the first word that follows.
const UPDATE: u64 = 1;
const COLORED: u64 = 1 << 3;
/// The kind of the payload, from 1 up.
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

/// The second line of a range with numbers.
#[inline(always)]
fn line_of_numbers(RangeNumbers { span, call, parent, has_fields }: RangeNumbers) -> Line {
    [span, call, parent, u64::from(has_fields)]
}

fn line_of_call(call: &CallRecord, thread: u32) -> Line {
    let cancelled = if call.is_cancelled { CANCELLED } else { 0 };
    [call.start, call.end, u64::from(call.label) << 32 | u64::from(thread), CALL | cancelled]
}

fn call_of(&[start, end, label, bits]: &Line, numbers: &Line) -> CallRecord {
    let numbers = numbers_of(numbers);
    CallRecord { label: (label >> 32) as u32, start, end, is_cancelled: bits & CANCELLED != 0, numbers }
}

fn line_of_wait(wait: &WaitRecord, thread: u32) -> Line {
    let worker = if wait.is_for_worker { FOR_WORKER } else { 0 };
    [wait.start, wait.end, u64::from(wait.by) << 32 | u64::from(thread), CALL | WAIT | worker]
}

fn wait_of(&[start, end, by, bits]: &Line, numbers: &Line) -> WaitRecord {
    let call = numbers_of(numbers).call;
    WaitRecord { call, by: (by >> 32) as u32, start, end, is_for_worker: bits & FOR_WORKER != 0 }
}

fn numbers_of(&[span, call, parent, has_fields]: &Line) -> RangeNumbers {
    RangeNumbers { span, call, parent, has_fields: has_fields != 0 }
}

/// The line of a range: start and end; label and thread; category, and depth with the flags above.
#[inline(always)]
fn line_of(range: &RangeRecord, thread: u32) -> Line {
    let cut = if range.cut { CUT } else { 0 };
    let style = if range.key.style == RangeStyle::StartEnd { START_END } else { 0 };
    let numbered = if range.numbers == RangeNumbers::default() { 0 } else { NUMBERED };
    let depth = (u64::from(range.depth) % NUMBERED) | cut | style | numbered;
    let RangeKey { label, category, .. } = range.key;
    [range.start, range.end, u64::from(label) << 32 | u64::from(thread), u64::from(category) << 32 | depth]
}

fn range_of(&[start, end, label, bits]: &Line, numbers: Option<&Line>) -> RangeRecord {
    let numbers = numbers.map_or_else(RangeNumbers::default, numbers_of);
    let style = if bits & START_END == 0 { RangeStyle::PushPop } else { RangeStyle::StartEnd };
    let key = RangeKey { label: (label >> 32) as u32, category: (bits >> 32) as u32, style };
    RangeRecord { key, start, end, depth: (bits % NUMBERED) as u32, began_on: None, cut: bits & CUT != 0, numbers }
}

fn is_fields(line: &Line) -> bool {
    line[3] & VALUES != VALUES && line[3] & FIELDS == FIELDS
}

/// Number of lines of a record after the first.
fn lines_after(line: &Line) -> usize {
    match line[3] {
        OTHER => 0,
        bits if bits & VALUES == VALUES => 0, // of `ON_CPU`, too
        bits if is_fields(line) => (bits >> 32) as usize,
        bits => usize::from(bits & NUMBERED != 0),
    }
}

fn fields_of<'a>(&[span, site, count, bits]: &Line, following: &'a [Line]) -> Option<FieldsRecord<'a>> {
    let words = following.as_flattened().get(..(count >> 32) as usize)?;
    let (at, words) = if bits & UPDATE == 0 { (None, words) } else { (words.first().copied(), words.get(1..)?) };
    Some(FieldsRecord { span, site, at, words })
}

/// Records in order, each with the operating system's number of its thread.
#[derive(Debug, Default)]
pub(crate) struct Records {
    lines: Vec<Line>,
    others: Vec<Record>,
    /// The fields of all values.
    fields: Fields,
    /// Room of the texts of `others` and of the fields, in lines.
    elsewhere: usize,
}

/// Lines of memory that a list keeps: 2 MiB, and as much for other records, for fields and for their texts.
const KEPT: usize = 1 << 16;
/// Approximate room of a piece that is taken at once. The room comes back when the piece is written, and a burst takes
/// seconds to write. With one more page it still fits in [`KEPT`].
const PIECE: usize = KEPT - PAGE;

/// Room of a record's texts, in lines.
fn lines_of_text(record: &Record) -> usize {
    match record {
        Record::Thread { name } => name.len().div_ceil(size_of::<Line>()),
        Record::Mark { text, .. } => text.len().div_ceil(size_of::<Line>()),
        Record::Range(_) | Record::Restarted { .. } | Record::Link(_) => 0,
    }
}

/// Room of fields, in lines.
fn lines_of_fields(fields: &Fields) -> usize {
    fields.bytes().div_ceil(size_of::<Line>())
}

/// The fields of a span.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FieldsRecord<'a> {
    /// Its number.
    pub(crate) span: u64,
    /// The address of its call site.
    pub(crate) site: u64,
    /// Time of recording, unless that was the creation.
    pub(crate) at: Option<Ticks>,
    /// The argument of [`raw_fields::read`](super::raw_fields::read).
    pub(crate) words: &'a [u64],
}

/// A record as it is read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Recorded<'a> {
    Range(RangeRecord),
    Call(CallRecord),
    Wait(WaitRecord),
    Values(ValuesRecord),
    /// What is known of the processor time of the range that starts then on this thread: the next record there.
    OnCpu(Ticks, OnCpu),
    Fields(FieldsRecord<'a>),
    /// A record with its fields, among those of the [`Records`].
    Other(&'a Record, FieldsAt),
}

impl Records {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Their room within the limit.
    pub(crate) fn room(&self) -> usize {
        self.lines.len() + self.others.len() * (OTHER_LINES - 1) + self.elsewhere
    }

    /// Clears the records and keeps their memory, except that of a burst, which would move from thread to thread.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.lines.shrink_to(KEPT);
        self.others.clear();
        self.others.shrink_to(KEPT / OTHER_LINES);
        self.fields.clear(KEPT * size_of::<Line>());
        self.elsewhere = 0;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Recorded<'_>)> {
        let (mut fields, mut rest) = (self.fields.places(), self.lines.as_slice());
        std::iter::from_fn(move || {
            let (line, after) = rest.split_first()?;
            let (following, after) = after.split_at_checked(lines_after(line))?;
            rest = after;
            let record = match line {
                [number, count, _, OTHER] => match self.others.get(*number as usize)? {
                    Record::Range(range) => Recorded::Range(*range),
                    other => Recorded::Other(other, fields.next(*count as usize)),
                },
                [start, on, off, ON_CPU] => Recorded::OnCpu(*start, OnCpu { on: *on, off: off >> 32 << 10 }),
                [_, _, _, bits] if bits & VALUES == VALUES => {
                    let (values, count) = values_of(line);
                    Recorded::Values(ValuesRecord { fields: fields.next(count), ..values })
                }
                [.., bits] if bits & FIELDS == FIELDS => Recorded::Fields(fields_of(line, following)?),
                [.., bits] if bits & (CALL | WAIT) == CALL | WAIT => Recorded::Wait(wait_of(line, following.first()?)),
                [.., bits] if bits & CALL == CALL => Recorded::Call(call_of(line, following.first()?)),
                line => Recorded::Range(range_of(line, following.first())),
            };
            Some((line[2] as u32, record))
        })
    }

    /// The places of new spans' fields, by span number.
    pub(crate) fn new_spans(&self) -> impl Iterator<Item = (u64, usize)> {
        let new = |(at, line): (usize, &Line)| (line[3] & UPDATE == 0).then_some((line[0], at));
        self.heads_of_fields().filter_map(new)
    }

    /// Fields that were recorded after the creation of their span.
    pub(crate) fn updates(&self) -> impl Iterator<Item = FieldsRecord<'_>> {
        let later = |(at, line): (usize, &Line)| (line[3] & UPDATE != 0).then(|| self.fields_at(at)).flatten();
        self.heads_of_fields().filter_map(later)
    }

    fn heads_of_fields(&self) -> impl Iterator<Item = (usize, &Line)> {
        let mut next = 0;
        let heads = std::iter::from_fn(move || {
            let (at, line) = (next, self.lines.get(next)?);
            next += 1 + lines_after(line);
            Some((at, line))
        });
        heads.filter(|(_, line)| is_fields(line))
    }

    /// The fields at this place.
    pub(crate) fn fields_at(&self, at: usize) -> Option<FieldsRecord<'_>> {
        let (line, after) = self.lines.get(at..)?.split_first()?;
        fields_of(line, after.get(..lines_after(line))?)
    }

    /// The fields of a range or an event.
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

/// The records of one thread that nobody has taken yet.
#[derive(Debug)]
pub(crate) struct Tape {
    /// Present if a timeline is written.
    page: Option<Page>,
    log: Mutex<Log>,
    room: Option<&'static TapeRoom>,
}

#[derive(Debug, Default)]
struct Log {
    /// Complete pieces from before `records`.
    before: VecDeque<Records>,
    records: Records,
    /// How much of the page has been copied to `records`.
    cursor: Cursor,
    /// Room taken in advance for records outside of the page.
    ahead: usize,
    lost: u64,
    /// Memory for fields that do not fit into the page.
    spare: Vec<u64>,
}

/// Words of memory kept for fields that do not fit into a page.
const SPARE_WORDS: usize = PAGE * LINE;

/// Room of a record other than a plain range, in lines, including the line that refers to it.
const OTHER_LINES: usize = 1 + size_of::<Record>().div_ceil(size_of::<Line>());

impl Log {
    /// Takes room for `lines` lines, and some in advance, so that not every record writes the shared counter.
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

    /// Copies the new part of the page.
    fn take_over(&mut self, page: &Page) {
        if self.records.lines.capacity() == 0 {
            self.records.lines.reserve_exact(PAGE); // doubled each time, it reaches `KEPT`
        }
        self.records.lines.extend(self.cursor.read(page));
        if self.records.room() >= PIECE {
            // A burst continues: the next piece will grow as large, and its thread must not copy while it grows.
            let next = Records { lines: Vec::with_capacity(KEPT), ..Records::default() };
            self.before.push_back(std::mem::replace(&mut self.records, next));
        }
    }
}

impl Tape {
    /// A tape with the room of a session that writes a timeline.
    pub(crate) fn new(room: Option<&'static TapeRoom>) -> Self {
        Self { page: room.map(|_| Page::default()), log: Mutex::default(), room } // the page has no room yet
    }

    /// Whether anything is recorded now.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.open_page().is_some()
    }

    /// The page, if anything is recorded now.
    #[inline(always)]
    fn open_page(&self) -> Option<&Page> {
        self.room.filter(|room| room.is_open()).and(self.page.as_ref())
    }

    /// Records a range of this thread, if a timeline is written.
    #[inline(always)]
    pub(crate) fn record_range(&self, thread: u32, range: &RangeRecord) {
        let Some(page) = self.open_page() else { return };
        let line = line_of(range, thread);
        if range.numbers == RangeNumbers::default() {
            return self.record_line(page, line);
        }
        self.record_numbered(page, [line, line_of_numbers(range.numbers)]);
    }

    /// Records a call whose span this thread has closed, if a timeline is written.
    pub(crate) fn record_call(&self, thread: u32, call: &CallRecord) {
        let Some(page) = self.open_page() else { return };
        self.record_numbered(page, [line_of_call(call, thread), line_of_numbers(call.numbers)]);
    }

    /// Records a part of a call's wait that ends on this thread, if a timeline is written.
    pub(crate) fn record_wait(&self, thread: u32, wait: &WaitRecord) {
        let Some(page) = self.open_page() else { return };
        let numbers = RangeNumbers { call: wait.call, ..RangeNumbers::default() };
        self.record_numbered(page, [line_of_wait(wait, thread), line_of_numbers(numbers)]);
    }

    #[inline(always)]
    fn record_numbered(&self, page: &Page, lines: [Line; 2]) {
        match page.unwritten().first_chunk::<{ 2 * LINE }>() {
            Some(to) => {
                to.iter().zip(lines.as_flattened()).for_each(|(to, word)| to.store(*word, Relaxed));
                page.publish(2);
            }
            None => self.turn_page(page, &lines, 1),
        }
    }

    /// Records fields of a span, which `visit` passes to its argument: at its creation, or later at the time `at`.
    #[inline(always)]
    pub(crate) fn record_fields(
        &self,
        thread: u32,
        (span, site): (u64, u64),
        at: Option<Ticks>,
        visit: impl FnOnce(&mut dyn Visit),
    ) {
        let Some(page) = self.open_page() else { return };
        let mut words = Words::new(page.unwritten(), self);
        at.into_iter().for_each(|at| words.push(at));
        visit(&mut words);
        let update = if at.is_some() { UPDATE } else { 0 };
        let (lines, list) = words.finish(|lines, count| {
            let bits = (lines as u64 - 1) << 32 | FIELDS | update;
            [span, site, (count as u64) << 32 | u64::from(thread), bits]
        });
        match list {
            None => page.publish(lines),
            Some(list) => self.record_list(page, list),
        }
    }

    /// Records fields that did not fit into the page, and begins the page anew.
    #[inline(never)]
    fn record_list(&self, page: &Page, list: Vec<u64>) {
        let lines = list.as_chunks::<LINE>().0;
        self.turn_page(page, lines, 1);
        if let Some(mut log) = self.log.try_lock() {
            log.spare = list;
            log.spare.clear();
            log.spare.shrink_to(SPARE_WORDS);
        }
    }

    /// Records something of this thread with fields, if a timeline is written.
    pub(crate) fn record(&self, thread: u32, record: Record, fields: &Fields) {
        let lines = OTHER_LINES + lines_of_text(&record) + lines_of_fields(fields);
        self.record_apart(lines, |records| records.push(thread, record, fields));
    }

    /// Records the values of the range that starts then, if a timeline is written.
    pub(crate) fn record_values(&self, thread: u32, start: Ticks, values: &Changing, fields: &Fields) {
        let Some(page) = self.open_page() else { return };
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

    /// Records the processor time of the range that starts then and is recorded next, if a timeline is written.
    pub(crate) fn record_on_cpu(&self, thread: u32, start: Ticks, cpu: OnCpu) {
        let Some(page) = self.open_page() else { return };
        let off = (cpu.off >> 10).min(u64::from(u32::MAX)) << 32;
        let line = [start, cpu.on, off | u64::from(thread), ON_CPU];
        if !page.write(line) {
            self.turn_page(page, &[line], 0); // its range is counted, if that is lost, too
        }
    }

    /// Moves the next piece to the empty `into`. On any thread. Returns the number of records lost since the last time,
    /// and the number of remaining pieces.
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
            self.turn_page(page, &[line], 1);
        }
    }

    /// Begins the page anew, if there is room, with a record that did not fit into the rest of it. Else so many records
    /// are lost.
    #[inline(never)]
    fn turn_page(&self, page: &Page, lines: &[Line], records: u64) {
        let Some(room) = self.room.filter(|room| !room.is_forked()) else { return }; // nobody writes in a forked child
        let mut log = self.log.lock();
        log.take_over(page);
        room.give_back(log.cursor.close(page));
        if lines.len() > PAGE / 2 {
            match room.take(lines.len()) {
                true => log.records.lines.extend(lines),
                false => log.lost += records,
            }
        } else if room.take(PAGE) {
            log.cursor.begin(page);
            lines.iter().for_each(|line| _ = page.write(*line));
        } else {
            log.lost += records;
        }
    }

    /// Records something outside of the page, which takes room for this number of lines.
    fn record_apart(&self, lines: usize, record: impl FnOnce(&mut Records)) {
        let (Some(page), Some(room)) = (self.open_page(), self.room) else { return };
        let mut log = match self.log.try_lock() {
            Some(log) => log,
            None if room.is_forked() => return, // a thread that does not exist in the child may hold it
            None => self.log.lock(),
        };
        log.take_over(page); // earlier records come first
        if log.takes(lines, room) {
            record(&mut log.records);
        } else {
            log.lost += 1;
        }
    }
}

impl SpareWords for Tape {
    fn lend(&self) -> Vec<u64> {
        // In a forked child, a thread that does not exist there may hold the lock.
        self.log.try_lock().map_or_else(Vec::new, |mut log| std::mem::take(&mut log.spare))
    }
}
