//! When calls and instances are forgotten, and the effects of hostile input.

use range_model::stats::Keyed;

use super::*;
use crate::record::{Instance, Kernel, Memory, Work};
use proptest::prelude::*;
use range_model::stats::Distribution;
use range_model::{ActivityLosses, MemoryKind, RangeStyle};

mod calls;
mod details;
mod events;
mod graphs;
mod late;
mod program;
mod reference;
mod start_end;

pub(super) const KEEP: Context<'_> = Context { parents: &[0, 0, 1, 1], keep: &|_| true };

pub(super) fn join(launches: usize, instances: usize) -> Join {
    Join::new(Limits { launches, nodes: launches, calls: launches, has_calls: false, instances })
}

/// A join with API calls recorded.
pub(super) fn with_calls(launches: usize) -> Join {
    Join::new(Limits { launches, nodes: launches, calls: launches, has_calls: true, instances: 100 })
}

pub(super) fn called(correlation: u32, node: u32, instance: u64) -> Note {
    Note::Called { correlation, node, instance, graph: false, at: 0, call: 0, enqueues: true }
}

pub(super) fn graph(correlation: u32, node: u32, instance: u64) -> Note {
    Note::Called { correlation, node, instance, graph: true, at: 0, call: 0, enqueues: true }
}

pub(super) fn waits(correlation: u32, node: u32) -> Note {
    Note::Called { correlation, node, instance: 0, graph: false, at: 0, call: 0, enqueues: false }
}

pub(super) fn began(id: u64, parent: u64, label: u32) -> Note {
    Note::Began(Instance { id, parent, label, style: RangeStyle::PushPop, start: 10 })
}

pub(super) fn kernel(correlation: u32, start: u64, end: u64) -> GpuOp {
    let work = Work::Kernel(Kernel { name: 1, ..Kernel::default() });
    GpuOp { start, end, correlation, device: 0, context: 1, stream: 7, graph_node: 0, work }
}

pub(super) fn api(api: Api, correlation: u32, start: u64, end: u64) -> ApiCall {
    ApiCall { api, function: 1, start, end, thread: 1, correlation, result: 0 }
}

pub(super) fn losses(some: impl FnOnce(&mut ActivityLosses)) -> ActivityLosses {
    let mut losses = ActivityLosses::default();
    some(&mut losses);
    losses
}

impl Join {
    pub(super) fn notes(&mut self, notes: &[Note]) {
        notes.iter().for_each(|note| self.note(1, note));
    }
    pub(super) fn ran(&mut self, correlation: u32, start: u64, end: u64) {
        self.operation(&kernel(correlation, start, end), true, &KEEP);
    }
    pub(super) fn drain(&mut self, times: usize) {
        (0..times).for_each(|_| self.drained(&KEEP, 1));
    }
    pub(super) fn remembered(&self) -> usize {
        self.pending.known.len() + self.pending.mere_calls.len
    }
    pub(super) fn own(&self, node: u32) -> u64 {
        self.totals(100).nodes.get(&node).map_or(0, |node| node.own.operations)
    }
    pub(super) fn waits_for_no_end(&self) -> bool {
        let undecided = &self.folds.0.undecided;
        undecided.waiting.is_empty() && undecided.apart == 0 && self.instances.ended.is_empty()
    }
    pub(super) fn losses(&self) -> ActivityLosses {
        self.totals(100).losses
    }
}

#[test]
fn a_launch_is_forgotten_two_drains_after_its_last_operation() {
    let mut all = join(100, 100);
    all.notes(&[called(1, 2, 0), graph(2, 3, 0)]);
    all.drain(5);
    assert_eq!(all.losses().outstanding, 2, "what has not come is waited for");
    all.ran(1, 10, 20);
    all.ran(2, 10, 20);
    all.drain(2);
    all.ran(1, 20, 30);
    all.drain(2);
    all.ran(1, 30, 40);
    assert_eq!((all.own(2), all.losses().unmatched), (3, 0));
    all.drain(3);
    all.ran(1, 40, 50);
    all.ran(2, 40, 50);
    let expected = losses(|it| it.unmatched = 1);
    assert_eq!((all.own(2), all.own(3), all.losses()), (3, 2, expected), "graphs stay");
    assert_eq!(all.totals(100).total.operations, 6);
}

#[test]
fn beyond_the_bound_the_oldest_launches_go() {
    let mut all = join(3, 100);
    all.notes(&[called(1, 1, 0), graph(2, 1, 0), called(3, 1, 0)]);
    all.ran(2, 10, 20);
    all.notes(&[called(4, 1, 0), called(5, 1, 0)]);
    assert_eq!(all.losses().forgotten_launches, 1, "of the second something had come");
    (1..=5).for_each(|id| all.ran(id, 20, 30));
    assert_eq!((all.own(1), all.losses().unmatched), (1 + 3, 2));
    for id in 6..10_000 {
        all.notes(&[called(id, 1, 0)]);
        all.ran(id, 20, 30);
        all.drain(1);
    }
    assert!(all.remembered() <= 3);
    let mut none = join(0, 0);
    none.notes(&[began(1, 0, 0), called(1, 1, 1), called(2, 1, 1)]);
    none.drain(1);
    assert_eq!(none.remembered(), 1);
}

/// A summary may be asked for at any time. It must not age records that CUPTI has not delivered yet.
#[test]
fn only_drains_that_count_make_things_old() {
    let mut all = with_calls(100);
    all.notes(&[called(1, 2, 0)]);
    all.ran(1, 10, 20);
    all.call(&api(Api::Driver, 1, 10, 12), true, &KEEP);
    (0..50).for_each(|_| all.drained(&KEEP, 0));
    all.call(&api(Api::Runtime, 1, 8, 14), true, &KEEP);
    all.ran(1, 20, 30);
    let totals = all.totals(100);
    assert_eq!((totals.nodes[&2].own.operations, totals.unmatched.operations), (2, 0));
    assert_eq!(totals.nodes[&2].calls, Keyed::from_iter([((Api::Runtime, 1), (1, 6))]));
    assert_eq!(totals.calls.len(), 1);
}

#[test]
fn an_id_that_comes_again_is_another_call() {
    let mut all = join(100, 100);
    all.notes(&[began(1, 0, 7), graph(u32::MAX, 1, 1), called(0, 1, 1)]);
    all.ran(u32::MAX, 10, 20);
    all.notes(&[Note::Ended { instance: 1, end: 50 }, called(u32::MAX, 2, 0)]);
    all.ran(u32::MAX, 60, 70);
    all.ran(0, 15, 30);
    let totals = all.totals(100);
    assert_eq!((totals.nodes[&1].own.operations, totals.nodes[&2].own.operations), (2, 1));
    assert_eq!(totals.projections[&(7, RangeStyle::PushPop)].projected, Distribution::of([20]));
    all.drain(3);
    all.ran(u32::MAX, 80, 90);
    assert_eq!(all.losses().unmatched, 1, "the new call was no graph's");
}

#[test]
fn driver_calls_of_one_runtime_call_are_one_launch() {
    let mut all = join(100, 100);
    all.notes(&[began(1, 0, 1)]);
    for enqueues in [false, true, false] {
        all.notes(&[Note::Called { correlation: 1, node: 2, instance: 1, graph: false, at: 0, call: 0, enqueues }]);
    }
    all.notes(&[Note::Ended { instance: 1, end: 20 }]);
    all.drain(5);
    assert_eq!(all.losses().outstanding, 1);
    all.ran(1, 30, 40);
    assert_eq!((all.own(2), all.totals(100).projections.len()), (1, 1));
    all.drain(3);
    assert_eq!((all.instances.kept(), all.remembered()), (0, 0));
}

#[test]
fn the_order_in_a_drain_makes_no_busy_time_vanish() {
    let mut all = join(100, 100);
    all.notes(&[called(1, 2, 0), called(2, 3, 0)]);
    for at in (1..5_000).rev() {
        all.ran(1 + at as u32 % 2, at * 10, at * 10 + 5);
    }
    let busy = |all: &Join| all.totals(100).nodes.values().map(|node| node.total.busy_ns).collect::<Vec<_>>();
    let expected = [4_999 * 5, 4_999 * 5, 2_499 * 5, 2_500 * 5];
    assert_eq!(busy(&all), expected, "before the drain is over");
    all.drain(1);
    assert_eq!(busy(&all), expected);
}

#[test]
fn a_new_window_drops_what_was_launched_before() {
    let mut all = join(100, 100);
    all.notes(&[began(1, 0, 1), began(2, 1, 2), called(1, 1, 2), graph(2, 1, 2), called(3, 1, 2)]);
    all.ran(1, 10, 20);
    all.ran(9, 10, 20);
    all.call(&api(Api::Driver, 1, 10, 90), true, &KEEP);
    all.notes(&[Note::Ended { instance: 2, end: 30 }]);
    all.clear(50);
    assert_eq!(all.totals(100), Totals::default());
    (1..=3).for_each(|id| all.ran(id, 50, 60));
    all.call(&api(Api::Driver, 1, 10, 90), true, &KEEP);
    all.ran(2, 70, 0);
    all.drain(2);
    assert_eq!(all.totals(100), Totals::default(), "dropped, and no loss");
    all.notes(&[called(4, 1, 1)]);
    all.ran(4, 70, 80);
    let totals = all.totals(90);
    let row = &totals.projections[&(1, RangeStyle::PushPop)];
    assert_eq!((row.range_total, row.projected.total, row.operations, row.children_sum), (90 - 50, 10, 1, 0));
    assert_eq!((totals.projections.len(), totals.total.operations), (1, 1));
    all.notes(&[Note::Ended { instance: 1, end: 95 }]);
    all.drain(3);
    assert_eq!(all.instances.kept(), 0);
    assert_eq!(all.totals(100).projections[&(1, RangeStyle::PushPop)].range_total, 95 - 50);
}

/// A copy in two parts, the first of which was over before the window.
#[test]
fn a_launch_counts_with_its_first_operation_of_the_window() {
    let mut all = join(100, 100);
    all.notes(&[began(1, 0, 1), called(1, 1, 1)]);
    all.operation(&kernel(1, 10, 20), false, &KEEP);
    assert_eq!((all.losses(), all.totals(100).projections.len()), (ActivityLosses::default(), 0));
    all.ran(1, 60, 70);
    assert_eq!(all.totals(100).projections[&(1, RangeStyle::PushPop)].operations, 1);
}

#[test]
fn instances_go_when_nothing_more_can_come() {
    let (mut all, mut longest) = (join(100, 100), 0);
    for id in 1..=50 {
        let instance = u64::from(id) * 2;
        all.notes(&[began(instance, 0, 1), began(instance + 1, instance, 2), called(id, 1, instance + 1)]);
        all.notes(&[Note::Ended { instance: instance + 1, end: 20 }, Note::Ended { instance, end: 30 }]);
        all.ran(id, 100, 110);
        all.drain(1);
        assert!(all.instances.kept() <= 6, "{}", all.instances.kept());
        longest = longest.max(all.instances.lengths().1);
    }
    assert_eq!(longest, 2 * 4 + 64, "tidied once there are more");
    let rows = all.totals(100).projections;
    let outer = &rows[&(1, RangeStyle::PushPop)];
    assert_eq!((outer.projected.count, outer.range_total, outer.children_sum), (50, 50 * 20, 50));
    assert_eq!(rows[&(2, RangeStyle::PushPop)].level_sum, 50);
}

#[test]
fn beyond_the_bound_instances_are_folded_early() {
    let mut all = join(100, 2);
    for id in 1..=4 {
        all.notes(&[began(u64::from(id), 0, id), graph(id, 1, u64::from(id))]);
        all.notes(&[Note::Ended { instance: u64::from(id), end: 30 }]);
        all.ran(id, 100, 110);
    }
    all.drain(1);
    (1..=4).for_each(|id| all.ran(id, 120, 130));
    let totals = all.totals(200);
    let durations: Vec<u128> = totals.projections.values().map(|row| row.projected.total).collect();
    assert_eq!((durations, totals.losses.late), (vec![10, 10, 30, 30], 2), "the oldest two were");
    assert!(totals.range_kernels.values().all(|row| (row.range_instances, row.times.count) == (1, 2)));
    assert_eq!(totals.total.operations, 8);
    all.clear(200);
    assert_eq!(all.instances.kept(), 0);
}

/// Captured launches get no operations. Each is kept with its instance until the bound on either.
#[test]
fn instances_of_launches_that_nothing_comes_of_are_let_go_of() {
    let mut all = join(10_000, 100);
    for id in 1..=5_000 {
        all.notes(&[began(id.into(), 0, 1), called(id, 1, id.into()), called(10_000 + id, 1, id.into())]);
        all.notes(&[Note::Ended { instance: id.into(), end: 30 }]);
        all.ran(10_000 + id, 100, 110);
        if id % 50 == 0 {
            all.drain(1);
            assert_eq!(all.instances.kept(), 200.min(id as usize), "as many folded ones as others");
        }
    }
    let totals = all.totals(200);
    assert_eq!((totals.losses.late, totals.losses.unmatched), (0, 0));
    assert!((4_700..5_000).contains(&totals.losses.forgotten_launches), "{:?}", totals.losses);
    assert_eq!(totals.projections[&(1, RangeStyle::PushPop)].projected.count, 5_000);
}

#[test]
fn there_are_no_more_instances_than_there_is_room_for() {
    let mut all = join(10_000, 100);
    for id in 1..=1_000 {
        all.notes(&[began(id.into(), 0, 1), called(id, 1, id.into())]);
        all.ran(id, 100, 110);
    }
    assert_eq!(all.instances.kept(), 250 + 64, "all in one drain");
    assert_eq!(all.instances.lengths().0, 5 * 64, "room for an eighth more, or 64");
    (1..=1_000).for_each(|id| all.notes(&[Note::Ended { instance: id, end: 30 }]));
    all.drain(5);
    let totals = all.totals(200);
    assert_eq!(totals.projections[&(1, RangeStyle::PushPop)].projected.count, 314);
    assert_eq!((totals.losses.late, totals.total.operations), (1_000 - 314, 1_000));
    assert_eq!(all.instances.kept(), 0);
}

/// The sizes in the comments, on which the collector bases its limits.
#[test]
fn launches_and_instances_are_as_large_as_is_said() {
    let in_table = |entry: usize| (entry + 1) * 16 / 7; // after growth
    assert!(in_table(size_of::<(u32, PendingCall)>()) + 4 * 8 + 3 * 8 <= 168);
    assert!(2 * size_of::<MadeCall>() + 3 * in_table(size_of::<u32>()) * 3 / 2 <= 163);
    let places = 1 << 16; // of a table of 50,000 mere calls
    assert!(places * (size_of::<(u32, mere_calls::MereCall)>() + 1) <= 44 * mere_calls::TABLE);
    assert!(mere_calls::TABLE < places * 7 / 8);
    assert!(size_of::<crate::fold::InstanceState>() * 9 / 8 + in_table(size_of::<(u64, u32)>()) + 2 * 4 <= 250);
}

#[test]
fn times_that_cannot_be_are_counted_and_not_summed() {
    let mut all = join(100, 100);
    all.notes(&[began(1, 0, 1), called(1, 1, 1), called(2, 1, 1)]);
    for (start, end) in [(0, 0), (0, 10), (10, 0), (10, 9)] {
        all.ran(1, start, end);
        all.call(&api(Api::Runtime, 1, start, end), true, &KEEP);
    }
    let expected = losses(|it| {
        it.without_time = 8;
        it.outstanding = 1;
    });
    assert_eq!(all.totals(100), Totals { losses: expected, ..Totals::default() });
    (0..3).for_each(|_| all.ran(1, 1, u64::MAX));
    all.ran(1, u64::MAX, u64::MAX);
    let totals = all.totals(0);
    assert_eq!((totals.total.sum_ns, totals.total.busy_ns), (u64::MAX, u64::MAX - 1));
    assert_eq!(totals.projections[&(1, RangeStyle::PushPop)].range_total, 0, "now is before its start");
}

#[test]
fn lineage_that_is_no_tree_goes_to_the_root() {
    let mut all = join(100, 100);
    let context = Context { parents: &[5, 2, 1, u32::MAX, 4], keep: &|_| false };
    (0..7).for_each(|id| all.note(1, &called(id, [0, 1, 2, 3, 4, 5, u32::MAX][id as usize], 0)));
    (0..7).for_each(|id| all.operation(&kernel(id, 10, 20), true, &context));
    let totals = all.totals(100);
    let of = |node: u32| (totals.nodes[&node].own.operations, totals.nodes[&node].total.operations);
    assert_eq!([of(0), of(1), of(2), of(3), of(4)], [(3, 7), (1, 2), (1, 1), (1, 1), (1, 1)]);
    all.operation(&kernel(0, 30, 40), true, &Context { parents: &[], keep: &|_| true });
    assert_eq!(all.own(0), 4);
}

fn any_note() -> impl Strategy<Value = Note> {
    let few = || prop_oneof![0u64..6, Just(u64::MAX)];
    let id = || prop_oneof![0u32..6, Just(u32::MAX)];
    prop_oneof![
        (few(), few(), any::<u64>(), any::<bool>()).prop_map(|(id, parent, start, style)| {
            let style = if style { RangeStyle::PushPop } else { RangeStyle::StartEnd };
            Note::Began(Instance { id, parent, label: 1, style, start })
        }),
        (few(), any::<u64>()).prop_map(|(instance, end)| Note::Ended { instance, end }),
        (id(), id(), few(), any::<bool>(), any::<bool>()).prop_map(|(correlation, node, instance, graph, enqueues)| {
            Note::Called { correlation, node, instance, graph, at: 0, call: 0, enqueues }
        }),
        few().prop_map(|instance| Note::Left { instance }),
        id().prop_map(|correlation| Note::Own { correlation }),
    ]
}

proptest! {
    /// Hostile input in any order does not cause a panic. Every timed operation is in the table of all unless it is
    /// dropped, and in the end only open or awaited items are kept.
    #[test]
    fn hostile_input_does_no_harm(
        steps in prop::collection::vec(
            (0u8..9, any_note(), 0u32..6, prop_oneof![0u64..50, any::<u64>()], prop_oneof![0u64..50, any::<u64>()]),
            0..120,
        ),
        launches in 0usize..8, instances in 0usize..6, has_calls in any::<bool>(),
    ) {
        let mut all = Join::new(Limits { launches, nodes: launches, calls: launches, has_calls, instances });
        for (kind, note, id, start, end) in steps {
            match kind {
                0..=3 => all.note(id, &note),
                4 => all.ran(id, start, end),
                5 => {
                    let memory = Memory { kind: MemoryKind::Set, bytes: start, source: 9, destination: 9, value: 1 };
                    let (work, device) = (Work::Memory(memory), id.wrapping_neg());
                    all.operation(&GpuOp { work, device, ..kernel(id, start, end) }, true, &KEEP);
                }
                6 => {
                    let of = if start % 2 == 0 { Api::Driver } else { Api::Runtime };
                    all.call(&api(of, id, start, end), true, &KEEP);
                }
                7 => all.drained(&KEEP, u32::from(id > 1)),
                _ if start % 4 == 0 => all.clear(end),
                _ => drop(all.totals(end)),
            }
            prop_assert!(all.pending.known.len() <= launches.max(1));
            prop_assert!(all.remembered() <= 2 * launches.max(1));
        }
        let totals = all.totals(60);
        let kernels: u64 = totals.kernels.values().map(|times| times.count).sum();
        let counted = kernels + totals.memory.values().map(|row| row.0.count).sum::<u64>();
        prop_assert_eq!(counted, totals.total.operations);
        prop_assert!(totals.total.busy_ns >= totals.nodes.get(&0).map_or(0, |root| root.total.busy_ns));
        for node in totals.nodes.values() {
            prop_assert!(node.own.operations <= node.total.operations && node.own.busy_ns <= node.total.busy_ns);
        }
        for row in totals.range_kernels.values() {
            prop_assert!(row.kernel_instances <= row.times.count);
        }
        let rows = totals.range_kernels.iter().filter(|((_, range, _), _)| range.is_none());
        prop_assert!(rows.map(|(_, row)| row.times.count).sum::<u64>() <= counted);
        for id in [0, 1, 2, 3, 4, 5, u64::MAX] {
            all.note(9, &Note::Ended { instance: id, end: 70 });
        }
        all.pending.clear(false, &mut |slot| all.instances.release(slot));
        all.drain(1);
        prop_assert_eq!(all.instances.kept(), 0);
        prop_assert!(all.waits_for_no_end(), "what waited for them is counted");
    }
}
