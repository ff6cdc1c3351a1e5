//! What is kept between two writes, for how long, and what is counted where there is no room.

use super::*;
use crate::activity::{Instance, Memory};
use crate::summary::{MemoryKind, RangeStyle};

const WORK: Work = Work::Memory(Memory { kind: MemoryKind::HtoD, bytes: 8, source: 1, destination: 3, value: 0 });

fn op(correlation: u32, start: u64, end: u64) -> GpuOp {
    GpuOp { start, end, correlation, device: 0, context: 1, stream: 7, graph_node: 0, work: WORK }
}

fn call(api: Api, thread: u32, correlation: u32) -> ApiCall {
    ApiCall { api, function: 307, start: 5, end: 9, thread, correlation, result: 0 }
}

fn called(correlation: u32, instance: InstanceId) -> Note {
    Note::Called { correlation, node: 0, instance, graph: false, at: 0, enqueues: true }
}

fn began(id: InstanceId, parent: InstanceId) -> Note {
    Note::Began(Instance { id, parent, label: 0, style: RangeStyle::PushPop, start: 0 })
}

/// Writes once; what was given, as `operation 5 of thread 42`, `call 5 on 42`, `range 10..20 level 0`.
fn write(tracks: &mut GpuTracks, fill: impl FnOnce(&mut GpuRecords)) -> Vec<String> {
    let (mut records, mut given) = (GpuRecords::default(), Vec::new());
    fill(&mut records);
    tracks.write(records, &Moments::new(0), &Labels::default(), &mut |item| {
        given.push(match item {
            Item::Operation(op) => match op.launch {
                Some((thread, _)) => format!("operation {} of thread {thread}", op.correlation),
                None => format!("operation {} of none", op.correlation),
            },
            Item::Call(call) => format!("call {} on {}", call.correlation, call.thread),
            Item::Projection(range) => format!("range {}..{} level {}", range.start, range.end, range.level),
            Item::Device { device, .. } => format!("device {device}"),
            other => panic!("{other:?}"),
        });
    });
    given
}

fn nothing(_: &mut GpuRecords) {}

#[test]
fn a_range_is_given_when_nothing_more_is_expected_of_it_and_then_once() {
    let mut tracks = GpuTracks::default();
    let given = write(&mut tracks, |records| {
        for note in [began(1, 0), began(2, 1), called(11, 2), Note::Ended { instance: 2, end: 0 }] {
            records.note(42, &note);
        }
        records.operation(&op(11, 10, 20), |_| panic!("no kernel"));
    });
    assert_eq!(given, ["device 0", "operation 11 of thread 42"]);
    // Of what has ended, operations still come.
    let given = write(&mut tracks, |records| records.operation(&op(11, 25, 30), |_| panic!("no kernel")));
    assert_eq!(given, ["operation 11 of thread 42"]);
    for _ in 2..GRACE {
        assert_eq!(write(&mut tracks, nothing), [""; 0]);
    }
    assert_eq!(write(&mut tracks, nothing), ["range 10..30 level 1"]);
    (0..2 * GRACE).for_each(|_| assert_eq!(write(&mut tracks, nothing), [""; 0], "the outer one is open"));
    let mut given = Vec::new();
    tracks.end(&Labels::default(), &mut |item| given.push(format!("{item:?}")));
    assert!(matches!(&given[..], [one] if one.contains("start: 10, end: 30") && one.contains("level: 0")), "{given:?}");
    assert!(tracks.instances.is_empty());
}

#[test]
fn a_call_is_on_the_thread_that_noted_others_of_it() {
    let mut tracks = GpuTracks::default();
    let given = write(&mut tracks, |records| {
        records.note(42, &called(11, 0));
        records.note(43, &called(12, 0));
        for (thread, correlation) in [(700, 11), (701, 12), (700, 13), (702, 14)] {
            records.call(&call(Api::Driver, thread, correlation), "cuCtxGetCurrent".into());
        }
    });
    assert_eq!(given, ["call 11 on 42", "call 12 on 43", "call 13 on 42", "call 14 on 0"]);
    assert_eq!(write(&mut tracks, |records| records.call(&call(Api::Runtime, 701, 15), "".into())), ["call 15 on 43"]);
}

#[test]
fn what_is_nested_in_a_call_or_our_own_is_left_out() {
    let given = write(&mut GpuTracks::default(), |records| {
        records.note(42, &Note::Own { correlation: 12 });
        for (api, correlation) in [(Api::Driver, 11), (Api::Runtime, 11), (Api::Driver, 12), (Api::Driver, 13)] {
            records.call(&call(api, 700, correlation), "".into());
        }
        records.operation(&op(14, 0, 0), |_| panic!("no kernel"));
        records.operation(&op(15, 9, 8), |_| panic!("no kernel"));
    });
    assert_eq!(given, ["call 11 on 0", "call 13 on 0"]);
}

#[test]
fn the_oldest_launches_are_forgotten_first() {
    let mut tracks = GpuTracks::default();
    let most = REMEMBERED as u32;
    write(&mut tracks, |records| (1..=most + 2).for_each(|correlation| records.note(42, &called(correlation, 0))));
    let given = write(&mut tracks, |records| {
        [1, 2, 3, most + 2].into_iter().for_each(|id| records.operation(&op(id, 1, 2), |_| panic!("no kernel")));
    });
    let expected = [
        "device 0".to_owned(),
        "operation 1 of none".to_owned(),
        "operation 2 of none".to_owned(),
        "operation 3 of thread 42".to_owned(),
        format!("operation {} of thread 42", most + 2),
    ];
    assert_eq!(given, expected);
}

#[test]
fn what_there_is_no_room_for_is_counted() {
    let mut records = GpuRecords::default();
    (0..WAITING as u32).for_each(|id| records.note(42, &called(id, 0)));
    assert_eq!(records.lost(), 0);
    records.note(42, &called(1, 0));
    records.operation(&op(1, 1, 2), |_| panic!("no kernel"));
    records.call(&call(Api::Driver, 700, 1), "".into());
    assert_eq!((records.lost(), records.notes.len(), records.ops.len(), records.calls.len()), (3, WAITING, 0, 0));
    let only_lost = GpuRecords { lost: 1, ..GpuRecords::default() };
    assert!(!only_lost.is_empty(), "so that it is counted in the recorder");
}
