//! What threads noted and what ran, made up, and the projections that are written of it.

use super::*;
use gpu_activity::record::{Instance, Kernel, Memory};
use range_report::{MemoryKind, RangeStyle};

/// A timeline's GPU side, written a drain at a time.
struct Timeline {
    tracks: GpuTracks,
    moments: Moments,
    labels: Labels,
    /// Label, first start and last end of the projections written so far.
    projections: Vec<(String, u64, u64)>,
}

impl Timeline {
    fn remembering(most: usize) -> Self {
        let labels = (0..10).map(|label: u32| (None, Arc::from(label.to_string()))).collect();
        let labels = Labels { labels, ..Labels::default() };
        let (tracks, moments) = (GpuTracks::new(most * REMEMBERED_BYTES), Moments::new(0));
        Self { tracks, moments, labels, projections: Vec::new() }
    }

    /// One write, after a drain that brought this.
    fn write(&mut self, notes: &[Note], ran: &[(u32, u64)]) {
        let mut records = GpuRecords::new(1 << 20);
        notes.iter().for_each(|note| records.note(1, note));
        for &(correlation, start) in ran {
            let work = Work::Kernel(Kernel::default());
            let (device, context, stream, graph_node) = (0, 1, 7, 0);
            let op = GpuOp { start, end: start + 10, correlation, device, context, stream, graph_node, work };
            records.operation(&op, |_| ("".into(), "".into()));
        }
        records.drained();
        let projections = &mut self.projections;
        self.tracks.write(records, &self.moments, &self.labels, &mut |item| keep(projections, item));
    }

    fn writes(&mut self, count: usize) {
        (0..count).for_each(|_| self.write(&[], &[]));
    }

    /// What was written since the last time, in order.
    fn projected(&mut self) -> Vec<(String, u64, u64)> {
        self.projections.sort();
        std::mem::take(&mut self.projections)
    }

    fn end(&mut self) -> Vec<(String, u64, u64)> {
        let projections = &mut self.projections;
        self.tracks.end(&self.labels, &mut |item| keep(projections, item));
        self.projected()
    }
}

fn keep(projections: &mut Vec<(String, u64, u64)>, item: &Item<'_>) {
    if let Item::Projection(it) = item {
        projections.push((it.name.to_owned(), it.start, it.end));
    }
}

/// An instance whose label is its number.
fn began(id: u64, parent: u64) -> Note {
    Note::Began(Instance { id, parent, label: id as u32 % 10, style: RangeStyle::PushPop, start: 1 })
}

fn ended(instance: u64) -> Note {
    Note::Ended { instance, end: 2 }
}

fn called(correlation: u32, instance: u64) -> Note {
    Note::Called { correlation, node: 0, instance, graph: false, at: 0, call: 0, enqueues: true }
}

fn graph(correlation: u32, instance: u64) -> Note {
    Note::Called { correlation, node: 0, instance, graph: true, at: 0, call: 0, enqueues: true }
}

fn row(label: &str, start: u64, end: u64) -> (String, u64, u64) {
    (label.to_owned(), start, end)
}

#[test]
fn work_that_runs_long_after_the_span_is_in_its_projection() {
    let mut timeline = Timeline::remembering(100);
    timeline.write(&[began(1, 0), called(1, 1), began(2, 1), called(2, 2), ended(2), ended(1)], &[(1, 100)]);
    timeline.writes(100);
    assert_eq!(timeline.projected(), [], "of the second nothing has come");
    timeline.write(&[], &[(2, 5_000)]);
    timeline.writes(GRACE as usize);
    assert_eq!(timeline.projected(), [row("1", 100, 5_010), row("2", 5_000, 5_010)]);
    assert_eq!((timeline.tracks.projections.len(), timeline.tracks.take_lost(), timeline.end()), (0, 0, vec![]));
}

#[test]
fn a_projection_is_written_soon_after_the_last_operation() {
    let mut timeline = Timeline::remembering(100);
    timeline.write(&[began(1, 0), called(1, 1), called(2, 1)], &[(1, 100)]);
    timeline.writes(GRACE as usize);
    timeline.write(&[], &[(2, 200)]);
    timeline.write(&[], &[(2, 300)]); // the other part of a copy, say
    timeline.writes(GRACE as usize);
    assert_eq!(timeline.projected(), [], "it is open");
    timeline.write(&[ended(1)], &[]);
    assert_eq!(timeline.projected(), [row("1", 100, 310)]);
    // A call that enqueues nothing holds nothing up.
    let waits = Note::Called { correlation: 3, node: 0, instance: 2, graph: false, at: 0, call: 0, enqueues: false };
    timeline.write(&[began(2, 0), waits, ended(2)], &[]);
    timeline.write(&[began(3, 0), Note::Left { instance: 3 }], &[]);
    assert_eq!((timeline.tracks.projections.len(), timeline.projected()), (0, vec![]));
}

#[test]
fn the_operations_of_a_graph_may_come_long_after_one_another() {
    let mut timeline = Timeline::remembering(100);
    timeline.write(&[began(1, 0), graph(1, 1), ended(1)], &[]);
    for part in 1..4 {
        timeline.write(&[], &[(1, part * 1_000)]);
        timeline.writes(GRAPH_GRACE as usize - 2);
    }
    assert_eq!(timeline.projected(), []);
    timeline.writes(1);
    assert_eq!(timeline.projected(), [row("1", 1_000, 3_010)]);
    timeline.write(&[], &[(1, 9_000)]);
    assert_eq!(timeline.tracks.take_lost(), 1, "too late");
}

#[test]
fn an_id_that_is_given_again_is_of_the_later_call() {
    let mut timeline = Timeline::remembering(100);
    timeline.write(&[began(1, 0), called(1, 1), ended(1), began(2, 0), called(1, 2), ended(2)], &[(1, 100)]);
    timeline.writes(GRACE as usize);
    assert_eq!((timeline.projected(), timeline.tracks.projections.len()), (vec![row("2", 100, 110)], 0));
}

#[test]
fn calls_that_share_an_id_are_one_launch() {
    let mut timeline = Timeline::remembering(100);
    let asks = Note::Called { correlation: 1, node: 0, instance: 1, graph: false, at: 0, call: 0, enqueues: false };
    timeline.write(&[began(1, 0), called(1, 1), asks, ended(1)], &[]);
    timeline.writes(100);
    timeline.write(&[], &[(1, 700)]);
    timeline.writes(GRACE as usize);
    assert_eq!((timeline.projected(), timeline.tracks.take_lost()), (vec![row("1", 700, 710)], 0));
    timeline.write(
        &[
            began(2, 0),
            Note::Called { correlation: 2, node: 0, instance: 2, graph: false, at: 0, call: 0, enqueues: false },
        ],
        &[],
    );
    timeline.write(&[called(2, 2), ended(2)], &[]);
    timeline.writes(100);
    timeline.write(&[], &[(2, 900)]);
    timeline.writes(GRACE as usize);
    assert_eq!((timeline.projected(), timeline.tracks.projections.len()), (vec![row("2", 900, 910)], 0));
}

#[test]
fn the_end_of_an_instance_has_room_where_nothing_else_has() {
    let mut records = GpuRecords::new(10_000);
    (0..1_000).for_each(|id| records.note(1, &called(id, 0)));
    let (kept, lost) = (records.notes.len(), records.lost);
    records.note(1, &ended(7));
    records.note(1, &Note::Left { instance: 8 });
    assert_eq!((records.notes.len(), records.lost), (kept + 2, lost));
}

#[test]
fn beyond_the_bound_the_oldest_are_written_as_they_are_and_counted() {
    let mut timeline = Timeline::remembering(8);
    for id in 1..=8 {
        timeline.write(
            &[began(id, 0), called(id as u32, id), graph(100 + id as u32, id), ended(id)],
            &[(id as u32, id * 100)],
        );
    }
    assert!(timeline.tracks.projections.len() <= 8 && timeline.tracks.launches.len() <= 8);
    let lost = timeline.tracks.take_lost();
    assert_eq!(lost, 4, "the launches of the graphs of the first four are forgotten");
    timeline.writes(GRACE as usize);
    let written: Vec<u64> = timeline.projected().iter().map(|(_, start, _)| start / 100).collect();
    assert_eq!(written, [1, 2, 3, 4]);
    // Those that are open stay; there is no room for more.
    (11..=14).for_each(|id| timeline.write(&[began(id, 0)], &[]));
    (21..=28).for_each(|id| timeline.write(&[began(id, 0), ended(id)], &[]));
    assert!(timeline.tracks.projections.len() <= 8);
    let mut timeline = Timeline::remembering(2);
    timeline.write(&[began(1, 0), began(2, 0), began(3, 0), called(3, 3)], &[(3, 100)]);
    assert_eq!(
        (timeline.tracks.projections.len(), timeline.tracks.take_lost()),
        (2, 1 + 1),
        "the third, and its operation"
    );
}

#[test]
fn what_waits_to_be_written_is_bounded() {
    let mut records = GpuRecords::new(10_000);
    (0..1_000).for_each(|id| records.note(1, &called(id, 0)));
    let (kept, bytes) = (records.notes.len(), records.notes.capacity() * size_of::<(u32, Note)>());
    assert!(kept > 100 && bytes <= 10_000 && records.lost == 1_000 - kept as u64, "{kept} in {bytes}");
    assert_eq!(records.take().notes.len(), kept);
    records.note(1, &called(1, 0));
    assert_eq!((records.notes.len(), records.lost), (1, 0));
}

fn copy(correlation: u32, start: u64, end: u64) -> GpuOp {
    let work = Work::Memory(Memory { kind: MemoryKind::HtoD, bytes: 8, source: 1, destination: 3, value: 0 });
    GpuOp { start, end, correlation, device: 0, context: 1, stream: 7, graph_node: 0, work }
}

fn call(api: Api, thread: u32, correlation: u32) -> ApiRecord {
    ApiRecord { api, function: 307, start: 5, end: 9, thread, correlation, result: 0 }
}

/// The calls and operations that one write gives, as `call 5 on 42`.
fn given(tracks: &mut GpuTracks, fill: impl FnOnce(&mut GpuRecords)) -> Vec<String> {
    let (mut records, mut given) = (GpuRecords::new(1 << 20), Vec::new());
    fill(&mut records);
    records.drained();
    tracks.write(records, &Moments::new(0), &Labels::default(), &mut |item| {
        given.push(match item {
            Item::Operation(op) => format!("operation {}", op.correlation),
            Item::ApiCall(call) => format!("call {} on {}", call.correlation, call.thread),
            other => format!("{other:?}"),
        });
    });
    given
}

#[test]
fn a_call_is_on_the_thread_that_noted_others_of_it() {
    let mut tracks = GpuTracks::new(1 << 20);
    let written = given(&mut tracks, |records| {
        records.note(42, &called(11, 0));
        records.note(43, &called(12, 0));
        for (thread, correlation) in [(700, 11), (701, 12), (700, 13), (702, 14)] {
            records.call(&call(Api::Driver, thread, correlation), "cuCtxGetCurrent".into());
        }
    });
    assert_eq!(written, ["call 11 on 42", "call 12 on 43", "call 13 on 42", "call 14 on 0"]);
    assert_eq!(given(&mut tracks, |records| records.call(&call(Api::Runtime, 701, 15), "".into())), ["call 15 on 43"]);
}

#[test]
fn an_operation_has_the_number_of_the_call_that_launched_it() {
    let (mut records, mut calls) = (GpuRecords::new(1 << 20), Vec::new());
    for (correlation, call) in [(1, 77), (2, (1 << 52) - 1)] {
        let note = Note::Called { correlation, node: 0, instance: 0, graph: false, at: 0, call, enqueues: true };
        records.note(42, &note);
    }
    for correlation in [2, 1, 3] {
        records.operation(&copy(correlation, 5, 6), |_| panic!("no kernel"));
    }
    GpuTracks::new(1 << 20).write(records, &Moments::new(0), &Labels::default(), &mut |item| {
        if let Item::Operation(operation) = item {
            calls.push(operation.call);
        }
    });
    assert_eq!(calls, [(1 << 52) - 1, 77, 0]);
}

#[test]
fn what_is_nested_in_a_call_or_our_own_is_left_out() {
    let written = given(&mut GpuTracks::new(1 << 20), |records| {
        records.note(42, &Note::Own { correlation: 12 });
        for (api, correlation) in [(Api::Driver, 11), (Api::Runtime, 11), (Api::Driver, 12), (Api::Driver, 13)] {
            records.call(&call(api, 700, correlation), "".into());
        }
        records.operation(&copy(14, 0, 0), |_| panic!("no kernel"));
        records.operation(&copy(15, 9, 8), |_| panic!("no kernel"));
    });
    assert_eq!(written, ["call 11 on 0", "call 13 on 0"]);
}

/// However many calls of our own there were.
#[test]
fn a_call_of_our_own_is_left_out_when_its_record_comes_late() {
    let mut tracks = GpuTracks::new(10 * REMEMBERED_BYTES);
    let own = |records: &mut GpuRecords, correlation| records.note(42, &Note::Own { correlation });
    assert_eq!(given(&mut tracks, |records| own(records, 1_000)), [""; 0]);
    for round in 0..10 {
        let written = given(&mut tracks, |records| {
            for correlation in round * 5..round * 5 + 5 {
                own(records, correlation);
                records.call(&call(Api::Driver, 700, correlation), "".into());
            }
        });
        assert_eq!(written, [""; 0]);
    }
    assert_eq!(given(&mut tracks, |records| records.call(&call(Api::Driver, 700, 1_000), "".into())), [""; 0]);
}
