//! Tests of `tape`.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::*;

const THREAD: u32 = 4_194_303;

/// A tape in a session with room for this number of lines.
fn tape(lines: usize) -> Tape {
    Tape::new(Some(Box::leak(Box::new(TapeRoom::new(lines * size_of::<Line>(), true, true)))))
}

fn range(number: u64) -> RangeRecord {
    let style = if number.is_multiple_of(5) { RangeStyle::StartEnd } else { RangeStyle::PushPop };
    let key = RangeKey { label: number as u32, category: !number as u32, style };
    let (depth, cut) = ((number % (1 << 28)) as u32, number.is_multiple_of(3));
    let numbers = match number % 11 {
        0 => RangeNumbers::default(),
        _ => RangeNumbers { span: number, call: !number, parent: number << 7, has_fields: number.is_multiple_of(2) },
    };
    RangeRecord { key, start: number << 20, end: u64::MAX - number, depth, began_on: None, cut, numbers }
}

fn event(number: u64) -> Record {
    Record::Mark { at: number, domain: Some("d"), level: 3, text: number.to_string().into() }
}

fn call(number: u64) -> CallRecord {
    let numbers =
        RangeNumbers { span: !number, call: number, parent: number << 9, has_fields: number.is_multiple_of(3) };
    let is_cancelled = number.is_multiple_of(4);
    CallRecord { label: !number as u32, start: number, end: number << 30, is_cancelled, numbers }
}

fn wait(number: u64) -> WaitRecord {
    let is_for_worker = number.is_multiple_of(4);
    WaitRecord { call: !number, by: !number as u32, start: number, end: number << 30, is_for_worker }
}

/// Every seventh record is an event, another seventh a call, and another a part of a wait.
fn record(tape: &Tape, number: u64) {
    if number.is_multiple_of(7) {
        tape.record(THREAD, event(number), &Fields::default());
    } else if number % 7 == 3 {
        tape.record_call(THREAD, &call(number));
    } else if number % 7 == 4 {
        tape.record_wait(THREAD, &wait(number));
    } else {
        tape.record_range(THREAD, &range(number));
    }
}

/// The numbers of the records. Checks that each record is unchanged.
fn numbers(records: &Records) -> Vec<u64> {
    let number = |(thread, record): (u32, Recorded<'_>)| {
        assert_eq!(thread, THREAD);
        match record {
            Recorded::Range(read) => {
                assert_eq!(read, range(read.start >> 20));
                read.start >> 20
            }
            Recorded::Call(read) => {
                assert_eq!(read, call(read.start));
                read.start
            }
            Recorded::Wait(read) => {
                assert_eq!(read, wait(read.start));
                read.start
            }
            Recorded::Other(Record::Mark { at, .. }, none) => {
                assert_eq!(record, Recorded::Other(&event(*at), none));
                *at
            }
            other => panic!("{other:?}"),
        }
    };
    records.iter().map(number).collect()
}

#[test]
fn a_range_is_four_words_and_its_numbers_four_more() {
    assert_eq!(size_of::<Line>(), 32);
    for number in [0, 1, 2, 3, 5, 11, 15, 22, 55, 165, u64::from(u32::MAX) / 5 * 5, (1 << 28) - 1] {
        let range = range(number);
        let (line, numbers) = (line_of(&range, THREAD), line_of_numbers(range.numbers));
        let following = (lines_after(&line) == 1).then_some(&numbers);
        assert_eq!((range_of(&line, following), line[2] as u32), (range, THREAD));
        assert_eq!(following.is_none(), number.is_multiple_of(11));
    }
}

#[test]
fn a_range_that_ended_elsewhere_comes_through() {
    let tape = tape(1_000);
    let elsewhere = RangeRecord { began_on: Some(17), ..range(5) };
    tape.record(THREAD, Record::Range(elsewhere), &Fields::default());
    let mut records = Records::default();
    assert_eq!(tape.take(&mut records), (0, 0));
    assert_eq!(records.iter().collect::<Vec<_>>(), [(THREAD, Recorded::Range(elsewhere))]);
}

#[test]
fn records_are_in_order_whenever_they_are_taken() {
    const ALL: u64 = 100_000;
    let tape = tape(1 << 20);
    let done = AtomicBool::new(false);
    let mut taken = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (0..ALL).for_each(|number| record(&tape, number));
            done.store(true, Release);
        });
        let mut records = Records::default();
        loop {
            let last = done.load(Acquire);
            let (lost, more) = tape.take(&mut records);
            assert_eq!(lost, 0);
            taken.extend(numbers(&records));
            tape.room.unwrap().give_back(records.room());
            records.clear();
            if last && more == 0 {
                break;
            }
        }
    });
    assert!(taken.iter().copied().eq(0..ALL), "{} of {ALL}", taken.len());
}

#[test]
fn what_does_not_fit_is_counted_and_room_comes_back() {
    const LINES: usize = 1_000;
    let tape = tape(LINES);
    let room = tape.room.unwrap();
    let mut records = Records::default();
    let mut next = 0;
    for _ in 0..10 {
        let from = next;
        (0..3_000).for_each(|_| {
            record(&tape, next);
            next += 1;
        });
        let (lost, _) = tape.take(&mut records);
        let kept = numbers(&records);
        assert!(records.room() <= LINES && records.room() > LINES - 2 * PAGE, "{}", records.room());
        assert_eq!(kept.len() as u64 + lost, 3_000);
        assert!(kept.is_sorted() && kept[0] == from, "what comes first is kept");
        room.give_back(records.room());
        records.clear();
    }
    // All room, except for the page that has begun.
    let left = room.left.load(Relaxed);
    assert!((LINES - PAGE..=LINES).contains(&left), "{left}");
}

/// Writing a burst takes seconds. Records of that time, such as the ends of surrounding ranges, find room as soon as a
/// part is written.
#[test]
fn a_burst_is_taken_away_in_pieces() {
    let tape = tape(4 * PIECE);
    let room = tape.room.unwrap();
    let all = 5 * PIECE as u64;
    (0..all).for_each(|number| tape.record_range(THREAD, &range(number)));
    let mut records = Records::default();
    let (lost, more) = tape.take(&mut records);
    assert!(records.room() <= PIECE + PAGE && more >= 3, "{} lines, {more} more", records.room());
    let mut kept = numbers(&records);
    room.give_back(records.room());
    records.clear();
    let late = all + 7;
    tape.record_range(THREAD, &range(late));
    loop {
        let (lost, more) = tape.take(&mut records);
        assert_eq!(lost, 0, "of what came later");
        kept.extend(numbers(&records));
        room.give_back(records.room());
        records.clear();
        if more == 0 {
            break;
        }
    }
    assert_eq!((kept.len() as u64 + lost, kept.last()), (all + 1, Some(&late)));
    assert!(kept.is_sorted());
    let left = room.left.load(Relaxed);
    assert!((4 * PIECE - PAGE..=4 * PIECE).contains(&left), "{left}");
}

/// In a burst, a thread copies nothing and allocates once a piece.
#[test]
fn a_piece_has_its_memory_from_the_start() {
    let tape = tape(4 * PIECE);
    (0..3 * PIECE as u64 / 4).for_each(|number| tape.record_range(THREAD, &range(number))); // each takes two lines
    let log = tape.log.lock();
    let pieces = log.before.iter().chain([&log.records]);
    assert_eq!(pieces.map(|piece| piece.lines.capacity()).collect::<Vec<_>>(), [KEPT; 2]);
}

#[test]
fn values_come_before_their_range_with_their_fields() {
    let of_event = |number: u64| {
        let all =
            [("number", Value::Unsigned(number)), ("text", Value::Text("of the event")), ("yes", Value::Bool(true))];
        all.into_iter().take(number as usize % 4).collect::<Vec<_>>()
    };
    let payloads = [
        None,
        Some(Payload::U64(u64::MAX)),
        Some(Payload::I64(i64::MIN)),
        Some(Payload::F64(-0.5)),
        Some(Payload::U32(u32::MAX)),
        Some(Payload::I32(-1)),
        Some(Payload::F32(f32::MAX)),
    ];
    let colors = [None, Some(Color::argb(0)), Some(Color::argb(u32::MAX))];
    let tape = tape(1_000);
    let mut expected = Vec::new();
    for (number, (payload, color)) in
        payloads.iter().flat_map(|payload| colors.map(|color| (*payload, color))).enumerate()
    {
        let text = "größe".repeat(number % 3);
        let fields: Vec<_> =
            [("a", Value::Text(&text)), ("b", Value::Float(0.5))].into_iter().take(number % 4).collect();
        let changing = Changing { category: 3, color, payload, stream: 4, weight: None };
        tape.record_values(THREAD, number as u64, &changing, &fields.iter().copied().collect());
        record(&tape, number as u64);
        tape.record(THREAD, event(number as u64 + 1_000), &of_event(number as u64).into_iter().collect());
        expected.push((number as u64, color, payload, format!("{fields:?}")));
    }
    let mut records = Records::default();
    assert_eq!(tape.take(&mut records), (0, 0));
    let (mut found, mut events) = (Vec::new(), 0);
    for (thread, record) in records.iter() {
        assert_eq!(thread, THREAD);
        match record {
            Recorded::Values(ValuesRecord { start, color, payload, fields }) => {
                let fields: Vec<_> = records.fields(fields).collect();
                found.push((start, color, payload, format!("{fields:?}")));
            }
            Recorded::Range(range) => assert_eq!(range.start >> 20, found.last().unwrap().0),
            Recorded::Call(CallRecord { start, .. }) | Recorded::Wait(WaitRecord { start, .. }) => {
                assert_eq!(start, found.last().unwrap().0);
            }
            other @ (Recorded::Fields(_) | Recorded::OnCpu(..)) => panic!("{other:?}"),
            Recorded::Other(other, fields) => {
                let number = found.last().unwrap().0;
                let fields: Vec<_> = records.fields(fields).collect();
                if *other == event(number) {
                    assert!(fields.is_empty());
                } else {
                    assert_eq!(other, &event(number + 1_000));
                    assert_eq!(format!("{fields:?}"), format!("{:?}", of_event(number)));
                    events += fields.len();
                }
            }
        }
    }
    assert_eq!((found, events), (expected, 30), "all fields of all events");
    let room = tape.room.unwrap();
    room.give_back(records.room());
    records.clear();
    assert!((1_000 - PAGE..=1_000).contains(&room.left.load(Relaxed)), "fields take room, and give it back");
}

#[test]
fn room_is_taken_ahead_only_while_there_is_plenty() {
    let room = TapeRoom::new(8 * PAGE * size_of::<Line>(), true, true);
    let left = || room.left.load(Relaxed);
    let (mut first, mut second) = (Log::default(), Log::default());
    assert!(first.takes(3, &room));
    assert_eq!((first.ahead, left()), (PAGE, 7 * PAGE - 3));
    assert!(first.takes(PAGE, &room));
    assert_eq!((first.ahead, left()), (0, 7 * PAGE - 3));
    assert!(room.take(3 * PAGE) && second.takes(3, &room));
    assert_eq!((second.ahead, left()), (0, 4 * PAGE - 6), "less than half is left");
    assert!(!second.takes(4 * PAGE, &room) && second.takes(4 * PAGE - 6, &room));
    assert_eq!(left(), 0);
}

/// A subscriber that records the fields of spans.
struct Recording(&'static Tape);

impl tracing_core::Subscriber for Recording {
    fn enabled(&self, _: &tracing_core::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, attributes: &tracing_core::span::Attributes<'_>) -> tracing_core::span::Id {
        self.0.record_fields(THREAD, (1 << 40, 77), None, |visit| attributes.record(visit));
        tracing_core::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing_core::span::Id, values: &tracing_core::span::Record<'_>) {
        self.0.record_fields(THREAD, (1 << 40, 77), Some(5), |visit| values.record(visit));
    }
    fn record_follows_from(&self, _: &tracing_core::span::Id, _: &tracing_core::span::Id) {}
    fn event(&self, _: &tracing_core::Event<'_>) {}
    fn enter(&self, _: &tracing_core::span::Id) {}
    fn exit(&self, _: &tracing_core::span::Id) {}
}

/// Wherever in a page the fields begin, and however long they are.
#[test]
fn fields_of_a_span_come_through_wherever_a_page_ends() {
    const NAMES: [Option<&str>; 6] = [Some("a"), Some("b"), Some("c"), Some("d"), Some("e"), None];
    let tape: &'static Tape = Box::leak(Box::new(tape(1 << 20)));
    let (mut expected, mut found) = (Vec::new(), Vec::new());
    tracing::subscriber::with_default(Recording(tape), || {
        for number in 0..3_000_u64 {
            let text = "größe ".repeat(number as usize % 23 * if number % 701 == 0 { 1_000 } else { 1 });
            let span =
                tracing::info_span!("s", a = number, b = -0.5, c = %text, d = text, e = tracing::field::Empty, f = 1);
            let (shown, debug) = (Value::Text(&text), format!("{:?}", Some(&text)));
            let mut all = vec![format!(
                "None {:?}",
                [("a", Value::Unsigned(number)), ("b", Value::Float(-0.5)), ("c", shown), ("d", shown)]
            )];
            if number % 3 == 0 {
                span.record("e", tracing::field::debug(Some(&text)));
                all.push(format!("Some(5) {:?}", [("e", Value::Text(&debug))]));
            }
            if number % 2 == 0 {
                tape.record_range(THREAD, &range(number));
                all.push(format!("{:?}", range(number)));
            }
            expected.extend(all);
        }
    });
    let (mut records, mut text) = (Records::default(), Vec::new());
    loop {
        let (lost, left) = tape.take(&mut records);
        assert_eq!(lost, 0);
        for (thread, record) in records.iter() {
            assert_eq!(thread, THREAD);
            found.push(match record {
                Recorded::Fields(FieldsRecord { span, site, at, words }) => {
                    assert_eq!((span, site), (1 << 40, 77));
                    let mut fields = Fields::default();
                    super::super::raw_fields::read(words, &NAMES, &mut text, &mut fields);
                    format!("{at:?} {:?}", fields.iter().collect::<Vec<_>>())
                }
                Recorded::Range(range) => format!("{range:?}"),
                other => panic!("{other:?}"),
            });
        }
        tape.room.unwrap().give_back(records.room());
        records.clear();
        if left == 0 {
            break;
        }
    }
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    let left = tape.room.unwrap().left.load(Relaxed);
    assert!(((1 << 20) - PAGE..=1 << 20).contains(&left), "{left}: room comes back");
}

#[test]
fn processor_time_comes_right_before_its_range() {
    let tape = tape(1_000);
    let cpu = OnCpu { on: 1 << 40, off: (1 << 41) + 1_023 };
    tape.record_on_cpu(THREAD, 8 << 20, cpu);
    record(&tape, 8);
    let mut records = Records::default();
    assert_eq!(tape.take(&mut records), (0, 0));
    let found: Vec<_> = records.iter().collect();
    assert_eq!(found[0], (THREAD, Recorded::OnCpu(8 << 20, OnCpu { on: 1 << 40, off: 1 << 41 })));
    assert_eq!(found[1..], [(THREAD, Recorded::Range(range(8)))]);
}
