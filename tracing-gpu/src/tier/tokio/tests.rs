use std::cell::{Cell, RefCell};
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tracing::{Instrument as _, Span, dispatcher, info_span, trace, trace_span};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use range_report::Summary;
use range_report::summary::CallStates;

use crate::{Output, Profiler};

/// With tokio's names and fields: the span around a task.
fn task() -> Span {
    trace_span!(target: "tokio::task", parent: None, "runtime.spawn", kind = "task", task.id = 7_u64)
}

fn wake(task: &Span) {
    let id = task.id().unwrap().into_u64();
    trace!(target: "tokio::task::waker", op = "waker.wake", task.id = id);
}

/// An operation that waits for a lock, and the one inside, which waits for permits; each with the span of its polls.
struct Operation([[Span; 2]; 2]);

impl Operation {
    fn new() -> Self {
        let operation = |source| {
            let span = trace_span!(target: "tokio::sync::mutex", "runtime.resource.async_op", source);
            let poll = || trace_span!(target: "tokio::sync::mutex", "runtime.resource.async_op.poll");
            let poll = span.in_scope(poll);
            [span, poll]
        };
        let outer = operation("Mutex::lock");
        let inner = outer[0].in_scope(|| operation("Acquire::new"));
        Self([outer, inner])
    }

    fn poll(&self, is_ready: bool) {
        let [outer, inner] = &self.0;
        let told = |op_name| trace!(target: "runtime::resource::poll_op", op_name, is_ready);
        let polled = |[span, poll]: &[Span; 2], poll_it: &dyn Fn()| span.in_scope(|| poll.in_scope(poll_it));
        polled(outer, &|| {
            polled(inner, &|| {
                self.get(0);
                told("poll_acquire");
            });
            told("poll");
        });
    }

    fn get(&self, permits_obtained: usize) {
        self.0[1][0].in_scope(|| {
            trace!(target: "runtime::resource::async_op::state_update", permits_obtained, permits.op = "add");
        });
    }

    /// A span lets go of the lock, which this operation of a task gets.
    fn get_from(&self, holder: &'static str, waiter: &Span) {
        info_span!("holder", nvtx.name = holder).in_scope(|| {
            self.get(1);
            wake(waiter);
        });
    }
}

/// A task that polls one call, which waits for a lock.
struct Waiter {
    task: Span,
    call: Span,
    lock: Operation,
}

impl Waiter {
    /// After its first poll.
    fn new() -> Self {
        let task = task();
        let (call, lock) = task.in_scope(|| {
            let call = info_span!("request");
            let lock = call.in_scope(Operation::new);
            (call, lock)
        });
        let waiter = Self { task, call, lock };
        waiter.poll(false);
        waiter
    }

    fn poll(&self, is_ready: bool) {
        self.task.in_scope(|| self.call.in_scope(|| self.lock.poll(is_ready)));
    }

    fn wake_from(&self, name: &'static str) {
        info_span!("waker", nvtx.name = name).in_scope(|| wake(&self.task));
    }
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

/// Who waited for whom, how often, and how long.
fn waits(summary: &Summary) -> Vec<(&str, Option<&str>, u64, Duration)> {
    let told = summary.waits.iter().filter(|row| row.of_waits.is_none() && row.resource.is_none());
    told.map(|row| (&*row.waiter, row.by.as_deref(), row.waits, Duration::from_nanos(row.time_ns))).collect()
}

fn of_request(summary: &Summary) -> CallStates {
    summary.calls.iter().find(|row| row.name == "request").and_then(|row| row.states).unwrap()
}

fn was_ready(summary: &Summary) -> Duration {
    Duration::from_nanos(of_request(summary).ready_ns)
}

#[test]
fn who_gives_a_lock_to_a_call_has_ended_its_wait() {
    let mut times = [Duration::ZERO; 5];
    let summary = measured(|| {
        let began = Instant::now();
        let waiter = Waiter::new();
        let waited = pass(WAIT);
        let woken = Instant::now();
        waiter.lock.get_from("compact", &waiter.task);
        let most_waited = began.elapsed();
        let ready = info_span!("to_csv").in_scope(|| pass(READY));
        waiter.poll(true);
        let most_ready = woken.elapsed() + most_waited - waited; // also before its first poll
        let load = info_span!(parent: &waiter.call, "load");
        waiter.task.in_scope(|| waiter.call.in_scope(|| load.in_scope(|| ())));
        let of_child = pass(READY);
        waiter.task.in_scope(|| waiter.call.in_scope(|| load.in_scope(|| ())));
        drop(load);
        times = [waited, most_waited, ready, most_ready, of_child];
    });
    let [waited, most_waited, ready, most_ready, of_child] = times;
    let [("request", Some("compact"), 1, time)] = waits(&summary)[..] else { panic!("{:?}", summary.waits) };
    assert!((waited..=most_waited).contains(&time), "{time:?} {times:?}");
    assert!((ready..=most_ready).contains(&was_ready(&summary)), "{:?} {times:?}", summary.calls);
    let states = of_request(&summary);
    assert!(u128::from(states.child_call_ns) >= of_child.as_nanos(), "{states:?} {times:?}");
    let held: Vec<_> = summary.waits.iter().filter(|row| row.resource.is_some()).collect();
    let [row] = held[..] else { panic!("{held:?}") };
    assert_eq!((&*row.waiter, row.by.as_deref(), row.waits), ("request", Some("to_csv"), 1));
}

/// As in a loop of `select!` with a channel. The call may have gone on then, and waits for the lock as well.
#[test]
fn of_a_call_that_was_polled_meanwhile_the_wait_since_then_is_told() {
    let (mut waited, mut most) = (Duration::ZERO, Duration::ZERO);
    let summary = measured(|| {
        let waiter = Waiter::new();
        pass(4 * WAIT);
        waiter.wake_from("sender");
        let began = Instant::now();
        waiter.poll(false);
        waited = pass(WAIT);
        waiter.lock.get_from("compact", &waiter.task);
        most = began.elapsed();
        waiter.poll(true);
    });
    let [("request", Some("compact"), 1, time)] = waits(&summary)[..] else { panic!("{:?}", summary.waits) };
    assert!((waited..=most).contains(&time), "{time:?} {waited:?} {most:?}");
}

#[test]
fn nothing_is_told_where_another_may_have_ended_the_wait() {
    type Ends = fn(&Waiter);
    let cases: [(&str, Ends); 11] = [
        ("a sender before", |waiter| {
            waiter.wake_from("sender");
            waiter.lock.get_from("compact", &waiter.task);
            waiter.poll(true);
        }),
        ("a sender after", |waiter| {
            waiter.lock.get_from("compact", &waiter.task);
            waiter.wake_from("sender");
            waiter.poll(true);
        }),
        ("the same before", |waiter| {
            waiter.wake_from("compact");
            waiter.lock.get_from("compact", &waiter.task);
            waiter.poll(true);
        }),
        ("a sender in the poll", |waiter| {
            waiter.lock.get_from("compact", &waiter.task);
            waiter.task.in_scope(|| {
                waiter.wake_from("sender");
                waiter.call.in_scope(|| waiter.lock.poll(true));
            });
        }),
        ("no waker, as in block_on", |waiter| {
            waiter.lock.get(1);
            waiter.poll(true);
        }),
        ("no lock", |waiter| {
            waiter.wake_from("compact");
            waiter.poll(true);
        }),
        ("the lock came before the end of the poll", |waiter| {
            waiter.task.in_scope(|| {
                waiter.call.in_scope(|| {
                    waiter.lock.poll(false);
                    waiter.lock.get_from("compact", &waiter.task);
                });
            });
            pass(WAIT);
            waiter.poll(true);
        }),
        ("it is open elsewhere", |waiter| {
            let _open = waiter.call.enter();
            waiter.poll(false);
            pass(WAIT);
            waiter.lock.get_from("compact", &waiter.task);
            waiter.poll(true);
        }),
        ("it is open on another thread", |waiter| {
            let dispatch = dispatcher::get_default(Clone::clone);
            let (tell, told) = mpsc::channel();
            let (release, held) = mpsc::channel::<()>();
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    let _dispatch = dispatcher::set_default(&dispatch);
                    waiter.call.in_scope(|| {
                        tell.send(()).unwrap();
                        held.recv().unwrap();
                    });
                });
                told.recv().unwrap();
                waiter.poll(false);
                pass(WAIT);
                waiter.lock.get_from("compact", &waiter.task);
                waiter.poll(true);
                release.send(()).unwrap();
            });
        }),
        ("another lock", |waiter| {
            waiter.lock.get_from("compact", &waiter.task);
            waiter.task.in_scope(|| waiter.call.in_scope(|| Operation::new().poll(true)));
        }),
        ("it was polled meanwhile, and waited for another", |waiter| {
            waiter.task.in_scope(|| waiter.call.in_scope(|| ()));
            pass(WAIT);
            waiter.lock.get_from("compact", &waiter.task);
            waiter.poll(true);
        }),
    ];
    for (case, ends) in cases {
        let mut first = Duration::ZERO;
        let summary = measured(|| {
            let began = Instant::now();
            let waiter = Waiter::new();
            first = began.elapsed();
            pass(WAIT);
            ends(&waiter);
        });
        assert_eq!(waits(&summary), [], "{case}");
        if case.contains("open") {
            let states = summary.calls[0].states;
            assert!(was_ready(&summary) <= first, "{case}, so it was ready before its first poll only: {states:?}");
        }
    }
}

/// As `join!` does.
#[test]
fn of_two_calls_in_a_task_that_is_told_which_has_its_lock_when_the_task_is_woken() {
    for (at_once, gets) in [(true, ["first", "second"].as_slice()), (false, &["first"])] {
        let summary = measured(|| {
            let task = task();
            let calls = ["first", "second"].map(|name| (info_span!("call", nvtx.name = name), Operation::new()));
            let poll = |is_ready| {
                task.in_scope(|| calls.iter().for_each(|(call, lock)| call.in_scope(|| lock.poll(is_ready))));
            };
            poll(false);
            pass(WAIT);
            info_span!("compact").in_scope(|| {
                for (_, lock) in &calls {
                    lock.get(1);
                    if !at_once {
                        wake(&task);
                    }
                }
                wake(&task);
            });
            poll(true);
        });
        let mut told: Vec<_> = waits(&summary).iter().map(|(waiter, ..)| waiter.to_owned()).collect();
        told.sort_unstable();
        assert_eq!(told, gets);
    }
}

#[test]
fn who_holds_a_lock_outside_of_spans_has_no_name() {
    let summary = measured(|| {
        let waiter = Waiter::new();
        pass(WAIT);
        waiter.lock.get(1);
        wake(&waiter.task);
        waiter.poll(true);
    });
    let [("request", None, 1, _)] = waits(&summary)[..] else { panic!("{:?}", summary.waits) };
}

/// As `join!` inside of a call does.
#[test]
fn no_part_of_a_wait_in_two_operations_is_told_twice() {
    for at_once in [false, true] {
        let mut most = Duration::ZERO;
        let summary = measured(|| {
            let began = Instant::now();
            let waiter = Waiter::new();
            let other = waiter.call.in_scope(Operation::new);
            let poll = |is_ready: [bool; 2]| {
                waiter.task.in_scope(|| {
                    waiter.call.in_scope(|| {
                        waiter.lock.poll(is_ready[0]);
                        other.poll(is_ready[1]);
                    });
                });
            };
            poll([false; 2]);
            pass(WAIT);
            info_span!("compact").in_scope(|| {
                waiter.lock.get(1);
                if at_once {
                    other.get(1);
                }
                wake(&waiter.task);
            });
            pass(WAIT);
            poll([true, at_once]);
            if !at_once {
                pass(WAIT);
                other.get_from("vacuum", &waiter.task);
                poll([true; 2]);
            }
            most = began.elapsed();
        });
        let told = waits(&summary);
        assert_eq!(told.iter().map(|row| row.2).sum::<u64>(), if at_once { 1 } else { 2 }, "{told:?}");
        let times = told.iter().map(|row| row.3).sum::<Duration>() + was_ready(&summary);
        assert!(times <= most, "{told:?} {most:?}");
    }
}

/// The operation belongs to another: as one that is polled by reference, and kept.
#[test]
fn an_operation_ends_the_wait_of_that_call_alone_that_waited_in_it() {
    let summary = measured(|| {
        let waiter = Waiter::new();
        pass(WAIT);
        waiter.lock.get_from("compact", &waiter.task);
        waiter.task.in_scope(|| info_span!("other").in_scope(|| waiter.lock.poll(true)));
    });
    assert_eq!(waits(&summary), []);
}

#[test]
fn a_queue_is_followed_to_its_head() {
    let summary = measured(|| {
        let (first, second) = (Waiter::new(), Waiter::new());
        pass(WAIT);
        first.lock.get_from("compact", &first.task);
        first.task.in_scope(|| {
            first.call.in_scope(|| {
                first.lock.poll(true);
                second.lock.get(1);
                wake(&second.task);
            });
        });
        second.poll(true);
    });
    let told = waits(&summary);
    let [("request", Some("compact"), 2, _), ("request", Some("request"), 0, _)] = told[..] else { panic!("{told:?}") };
}

#[test]
fn who_waited_itself_for_nobody_knows_whom_is_owed_no_more_than_it_held_the_lock() {
    let (mut held, mut most) = (Duration::ZERO, Duration::ZERO);
    let summary = measured(|| {
        let (first, second) = (Waiter::new(), Waiter::new());
        pass(4 * READY);
        first.lock.get(1); // as in block_on
        let began = Instant::now();
        first.task.in_scope(|| {
            first.call.in_scope(|| {
                first.lock.poll(true);
                held = pass(WAIT);
                second.lock.get(1);
                wake(&second.task);
            });
        });
        most = began.elapsed();
        second.poll(true);
    });
    let [("request", Some("request"), 1, time)] = waits(&summary)[..] else { panic!("{:?}", summary.waits) };
    assert!((held..=most).contains(&time), "{time:?} {held:?} {most:?}");
}

/// That call was polled while it waited.
#[test]
fn what_held_up_a_call_before_its_last_poll_is_not_known() {
    let (mut held, mut most) = (Duration::ZERO, Duration::ZERO);
    let summary = measured(|| {
        let (first, second) = (Waiter::new(), Waiter::new());
        pass(4 * READY);
        first.wake_from("sender");
        let began = Instant::now();
        first.poll(false);
        held = pass(WAIT);
        first.lock.get_from("compact", &first.task);
        first.task.in_scope(|| {
            first.call.in_scope(|| {
                first.lock.poll(true);
                held += pass(WAIT);
                second.lock.get(1);
                wake(&second.task);
            });
        });
        most = 2 * began.elapsed();
        second.poll(true);
    });
    let told = waits(&summary);
    let time = told.iter().map(|row| row.3).sum();
    assert!((held..=most).contains(&time), "{told:?} {held:?} {most:?}");
}

#[test]
fn what_is_told_is_not_inferred_as_well() {
    for is_told in [true, false] {
        let profiler = Profiler::builder().nvtx(false).output(Output::None).build().unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(profiler.layer()), || {
            let waiter = Waiter::new();
            pass(READY);
            waiter.lock.get(1);
            if is_told {
                wake(&waiter.task);
            }
            waiter.poll(true);
        });
        let looks = profiler
            .engine()
            .states()
            .filter_map(|thread| Some(thread.coincidences.get()?.copy().len()))
            .sum::<usize>();
        assert_eq!((waits(&profiler.summary()).len(), looks == 0), (is_told.into(), is_told), "{looks} rows");
        profiler.finish().unwrap();
    }
}

#[test]
fn a_call_in_follow_waits_once_and_is_the_head_of_its_queue() {
    let summary = measured(|| {
        let (task, lock, next) = (task(), Operation::new(), Waiter::new());
        let (is_ready, waker) = (Cell::new(false), RefCell::new(None));
        let work = poll_fn(|context| {
            *waker.borrow_mut() = Some(context.waker().clone());
            lock.poll(is_ready.get());
            if !is_ready.get() {
                return Poll::Pending;
            }
            next.lock.get(1);
            wake(&next.task);
            Poll::Ready(())
        });
        let mut request = pin!(crate::follow(work.instrument(info_span!("followed"))));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(task.in_scope(|| request.as_mut().poll(context)).is_pending());
        pass(WAIT);
        info_span!("compact").in_scope(|| {
            lock.get(1);
            is_ready.set(true);
            waker.take().iter().for_each(Waker::wake_by_ref);
            wake(&task);
        });
        assert!(task.in_scope(|| request.poll(context)).is_ready());
        next.poll(true);
    });
    let mut told: Vec<_> = waits(&summary).iter().map(|&(waiter, by, waits, _)| (waiter, by.unwrap(), waits)).collect();
    told.sort_unstable();
    assert_eq!(told, [("followed", "compact", 1), ("request", "compact", 1), ("request", "followed", 0)]);
}

#[test]
fn the_wakes_of_a_task_tell_nothing_of_calls_outside_of_it() {
    let summary = measured(|| {
        let (waiter, other) = (Waiter::new(), Waiter::new());
        other.call.in_scope(|| other.lock.poll(false));
        pass(WAIT);
        info_span!("compact").in_scope(|| {
            other.lock.get(1);
            wake(&waiter.task);
        });
        waiter.poll(false);
        other.call.in_scope(|| other.lock.poll(true)); // as in block_on
    });
    assert_eq!(waits(&summary), []);
}

/// Then the events come in the program's own spans.
#[test]
fn nothing_is_told_where_a_filter_hides_the_operations() {
    let filter = Targets::new().with_default(LevelFilter::TRACE).with_target("tokio::sync", LevelFilter::OFF);
    let profiler = Profiler::builder().nvtx(false).output(Output::None).build().unwrap();
    let subscriber = tracing_subscriber::registry().with(profiler.layer()).with(filter);
    tracing::subscriber::with_default(subscriber, || {
        let (server, task) = (info_span!("server"), task());
        let (request, lock) = server.in_scope(|| (info_span!("request"), Operation::new()));
        task.in_scope(|| request.in_scope(|| lock.poll(false)));
        pass(WAIT);
        server.in_scope(|| {
            lock.get(1);
            wake(&task);
        });
        task.in_scope(|| request.in_scope(|| lock.poll(true)));
    });
    assert_eq!(waits(&profiler.summary()), []);
    profiler.finish().unwrap();
}

#[test]
fn every_call_of_a_task_is_ready_from_its_first_wake_to_the_next_poll() {
    let mut was_woken = Duration::ZERO;
    let summary = measured(|| {
        let began = Instant::now();
        let (task, request) = (task(), info_span!("request"));
        let load = request.in_scope(|| info_span!("load"));
        let poll = |[request, load]: [&Span; 2]| request.in_scope(|| load.in_scope(|| ()));
        task.in_scope(|| poll([&request, &load]));
        let first = began.elapsed();
        task.in_scope(|| poll([&request, &load])); // without a wake that is known
        pass(WAIT);
        wake(&task);
        let began = Instant::now();
        pass(READY);
        wake(&task);
        pass(READY);
        task.in_scope(|| {
            poll([&request, &load]);
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
        let waiter = Waiter::new();
        let load = info_span!(parent: &waiter.call, "load");
        load.in_scope(|| ());
        waiter.poll(false);
        pass(WAIT);
        waiter.lock.get_from("compact", &waiter.task);
        pass(READY);
        load.in_scope(|| ());
        drop(load);
        waiter.poll(true);
        waited = pass(WAIT);
        waiter.poll(true);
    });
    let states = of_request(&summary);
    assert!(u128::from(states.otherwise_ns) >= waited.as_nanos(), "{states:?} {waited:?}");
}
