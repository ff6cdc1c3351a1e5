//! Start/end ranges: those that end on their own thread, on another, or not at all.

use super::tests::{attribution, began, called, graph};
use super::*;
use crate::record::Instance;
use range_report::RangeStyle;

fn lifetime(id: u64, parent: u64, label: u32) -> Note {
    Note::Began(Instance { id, parent, label, style: RangeStyle::StartEnd, start: 10 })
}

pub(super) const fn within(correlation: u32, instance: u64) -> Note {
    Note::Within { correlation, instance }
}

impl Attribution {
    /// Range instances, executions and times of the kernel in a start/end range of this name, or in the row of no range.
    fn kernels_in(&self, label: Option<u32>) -> (u64, u64, u64) {
        let range = label.map(|label| (label, RangeStyle::StartEnd));
        let row = self.totals(100).range_kernels.remove(&(1, range, 1)).unwrap_or_default();
        (row.range_instances, row.kernel_instances, row.times.count)
    }
}

#[test]
fn a_range_that_ended_elsewhere_is_nowhere() {
    for before in [true, false] {
        let mut all = attribution(100, 100);
        all.notes(&[began(1, 0, 1), lifetime(2, 1, 2), called(1, 1, 1), within(1, 2)]);
        all.notes(&[
            Note::Ended { instance: 1, end: 20 },
            lifetime(3, 0, 3),
            called(2, 1, 0),
            within(2, 2),
            within(2, 3),
        ]);
        if before {
            (1..=2).for_each(|id| all.ran(id, 30, 40));
            assert_eq!(
                (all.kernels_in(Some(2)), all.kernels_in(Some(3)), all.kernels_in(None)),
                ((1, 2, 2), (1, 1, 1), (0, 0, 0))
            );
        }
        all.notes(&[Note::Left { instance: 2 }, Note::Left { instance: 3 }, Note::Ended { instance: 3, end: 50 }]);
        if !before {
            (1..=2).for_each(|id| all.ran(id, 30, 40));
        }
        all.ran(2, 50, 60);
        assert_eq!((all.kernels_in(Some(2)), all.kernels_in(Some(3))), ((0, 0, 0), (0, 0, 0)), "before: {before}");
        assert_eq!(all.kernels_in(None), (0, 2, 2), "of the second call");
        assert_eq!(all.totals(100).projections.len(), 1);
        all.drain(4);
        assert_eq!((all.instances.kept(), all.losses()), (0, AttributionLosses::default()));
        assert_eq!(all.kernels_in(None), (0, 2, 2));
    }
}

/// A range was opened again below another one, which stays open: calls there are the first in it, too.
#[test]
fn a_range_that_was_opened_again_below_another_is_in_lifetimes() {
    let mut all = attribution(100, 100);
    all.notes(&[began(1, 0, 1), lifetime(2, 1, 2), began(3, 1, 3), called(1, 1, 3), within(1, 2)]);
    let moved = Note::Moved { from: 3, to: 5, parent: 4 };
    all.notes(&[Note::Ended { instance: 1, end: 20 }, began(4, 0, 4), moved, called(2, 1, 5), within(2, 2)]);
    all.notes(&[5, 4, 2].map(|instance| Note::Ended { instance, end: 30 }));
    (1..=2).for_each(|id| all.ran(id, 40, 50));
    for drains in [0, 4] {
        all.drain(drains);
        let rows = all.totals(100).projections;
        let row = |label, style| (rows[&(label, style)].operations, rows[&(label, style)].level_sum);
        let on_stack = [1, 3, 4].map(|label| row(label, RangeStyle::PushPop));
        assert_eq!((on_stack, row(2, RangeStyle::StartEnd)), ([(1, 0), (2, 1), (1, 1)], (2, 0)));
    }
    assert_eq!(all.instances.kept(), 0);
}

/// Thousands of requests are open when the first of them launches: each is in all that began before it.
#[test]
fn many_lifetimes_are_around_each_other_in_a_short_time() {
    const MANY: u64 = 2_500;
    let mut all = attribution(10_000, 10_000);
    let start = std::time::Instant::now();
    (1..=MANY).for_each(|id| all.notes(&[lifetime(id, 0, 1)]));
    all.notes(&[called(1, 1, 0)]);
    (1..=MANY).for_each(|id| all.notes(&[within(1, id)]));
    let took = start.elapsed(); // were each looked for among all others, a quarter of a minute
    let around: Vec<usize> = all.instances.kept.iter().map(|kept| kept.around.len()).collect();
    assert_eq!(around, (0..MANY as usize).collect::<Vec<_>>());
    assert!(took < std::time::Duration::from_secs(4), "{took:?}");
}

/// Two requests are served side by side, as in an async server: a kernel launched in both is one execution.
#[test]
fn ranges_of_one_name_side_by_side() {
    let side_by_side = |ends: [bool; 2]| {
        let mut all = attribution(100, 100);
        all.notes(&[lifetime(1, 0, 1), called(1, 1, 0), within(1, 1)]);
        all.notes(&[lifetime(2, 0, 1), called(2, 1, 0), within(2, 1), within(2, 2)]);
        (1..=2).for_each(|id| all.ran(id, 30, 40));
        assert_eq!(all.kernels_in(Some(1)), (2, 2, 3));
        for (instance, ends) in (1..).zip(ends) {
            all.notes(&[if ends { Note::Ended { instance, end: 50 } } else { Note::Left { instance } }]);
        }
        all.drain(4);
        (all.kernels_in(Some(1)), all.kernels_in(None))
    };
    assert_eq!(side_by_side([true, true]), ((2, 2, 3), (0, 0, 0)));
    assert_eq!(side_by_side([true, false]), ((1, 2, 2), (0, 0, 0)));
    assert_eq!(side_by_side([false, true]), ((1, 1, 1), (0, 1, 1)));
    assert_eq!(side_by_side([false, false]), ((0, 0, 0), (0, 2, 2)));
}

/// Levels and children of `outer` (on the stack), two lifetimes in it, and `inner`, which is in both, and on the stack, too.
#[test]
fn a_lifetime_is_a_level_if_it_counts() {
    for gone_before in [false, true] {
        let nested = |ends: [bool; 2]| {
            let mut all = attribution(100, 100);
            all.notes(&[began(1, 0, 1), lifetime(2, 1, 2), lifetime(3, 1, 3), began(4, 1, 4)]);
            all.notes(&[called(1, 1, 4), within(1, 2), within(1, 3), Note::Ended { instance: 4, end: 20 }]);
            all.ran(1, 30, 40);
            let row = |all: &Attribution, label, style| {
                let row = all.totals(100).projections.remove(&(label, style));
                row.map(|row| (row.level_sum, row.children_sum))
            };
            let rows = |all: &Attribution| {
                let of = [(1, RangeStyle::PushPop), (2, RangeStyle::StartEnd), (3, RangeStyle::StartEnd)];
                let [outer, first, second] = of.map(|(label, style)| row(all, label, style));
                [outer, first, second, row(all, 4, RangeStyle::PushPop)]
            };
            if gone_before {
                all.drain(5);
                assert_eq!(all.instances.kept(), 3, "the inner one is in the totals");
            }
            assert_eq!(rows(&all), [Some((0, 1)), Some((1, 1)), Some((2, 1)), Some((3, 0))], "as if all ended now");
            for (instance, ends) in [3, 2].into_iter().zip(ends) {
                all.notes(&[if ends { Note::Ended { instance, end: 50 } } else { Note::Left { instance } }]);
            }
            all.notes(&[Note::Ended { instance: 1, end: 60 }]);
            let before = rows(&all);
            all.drain(5);
            assert_eq!((rows(&all), all.instances.kept()), (before, 0));
            before
        };
        assert_eq!(nested([true, true]), [Some((0, 1)), Some((1, 1)), Some((2, 1)), Some((3, 0))]);
        assert_eq!(nested([false, true]), [Some((0, 1)), Some((1, 1)), None, Some((2, 0))]);
        assert_eq!(nested([true, false]), [Some((0, 1)), None, Some((1, 1)), Some((2, 0))]);
        assert_eq!(nested([false, false]), [Some((0, 1)), None, None, Some((1, 0))]);
    }
}

/// Threads come and go, each with a call of its own.
#[test]
fn last_calls_of_threads_are_bounded() {
    let mut all = attribution(100, 100);
    for thread in 1..=3 * 4_096 {
        let id = u64::from(thread);
        let ended = Note::Ended { instance: id, end: 20 };
        [began(id, 0, 1), called(thread, 1, id), ended].iter().for_each(|note| all.note(thread, note));
        if thread % 256 == 0 {
            all.drain(1);
        }
    }
    assert!(all.instances.first_calls.len() <= 4_096 + 256, "{}", all.instances.first_calls.len());
}

#[test]
fn an_open_lifetime_begins_with_the_window() {
    let mut all = attribution(100, 100);
    all.notes(&[lifetime(1, 0, 1), called(1, 1, 0), within(1, 1)]);
    all.ran(1, 20, 30);
    all.clear(50);
    assert_eq!(all.totals(100), Totals::default());
    all.notes(&[called(2, 1, 0), within(2, 1)]);
    all.ran(2, 60, 70);
    let row = |all: &Attribution| {
        let row = all.totals(100).projections.remove(&(1, RangeStyle::StartEnd)).unwrap();
        (row.operations, row.range_total, row.projected.total)
    };
    assert_eq!((row(&all), all.kernels_in(Some(1))), ((1, 100 - 50, 10), (1, 1, 1)));
    all.notes(&[Note::Ended { instance: 1, end: 80 }]);
    all.drain(4);
    assert_eq!((row(&all), all.kernels_in(Some(1))), ((1, 80 - 50, 10), (1, 1, 1)));
}

#[test]
fn ranges_around_launches_take_of_their_memory() {
    let mut all = attribution(100, 100);
    (1..=80).for_each(|id| all.note(1, &lifetime(id, 0, 1)));
    for call in 1..=90 {
        all.note(1, &called(call, 1, 0));
        (1..=80).for_each(|id| all.note(1, &within(call, id)));
    }
    assert_eq!(all.launches.remembered(), 9, "80 ranges take as much as 11 more launches");
    assert_eq!(all.losses().forgotten_launches, 81);
    all.drain(1);
    (0..80).for_each(|call| all.note(1, &called(100 + call, 1, 0)));
    assert_eq!(all.launches.remembered(), 81, "and give it back: one is left of those");
}

/// What is kept one by one of undecided ranges is bounded, and is free again when they are decided.
#[test]
fn durations_of_undecided_ranges_are_bounded() {
    let mut all = attribution(100, 100);
    for instance in 1..=3 {
        all.notes(&[lifetime(instance, 0, 1), graph(1, 1, 0), within(1, instance)]);
        (1..=1_000).for_each(|at| all.ran(1, at, at + 7));
        let times = all.totals(0).range_kernels.remove(&(1, Some((1, RangeStyle::StartEnd)), 1)).unwrap().times;
        // Each duration is there twice: for the range, and in case that it leaves.
        let before = usize::from(instance > 1); // rounds that have counted
        assert_eq!((times.count, times.samples.len()), (1_000 * (before as u64 + 1), 500 * (before + 1)));
        all.notes(&[if instance == 2 { Note::Left { instance } } else { Note::Ended { instance, end: 9 } }]);
        assert!(all.range_kernels.decides_nothing());
        all.drain(1);
    }
    let times = all.totals(0).range_kernels.remove(&(1, None, 1)).unwrap().times;
    assert_eq!((times.count, times.samples.len(), times.buckets.values().sum::<u64>()), (1_000, 500, 500));
}
