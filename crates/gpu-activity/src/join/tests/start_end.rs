//! Start/end ranges that end on their own thread, on another thread, or never.

use super::*;

fn lifetime(id: u64, parent: u64, label: u32) -> Note {
    Note::Began(Instance { id, parent, label, style: RangeStyle::StartEnd, start: 10 })
}

impl Join {
    /// Counts of kernel 1 in the start/end ranges with this name, or outside ranges for `None`: range instances, kernel
    /// executions, timed executions.
    fn kernels_in(&self, label: Option<u32>) -> (u64, u64, u64) {
        let range = label.map(|label| (label, RangeStyle::StartEnd));
        let row = self.totals(100).range_kernels.get(&(1, range, 1)).cloned().unwrap_or_default();
        (row.range_instances, row.kernel_instances, row.times.count)
    }
}

#[test]
fn a_range_that_ended_elsewhere_is_nowhere() {
    for before in [true, false] {
        let mut all = join(100, 100);
        all.notes(&[began(1, 0, 1), lifetime(2, 1, 2), called(1, 1, 1)]);
        all.notes(&[Note::Ended { instance: 1, end: 20 }, lifetime(3, 0, 3), called(2, 1, 0)]);
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
        assert_eq!((all.instances.kept(), all.losses()), (0, ActivityLosses::default()));
        assert_eq!(all.kernels_in(None), (0, 2, 2));
    }
}

/// Two requests are served side by side, as in an async server: a kernel launched in both is one execution.
#[test]
fn ranges_of_one_name_side_by_side() {
    let side_by_side = |ends: [bool; 2]| {
        let mut all = join(100, 100);
        all.notes(&[lifetime(1, 0, 1), called(1, 1, 0)]);
        all.notes(&[lifetime(2, 0, 1), called(2, 1, 0)]);
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

/// A start/end range has a parent on the stack but is never a parent itself.
#[test]
fn a_lifetime_is_no_level() {
    let mut all = join(100, 100);
    all.notes(&[began(1, 0, 1), lifetime(2, 1, 2), lifetime(3, 1, 3), began(4, 1, 4), called(1, 1, 4)]);
    all.ran(1, 30, 40);
    let rows = |all: &Join| {
        let rows = all.totals(100).projections.into_iter().map(|(_, row)| row);
        rows.map(|row| (row.operations, row.level_sum, row.children_sum)).collect::<Vec<_>>()
    };
    let expected = [(1, 0, 3), (1, 1, 0), (1, 1, 0), (1, 1, 0)];
    assert_eq!(rows(&all), expected);
    all.notes(&[4, 2, 1, 3].map(|instance| Note::Ended { instance, end: 60 }));
    all.drain(5);
    assert_eq!((rows(&all), all.instances.kept()), (expected.to_vec(), 0));
}

#[test]
fn an_open_lifetime_begins_with_the_window() {
    let mut all = join(100, 100);
    all.notes(&[lifetime(1, 0, 1), called(1, 1, 0)]);
    all.ran(1, 20, 30);
    all.clear(50);
    assert_eq!(all.totals(100), Totals::default());
    all.notes(&[called(2, 1, 0)]);
    all.ran(2, 60, 70);
    let row = |all: &Join| {
        let row = all.totals(100).projections.get(&(1, RangeStyle::StartEnd)).cloned().unwrap();
        (row.operations, row.range_total, row.projected.total)
    };
    assert_eq!((row(&all), all.kernels_in(Some(1))), ((1, 100 - 50, 10), (1, 1, 1)));
    all.notes(&[Note::Ended { instance: 1, end: 80 }]);
    all.drain(4);
    assert_eq!((row(&all), all.kernels_in(Some(1))), ((1, 80 - 50, 10), (1, 1, 1)));
}

/// Its slot is free for another range.
#[test]
fn a_range_that_ended_before_the_window_ends_no_other() {
    let mut all = join(100, 100);
    all.notes(&[lifetime(1, 0, 1), Note::Ended { instance: 1, end: 20 }]);
    all.clear(50);
    all.notes(&[lifetime(2, 0, 2), called(1, 1, 0)]);
    all.ran(1, 60, 70);
    all.drain(1);
    all.notes(&[Note::Left { instance: 2 }]);
    all.drain(1);
    assert_eq!((all.kernels_in(Some(2)), all.kernels_in(None)), ((0, 0, 0), (0, 1, 1)));
}

/// A note is not trusted to name a range on the stack.
#[test]
fn an_operation_counts_once_in_an_instance() {
    let mut all = join(100, 100);
    all.notes(&[lifetime(1, 0, 1), called(1, 1, 1)]);
    all.ran(1, 20, 30);
    assert_eq!(all.totals(100).projections[&(1, RangeStyle::StartEnd)].operations, 1);
    assert_eq!(all.kernels_in(Some(1)), (1, 1, 1));
}

/// Launches share one list of open ranges until a range begins or ends. The list can be very long.
#[test]
fn ranges_around_launches_take_of_their_memory() {
    for (changes, remembered) in [(true, 9), (false, 45)] {
        let mut all = join(100, 100);
        (1..=80).for_each(|id| all.note(1, &lifetime(id, 0, 1)));
        for call in 1..=90 {
            if changes {
                let instance = 100 + u64::from(call);
                all.notes(&[lifetime(instance, 0, 1), Note::Ended { instance, end: 20 }]);
            }
            all.note(1, &called(call, 1, 0));
        }
        assert_eq!(all.remembered(), remembered, "80 ranges take as much as 10 launches");
        assert_eq!(all.losses().forgotten_launches, 90 - remembered as u64);
        (1..=80).for_each(|instance| all.note(1, &Note::Ended { instance, end: 20 }));
        all.drain(1);
        (0..100).for_each(|call| all.note(1, &called(100 + call, 1, 0)));
        assert_eq!(all.remembered(), 100, "and give it back");
    }
    let mut all = join(2_200, 1_000);
    (1..=1_000).for_each(|id| all.note(1, &lifetime(id, 0, 1)));
    (1..=1_000).for_each(|call| all.note(1, &called(call, 1, 0)));
    assert_eq!(all.losses(), losses(|it| it.outstanding = 1_000));
}

/// A range that has ended still counts the kernels that finish before and after its end, until the drain is over.
#[test]
fn a_range_that_has_just_ended_is_one() {
    let mut all = join(100, 100);
    all.notes(&[lifetime(1, 0, 1), called(1, 1, 0), called(2, 1, 0)]);
    all.ran(1, 30, 40);
    all.notes(&[Note::Ended { instance: 1, end: 50 }]);
    all.ran(2, 40, 50);
    assert_eq!(all.kernels_in(Some(1)), (1, 2, 2));
    all.drain(1);
    assert_eq!((all.kernels_in(Some(1)), all.kernels_in(None)), ((1, 2, 2), (0, 0, 0)));
}

/// Very many concurrent requests end in any order. A summary has the same counts before they end as afterwards.
#[test]
fn a_summary_in_many_open_lifetimes() {
    const OPEN: u32 = 600;
    let mut all = join(10_000, 1_000);
    for id in 1..=OPEN {
        all.notes(&[lifetime(id.into(), 0, id % 3), called(id, 1, 0)]);
        all.ran(id, 30, 40);
    }
    let open = all.totals(50).range_kernels;
    (1..=OPEN).rev().for_each(|instance| all.notes(&[Note::Ended { instance: instance.into(), end: 50 }]));
    assert!(all.totals(50).range_kernels == open, "as they end");
    all.drain(4);
    for ((_, range, _), row) in open {
        let now = all.kernels_in(range.map(|range| range.0));
        assert_eq!((row.range_instances, row.kernel_instances, row.times.count), now);
        assert_eq!(row.range_instances, u64::from(OPEN / 3));
    }
}

/// A duration counts once in the row of each open range around it. The number of single durations kept stays bounded
/// all the same.
#[test]
fn a_summary_keeps_no_more_durations_than_wait() {
    let mut all = join(100, 100);
    (1..=3).for_each(|id| all.note(1, &lifetime(id, 0, 1)));
    all.note(1, &graph(1, 1, 0));
    (1..=600).for_each(|at| all.ran(1, at, at + 7));
    let times = all.totals(0).range_kernels[&(1, Some((1, RangeStyle::StartEnd)), 1)].times.clone();
    let in_buckets = times.buckets.sum();
    assert_eq!((times.count, times.samples.len(), in_buckets), (3 * 600, 600, 2 * 600));
    assert_eq!((times.total, times.min, times.max), (3 * 600 * 7, 7, 7));
}

/// The single durations of undecided ranges are bounded. Their memory is free again once the ranges are decided.
#[test]
fn durations_of_undecided_ranges_are_bounded() {
    let mut all = join(100, 100);
    for instance in 1..=3 {
        all.notes(&[lifetime(instance, 0, 1), graph(1, 1, 0)]);
        (1..=1_100).for_each(|at| all.ran(1, at, at + 7));
        let times = all.totals(0).range_kernels[&(1, Some((1, RangeStyle::StartEnd)), 1)].times.clone();
        let before = u64::from(instance > 1); // earlier rounds that count here
        assert_eq!(
            (times.count, times.samples.len()),
            (1_100 * (before + 1), 1_000),
            "the others are in the histogram"
        );
        all.notes(&[if instance == 2 { Note::Left { instance } } else { Note::Ended { instance, end: 9 } }]);
        all.drain(1);
        assert!(all.waits_for_no_end());
    }
    let times = all.totals(0).range_kernels[&(1, None, 1)].times.clone();
    assert_eq!((times.count, times.samples.len(), times.buckets.sum()), (1_100, 1_000, 100));
}
