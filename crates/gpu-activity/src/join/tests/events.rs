//! Events for timelines: the same operations, calls and projections that the totals count.

use std::collections::BTreeMap;

use super::program::{Program, delivered_with_events, threads};
use super::*;
use crate::totals::Function;

fn with_events(launches: usize, instances: usize) -> Join {
    let mut all = Join::new(Limits { launches, nodes: launches, calls: launches, has_calls: true, instances });
    all.ask_for_events();
    all
}

fn ended(instance: u64) -> Note {
    Note::Ended { instance, end: 50 }
}

impl Join {
    /// Label, first start and last end of the new projections, sorted.
    fn projected(&mut self) -> Vec<(u32, u64, u64)> {
        let rows = self.take_events().filter_map(|event| match event {
            Event::Projection { label, streams, .. } => Some((label, first(&streams), last(&streams))),
            _ => None,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_unstable();
        rows
    }

    /// The new operations and calls, as text: `call 5 on 42`.
    fn said(&mut self) -> Vec<String> {
        let say = |event| match event {
            Event::Operation(op, launch, _) => {
                format!("operation {} of {}", op.correlation, launch.map_or(0, |it| it.call))
            }
            Event::Call(call, thread) => format!("call {} on {thread}", call.correlation),
            Event::Detail(detail, launch) => {
                format!("detail {} of {}", detail.correlation(), launch.map_or(0, |it| it.call))
            }
            Event::Projection { label, .. } => format!("projection of {label}"),
        };
        self.take_events().map(say).collect()
    }

    /// Records of a launch, and of its call to the runtime.
    fn ran_and_returned(&mut self, correlation: u32, start: u64) {
        self.ran(correlation, start, start + 10);
        self.call(&api(Api::Runtime, correlation, 5, 9), true, &KEEP);
    }
}

fn first(streams: &[StreamSpan]) -> u64 {
    streams.iter().map(|on| on.start).min().unwrap_or(0)
}

fn last(streams: &[StreamSpan]) -> u64 {
    streams.iter().map(|on| on.end).max().unwrap_or(0)
}

#[test]
fn work_that_runs_long_after_the_span_is_in_its_projection() {
    let mut all = with_events(100, 100);
    all.notes(&[began(1, 0, 1), called(1, 1, 1), began(2, 1, 2), called(2, 2, 2), ended(2), ended(1)]);
    all.ran_and_returned(1, 100);
    all.drain(100);
    assert_eq!(all.projected(), [], "of the second nothing has come");
    all.ran_and_returned(2, 5_000);
    all.drain(3);
    assert_eq!((all.projected(), all.instances.kept()), (vec![(1, 100, 5_010), (2, 5_000, 5_010)], 0));
    all.finish(&KEEP);
    assert_eq!(all.projected(), []);
}

#[test]
fn a_projection_has_the_work_of_each_stream_apart() {
    let mut all = with_events(100, 100);
    all.notes(&[began(1, 0, 1), called(1, 1, 1), called(2, 1, 1), called(3, 1, 1), ended(1)]);
    for (correlation, stream, start) in [(1, 7, 100), (2, 8, 150), (3, 7, 300)] {
        all.operation(&GpuOp { stream, ..kernel(correlation, start, start + 10) }, true, &KEEP);
        all.call(&api(Api::Runtime, correlation, 5, 9), true, &KEEP);
    }
    all.drain(3);
    let streams = all.take_events().find_map(|event| match event {
        Event::Projection { streams, .. } => Some(streams),
        _ => None,
    });
    let streams = streams.expect("the range has work");
    let spans: Vec<_> = streams.iter().map(|on| (on.stream, on.start, on.end)).collect();
    assert_eq!(spans, [(7, 100, 310), (8, 150, 160)]);
}

#[test]
fn an_open_range_is_projected_when_it_is_over() {
    let mut all = with_events(100, 100);
    all.notes(&[began(1, 0, 1), called(1, 1, 1), called(2, 1, 1)]);
    all.ran_and_returned(1, 100);
    all.drain(4);
    all.ran_and_returned(2, 200);
    all.ran(2, 300, 310); // for example the second part of a copy
    all.drain(4);
    assert_eq!(all.projected(), []);
    all.notes(&[ended(1)]);
    all.drain(1);
    assert_eq!(all.projected(), [(1, 100, 310)]);
    // A call that enqueues nothing delays nothing.
    all.notes(&[began(2, 0, 2), waits(3, 0), ended(2), began(3, 0, 3), Note::Left { instance: 3 }]);
    all.drain(1);
    assert_eq!((all.instances.kept(), all.projected()), (1, vec![]), "a range on the stack does not leave");
    // At the end, open instances are projected in their present state.
    all.notes(&[began(4, 0, 4), called(5, 1, 4)]);
    all.ran(5, 400, 410);
    all.finish(&KEEP);
    assert_eq!(all.projected(), [(4, 400, 410)]);
}

#[test]
fn the_operations_of_a_graph_may_come_long_after_one_another() {
    let mut all = with_events(100, 100);
    all.notes(&[began(1, 0, 1), graph(1, 1, 1), ended(1)]);
    for part in 1..4 {
        all.ran(1, part * 1_000, part * 1_000 + 10);
        all.drain(600);
    }
    assert_eq!(all.projected(), []);
    all.drain(600);
    assert_eq!(all.projected(), [(1, 1_000, 3_010)], "a minute without work");
    all.ran(1, 9_000, 9_010);
    all.finish(&KEEP);
    assert_eq!(all.projected(), [(1, 9_000, 9_010)]);
}

#[test]
fn an_id_that_is_given_again_is_of_the_later_call() {
    let mut all = with_events(100, 100);
    all.notes(&[began(1, 0, 1), called(1, 1, 1), ended(1), began(2, 0, 2), called(1, 1, 2), ended(2)]);
    all.ran_and_returned(1, 100);
    all.drain(3);
    assert_eq!((all.projected(), all.instances.kept()), (vec![(2, 100, 110)], 0));
}

#[test]
fn calls_that_share_an_id_are_one_launch() {
    let not_enqueued = |correlation, instance| Note::Called {
        correlation,
        node: 0,
        instance,
        graph: false,
        at: 0,
        call: 0,
        enqueues: false,
    };
    let mut all = with_events(100, 100);
    all.notes(&[began(1, 0, 1), called(1, 0, 1), not_enqueued(1, 1), ended(1)]);
    all.notes(&[began(2, 0, 2), not_enqueued(2, 2), called(2, 0, 2), ended(2)]);
    all.drain(100);
    all.ran_and_returned(1, 700);
    all.ran_and_returned(2, 900);
    all.drain(3);
    assert_eq!((all.projected(), all.instances.kept()), (vec![(1, 700, 710), (2, 900, 910)], 0));
}

#[test]
fn beyond_the_bound_the_oldest_are_projected_as_they_are() {
    let mut all = with_events(100, 8);
    for id in 1..=12 {
        all.notes(&[began(id, 0, id as u32), called(id as u32, 0, id), graph(100 + id as u32, 0, id), ended(id)]);
        all.ran_and_returned(id as u32, id * 100);
    }
    all.drain(1);
    let labels: Vec<u32> = all.projected().iter().map(|row| row.0).collect();
    assert_eq!(labels, [1, 2, 3, 4], "eight stay");
    all.ran(101, 9_000, 9_010);
    assert_eq!(all.losses().late, 1);
}

#[test]
fn a_call_is_on_the_thread_that_noted_others_of_it() {
    let mut all = with_events(100, 100);
    all.note(42, &called(11, 0, 0));
    all.note(43, &called(12, 0, 0));
    for (thread, correlation) in [(700, 11), (701, 12), (700, 13), (702, 14)] {
        all.call(&ApiCall { thread, ..api(Api::Runtime, correlation, 5, 9) }, true, &KEEP);
    }
    assert_eq!(all.said(), ["call 11 on 42", "call 12 on 43", "call 13 on 42", "call 14 on 0"]);
    all.call(&ApiCall { thread: 701, ..api(Api::Runtime, 15, 5, 9) }, true, &KEEP);
    assert_eq!(all.said(), ["call 15 on 43"]);
}

/// A program may have had any number of threads.
#[test]
fn the_threads_of_records_are_bounded() {
    let mut all = with_events(1 << 20, 100);
    for thread in 0..20_000 {
        all.note(thread + 1, &called(thread, 0, 0));
        all.call(&ApiCall { thread, ..api(Api::Runtime, thread, 5, 9) }, true, &KEEP);
        assert!(all.pending.threads.len() <= 1 << 12);
    }
    all.said();
    all.call(&ApiCall { thread: 19_999, ..api(Api::Runtime, 30_000, 5, 9) }, true, &KEEP);
    assert_eq!(all.said(), ["call 30000 on 20000"]);
}

#[test]
fn an_operation_has_the_number_of_the_call_that_launched_it() {
    let mut all = with_events(100, 100);
    for (correlation, call) in [(1, 77), (2, (1 << 52) - 1)] {
        let note = Note::Called { correlation, node: 0, instance: 0, graph: false, at: 9, call, enqueues: true };
        all.note(42, &note);
    }
    (1..=3).rev().for_each(|id| all.ran(id, 5, 6));
    let launch = |call| Some(Launch { thread: 42, node: 0, at: 9, call });
    let launches: Vec<Option<Launch>> = all
        .take_events()
        .filter_map(|event| if let Event::Operation(_, launch, _) = event { Some(launch) } else { None })
        .collect();
    assert_eq!(launches, [None, launch((1 << 52) - 1), launch(77)]);
}

/// A thread without a state, for example at its end, takes no thread number from other calls.
#[test]
fn a_call_that_no_thread_noted_leaves_others_on_theirs() {
    let mut all = with_events(100, 100);
    all.note(42, &called(11, 0, 0));
    all.note(0, &called(12, 0, 0));
    for correlation in [11, 12, 13] {
        all.call(&ApiCall { thread: 700, ..api(Api::Runtime, correlation, 5, 9) }, true, &KEEP);
    }
    assert_eq!(all.said(), ["call 11 on 42", "call 12 on 42", "call 13 on 42"]);
}

/// This holds however late a record arrives, and however many calls of our own there were.
#[test]
fn what_is_nested_or_our_own_or_without_a_time_is_left_out() {
    let mut all = with_events(100, 100);
    all.note(42, &Note::Own { correlation: 1_000 });
    for (api_of, correlation) in [(Api::Driver, 11), (Api::Runtime, 11), (Api::Driver, 12), (Api::Driver, 13)] {
        all.note(42, &Note::Own { correlation: 12 });
        all.call(&api(api_of, correlation, 5, 9), true, &KEEP);
    }
    all.ran(14, 0, 0);
    all.ran(15, 9, 8);
    all.drain(3);
    for id in 2_000..2_050 {
        all.note(42, &Note::Own { correlation: id });
        all.call(&api(Api::Driver, id, 5, 9), true, &KEEP);
    }
    all.call(&api(Api::Driver, 1_000, 5, 9), true, &KEEP);
    all.drain(3);
    assert_eq!(all.said(), ["call 11 on 0", "call 13 on 0"]);
    // A driver call that still waits at the end counts.
    all.call(&api(Api::Driver, 16, 5, 9), true, &KEEP);
    assert_eq!(all.said(), [""; 0]);
    all.finish(&KEEP);
    assert_eq!(all.said(), ["call 16 on 0"]);
}

/// A timeline has no windows: it also contains work from before a window, with its launch.
#[test]
fn a_new_window_takes_nothing_from_a_timeline() {
    let mut all = with_events(100, 100);
    all.notes(&[began(1, 0, 1), called(1, 0, 1), called(2, 0, 1), ended(1)]);
    all.ran_and_returned(1, 100);
    all.call(&api(Api::Driver, 7, 5, 9), true, &KEEP);
    all.clear(150);
    all.operation(&kernel(2, 130, 140), false, &KEEP);
    all.operation(&kernel(2, 0, 140), false, &KEEP); // without a time
    all.operation(&kernel(2, 150, 140), false, &KEEP);
    all.call(&api(Api::Runtime, 2, 5, 9), false, &KEEP);
    all.drain(6);
    assert_eq!(all.totals(200), Totals::default(), "it is not of the window");
    assert_eq!(
        all.said(),
        ["operation 1 of 0", "call 1 on 1", "operation 2 of 0", "call 2 on 1", "call 7 on 1", "projection of 1"]
    );
}

proptest! {
    /// The events of random programs, with random drains, sum up to the totals.
    #[test]
    fn events_are_what_the_totals_count(
        threads in threads(), parents in prop::collection::vec(any::<u32>(), 1..6),
        dice in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let program = Program::new(&threads, &parents);
        let (totals, events) = delivered_with_events(&program, &dice);
        let (mut operations, mut matched, mut busy) = (0, 0, 0u64);
        let mut calls: BTreeMap<Function, (u64, u64)> = BTreeMap::new();
        let mut projected: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for event in events {
            match event {
                Event::Operation(op, launch, _) => {
                    operations += 1;
                    matched += u64::from(launch.is_some());
                    busy += op.end - op.start;
                }
                Event::Call(call, _) => {
                    let sum = calls.entry((call.api, call.function)).or_default();
                    *sum = (sum.0 + 1, sum.1 + call.end - call.start);
                }
                Event::Detail(..) => prop_assert!(false, "nobody asks for details"),
                Event::Projection { label, streams, .. } => {
                    projected.entry(label).or_default().push(last(&streams) - first(&streams));
                }
            }
        }
        let counted = (totals.total.operations, totals.total.operations - totals.unmatched.operations);
        prop_assert_eq!((operations, matched, busy), (counted.0, counted.1, totals.total.sum_ns));
        let of_totals = totals.calls.iter().map(|(&function, all)| (function, (all.count, all.total as u64)));
        prop_assert_eq!(calls, of_totals.collect());
        projected.values_mut().for_each(|all| all.sort_unstable());
        let on_stack = totals.projections.iter().filter(|((_, style), _)| *style == RangeStyle::PushPop);
        let of_totals = on_stack.map(|(&(label, _), row)| (label, row.projected.samples.clone()));
        prop_assert_eq!(projected, of_totals.collect());
    }
}
