//! API calls: how long they are remembered, and which of them count.

use range_model::stats::Keyed;

use super::{ActivityLosses, KEEP, api, called, join, losses, waits, with_calls};
use crate::join::mere_calls::MereCall;
use crate::join::{Join, Limits};
use crate::record::{Api, Note};
use crate::totals::Totals;
use range_model::stats::Distribution;
use rustc_hash::FxHashMap;

#[test]
fn a_call_is_remembered_until_its_record_has_come() {
    let mut all = with_calls(100);
    all.notes(&[waits(1, 2)]);
    all.drain(10); // the call waits for long
    all.notes(&[waits(2, 2), called(3, 3, 0)]);
    all.drain(10); // CUPTI delays its record, because other work still runs
    all.call(&api(Api::Driver, 1, 10, 90), true, &KEEP);
    all.drain(3);
    assert_eq!(all.totals(100).nodes[&2].calls[&(Api::Driver, 1)], (1, 80));
    assert_eq!(all.remembered(), 2);
    all.ran(3, 20, 30);
    all.drain(3);
    all.call(&api(Api::Driver, 2, 10, 90), true, &KEEP);
    all.call(&api(Api::Driver, 3, 10, 15), true, &KEEP);
    all.drain(3);
    assert_eq!(all.totals(100).nodes[&3].calls[&(Api::Driver, 1)], (1, 5), "its operation had come long before");
    assert_eq!((all.remembered(), all.losses()), (0, ActivityLosses::default()));
}

/// Calls with nothing but records are far more numerous than launches. They push out neither launches nor the
/// profiler's own calls.
#[test]
fn calls_without_work_have_a_limit_of_their_own() {
    let mut all = with_calls(100);
    for id in 0..35 {
        all.notes(&[called(id, 2, 0), Note::Own { correlation: 100 + id }]);
    }
    (1_000..2_000).for_each(|id| all.notes(&[waits(id, 3)]));
    assert_eq!((all.pending.known.len(), all.remembered()), (70, 170));
    let expected = losses(|it| {
        it.outstanding = 35;
        it.forgotten_calls = 1_000 - 100;
    });
    assert_eq!(all.losses(), expected);
    for id in 0..35 {
        all.ran(id, 20, 30);
        all.call(&api(Api::Driver, 100 + id, 10, 90), true, &KEEP);
    }
    (1_000..2_000).for_each(|id| all.call(&api(Api::Driver, id, 10, 11), true, &KEEP));
    all.drain(5);
    let totals = all.totals(100);
    assert_eq!((totals.nodes[&2].own.operations, totals.unmatched.operations), (35, 0));
    assert_eq!(totals.calls[&(Api::Driver, 1)].count, 1_000, "and none of our own");
    assert_eq!(totals.nodes[&3].calls[&(Api::Driver, 1)], (100, 100));
    assert_eq!(all.remembered(), 35, "the records of launches have not come");
    // A launch without a record counts as a call where it is dropped.
    (0..200).for_each(|id| all.notes(&[called(3_000 + id, 2, 0)]));
    let expected = losses(|it| {
        it.outstanding = 100;
        it.forgotten_launches = 100;
        it.forgotten_calls = 900 + 35;
    });
    assert_eq!(all.losses(), expected);
    all.clear(100);
    assert_eq!(all.losses(), ActivityLosses::default());
}

/// One round of the collector: all notes, then all records, of eight threads. Each tenth call is one of the driver
/// alone; each other one is a runtime call around a driver call.
#[test]
fn a_million_calls_in_one_round_lose_nothing() {
    const CALLS: u32 = 1_000_000;
    const LAUNCHES: u32 = 1_000;
    let limits = Limits { launches: 10_000, nodes: 10_000, calls: CALLS as usize, has_calls: true, instances: 100 };
    let mut all = Join::new(limits);
    (0..LAUNCHES).for_each(|id| all.note(1, &called(id, 2, 0)));
    let calls = 5_000..5_000 + CALLS;
    (0..8).for_each(|thread| {
        calls.clone().filter(|id| id % 8 == thread).for_each(|id| all.note(1 + thread, &waits(id, 3)));
    });
    let is_small = |table: &FxHashMap<u32, MereCall>| table.capacity() < 1 << 16;
    assert!(all.pending.mere_calls.tables.iter().all(is_small), "a full table is twice as large while it grows");
    let mut nested = 0;
    for id in calls.clone() {
        let start = u64::from(id);
        all.call(&api(Api::Driver, id, start + 1, start + 2), true, &KEEP);
        if id % 10 != 0 {
            all.call(&api(Api::Runtime, id, start, start + 3), true, &KEEP);
            nested += 1;
        }
    }
    (0..LAUNCHES).for_each(|id| all.ran(id, 20, 30));
    all.drain(1);
    (1..=8).for_each(|thread| all.note(thread, &waits(CALLS * 2 + thread, 1)));
    all.drain(3);
    let totals = all.totals(100);
    assert_eq!((totals.losses, totals.nodes[&2].own.operations), (ActivityLosses::default(), u64::from(LAUNCHES)));
    let counts = [Api::Runtime, Api::Driver].map(|api| totals.nodes[&3].calls[&(api, 1)].0);
    assert_eq!(counts, [nested, u64::from(CALLS) - nested]);
    assert_eq!(all.remembered(), LAUNCHES as usize + 8, "the records of launches have not come");
}

/// Records that never arrive do not take the room for ever: the older half of the time goes first.
#[test]
fn calls_of_which_nothing_comes_leave_room_for_others() {
    let mut all = with_calls(100);
    (0..200).for_each(|id| all.notes(&[waits(id, 2), called(id, 2, 0)]));
    assert_eq!((all.remembered(), all.losses().forgotten_launches), (100, 100), "captured for days");
    for round in 0..50 {
        let calls = 1_000 + round * 25..1_025 + round * 25;
        calls.clone().for_each(|id| all.notes(&[waits(id, 3)]));
        calls.for_each(|id| all.call(&api(Api::Driver, id, 10, 11), true, &KEEP));
        all.drain(1);
    }
    let totals = all.totals(100);
    assert_eq!(totals.nodes[&3].calls[&(Api::Driver, 1)], (50 * 25, 50 * 25));
    assert_eq!((totals.losses.forgotten_calls, totals.losses.forgotten_launches), (0, 100));
    for round in 0..10 {
        (0..20).for_each(|id| all.notes(&[waits(5_000 + 20 * round + id, 3)]));
        all.drain(1);
    }
    let lost = all.losses().forgotten_calls;
    assert!((100..=140).contains(&lost) && all.remembered() <= 200, "{lost}");
    for id in 5_180..5_200 {
        all.call(&api(Api::Driver, id, 10, 11), true, &KEEP);
    }
    all.notes(&[waits(1, 3)]);
    all.drain(4);
    assert_eq!(all.totals(100).nodes[&3].calls[&(Api::Driver, 1)].0, 50 * 25 + 20, "the newest are there");
}

/// Some calls are captured, and have no record.
#[test]
fn a_call_of_which_nothing_comes_is_forgotten_after_an_hour() {
    let mut all = with_calls(100);
    all.notes(&[waits(1, 2)]);
    all.drain(1 << 15);
    assert_eq!((all.remembered(), all.losses().forgotten_calls), (1, 0));
    all.drain(1);
    assert_eq!((all.remembered(), all.losses().forgotten_calls), (0, 1));
}

#[test]
fn a_call_of_an_older_window_counts_and_is_lost_nowhere() {
    let mut all = with_calls(100);
    all.notes(&[waits(1, 2), waits(2, 2)]);
    all.clear(50);
    all.call(&api(Api::Runtime, 1, 55, 60), true, &KEEP);
    all.drain((1 << 15) + 1);
    assert_eq!((all.remembered(), all.totals(100)), (0, Totals::default()));
}

/// After a burst, a table gives most of its memory back, and has room for more calls.
#[test]
fn a_table_of_calls_shrinks() {
    let mut all = with_calls(10_000);
    (0..8_000).for_each(|id| all.notes(&[waits(id, 2)]));
    (500..8_000).for_each(|id| all.call(&api(Api::Driver, id, 10, 11), true, &KEEP));
    all.notes(&[waits(0, 2)]);
    all.drain(3);
    let room: usize = all.pending.mere_calls.tables.iter().map(|table| table.capacity()).sum();
    assert!(all.remembered() == 500 && (1_000..=4_000).contains(&room), "{room}");
}

/// The order of arrival takes as much memory as [`PendingCall`](crate::join::pending_call::PendingCall) states,
/// whatever the kinds of earlier calls, and is not tidied at each call.
#[test]
fn the_order_of_calls_and_launches_has_one_bound() {
    let mut all = with_calls(2_000);
    let mut longest = 0;
    for id in 0..3_000 {
        all.notes(&[called(id % 1_000, id / 1_000, 0)]); // captured
        longest = longest.max(all.pending.arrived.len());
    }
    assert_eq!(longest, 2 * 1_000 + 64, "tidied once there are more");
    for id in 1_000..20_000 {
        all.notes(&[called(id, 2, 0)]);
        all.ran(id, 10, 20);
        all.call(&api(Api::Driver, id, 5, 6), true, &KEEP);
        if id % 200 == 0 {
            all.drain(1);
        }
    }
    for id in 20_000..40_000 {
        all.notes(&[waits(id, 2)]);
        all.call(&api(Api::Driver, id, 5, 6), true, &KEEP);
        if id % 200 == 0 {
            all.drain(1);
        }
    }
    let (remembered, capacity) = (all.remembered(), all.pending.arrived.capacity());
    assert!(remembered >= 1_000 && capacity <= 4 * remembered + 64, "{capacity} for {remembered}");
}

#[test]
fn calls_of_the_profiler_are_in_no_table() {
    let mut all = with_calls(100);
    all.notes(&[Note::Own { correlation: 5 }, Note::Own { correlation: 6 }, Note::Own { correlation: 7 }]);
    all.call(&api(Api::Driver, 5, 10, 90), true, &KEEP);
    all.ran(6, 10, 20);
    all.drain(10); // CUPTI delays another record, past the end of the window, too
    all.call(&api(Api::Driver, 6, 10, 90), true, &KEEP);
    all.clear(50);
    all.call(&api(Api::Driver, 7, 10, 90), true, &KEEP);
    assert_eq!((all.remembered(), all.totals(100)), (0, Totals::default()));
    // Without records of calls, nothing arrives for these calls.
    let mut all = join(100, 100);
    all.notes(&[Note::Own { correlation: 5 }]);
    all.drain(3);
    assert_eq!((all.remembered(), all.totals(100)), (0, Totals::default()));
}

/// A thread that has ended makes no more notes.
#[test]
fn last_calls_of_threads_do_not_stay_for_ever() {
    let mut all = with_calls(1 << 20);
    for thread in 0..20_000 {
        all.note(thread, &waits(thread, 2));
        all.call(&api(Api::Driver, thread, 10, 20), true, &KEEP);
        if thread + 1 == 1 << 12 {
            all.drain(6);
            assert_eq!(all.remembered(), 1 << 12);
        }
    }
    all.drain(6);
    assert_eq!((all.pending.running().len(), all.remembered()), (0, 0));
    assert_eq!(all.nested.waiting(&all.pending).count(), 0);
    assert_eq!(all.totals(100).nodes[&2].calls[&(Api::Driver, 1)], (20_000, 200_000));
}

/// A program's first call may take seconds, during which it makes many driver calls.
#[test]
fn a_call_of_the_runtime_may_last_for_long() {
    let mut all = with_calls(100);
    all.notes(&[waits(1, 2)]);
    all.call(&api(Api::Driver, 1, 12, 18), true, &KEEP);
    all.drain(10);
    all.notes(&[called(1, 2, 0)]);
    all.call(&api(Api::Driver, 1, 20, 30), true, &KEEP);
    all.drain(10);
    all.call(&api(Api::Runtime, 1, 10, 40), true, &KEEP);
    all.notes(&[called(2, 2, 0)]);
    all.drain(3);
    let totals = all.totals(100);
    assert_eq!(totals.calls, Keyed::from_iter([((Api::Runtime, 1), Distribution::of([30]))]));
    assert_eq!(totals.nodes[&2].calls, Keyed::from_iter([((Api::Runtime, 1), (1, 30))]));
    // A driver call that was not nested counts once its thread has made another call.
    all.call(&api(Api::Driver, 2, 50, 60), true, &KEEP);
    all.drain(10);
    all.notes(&[waits(3, 2)]);
    all.drain(4);
    assert_eq!((all.nested.waiting(&all.pending).count(), all.totals(100).calls[&(Api::Driver, 1)].count), (0, 1));
}

/// Records of one call may arrive in several drains, in any order.
#[test]
fn a_driver_call_that_comes_after_its_runtime_call_is_left_out() {
    let mut all = with_calls(100);
    all.notes(&[called(1, 2, 0)]);
    all.call(&api(Api::Runtime, 1, 10, 40), true, &KEEP);
    all.drain(2);
    all.call(&api(Api::Driver, 1, 12, 18), true, &KEEP);
    all.drain(4);
    assert_eq!(all.totals(100).calls, Keyed::from_iter([((Api::Runtime, 1), Distribution::of([30]))]));
}

#[test]
fn a_driver_call_inside_a_runtime_call_is_left_out() {
    let (driver, runtime) = ((Api::Driver, 1), (Api::Runtime, 1));
    let mut all = join(100, 100);
    all.notes(&[called(1, 2, 0), called(2, 2, 0), called(3, 3, 0)]);
    all.call(&api(Api::Driver, 1, 12, 18), true, &KEEP);
    all.call(&api(Api::Driver, 1, 18, 19), true, &KEEP);
    all.call(&api(Api::Driver, 3, 10, 17), true, &KEEP);
    assert_eq!(all.totals(100).calls[&driver], Distribution::of([6, 1, 7]), "as if none followed");
    assert_eq!(all.totals(100).nodes[&3].calls[&driver], (1, 7));
    all.drain(1);
    all.call(&api(Api::Runtime, 1, 10, 20), true, &KEEP);
    all.call(&api(Api::Runtime, 2, 30, 40), true, &KEEP);
    all.drain(1);
    all.call(&api(Api::Driver, 2, 31, 39), true, &KEEP);
    for _ in 0..4 {
        let totals = all.totals(100);
        assert_eq!(
            (&totals.calls[&driver], &totals.calls[&runtime]),
            (&Distribution::of([7]), &Distribution::of([10, 10]))
        );
        assert_eq!(totals.nodes[&2].calls, Keyed::from_iter([(runtime, (2, 20))]));
        all.drain(1);
    }
}
