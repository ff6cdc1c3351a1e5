//! Graphs: which spans captured what, as CUPTI 13.0 told it of graphs on an H100.

use super::*;
use crate::fold::{OfGraph, Part};
use crate::graph::{GraphChange, NodeKind};
use crate::join::graphs::REPLAYS;
use crate::totals::{Captured, Replays};

const fn number(graph: u32, place: u32) -> u64 {
    (graph as u64) << 32 | place as u64
}

/// A node of the program in this span; a kernel.
fn made(graph: u32, place: u32, span: u32) -> GraphChange {
    GraphChange::Node { node: number(graph, place), span, kind: NodeKind::Kernel }
}

fn of_kind(graph: u32, place: u32, span: u32, kind: NodeKind) -> GraphChange {
    GraphChange::Node { node: number(graph, place), span, kind }
}

fn cloned(graph: u32, place: u32, original: u64) -> [GraphChange; 2] {
    let node = number(graph, place);
    [GraphChange::Node { node, span: 0, kind: NodeKind::Other }, GraphChange::Cloned { node, original }]
}

impl Join {
    fn changes(&mut self, changes: &[GraphChange]) {
        changes.iter().for_each(|change| self.graph(change));
    }

    /// The span that captured this node.
    fn captured(&mut self, graph: u32, place: u32) -> u32 {
        let op = GpuOp { graph_node: number(graph, place), ..kernel(1, 10, 20) };
        match self.graphs.of(&op) {
            OfGraph::Node(capture) => capture.span,
            other => panic!("{other:?}"),
        }
    }
}

/// A graph that was captured in span 1: a kernel in span 2; a copy, a set and a kernel in span 3. It is executable as
/// number 2, with a node of the driver's.
fn flat() -> Join {
    let mut all = join(100, 100);
    all.changes(&[
        GraphChange::Created { graph: 1, span: 1 },
        made(1, 0, 2),
        of_kind(1, 1, 3, NodeKind::Copy),
        of_kind(1, 2, 3, NodeKind::Set),
        made(1, 3, 3),
        GraphChange::Created { graph: 2, span: 0 },
    ]);
    (0..4).for_each(|place| all.changes(&cloned(2, place, number(1, place))));
    all.changes(&[made(2, 4, 0), GraphChange::Instantiated { graph: 2 }, GraphChange::Ended { graph: 1 }]);
    all
}

fn whole(correlation: u32, start: u64, end: u64) -> GpuOp {
    GpuOp { work: Work::Graph(2), ..kernel(correlation, start, end) }
}

#[test]
fn a_whole_graph_has_what_each_span_captured() {
    let mut all = flat();
    all.notes(&[graph(1, 3, 0), graph(2, 3, 0)]);
    all.operation(&whole(1, 10, 50), true, &KEEP);
    all.operation(&whole(2, 60, 90), true, &KEEP);
    let totals = all.totals(100);
    let of = |span| totals.captured[&(3, Capture { span, base: 1 })];
    assert_eq!(totals.replays[&3], Replays { count: 2, whole: 2, whole_ns: 70 });
    assert_eq!(of(2), Captured { kernels: 2, ..Captured::default() });
    assert_eq!(of(3), Captured { kernels: 2, copies: 2, sets: 2, ..Captured::default() });
    assert_eq!((totals.captured.len(), totals.total.operations, totals.kernels.len()), (2, 2, 0));
    all.graph(&GraphChange::Ended { graph: 2 });
    all.operation(&whole(3, 91, 95), true, &KEEP);
    let totals = all.totals(100);
    assert_eq!(totals.captured.len(), 4, "a record may come after the end of its graph, here without its launch");
}

#[test]
fn each_node_has_its_time_and_the_span_that_captured_it() {
    let mut all = flat();
    all.ask_for_events();
    all.notes(&[graph(1, 3, 0)]);
    for (place, name) in [(0, 1), (1, 1), (2, 4), (3, 1)] {
        let start = 10 * u64::from(place);
        let mut op = GpuOp { graph_node: number(2, place), ..kernel(1, 5 + start, 9 + start) };
        match &mut op.work {
            Work::Kernel(kernel) => kernel.name = name,
            other => panic!("{other:?}"),
        }
        all.operation(&op, true, &KEEP);
    }
    let totals = all.totals(100);
    let of = |span| totals.captured[&(3, Capture { span, base: 1 })];
    assert_eq!(totals.replays[&3], Replays { count: 1, whole: 0, whole_ns: 0 });
    assert_eq!(of(2), Captured { kernels: 1, timed: 1, sum_ns: 4, ..Captured::default() });
    assert_eq!((of(3).kernels, of(3).timed, of(3).sum_ns), (3, 3, 12), "the records have what each node is");
    let kernels = |span, name| totals.captured_kernels[&(3, Capture { span, base: 1 }, name)];
    assert_eq!([kernels(2, 1), kernels(3, 1), kernels(3, 4)], [(1, 4), (2, 8), (1, 4)]);
    let places = all.take_events().map(|event| match event {
        Event::Operation(_, launch, capture) => (launch.unwrap().node, capture.span),
        other => panic!("{other:?}"),
    });
    assert_eq!(places.collect::<Vec<_>>(), [(3, 2), (3, 3), (3, 3), (3, 3)]);
    let before = totals.clone();
    all.operation(&GpuOp { graph_node: number(2, 3), ..kernel(1, 45, 50) }, true, &KEEP);
    let since = all.totals(100).since(&before).captured_kernels;
    assert_eq!((since.len(), since.values().next()), (1, Some(&(1, 5))), "of a window, what came in it");
}

/// Graph 5: kernel 6, child 6 (of child 7 with kernels 1 and 2, and kernel 3), child 8 (kernels 4 and 5), kernel 7.
/// Its executable graph, number 9, has eleven places.
#[test]
fn nodes_of_child_graphs_keep_the_spans_of_their_captures() {
    let child = |graph, place| of_kind(graph, place, 1, NodeKind::Child);
    let mut all = join(100, 100);
    all.changes(&[made(7, 0, 11), made(7, 1, 12), child(6, 0), made(6, 1, 13), made(8, 0, 14), made(8, 1, 15)]);
    all.changes(&[made(5, 0, 16), child(5, 1), child(5, 2), made(5, 3, 17)]);
    for (graph, place, from) in [
        (9, 0, number(5, 0)),
        (11, 0, number(7, 0)),
        (11, 1, number(7, 1)),
        (10, 0, number(6, 0)),
        (10, 1, number(6, 1)),
        (9, 1, number(5, 1)),
        (12, 0, number(8, 0)),
        (12, 1, number(8, 1)),
        (9, 2, number(5, 2)),
        (9, 3, number(5, 3)),
    ] {
        all.changes(&cloned(graph, place, from));
    }
    all.changes(&[10, 11, 12].map(|graph| GraphChange::Embedded { graph, into: 9 }));
    all.changes(&[made(9, 10, 1), GraphChange::Instantiated { graph: 9 }]);
    // The places at which records had these kernels.
    let places = [(0, 16), (6, 11), (7, 12), (5, 13), (8, 14), (9, 15), (3, 17)];
    assert_eq!(places.map(|(place, _)| all.captured(9, place)), places.map(|(_, span)| span));
    let replay = GpuOp { work: Work::Graph(9), ..kernel(1, 10, 20) };
    let OfGraph::Whole(parts) = all.graphs.of(&replay) else { panic!("no whole graph") };
    assert_eq!(parts.iter().map(|(_, part)| part.kernels).sum::<u32>(), 7);
    assert!(parts.iter().all(|(capture, part)| *part == Part { kernels: 1, ..Part::default() } && capture.span > 10));
}

#[test]
fn an_executable_graph_from_before_the_measuring_is_not_claimed_by_anyone() {
    let mut all = join(100, 100);
    assert_eq!(all.captured(3, 0), UNKNOWN);
    all.changes(&cloned(4, 0, number(3, 0)));
    all.graph(&GraphChange::Instantiated { graph: 4 });
    assert_eq!(all.captured(4, 0), UNKNOWN, "the original was created before");
    all.operation(&GpuOp { work: Work::Graph(7), ..kernel(1, 10, 20) }, true, &KEEP);
    assert_eq!(all.totals(100).captured.len(), 0);
}

/// The graph `flat` with another one in it, which is empty.
fn with_inner() -> Join {
    let mut all = flat();
    all.graph(&GraphChange::Embedded { graph: 7, into: 2 });
    all
}

/// A kernel of this graph.
fn at(correlation: u32, place: u32, start: u64) -> GpuOp {
    GpuOp { graph_node: number(2, place), ..kernel(correlation, start, start + 5) }
}

/// Kernels in the body of a condition had no correlation id before CUPTI 13.5, and may come before all others.
#[test]
fn a_node_without_a_launch_has_that_of_the_last_replay() {
    let replays = [at(1, 1, 70), at(u32::MAX, 0, 10), at(1, 0, 60), GpuOp { start: 0, ..at(1, 2, 0) }];
    let bodies = [at(0, 3, 65), at(0, 3, 50), at(0, 3, 5)];
    for [first, then] in [[&bodies[..], &replays], [&replays, &bodies]] {
        let mut all = with_inner();
        all.notes(&[graph(u32::MAX, 2, 0), graph(1, 3, 0)]);
        first.iter().chain(then).for_each(|op| all.operation(op, true, &KEEP));
        all.drain(1);
        assert_eq!((all.own(2), all.own(3), all.losses().unmatched), (3, 3, 0));
        all.operation(&at(0, 3, 80), true, &KEEP);
        all.operation(&GpuOp { graph_node: number(8, 0), ..at(0, 0, 160) }, true, &KEEP);
        all.drain(1);
        assert_eq!((all.own(3), all.losses().unmatched), (4, 1), "of the foreign graph no replay is known");
    }
}

#[test]
fn a_node_whose_replay_was_forgotten_is_nobodys() {
    let mut all = with_inner();
    all.notes(&[graph(1, 2, 0), graph(2, 2, 0)]);
    (1..=REPLAYS as u32).for_each(|number| all.operation(&at(number, 0, 100 * u64::from(number)), true, &KEEP));
    all.operation(&at(1, 1, 110), true, &KEEP);
    all.operation(&at(0, 3, 250), true, &KEEP);
    all.operation(&at(0, 3, 150), true, &KEEP);
    all.drain(1);
    assert_eq!(all.own(2), 4, "three nodes of the two replays, and the one in the body of the second");
}

#[test]
fn nodes_beyond_the_bound_are_counted_and_those_of_ended_graphs_make_room() {
    let mut all = join(4, 100);
    (0..6).for_each(|place| all.graph(&made(1, place, 2)));
    assert_eq!((all.forgotten_nodes(), all.captured(1, 3), all.captured(1, 4)), (2, 2, UNKNOWN));
    all.changes(&[GraphChange::Ended { graph: 1 }, made(2, 0, 3)]);
    assert_eq!((all.forgotten_nodes(), all.captured(2, 0), all.captured(1, 0)), (2, 3, UNKNOWN));
    all.changes(&cloned(3, 0, number(2, 0)));
    all.changes(&[GraphChange::Instantiated { graph: 3 }, GraphChange::Ended { graph: 3 }]);
    all.drain(PERIOD as usize);
    assert_eq!(all.captured(3, 0), 3, "records of its last replay may come");
    all.drain(PERIOD as usize);
    assert_eq!(all.captured(3, 0), UNKNOWN);
}
