use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{Dispatch, Instrument as _, Span, dispatcher, info_span};
use tracing_subscriber::{prelude::*, reload};

use crate::{Output, Profiler};

const THREADS: usize = 8;

/// Enters and leaves spans like futures, kept spans and guards that are held too long; hands spans to another thread;
/// sometimes begins a new window.
fn storm(profiler: &Profiler, seed: usize, inbox: &mpsc::Receiver<Span>, outbox: &mpsc::SyncSender<Span>) {
    let mut held: Vec<Span> = Vec::new();
    for step in 0..2_000 {
        let number = (step * 7 + seed * 13) % 31;
        match number {
            0..6 => held.push(info_span!("task")),
            6..9 => held.push(info_span!("named", nvtx.name = number)),
            9..12 => {
                let parent = held.last().and_then(Span::id);
                held.push(info_span!(parent: parent, "child"));
            }
            12..20 => held.iter().rev().take(3).for_each(|span| span.in_scope(|| ())),
            20..22 => {
                let [outer, inner] = [info_span!("outer"), info_span!("inner")];
                let first = outer.enter();
                let second = inner.enter();
                drop(first);
                drop(second);
            }
            22..26 => held.pop().into_iter().for_each(|span| {
                let _span_goes_with_its_guard = span.entered();
            }),
            26..29 => {
                if let Some(Err(mpsc::TrySendError::Full(span))) = held.pop().map(|span| outbox.try_send(span)) {
                    held.push(span);
                }
                held.extend(inbox.try_recv());
            }
            29 if step % 500 == 499 => profiler.reset(),
            _ => held.truncate(40),
        }
    }
}

fn profiler(with_layer: bool) -> (Profiler, Dispatch) {
    let profiler = Profiler::builder().nvtx(false).output(Output::None).build().expect("a profiler");
    let dispatch = if with_layer {
        Dispatch::new(tracing_subscriber::registry().with(profiler.layer()))
    } else {
        Dispatch::new(profiler.subscriber())
    };
    (profiler, dispatch)
}

fn calls_alive(profiler: &Profiler) -> usize {
    let engine = profiler.engine();
    let threads = engine.all_threads();
    engine.session.parts.calls.alive(threads.iter().map(|thread| &thread.parts.spare_calls))
}

/// A forgotten guard leaves its range open when the span closes. The exit of the range below reopens it.
#[test]
fn a_call_whose_span_closed_is_free_when_its_range_ends_and_not_when_it_is_opened_again() {
    for with_layer in [false, true] {
        let (profiler, dispatch) = profiler(with_layer);
        dispatcher::with_default(&dispatch, || {
            let [below, closed] = [info_span!("below"), info_span!("closed")];
            let (guard, id) = (below.enter(), closed.id().expect("it is enabled"));
            std::mem::forget(closed.enter());
            drop(closed);
            drop(guard);
            assert_eq!(calls_alive(&profiler), 2, "{with_layer}");
            dispatch.exit(&id);
        });
        assert_eq!(calls_alive(&profiler), 0, "{with_layer}");
    }
}

/// A finish takes time: it waits for the GPU, prints, and writes. Afterwards it writes the calls that were open.
#[test]
fn a_call_that_closes_during_the_finish_is_still_one_that_was_open() {
    for with_layer in [false, true] {
        let (profiler, dispatch) = profiler(with_layer);
        dispatcher::with_default(&dispatch, || {
            let waits = info_span!("waits");
            (0..2).for_each(|_| waits.in_scope(|| ()));
            assert!(profiler.engine().session.gate.close());
        });
        let calls = &profiler.engine().session.parts.calls;
        assert_eq!(calls.iter().filter(|call| call.waits_since().is_some()).count(), 1, "{with_layer}");
    }
}

#[test]
fn every_call_is_free_again_when_its_span_is_gone() {
    for with_layer in [false, true] {
        let (profiler, dispatch) = profiler(with_layer);
        let (mut outboxes, inboxes): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| mpsc::sync_channel(64)).unzip();
        outboxes.rotate_left(1);
        thread::scope(|scope| {
            for (seed, (outbox, inbox)) in outboxes.into_iter().zip(inboxes).enumerate() {
                let (dispatch, profiler) = (&dispatch, &profiler);
                scope.spawn(move || {
                    dispatcher::with_default(dispatch, || storm(profiler, seed, &inbox, &outbox));
                    drop(outbox);
                    inbox.into_iter().for_each(drop); // until the neighbour has finished
                });
            }
        });
        assert_eq!(calls_alive(&profiler), 0, "{with_layer}");
        assert!(profiler.engine().session.parts.calls.over_limit() == 0);
        let summary = profiler.summary();
        assert!(summary.calls.iter().all(|row| row.awaited_self_ns <= row.awaited_ns), "{:?}", summary.calls);
    }
}

/// There are more live calls than a thread remembers, and than have an entry of their own by span.
#[test]
fn a_call_is_found_when_its_span_is_entered_again_and_closes_on_any_thread() {
    const SPANS: usize = 10_000;
    for with_layer in [false, true] {
        let (profiler, dispatch) = profiler(with_layer);
        let polled_and_dropped = |spans: Vec<Span>| spans.into_iter().for_each(|span| span.in_scope(|| ()));
        dispatcher::with_default(&dispatch, || {
            let mut here: Vec<Span> = (0..SPANS).map(|_| info_span!("task")).collect();
            (0..2).for_each(|_| here.iter().for_each(|span| span.in_scope(|| ())));
            let elsewhere = here.split_off(SPANS / 2);
            thread::scope(|scope| {
                scope.spawn(|| dispatcher::with_default(&dispatch, || polled_and_dropped(elsewhere)));
            });
            polled_and_dropped(here);
        });
        assert_eq!(calls_alive(&profiler), 0, "{with_layer}");
        let summary = profiler.summary();
        let calls: Vec<_> = summary.calls.iter().map(|row| (&*row.name, row.latency.instances)).collect();
        assert_eq!(calls, [("task", SPANS as u64)], "{with_layer}");
        assert_eq!(summary.ranges[0].times.instances, 3 * SPANS as u64, "{with_layer}");
    }
}

/// Afterwards the layer does not see the span close.
#[test]
fn the_call_of_an_open_span_is_followed_no_more_when_the_layer_is_dropped() {
    let profiler = Profiler::builder().nvtx(false).output(Output::None).build().expect("a profiler");
    let (layer, handle) = reload::Layer::new(Some(profiler.layer()));
    let dispatch = Dispatch::new(tracing_subscriber::registry().with(layer));
    dispatcher::with_default(&dispatch, || {
        let entered_twice = || {
            let task = info_span!("task");
            (0..2).for_each(|_| task.in_scope(|| ()));
            task
        };
        drop(entered_twice()); // now it is known that tasks are entered again
        let task = entered_twice();
        handle.reload(None).expect("the registry is there");
        assert_eq!(calls_alive(&profiler), 0);
        assert_eq!(profiler.summary().calls[0].latency.instances, 1, "without the one that has not ended");
        task.in_scope(|| ());
        handle.reload(Some(profiler.layer())).expect("the registry is there");
        drop(task);
        (0..5).for_each(|_| info_span!("task").in_scope(|| ())); // the registry gives them the same id
    });
    assert_eq!(calls_alive(&profiler), 0);
    assert_eq!(profiler.summary().ranges[0].times.instances, 9);
}

#[test]
fn a_summary_is_of_one_window_while_another_begins() {
    const LEVELS: usize = 16;
    fn nest(level: usize) {
        let _inside = info_span!("level", nvtx.name = level).entered();
        if level + 1 < LEVELS {
            nest(level + 1);
        }
    }
    let profiler = Profiler::builder().nvtx(false).output(Output::None).build().expect("a profiler");
    let (dispatch, done) = (Dispatch::new(profiler.subscriber()), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let windows = || {
                while !done.load(Relaxed) {
                    (0..20).for_each(|_| nest(0));
                    profiler.reset();
                }
            };
            dispatcher::with_default(&dispatch, windows);
        });
        let mixed = (0..500).find_map(|_| {
            let summary = profiler.summary();
            let instances = |level: usize| {
                let row = summary.ranges.iter().find(|row| row.name == level.to_string());
                row.map_or(0, |row| row.times.instances)
            };
            // An inner range ends first and its row is read later. A window may begin between the two ends.
            (1..LEVELS).map(|level| (instances(level - 1), instances(level))).find(|(outer, inner)| inner + 1 < *outer)
        });
        done.store(true, Relaxed);
        assert_eq!(mixed, None, "instances of a range and of the one that is in each of them");
    });
}

/// Short ranges that take the path `counting` do not come by the look.
#[test]
fn after_a_wait_of_a_thread_short_ranges_bring_the_second_look() {
    let profiler = Profiler::builder().nvtx(false).output(Output::None).build().expect("a profiler");
    let engine = profiler.engine();
    if !engine.session.clock.is_counter() {
        return; // the path `counting` is not taken
    }
    let is_counting = || engine.counting().is_some();
    let wait = || thread::sleep(Duration::from_millis(20));
    let mut in_range = || info_span!("wait").in_scope(wait);
    tracing::subscriber::with_default(profiler.subscriber(), || {
        let waits_in_polls = std::future::poll_fn(|_| -> Poll<()> {
            wait();
            Poll::Pending
        });
        let mut future = pin!(waits_in_polls.instrument(info_span!("poll")));
        let mut poll = || _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        (0..4).for_each(|_| in_range()); // the first ones are followed as calls
        for way in [&mut in_range as &mut dyn FnMut(), &mut poll] {
            let since = Instant::now();
            while !is_counting() && since.elapsed() < Duration::from_secs(20) {
                info_span!("short").in_scope(|| ());
            }
            assert!(is_counting());
            // On a busy machine the thread may not run right after the wait: then the wait is not sure to be one.
            assert!((0..20).any(|_| {
                way();
                !is_counting()
            }));
        }
    });
}
