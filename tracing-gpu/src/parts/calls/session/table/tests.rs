use std::time::Duration;

use super::*;
use crate::parts::calls::session::*;

/// The thread that creates calls, and another.
const HERE: u32 = 7;
const ELSEWHERE: u32 = 8;

fn place() -> Place {
    Place::new(3, 2).under(1)
}

/// Thresholds of the tests, in ticks of nanoseconds.
const AT_ONCE: Ticks = 25_000;
const PAUSE: Ticks = 100_000;
const LONG_PAUSE: Ticks = 20_000_000;

fn new_calls() -> Calls {
    Calls::new(&Clock::of_rate(1_000_000_000))
}

fn enter_call(calls: &Calls, thread: u32, call: &Call, now: Ticks, left: LastExit, woken: Ticks) -> u64 {
    calls.enter(thread, call, Entry { woken, ..Entry::at(now, left) })
}

fn left(next: bool) -> LastExit {
    if next { LastExit::Last } else { LastExit::Other }
}

#[test]
fn a_future_is_busy_while_it_is_polled_and_awaits_the_rest() {
    let (calls, spare) = (new_calls(), Spare::default());
    let id = calls.begin(&spare, HERE, place().with_call(), 0, 100);
    for (enter, exit) in [(110, 120), (150_000, 150_030), (150_040, 150_041)] {
        enter_call(&calls, HERE, calls.get(id).unwrap(), enter, LastExit::Last, 0);
        calls.exit(HERE, id, exit, OnCpu::default());
    }
    let ended = EndedCall {
        created: 100,
        latency: 149_950,
        busy: 41,
        idle: 149_890,
        cpu: OnCpu::default(),
        ready: 10,
        ready_alone: 10,
        outlived: 19,
        entries: 3,
        has_paused: true,
        is_outlived: false,
        is_cancelled: false,
        is_unsure: false,
        is_dropped: true,
        has_finished: true,
        uncounted: 0,
        thread: 7,
        place: place(),
        node: 3,
        closed: 150_050,
        numbers: None,
    };
    assert_eq!(calls.end(Some(&spare), id, 150_050), Some(ended));
    assert_eq!(calls.begin(&spare, HERE, place(), 0, 1), id, "is used again");
}

#[test]
fn what_a_call_below_awaits_is_not_its_own() {
    let (calls, spare) = (new_calls(), Spare::default());
    let above = calls.begin(&spare, HERE, place(), 0, 0);
    enter_call(&calls, HERE, calls.get(above).unwrap(), 10, LastExit::Last, 0);
    let below: Vec<CallId> = [12, 14].into_iter().map(|now| calls.begin(&spare, HERE, place(), above, now)).collect();
    calls.exit(HERE, above, 20, OnCpu::default());
    assert_eq!(calls.end(Some(&spare), below[0], 500).map(|ended| ended.idle), Some(0), "it was never entered");
    assert!(calls.end(Some(&spare), below[1], 600).is_some());
    for (enter, exit) in [(650, 660), (661, 662)] {
        enter_call(&calls, HERE, calls.get(above).unwrap(), enter, LastExit::Last, 0);
        calls.exit(HERE, above, exit, OnCpu::default());
    }
    let ended = calls.end(Some(&spare), above, 663).unwrap();
    assert_eq!((ended.latency, ended.busy, ended.idle, ended.outlived), (663, 21, 10 + 50, 1 + 1));
}

/// Another handle keeps its span open. Until the child is polled again, a quick poll is not told from its drop.
#[test]
fn a_finished_child_is_not_awaited() {
    let (calls, spare) = (new_calls(), Spare::default());
    let exit = |id, around, now| calls.exit_in(&spare, HERE, id, now, OnCpu::default(), || around);
    let poll = |id, around, times: [Ticks; 2]| {
        enter_call(&calls, HERE, calls.get(id).unwrap(), times[0], LastExit::Last, 0);
        exit(id, around, times[1]);
    };
    let idle = |is_polled_again: bool, knows_around: bool| {
        let above = calls.begin(&spare, HERE, place(), 0, 0);
        enter_call(&calls, HERE, calls.get(above).unwrap(), 0, LastExit::Other, 0);
        let below = calls.begin(&spare, HERE, place(), above, 0);
        let around = if knows_around { above } else { 0 };
        poll(below, around, [1, 2]);
        exit(above, 0, 3);
        enter_call(&calls, HERE, calls.get(above).unwrap(), LONG_PAUSE, LastExit::Other, 0);
        poll(below, around, [LONG_PAUSE, LONG_PAUSE + 1]);
        poll(below, around, [LONG_PAUSE + 2, LONG_PAUSE + 3]); // perhaps it is dropped
        exit(above, 0, LONG_PAUSE + 4);
        poll(above, 0, [2 * LONG_PAUSE, 2 * LONG_PAUSE + 1]);
        if is_polled_again {
            poll(below, 0, [3 * LONG_PAUSE, 3 * LONG_PAUSE + 1]);
        }
        assert!(calls.end(Some(&spare), below, 4 * LONG_PAUSE).is_some());
        poll(above, 0, [5 * LONG_PAUSE, 5 * LONG_PAUSE + 1]);
        let ended = calls.end(Some(&spare), above, 5 * LONG_PAUSE + 1).unwrap();
        let free = [0; 2].map(|parent| calls.begin(&spare, HERE, place(), parent, 0));
        assert!(free.contains(&above) && free.contains(&below));
        free.into_iter().for_each(|id| assert!(calls.end(Some(&spare), id, 0).is_some()));
        ended.idle
    };
    for knows_around in [false, true] {
        assert_eq!(idle(false, knows_around), LONG_PAUSE - 4 + 3 * LONG_PAUSE - 1, "{knows_around}");
        assert_eq!(idle(true, knows_around), 2 * LONG_PAUSE, "{knows_around}");
    }
}

/// A call looks dropped inside its parent. What is done about that waits until the next exit there.
#[test]
fn a_child_that_looks_dropped_is_awaited_if_it_is_polled_elsewhere_at_once() {
    let idle = |elsewhere: fn(&Calls, CallId)| {
        let (calls, spare) = (new_calls(), Spare::default());
        let exit = |id, around, now| calls.exit_in(&spare, HERE, id, now, OnCpu::default(), || around);
        let above = calls.begin(&spare, HERE, place(), 0, 0);
        enter_call(&calls, HERE, calls.get(above).unwrap(), 0, LastExit::Other, 0);
        let below = calls.begin(&spare, HERE, place(), above, 0);
        for enter in [1, 3] {
            enter_call(&calls, HERE, calls.get(below).unwrap(), enter, LastExit::Last, 0);
            exit(below, above, enter + 1);
        }
        elsewhere(&calls, below);
        exit(above, 0, 10);
        enter_call(&calls, HERE, calls.get(above).unwrap(), 100, LastExit::Other, 0);
        exit(above, 0, 101);
        let idle = calls.get(above).unwrap().idle.load(Relaxed);
        for id in [above, below] {
            assert!(calls.get(id).unwrap().is_closed() || calls.end(Some(&spare), id, 200).is_some());
        }
        assert_eq!(calls.alive([&spare].into_iter()), 0);
        idle
    };
    assert_eq!(idle(|_, _| ()), 90, "it is awaited no more");
    let is_polled = idle(|calls, id| {
        enter_call(calls, ELSEWHERE, calls.get(id).unwrap(), 5, LastExit::Other, 0);
        calls.exit(ELSEWHERE, id, 7, OnCpu::default());
    });
    assert_eq!(is_polled, 0, "it was polled again");
    assert_eq!(idle(|calls, id| _ = calls.end(None, id, 5)), 90, "it has closed, and is counted once");
}

/// The plain span closes first, as without a registry. The children end in either order, or the last of them looks
/// dropped meanwhile.
#[test]
fn what_is_created_in_a_plain_span_is_awaited_around_it() {
    let idle = |plain: usize, is_polled_again: Option<bool>| {
        let (calls, spare) = (new_calls(), Spare::default());
        let exit = |id, now| calls.exit(HERE, id, now, OnCpu::default());
        let enter_after = |left, id, now| enter_call(&calls, HERE, calls.get(id).unwrap(), now, left, 0);
        let enter = |id, now| enter_after(LastExit::Last, id, now);
        let above = calls.begin(&spare, HERE, place(), 0, 0);
        enter(above, 0);
        let mut around = vec![above];
        for _ in 0..plain {
            around.push(calls.begin(&spare, HERE, place(), around[around.len() - 1], 1));
            enter(around[around.len() - 1], 1);
        }
        let below = [0; 2].map(|_| calls.begin(&spare, HERE, place(), around[plain], 2));
        for &id in around.iter().skip(1).rev() {
            exit(id, 3);
            assert!(calls.end(Some(&spare), id, 3).is_some());
        }
        enter(below[0], 4);
        exit(below[0], 5);
        exit(above, 10);
        enter_after(LastExit::Other, above, 100);
        assert!(calls.end(Some(&spare), below[1], 100).is_some());
        exit(above, 101);
        enter_after(LastExit::Other, above, 200);
        if let Some(is_polled_again) = is_polled_again {
            enter(below[0], 200);
            exit(below[0], 201);
            enter(below[0], 202); // perhaps it is dropped
            exit(below[0], 203);
            exit(above, 210);
            if is_polled_again {
                enter_after(LastExit::Other, below[0], 250);
                exit(below[0], 251);
            }
            enter_after(LastExit::Other, above, 300);
        }
        assert!(calls.end(Some(&spare), below[0], 300).is_some());
        exit(above, 301);
        enter_after(LastExit::Other, above, 400);
        exit(above, 401);
        let idle = calls.end(Some(&spare), above, 401).unwrap().idle;
        assert_eq!(calls.alive([&spare].into_iter()), 0);
        idle
    };
    for plain in 0..4 {
        assert_eq!(idle(plain, None), 99, "{plain}: after the last child");
        assert_eq!(idle(plain, Some(false)), 90 + 99, "{plain}: from the drop on, too");
        assert_eq!(idle(plain, Some(true)), 99, "{plain}: it was no drop");
    }
}

/// A task that another thread runs, while its parent waits for it and then for something else. On a registry, the plain
/// span closes last.
#[test]
fn a_task_of_a_plain_span_is_awaited_until_it_ends() {
    for closes_last in [false, true] {
        let (calls, spare) = (new_calls(), Spare::default());
        let above = calls.begin(&spare, HERE, place(), 0, 0);
        let make = calls.begin(&spare, HERE, place(), above, 0);
        let enter = |thread, id, now| enter_call(&calls, thread, calls.get(id).unwrap(), now, LastExit::Other, 0);
        let exit = |thread, id, now| calls.exit(thread, id, now, OnCpu::default());
        enter(HERE, above, 0);
        enter(HERE, make, 1);
        let task = calls.begin(&spare, HERE, place(), make, 1);
        exit(HERE, make, 2);
        let close = |id, now| assert!(calls.end(Some(&spare), id, now).is_some());
        if !closes_last {
            close(make, 2);
        }
        exit(HERE, above, 3);
        enter(ELSEWHERE, task, 10);
        exit(ELSEWHERE, task, 60);
        close(task, 60);
        if closes_last {
            close(make, 61);
        }
        enter(HERE, above, 100);
        exit(HERE, above, 101);
        assert_eq!(calls.end(Some(&spare), above, 101).unwrap().idle, 40, "{closes_last}");
        assert_eq!(calls.alive([&spare].into_iter()), 0);
    }
}

/// A registry's ids of two threads, by the number of the thread and of the span.
fn span(thread: u64, number: u64) -> u64 {
    thread << 38 | number
}

#[test]
fn a_span_finds_its_call_until_it_closes() {
    let (calls, spare) = (new_calls(), Spare::default());
    let [one, other, late] = [0; 3].map(|parent| calls.begin(&spare, HERE, place(), parent, 0));
    let same_entry = span(3, 5 + 4096);
    assert!(!calls.may_have_span(span(3, 5)) && calls.keep_span(HERE, one, span(3, 5)));
    assert!(!calls.keep_span(HERE, other, same_entry), "another span has its entry");
    assert!(calls.may_have_span(span(3, 5)) && calls.keep_span(HERE, other, span(4, 5)));
    assert_eq!([span(3, 5), same_entry, span(4, 5)].map(|span| calls.of_span(span)), [one, 0, other]);
    assert_eq!([same_entry, span(3, 5), span(3, 5)].map(|span| calls.take_of_span(span)), [0, one, 0]);
    assert!(calls.keep_span(HERE, late, same_entry));
    assert_eq!(calls.take_of_spans().collect::<Vec<_>>(), [late, other]);
    assert_eq!([same_entry, span(4, 5)].map(|span| calls.take_of_span(span)), [0; 2]);
}

/// One thread at a time fills entries: it does so with stores.
#[test]
fn entries_of_spans_belong_to_a_thread_until_it_ends() {
    let (calls, spare) = (new_calls(), Spare::default());
    let ids: Vec<CallId> = (0..3).map(|_| calls.begin(&spare, HERE, place(), 0, 0)).collect();
    assert!(calls.keep_span(HERE, ids[0], span(3, 1)));
    assert!(!calls.keep_span(ELSEWHERE, ids[1], span(3, 2)), "as where a subscriber numbers spans in its own way");
    calls.leave_spans(ELSEWHERE);
    assert!(!calls.keep_span(ELSEWHERE, ids[1], span(3, 2)));
    calls.leave_spans(HERE);
    assert!(calls.keep_span(ELSEWHERE, ids[1], span(3, 2)) && !calls.keep_span(HERE, ids[2], span(3, 3)));
    assert!(!calls.keep_span(ELSEWHERE, ids[2], span(3, 1)), "its span is alive");
    assert_eq!([1, 2].map(|number| calls.take_of_span(span(3, number))), [ids[0], ids[1]]);
}

#[test]
fn a_call_that_its_children_outlive_is_used_again_when_they_are_gone() {
    let (calls, spare) = (new_calls(), Spare::default());
    let above = calls.begin(&spare, HERE, place(), 0, 0);
    let below = calls.begin(&spare, HERE, place(), above, 5);
    enter_call(&calls, HERE, calls.get(above).unwrap(), 6, LastExit::Last, 0);
    calls.exit(HERE, above, 7, OnCpu::default());
    let ended = calls.end(Some(&spare), above, 1 << 40).unwrap();
    assert_eq!((ended.is_outlived, ended.latency, ended.outlived), (true, 1 << 40, (1 << 40) - 7));
    let other = calls.begin(&spare, HERE, place(), 0, 8);
    assert_ne!(other, above);
    assert!(calls.end(Some(&spare), below, 9).is_some());
    let mut again = [calls.begin(&spare, HERE, place(), 0, 10), calls.begin(&spare, HERE, place(), 0, 10)];
    again.sort_unstable();
    assert_eq!(again, [below.min(above), below.max(above)]);
}

#[test]
fn threads_pass_free_calls_on() {
    let (calls, theirs, ours) = (new_calls(), Spare::default(), Spare::default());
    for _ in 0..100 {
        let ids: Vec<CallId> = (0..100).map(|_| calls.begin(&theirs, HERE, place(), 0, 1)).collect();
        assert!(ids.iter().all(|&id| id != 0 && calls.end(Some(&ours), id, 2).is_some()));
    }
    assert!(calls.free.lock().unused <= 100 + 4 * BATCH as CallId, "{:?}", calls.free.lock().unused);
}

#[test]
fn a_new_window_counts_what_is_not_followed_from_0_again() {
    let session = crate::core::session::Session::new_inert();
    session.parts.calls.over_limit.store(3, Relaxed);
    session.forget_losses();
    assert_eq!(session.parts.calls.over_limit(), 0);
}

/// What is concluded of a call from its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Finished,
    Cancelled,
    Unsure,
}

/// Entries of 1 us each: the pause before each in microseconds, which range its thread has left last, and the range
/// around it. The verdict is the same at each rate of the clock.
fn verdict(entries: &[(u64, LastExit, Around)], has_tool: bool) -> Verdict {
    let verdicts = [24_000_000, 1_000_000_000, 2_600_000_000].map(|rate| {
        let clock = Clock::of_rate(rate);
        let (calls, spare, us) = (Calls::new(&clock), Spare::default(), clock.ticks(Duration::from_micros(1)));
        let id = calls.begin(&spare, HERE, place(), 0, us);
        let mut now = us;
        for &(pause, left, around) in entries {
            now += pause * us;
            let entry = Entry { now, left, woken: 0, evidence: |_exited| Evidence { around, done: 0, has_tool } };
            calls.enter(HERE, calls.get(id).unwrap(), entry);
            now += us;
            calls.exit(HERE, id, now, OnCpu::default());
        }
        let ended = calls.end(Some(&spare), id, now).unwrap();
        match (ended.is_cancelled, ended.is_unsure) {
            (false, false) => Verdict::Finished,
            (true, false) => Verdict::Cancelled,
            (false, true) => Verdict::Unsure,
            (true, true) => panic!("{entries:?}: both"),
        }
    });
    assert_eq!(verdicts, [verdicts[0]; 3], "{entries:?}");
    verdicts[0]
}

#[test]
fn what_was_suspended_after_its_last_poll_was_cancelled() {
    use self::Verdict::{Cancelled, Finished, Unsure};
    use Around::{Later, SamePoll, Unknown};
    use LastExit::{Earlier, Last, Other};
    let begun = (1, Other, Unknown);
    let dropped = |pause, left, around| verdict(&[begun, (pause, left, around)], false);
    assert_eq!(verdict(&[begun], false), Cancelled, "it was only dropped");
    assert_eq!(
        [20, 30, 19_000, 21_000].map(|pause| dropped(pause, Last, Unknown)),
        [Finished, Unsure, Unsure, Cancelled]
    );
    assert_eq!([90, 110].map(|pause| dropped(pause, Other, Unknown)), [Finished, Cancelled]);
    // In the same poll of the future around it nothing was awaited, and in another one it was, however long that took.
    for pause in [1, 50, 1_000, 100_000] {
        assert_eq!([Last, Other].map(|left| dropped(pause, left, SamePoll)), [Finished; 2], "{pause}");
        assert_eq!([Other, Earlier].map(|left| dropped(pause, left, Later)), [Cancelled; 2], "{pause}");
    }
    // A tool may have taken the time between two ranges.
    let beside_a_tool = |pause| verdict(&[begun, (pause, Other, Unknown)], true);
    assert_eq!([90, 110, 21_000].map(beside_a_tool), [Finished, Unsure, Cancelled]);
}

/// The thread may have been stopped between the last poll and the drop.
#[test]
fn what_is_left_last_and_dropped_in_the_same_poll_has_finished() {
    let is_dropped = |left| {
        let (calls, spare) = (new_calls(), Spare::default());
        let id = calls.begin(&spare, HERE, place(), 0, 1);
        for (now, left, around) in [(2, LastExit::Other, Around::Unknown), (10 * PAUSE, left, Around::SamePoll)] {
            let entry = Entry { now, left, woken: 0, evidence: |_exited| Evidence { around, ..Evidence::NONE } };
            calls.enter(HERE, calls.get(id).unwrap(), entry);
            calls.exit(HERE, id, now + 1, OnCpu::default());
        }
        calls.end(Some(&spare), id, 11 * PAUSE).unwrap().is_dropped
    };
    assert_eq!([LastExit::Last, LastExit::Other].map(is_dropped), [true, false]);
}

#[test]
fn what_a_tool_takes_after_a_poll_is_no_pause() {
    let (calls, spare) = (new_calls(), Spare::default());
    let finished = |done| {
        let id = calls.begin(&spare, HERE, place(), 0, 0);
        for (now, left) in [(1, LastExit::Other), (3 * AT_ONCE, LastExit::Last)] {
            let entry =
                Entry { now, left, woken: 0, evidence: |_exited| Evidence { done, has_tool: true, ..Evidence::NONE } };
            calls.enter(HERE, calls.get(id).unwrap(), entry);
            calls.exit(HERE, id, now + 1, OnCpu::default());
        }
        calls.end(Some(&spare), id, 4 * AT_ONCE).is_some_and(|ended| ended.has_finished && !ended.is_unsure)
    };
    assert_eq!([0, 2 * AT_ONCE + 1].map(finished), [false, true]);
}

/// A server does this: it keeps the span of a request and enters it again to send the answer.
#[test]
fn an_entry_after_the_drop_of_a_finished_future_cancels_nothing() {
    let (calls, spare) = (new_calls(), Spare::default());
    let ended = |entries: &[(Ticks, bool)], has_child: bool| {
        let id = calls.begin(&spare, HERE, place(), 0, 0);
        let child = has_child.then(|| calls.begin(&spare, HERE, place(), id, 0));
        entries.iter().for_each(|&(enter, next)| {
            enter_call(&calls, HERE, calls.get(id).unwrap(), enter, left(next), 0);
            calls.exit(HERE, id, enter + 1, OnCpu::default());
        });
        let ended = calls.end(Some(&spare), id, 8 * LONG_PAUSE).unwrap();
        child.map(|child| calls.end(Some(&spare), child, 8 * LONG_PAUSE));
        (ended.is_cancelled, ended.has_finished, ended.latency - ended.outlived)
    };
    let (poll, drop, answer) = (LONG_PAUSE, LONG_PAUSE + 10, 3 * LONG_PAUSE);
    let finished = [(1, false), (poll, true), (drop, true), (answer, false)];
    let without_the_pause = drop + 2;
    assert_eq!(ended(&finished, false), (false, true, without_the_pause));
    let polled_late = [(1, false), (poll, true), (drop, false), (answer, false)];
    assert_eq!(ended(&polled_late, false), (true, false, answer + 1), "another span was entered before the drop");
    assert_eq!(ended(&finished, true), (true, false, answer + 1), "it awaited a call, so it had not finished");
    let (outside, inside) = (calls.begin(&spare, HERE, place(), 0, 0), LONG_PAUSE);
    enter_call(&calls, HERE, calls.get(outside).unwrap(), 1, LastExit::Other, 0);
    for enter in [inside, inside + 10] {
        enter_call(&calls, HERE, calls.get(outside).unwrap(), enter, LastExit::Last, 0);
        calls.exit(HERE, outside, enter + 1, OnCpu::default());
    }
    calls.exit(HERE, outside, inside + 20, OnCpu::default());
    assert!(!calls.get(outside).unwrap().end(0).has_finished, "it was open all the time, as no future is");
    let polled_again = [finished.as_slice(), &[(answer + 2 * PAUSE, false)]].concat();
    assert!(ended(&polled_again, false).0, "it goes on after a quick poll");
}

/// The thread is stopped between the last poll and the drop.
#[test]
fn what_may_be_a_late_drop_beside_an_answer_is_unsure() {
    use self::Verdict::{Cancelled, Finished, Unsure};
    use LastExit::{Earlier, Last, Other};
    let and = |more: &[(u64, LastExit)]| {
        let entries = [&[(1, Other), (30_000, Other)], more].concat();
        verdict(&entries.into_iter().map(|(pause, left)| (pause, left, Around::Unknown)).collect::<Vec<_>>(), false)
    };
    assert_eq!(and(&[(50, Last), (200, Other)]), Unsure, "the answer comes after the drop");
    assert_eq!(and(&[(5, Last), (50, Last), (200, Other)]), Unsure, "the second poll came at once");
    assert_eq!(and(&[(50, Other), (200, Earlier)]), Unsure, "the answer comes before the drop");
    assert_eq!(and(&[(50, Other), (200, Other)]), Cancelled, "its thread ran something else before the third entry");
    assert_eq!(and(&[(100, Other), (60_000, Earlier)]), Cancelled, "no thread is stopped for so long");
    assert_eq!(and(&[(5, Last), (200, Other)]), Finished, "it was dropped at once");
    assert_eq!(and(&[(5, Last), (5, Last)]), Finished, "one owner may poll so fast");
    assert_eq!(and(&[(5, Last), (50, Last)]), Unsure);
}

#[test]
fn a_thread_knows_the_range_that_it_left_last() {
    let (calls, spare) = (new_calls(), Spare::default());
    let id = calls.begin(&spare, HERE, place(), 0, 10);
    let call = calls.get(id).unwrap();
    // One thread polls, and another enters the span before the poll ends.
    enter_call(&calls, HERE, calls.get(id).unwrap(), 20, LastExit::Other, 0);
    enter_call(&calls, HERE, calls.get(id).unwrap(), 30, LastExit::Other, 0);
    calls.exit(HERE, id, 31, OnCpu::default());
    calls.exit(HERE, id, 40, OnCpu::default());
    assert_eq!([Some(20), Some(30)].map(|start| call.left(start)), [LastExit::Last; 2]);
    enter_call(&calls, HERE, calls.get(id).unwrap(), 50, LastExit::Other, 0);
    calls.exit(HERE, id, 51, OnCpu::default());
    assert_eq!(
        [Some(20), Some(9), None].map(|start| call.left(start)),
        [LastExit::Earlier, LastExit::Other, LastExit::Other]
    );
}

#[test]
fn an_entry_while_a_poll_is_open_cancels_nothing() {
    let (calls, spare) = (new_calls(), Spare::default());
    let id = calls.begin(&spare, HERE, place(), 0, 0);
    enter_call(&calls, HERE, calls.get(id).unwrap(), 1, LastExit::Other, 0);
    calls.exit(HERE, id, 2, OnCpu::default());
    enter_call(&calls, HERE, calls.get(id).unwrap(), LONG_PAUSE, LastExit::Other, 0);
    enter_call(&calls, HERE, calls.get(id).unwrap(), LONG_PAUSE + 1, LastExit::Other, 0);
    calls.exit(HERE, id, LONG_PAUSE + 2, OnCpu::default());
    calls.exit(HERE, id, LONG_PAUSE + 3, OnCpu::default());
    let ended = calls.end(Some(&spare), id, LONG_PAUSE + 4).unwrap();
    assert_eq!((ended.is_cancelled, ended.latency, ended.outlived), (false, LONG_PAUSE + 4, 1));
}

#[test]
fn what_is_entered_elsewhere_after_its_first_entry_at_home_is_a_visit_until_there_are_two_in_a_row() {
    let (calls, spare) = (new_calls(), Spare::default());
    let id = calls.begin(&spare, HERE, place(), 0, 0);
    let call = calls.get(id).unwrap();
    let in_range = |range| Some(move || range);
    let enter = || enter_call(&calls, HERE, calls.get(id).unwrap(), 1, LastExit::Other, 0);
    assert!(!call.enter_at_home(in_range(5)));
    enter();
    assert_eq!(call.enter_elsewhere(9, 20), (0, false));
    assert!(call.is_visiting());
    enter();
    assert_eq!(call.enter_elsewhere(9, 20), (0, false), "the same range");
    assert!(!call.enter_at_home(in_range(5)) && !call.is_visiting());
    assert_eq!(call.enter_elsewhere(9, 30), (0, false));
    assert_eq!(call.end(0).node, 3, "it is counted at home");
    assert_eq!(call.enter_elsewhere(8, 40), (2, false), "it is kept, and so the visit before was a use");
    assert_eq!(call.enter_elsewhere(8, 50), (1, false));
    assert_eq!(call.end(0).node, 8);
    assert!(call.enter_at_home(in_range(60)) && !call.enter_at_home(in_range(60)));
}

#[test]
fn each_entry_of_a_kept_span_without_a_parent_is_a_use_where_no_range_is_open() {
    let (calls, spare) = (new_calls(), Spare::default());
    for (is_alone, uncounted) in [(true, 2), (false, 0)] {
        let id = calls.begin(&spare, HERE, place(), 0, 0);
        let call = calls.get(id).unwrap();
        if is_alone {
            call.set_alone();
        }
        for _ in 0..3 {
            assert!(!call.enter_at_home(None::<fn() -> Ticks>));
            enter_call(&calls, HERE, calls.get(id).unwrap(), 1, LastExit::Other, 0);
        }
        assert_eq!(call.end(0).uncounted, uncounted);
    }
}

#[test]
fn a_call_is_adopted_once_by_the_call_it_is_first_polled_in() {
    let (calls, spare) = (new_calls(), Spare::default());
    let [outer, other] = [1, 2].map(|now| calls.begin(&spare, HERE, place(), 0, now));
    let before = calls.begin(&spare, HERE, place(), 0, 5);
    [outer, other]
        .into_iter()
        .for_each(|outer| _ = enter_call(&calls, HERE, calls.get(outer).unwrap(), 10, LastExit::Other, 0));
    let inner = calls.begin(&spare, HERE, place(), 0, 20);
    let range = |call: CallId| calls.get(call).unwrap().range_in(calls.get(outer).unwrap());
    assert_eq!((range(inner), range(before)), (Some(10), None), "it was created before the first poll");
    calls.adopt(inner, outer);
    calls.adopt(inner, other);
    calls.exit(HERE, outer, 30, OnCpu::default());
    calls.exit(HERE, other, 30, OnCpu::default());
    assert!(calls.end(Some(&spare), inner, 130).is_some());
    enter_call(&calls, HERE, calls.get(outer).unwrap(), 140, LastExit::Other, 0);
    enter_call(&calls, HERE, calls.get(other).unwrap(), 140, LastExit::Other, 0);
    let idle = |call: CallId| calls.get(call).unwrap().idle.load(Relaxed);
    assert_eq!((idle(outer), idle(other)), (9 + 10, 8 + 110));
}

#[test]
fn a_call_is_ready_from_its_creation_or_a_wake_to_its_next_poll() {
    let (calls, spare) = (new_calls(), Spare::default());
    let states = |has_child: bool, woken: [Ticks; 2]| {
        let above = calls.begin(&spare, HERE, place(), 0, 100);
        let call = calls.get(above).unwrap();
        enter_call(&calls, HERE, call, 110, LastExit::Other, 0);
        let below = if has_child { calls.begin(&spare, HERE, place(), above, 110) } else { 0 };
        calls.exit(HERE, above, 120, OnCpu { on: 4, off: 5 });
        for (poll, woken) in [1_000, 2_000].into_iter().zip(woken) {
            enter_call(&calls, HERE, call, poll, LastExit::Other, woken);
            calls.exit(HERE, above, poll + 10, OnCpu { on: 1, off: 2 });
        }
        assert_eq!(calls.end(Some(&spare), below, 2_020).is_some(), has_child);
        let ended = calls.end(Some(&spare), above, 2_030).unwrap();
        assert_eq!(ended.cpu, OnCpu { on: 6, off: 9 });
        (ended.ready, ended.ready_alone, ended.idle)
    };
    assert_eq!(states(false, [0, 0]), (10, 10, 10 + 880 + 990));
    assert_eq!(states(false, [400, 1_005]), (10 + 600 + 990, 10 + 600 + 990, 10 + 880 + 990), "it was woken in a poll");
    assert_eq!(states(true, [400, 0]), (10 + 600, 10, 10), "the child was alive");
    let unused = calls.begin(&spare, HERE, place(), 0, 100);
    let ended = calls.end(Some(&spare), unused, 200).unwrap();
    assert_eq!((ended.ready, ended.ready_alone, ended.idle), (100, 0, 0), "it was never polled");
}

/// As the span of a server's layer: it is entered once in `call`, then in each poll, and not when it is dropped.
#[test]
fn what_was_woken_was_not_dropped_before_and_waited_until_then() {
    let (calls, spare) = (new_calls(), Spare::default());
    let ended = |woken: Ticks| {
        let id = calls.begin(&spare, HERE, place(), 0, 0);
        for (enter, exit, woken) in [(0, 10, 0), (12, 20, 0), (9_000_000, 9_000_010, woken)] {
            enter_call(&calls, HERE, calls.get(id).unwrap(), enter, LastExit::Last, woken);
            calls.exit(HERE, id, exit, OnCpu::default());
        }
        let ended = calls.end(Some(&spare), id, 9_000_020).unwrap();
        (ended.idle, ended.outlived, ended.is_dropped, ended.is_cancelled)
    };
    let waited = 2 + (9_000_000 - 20);
    assert_eq!(ended(8_999_000), (waited, 10, false, false));
    assert_eq!(ended(0), (2, waited - 2 + 10, true, false), "another owner of the span may have come last");
}

/// Instances are counted apart on the thread that created a call.
#[test]
fn it_is_busy_while_it_is_open_on_any_thread() {
    for threads in [[HERE, HERE], [HERE, ELSEWHERE], [ELSEWHERE, HERE], [ELSEWHERE, ELSEWHERE]] {
        let (calls, spare) = (new_calls(), Spare::default());
        let id = calls.begin(&spare, HERE, place(), 0, 0);
        let call = calls.get(id).unwrap();
        let [one, other] = threads;
        enter_call(&calls, one, call, 10, LastExit::Other, 0);
        enter_call(&calls, other, call, 12, LastExit::Other, 0);
        calls.exit(one, id, 20, OnCpu::default());
        assert_eq!((call.waited(50), call.waits_since()), (0, None));
        let child = calls.begin(&spare, HERE, place(), id, 25);
        calls.exit(other, id, 30, OnCpu::default());
        assert_eq!((call.waited(50), call.waits_since()), (0, Some(30)), "it awaits its child");
        calls.end(Some(&spare), child, 40);
        assert_eq!(call.waited(50), 10);
        enter_call(&calls, other, call, 50, LastExit::Other, 0);
        assert_eq!(call.waited(60), 0);
        calls.exit(other, id, 70, OnCpu::default());
        let ended = calls.end(Some(&spare), id, 70).unwrap();
        assert_eq!((ended.busy, ended.idle, ended.entries), (40, 20, 3), "{threads:?}");
        assert_eq!(calls.alive([&spare].into_iter()), 0);
    }
}

#[test]
fn a_span_that_is_closed_while_it_is_open_is_free_after_the_exit() {
    for thread in [HERE, ELSEWHERE] {
        let (calls, spare) = (new_calls(), Spare::default());
        let id = calls.begin(&spare, HERE, place(), 0, 0);
        enter_call(&calls, thread, calls.get(id).unwrap(), 10, LastExit::Other, 0);
        calls.end(Some(&spare), id, 20);
        assert_eq!(calls.alive([&spare].into_iter()), 1);
        calls.exit(thread, id, 30, OnCpu::default());
        assert_eq!(calls.alive([&spare].into_iter()), 0);
    }
}
