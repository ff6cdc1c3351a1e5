//! Made-up buffers in the layouts of all libraries from CUDA 11.8 to 13.5.

use super::*;

/// Bytes of kernels, copies and sets in each library. In all of them calls have 40 bytes, and copies between devices
/// 96.
const LAYOUTS: [(&str, u16, u16, u16); 8] = [
    ("11.8", 200, 88, 88),
    ("12.0 to 12.6", 208, 88, 88),
    ("12.8 and 12.9", 208, 96, 88),
    ("13.0", 216, 96, 88),
    ("13.1 and 13.2", 224, 96, 88),
    ("13.3", 232, 96, 88),
    ("13.4 and 13.5", 248, 112, 104),
    ("the shortest that is read", 112, 48, 48),
];

fn strides(layout: (&str, u16, u16, u16)) -> Strides {
    let (_, kernel, copy, set) = layout;
    // 12 stands for kinds that are skipped.
    Strides::from_table(&[(10, kernel), (1, copy), (2, set), (4, 40), (5, 40), (22, 96), (12, 56)])
}

/// A record of this kind with these fields. A filler byte elsewhere exposes reads at wrong places.
fn record(kind: u32, stride: Option<usize>, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let stride = stride.expect("a kind with a stride");
    let mut bytes = vec![0xee; stride];
    bytes[..4].copy_from_slice(&kind.to_le_bytes());
    for (at, value) in fields {
        if at + value.len() <= stride {
            bytes[*at..at + value.len()].copy_from_slice(value);
        }
    }
    bytes
}

fn word(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

fn long(value: u64) -> [u8; 8] {
    value.to_le_bytes()
}

fn a_kernel(strides: &Strides, correlation: u32) -> Vec<u8> {
    let shape: Vec<u8> = [4u32, 5, 6, 32, 2, 1, 128, 256].into_iter().flat_map(u32::to_le_bytes).collect();
    record(
        10,
        strides.of(10),
        &[
            (6, &40u16.to_le_bytes()),
            (16, &long(1_000)),
            (24, &long(1_500)),
            (40, &word(1)),
            (44, &word(2)),
            (48, &word(7)),
            (52, &shape),
            (92, &word(correlation)),
            (104, &long(0xdead_0000)),
            (144, &long(0x1_0000_0002)),
        ],
    )
}

/// A record with the fields that copies and sets share.
fn a_memory_record(kind: u32, strides: &Strides, places: (usize, usize), own: &[(usize, &[u8])]) -> Vec<u8> {
    let (start, end, bytes) = (long(2_000), long(2_600), long(1 << 33));
    let (ids, correlation, node) = ([word(1), word(2), word(9)].concat(), word(55), long(0));
    let mut fields: Vec<(usize, &[u8])> = vec![(8, &bytes), (16, &start), (24, &end), (32, &ids)];
    fields.extend([(places.0, correlation.as_slice()), (places.1, node.as_slice())]);
    fields.extend(own);
    record(kind, strides.of(kind), &fields)
}

fn a_call(kind: u32, strides: &Strides) -> Vec<u8> {
    let (ids, end) = ([word(123), word(0x8000_0001), word(77), word(600)].concat(), long(950));
    record(kind, strides.of(kind), &[(4, &word(307)), (8, &long(900)), (16, &end), (24, &ids)])
}

fn all(bytes: &[u8], strides: &Strides) -> (Vec<Record>, Step) {
    let (mut records, mut found) = (Records::new(bytes, strides), Vec::new());
    loop {
        match records.step() {
            Step::Record(record) => found.push(record),
            last => return (found, last),
        }
    }
}

fn memory_op(memory: Memory) -> Record {
    let op = GpuOp {
        start: 2_000,
        end: 2_600,
        correlation: 55,
        device: 1,
        context: 2,
        stream: 9,
        graph_node: 0,
        work: Work::Memory(memory),
    };
    Record::Op { op, name: 0 }
}

#[test]
fn every_layout_reads_alike() {
    for layout in LAYOUTS {
        let strides = strides(layout);
        let bytes = [
            a_kernel(&strides, 42),
            record(12, strides.of(12), &[]),
            a_memory_record(1, &strides, (44, 64), &[(4, &[2, 3, 2, 1])]),
            a_memory_record(22, &strides, (60, 72), &[(4, &[8, 3, 3, 1])]),
            a_memory_record(2, &strides, (44, 64), &[(4, &word(0xab)), (50, &3u16.to_le_bytes())]),
            a_call(5, &strides),
            a_call(4, &strides),
        ]
        .concat();
        let (found, last) = all(&bytes, &strides);
        let kernel = Kernel {
            name: 0,
            grid: [4, 5, 6],
            block: [32, 2, 1],
            registers: 40,
            static_shared: 128,
            dynamic_shared: 256,
        };
        let op = GpuOp {
            start: 1_000,
            end: 1_500,
            correlation: 42,
            device: 1,
            context: 2,
            stream: 7,
            graph_node: if strides.of(10) >= Some(152) { 0x1_0000_0002 } else { 0 },
            work: Work::Kernel(kernel),
        };
        let shorter_set = strides.of(2) < Some(52);
        let copy = |kind, source, destination| Memory { kind, bytes: 1 << 33, source, destination, value: 0 };
        let call = |api| ApiCall {
            api,
            function: 307,
            start: 900,
            end: 950,
            thread: 0x8000_0001,
            correlation: 77,
            result: 600,
        };
        let expected = [
            Record::Op { op, name: 0xdead_0000 },
            Record::Other,
            memory_op(copy(MemoryKind::DtoH, 3, 2)),
            memory_op(copy(MemoryKind::PtoP, 3, 3)),
            memory_op(Memory { value: 0xab, ..copy(MemoryKind::Set, 0, if shorter_set { 0 } else { 3 }) }),
            Record::Call(call(Api::Runtime)),
            Record::Call(call(Api::Driver)),
        ];
        assert_eq!((found.as_slice(), last), (expected.as_slice(), Step::End), "{}", layout.0);
    }
}

#[test]
fn a_cut_buffer_gives_what_is_whole() {
    let strides = strides(LAYOUTS[3]);
    let bytes = [a_kernel(&strides, 1), a_kernel(&strides, 2), a_call(4, &strides)].concat();
    for length in 0..=bytes.len() {
        let (found, last) = all(&bytes[..length], &strides);
        let (whole, start) = match length {
            0..216 => (0, 0),
            216..432 => (1, 216),
            432..472 => (2, 432),
            _ => (3, 472),
        };
        assert_eq!(
            (found.len(), last),
            (whole, if length == start { Step::End } else { Step::Cut(start) }),
            "{length}"
        );
    }
}

#[test]
fn an_unknown_kind_stops_until_somebody_steps_over_it() {
    let strides = strides(LAYOUTS[3]);
    for kind in [0, 3, 63, 64, 1_000, u32::MAX] {
        let bytes = [a_call(4, &strides), record(kind, Some(24), &[]), a_call(5, &strides)].concat();
        let mut records = Records::new(&bytes, &strides);
        assert!(matches!(records.step(), Step::Record(Record::Call(_))));
        assert_eq!((records.step(), records.step()), (Step::Unknown(40), Step::Unknown(40)), "{kind}");
        records.go_on_at(64);
        assert!(matches!(records.step(), Step::Record(Record::Call(call)) if call.api == Api::Runtime));
        assert_eq!((records.step(), records.place()), (Step::End, 104));
        records.go_on_at(1_000);
        assert_eq!(records.step(), Step::End);
    }
}

#[test]
fn operations_without_times_are_kept_as_such() {
    let strides = strides(LAYOUTS[3]);
    let mut bytes = a_kernel(&strides, 1);
    bytes[16..32].fill(0);
    let (found, _) = all(&bytes, &strides);
    assert!(matches!(found.as_slice(), [Record::Op { op, .. }] if (op.start, op.end, op.correlation) == (0, 0, 1)));
}

#[test]
fn a_record_too_short_to_be_read_is_stepped_over() {
    let strides = Strides::from_table(&[(10, 104), (4, 40)]);
    let bytes = [record(10, Some(104), &[]), a_call(4, &strides)].concat();
    let (found, last) = all(&bytes, &strides);
    assert!(matches!(found.as_slice(), [Record::Other, Record::Call(_)]));
    assert_eq!(last, Step::End);
}

#[test]
fn kinds_of_copies_are_cuptis() {
    let expected = [
        MemoryKind::Unknown,
        MemoryKind::HtoD,
        MemoryKind::DtoH,
        MemoryKind::HtoA,
        MemoryKind::AtoH,
        MemoryKind::AtoA,
        MemoryKind::AtoD,
        MemoryKind::DtoA,
        MemoryKind::DtoD,
        MemoryKind::HtoH,
        MemoryKind::PtoP,
        MemoryKind::Unknown,
    ];
    for (number, kind) in (0..).zip(expected) {
        assert_eq!(copy_kind(number), kind);
    }
}

proptest::proptest! {
    /// Reading arbitrary bytes ends, only moves forward, and stays within them.
    #[test]
    fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(0u8..12, 0..2_000)) {
        let strides = strides(LAYOUTS[6]);
        let mut records = Records::new(&bytes, &strides);
        let mut place = 0;
        while let Step::Record(_) = records.step() {
            assert!(records.place() > place && records.place() <= bytes.len());
            place = records.place();
        }
    }
}

/// Numbering may start anywhere in a buffer. It skips unread kinds, stops at a record of unknown length, and changes
/// nothing but names.
#[test]
fn names_become_numbers() {
    for layout in LAYOUTS {
        let strides = strides(layout);
        let other = record(12, strides.of(12), &[]);
        let whole = [a_kernel(&strides, 1), other, a_kernel(&strides, 2), a_kernel(&strides, 3)].concat();
        let unknown = [whole.clone(), word(77).to_vec(), a_kernel(&strides, 4)].concat();
        for (mut bytes, end) in [(whole.clone(), None), (unknown, Some(whole.len()))] {
            let (before, mut met) = (bytes.clone(), Vec::new());
            let first = strides.of(10).expect("a kernel's stride");
            let mut number_of = |name| {
                met.push(name);
                5 + met.len() as u32
            };
            assert_eq!(number(&mut bytes, first, &strides, &mut number_of), end, "{}", layout.0);
            assert_eq!(met, [0xdead_0000; 2]);
            let names = |bytes: &[u8]| {
                let (mut records, mut names) = (Records::new(bytes, &strides), Vec::new());
                while let Step::Record(record) = records.step() {
                    names.extend(match record {
                        Record::Op { op, name } => Some((op.correlation, name)),
                        _ => None,
                    });
                }
                names
            };
            assert_eq!(names(&bytes), [(1, 0xdead_0000), (2, 6), (3, 7)]);
            let changed = bytes.iter().zip(&before).enumerate().filter(|(_, (now, before))| now != before);
            let second = first + strides.of(12).expect("a stride") + 104;
            let is_name =
                |at: usize| (second..second + 8).contains(&at) || (second + first..second + first + 8).contains(&at);
            assert!(changed.into_iter().all(|(at, _)| is_name(at)));
        }
    }
    let strides = strides(LAYOUTS[0]);
    let mut cut = a_kernel(&strides, 1);
    cut.truncate(150);
    assert_eq!(number(&mut cut, 0, &strides, |_| panic!("it is cut off")), None);
}

/// Bytes of synchronisations, event records, memory operations and overheads, from the headers of each CUDA version.
/// Stream creations have 24 in all of them.
const DETAILS: [(&str, u16, u16, u16, u16); 4] = [
    ("11.8", 40, 24, 120, 40),
    ("12.4", 40, 24, 120, 56),
    ("12.9 to 13.4", 56, 56, 128, 56),
    ("13.5", 56, 80, 128, 56),
];

/// The offsets are those of `offsetof` with the headers of each version.
#[test]
fn details_of_every_layout_are_read() {
    for (cuda, wait, event, memory, overhead) in DETAILS {
        let strides = Strides::from_table(&[(38, wait), (36, event), (49, memory), (37, 24), (17, overhead)]);
        let of = |kind: u32, fields: &[(usize, &[u8])]| record(kind, strides.of(kind), fields);
        let words = |words: &[u32]| words.iter().copied().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
        let wait_words = words(&[31, 2, 9, u32::MAX]);
        let bytes = [
            of(38, &[(4, &word(2)), (8, &long(100)), (16, &long(150)), (24, &wait_words), (40, &long(77))]),
            of(36, &[(4, &words(&[30, 2, 8, 5])), (40, &long(120)), (48, &long(77)), (56, &long(1 << 40))]),
            of(
                49,
                &[
                    (4, &words(&[2, 3, 32])),
                    (16, &long(0x7000_0000)),
                    (24, &long(1 << 33)),
                    (32, &long(130)),
                    (52, &words(&[1, 2, 9])),
                    (72, &word(1)),
                ],
            ),
            of(49, &[(4, &words(&[1, 2, 33])), (52, &words(&[1, 2, 0])), (72, &word(0))]),
            of(37, &[(4, &words(&[2, 9, 0xffff_fffb, 2, 34]))]),
            of(17, &[(4, &word(5 << 16)), (24, &long(140)), (32, &long(145)), (40, &word(35))]),
        ]
        .concat();
        let (found, last) = all(&bytes, &strides);
        let found = found.into_iter().map(|record| match record {
            Record::Detail(detail) => detail,
            other => panic!("{cuda}: {other:?}"),
        });
        let found: Vec<Detail> = found.collect();
        let since = |newer: bool, value: u64| if newer { value } else { 0 };
        let filled = 0xeeee_eeee_eeee_eeee;
        let released = MemoryOperation {
            at: 130,
            address: 0x7000_0000,
            bytes: 1 << 33,
            correlation: 32,
            device: 1,
            context: 2,
            stream: Some(9),
            is_release: true,
            kind: 3,
        };
        let expected = [
            Detail::Wait(Wait {
                kind: WaitKind::StreamForEvent,
                start: 100,
                end: 150,
                correlation: 31,
                context: 2,
                stream: Some(9),
                event: None,
                record: since(wait == 56, 77),
            }),
            Detail::Event(EventRecord {
                at: since(event > 24, 120),
                correlation: 30,
                context: 2,
                stream: 8,
                event: 5,
                record: since(event > 24, 77),
                graph_node: since(event > 56, 1 << 40),
            }),
            Detail::Memory(released),
            Detail::Memory(MemoryOperation {
                at: filled,
                address: filled,
                bytes: filled,
                correlation: 33,
                stream: None,
                is_release: false,
                kind: 2,
                ..released
            }),
            Detail::Stream(NewStream {
                correlation: 34,
                context: 2,
                stream: 9,
                priority: -5,
                kind: StreamKind::NonBlocking,
            }),
            Detail::Overhead(Overhead {
                kind: OverheadKind::FunctionLoading,
                start: 140,
                end: 145,
                correlation: since(overhead > 40, 35) as u32,
            }),
        ];
        assert_eq!((found.as_slice(), last), (expected.as_slice(), Step::End), "{cuda}");
    }
}
