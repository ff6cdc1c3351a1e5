use std::time::{Duration, Instant};

use tracing::{Span, info_span, trace, trace_span};
use tracing_subscriber::prelude::*;

use range_model::Summary;
use range_model::summary::CallStates;

use crate::{Output, Profiler};

/// With tokio's names and fields: the span around a task.
fn task() -> Span {
    trace_span!(target: "tokio::task", parent: None, "runtime.spawn", kind = "task", task.id = 7_u64)
}

fn wake(task: &Span) {
    let id = task.id().unwrap().into_u64();
    trace!(target: "tokio::task::waker", op = "waker.wake", task.id = id);
}

/// A task polls calls, each inside of the one before it.
fn poll(task: &Span, calls: &[&Span]) {
    fn enter(calls: &[&Span]) {
        calls.split_first().into_iter().for_each(|(first, inside)| first.in_scope(|| enter(inside)));
    }
    task.in_scope(|| enter(calls));
}

/// Takes the time that is measured.
fn pass(least: Duration) -> Duration {
    let began = Instant::now();
    std::thread::sleep(least);
    began.elapsed()
}

const WAIT: Duration = Duration::from_millis(2);
const READY: Duration = Duration::from_millis(5);

fn measured(program: impl FnOnce()) -> Summary {
    let profiler = Profiler::builder().nvtx(false).output(Output::None).build().unwrap();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(profiler.layer()), program);
    let summary = profiler.summary();
    profiler.finish().unwrap();
    summary
}

fn states_of(summary: &Summary, name: &str) -> CallStates {
    summary.calls.iter().find(|row| row.name == name).and_then(|row| row.states).unwrap()
}

fn was_ready(summary: &Summary, name: &str) -> Duration {
    Duration::from_nanos(states_of(summary, name).ready_ns)
}

#[test]
fn every_call_of_a_task_is_ready_from_its_first_wake_to_the_next_poll() {
    let mut was_woken = Duration::ZERO;
    let summary = measured(|| {
        let began = Instant::now();
        let (task, request) = (task(), info_span!("request"));
        let load = request.in_scope(|| info_span!("load"));
        poll(&task, &[&request, &load]);
        let first = began.elapsed();
        poll(&task, &[&request, &load]); // without a wake that is known
        pass(WAIT);
        wake(&task);
        let began = Instant::now();
        pass(READY);
        wake(&task);
        pass(READY);
        task.in_scope(|| {
            request.in_scope(|| load.in_scope(|| ()));
            was_woken = first + began.elapsed();
            // Their drops, which are no polls after a wake.
            pass(WAIT);
            request.in_scope(|| {
                load.in_scope(|| ());
                drop(load);
            });
            request.in_scope(|| ());
            drop(request);
        });
    });
    for row in &summary.calls {
        let states = row.states.unwrap();
        assert!(states.ready_ns >= 2 * READY.as_nanos() as u64, "{}: {states:?}", row.name);
        assert!(u128::from(states.ready_ns) <= was_woken.as_nanos(), "{}: {states:?} {was_woken:?}", row.name);
    }
    assert_eq!(summary.calls.len(), 2);
}

#[test]
fn a_call_is_ready_alone_from_the_end_of_its_child_on() {
    let mut waited = Duration::ZERO;
    let summary = measured(|| {
        let (task, request) = (task(), info_span!("request"));
        let load = info_span!(parent: &request, "load");
        load.in_scope(|| ());
        poll(&task, &[&request]);
        pass(WAIT);
        wake(&task);
        pass(READY);
        load.in_scope(|| ());
        drop(load);
        poll(&task, &[&request]);
        waited = pass(WAIT);
        poll(&task, &[&request]);
    });
    let states = states_of(&summary, "request");
    assert!(u128::from(states.otherwise_ns) >= waited.as_nanos(), "{states:?} {waited:?}");
}

#[test]
fn who_holds_the_thread_while_a_call_is_ready_is_named() {
    let (mut ready, mut most) = (Duration::ZERO, Duration::ZERO);
    let summary = measured(|| {
        let began = Instant::now();
        let (task, request) = (task(), info_span!("request"));
        poll(&task, &[&request]);
        info_span!("to_csv").in_scope(|| {
            wake(&task);
            // Much longer than what may come between its end and the poll.
            ready = pass(8 * READY);
        });
        poll(&task, &[&request]);
        most = began.elapsed();
    });
    let was_ready = was_ready(&summary, "request");
    assert!((ready..=most).contains(&was_ready), "{was_ready:?} {ready:?} {most:?}");
    let held: Vec<_> = summary.waits.iter().filter(|row| row.resource.is_some()).collect();
    let [row] = held[..] else { panic!("{held:?}") };
    assert_eq!((&*row.waiter, row.by.as_deref(), row.waits), ("request", Some("to_csv"), 1));
}

/// As `join!` does. Nobody knows which of them was woken.
#[test]
fn of_calls_that_a_task_polls_side_by_side_nothing_is_told() {
    let mut first = Duration::ZERO;
    let summary = measured(|| {
        let began = Instant::now();
        let task = task();
        let calls = [info_span!("left"), info_span!("right")];
        let poll = || task.in_scope(|| calls.iter().for_each(|call| call.in_scope(|| ())));
        poll();
        first = began.elapsed();
        for _ in 0..2 {
            wake(&task);
            pass(READY);
            poll();
        }
    });
    assert!(!summary.calls.is_empty());
    for row in &summary.calls {
        // The calls may have been ready before their first poll.
        assert!(was_ready(&summary, &row.name) <= first, "{row:?} {first:?}");
    }
}

#[test]
fn the_wakes_of_a_task_tell_nothing_of_calls_outside_of_it() {
    let mut first = Duration::ZERO;
    let summary = measured(|| {
        let began = Instant::now();
        let (task, other) = (task(), info_span!("request"));
        other.in_scope(|| ());
        first = began.elapsed();
        wake(&task);
        pass(READY);
        poll(&task, &[]);
        other.in_scope(|| ()); // as in block_on
    });
    assert!(was_ready(&summary, "request") <= first, "{:?} {first:?}", states_of(&summary, "request"));
}
