//! The parents of spans, and which spans are measured at all.

use std::pin::{Pin, pin};
use std::sync::mpsc;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::stage::{Pending, enter, exit, measure, measure_with, on_thread, poll, print, silent};
use crate::{Outcome, Scenario, Tier};
use tokio::sync::oneshot;
use tracing::subscriber::{set_global_default, with_default};
use tracing::{Instrument as _, Level, Span, debug, debug_span, info, info_span};
use tracing_gpu::{Parents, Profiler};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

pub(crate) const ALL: &[Scenario] = &[
    ("parents", parents),
    ("parents-across-threads", parents_across_threads),
    ("tasks-on-workers", tasks_on_workers),
    ("model", |tier| model(tier, Parents::Entered)),
    ("model-by-creation", |tier| model(tier, Parents::Created)),
    ("systems", systems),
    ("schedules", schedules),
    ("futures", futures),
    ("waits-for-children", waits_for_children),
    ("made-in-plain-spans", made_in_plain_spans),
    ("who-ended-waits", who_ended_waits),
    ("outside-of-spans", outside_of_spans),
    ("awaited-all-the-time", awaited_all_the_time),
    ("busy-worker", busy_worker),
    ("blocking-pool", blocking_pool),
    ("held-by-a-worker", held_by_a_worker),
    ("parent-with-values", parent_with_values),
    ("parent-filtered-out", parent_filtered_out),
    ("filtered-out-later", filtered_out_later),
    ("filtered-out-across", filtered_out_across),
    ("recursion", recursion),
    ("mutual-recursion", mutual_recursion),
    ("recursion-across-threads", recursion_across_threads),
    ("two-layers", two_layers),
    ("two-profilers", two_profilers),
    ("nvtx-passes-on", nvtx_passes_on),
    ("beside-fmt", beside_fmt),
    ("beside-fmt-first", beside_fmt_first),
    ("filter", filter),
];

fn parents(tier: Tier) -> Outcome {
    measure(tier, || {
        let a = info_span!("a");
        a.in_scope(|| {
            info_span!("contextual").in_scope(|| ());
            info_span!(parent: None, "root").in_scope(|| info_span!("under root").in_scope(|| ()));
            let b = info_span!("b");
            info_span!(parent: &b, "explicit").in_scope(|| ());
            info_span!(parent: b.id(), "explicit").in_scope(|| ());
            // Entered where it was not created: it stays under its parent.
            b.in_scope(|| info_span!("under b").in_scope(|| ()));
        });
        info_span!(parent: &a, "late").in_scope(|| ());
        let elsewhere = a.in_scope(|| info_span!("moved"));
        info_span!("c").in_scope(|| elsewhere.in_scope(|| info_span!("under moved").in_scope(|| ())));
        info_span!("follows").follows_from(&a);
    })
}

fn parents_across_threads(tier: Tier) -> Outcome {
    measure(tier, || {
        let outer = info_span!("outer");
        let task = outer.in_scope(|| info_span!("task"));
        let twice = (outer.clone(), task.clone());
        on_thread("first", move || {
            task.in_scope(|| info_span!("step").in_scope(|| ()));
            info_span!(parent: &outer, "explicit").in_scope(|| ());
            info_span!("alone").in_scope(|| ());
        });
        on_thread("second", move || {
            let (outer, task) = twice;
            let below = info_span!(parent: &task, "below");
            drop((outer, task)); // the parents' last handles
            below.in_scope(|| info_span!("step").in_scope(|| ()));
        });
    })
}

/// Tokio polls on any worker; each task stays under the span that spawned it.
fn tasks_on_workers(tier: Tier) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).build()?;
    measure_with(tier, silent(), |_| {
        let request = info_span!("request");
        runtime.block_on(async {
            let tasks: Vec<_> = (0..100)
                .map(|_| {
                    let task = async {
                        tokio::task::yield_now().await;
                        let step = async {
                            tokio::task::yield_now().await;
                            info_span!("leaf").in_scope(|| ());
                        };
                        step.instrument(info_span!("step")).await;
                    };
                    request.in_scope(|| tokio::spawn(task.instrument(info_span!("task"))))
                })
                .collect();
            for task in tasks {
                task.await?;
            }
            Ok::<_, tokio::task::JoinError>(())
        })?;
        Ok(())
    })
}

/// A model creates its spans once, when it is loaded, and enters them in each pass: a warm-up and three more.
fn model(tier: Tier, parents: Parents) -> Outcome {
    measure_with(tier, silent().parents(parents), |_| {
        let [model, encoder, decoder, linear] = {
            let _load = info_span!("load").entered();
            [info_span!("model"), info_span!("encoder"), info_span!("decoder"), info_span!("linear")]
        };
        for name in ["warm", "run", "run", "run"] {
            let _pass = info_span!("pass", nvtx.name = name).entered();
            let _model = model.enter();
            encoder.in_scope(|| linear.in_scope(|| info_span!("multiply").in_scope(|| ())));
            decoder.in_scope(|| {
                linear.in_scope(|| ());
                linear.in_scope(|| ());
            });
        }
        Ok(())
    })
}

/// An executor that has a span for each system, without a parent, and enters it in each frame, on any thread.
fn systems(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let systems = ["physics", "sound"].map(|name| info_span!(parent: None, "system", nvtx.name = name));
        let plain = info_span!(parent: None, "input");
        for thread in ["first", "second"] {
            let (systems, plain) = (systems.clone(), plain.clone());
            on_thread(thread, move || {
                let _frame = info_span!("frame").entered();
                systems.iter().chain([&plain]).for_each(|system| system.in_scope(|| ()));
            });
        }
        Ok(())
    })
}

/// A system whose every run, on this thread and on workers, enters an executor that the first run creates and that is
/// kept, so that the system's span closes last; and a future that is polled in one range, and leaves a task behind.
fn schedules(tier: Tier) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    measure_with(tier, silent(), |_| {
        let schedule = info_span!(parent: None, "schedule");
        let mut executor = None;
        let mut frame = || {
            let _frame = info_span!("frame").entered();
            schedule.in_scope(|| executor.get_or_insert_with(|| info_span!("executor")).in_scope(|| ()));
        };
        (0..3).for_each(|_| frame());
        (0..3).for_each(|_| std::thread::scope(|scope| drop(scope.spawn(&mut frame))));
        drop(schedule);
        drop(executor);
        let mut left = None;
        let request = async {
            left = Some(info_span!("left behind"));
            tokio::task::yield_now().await;
        };
        let request = request.instrument(info_span!("request"));
        info_span!("serve").in_scope(|| runtime.block_on(request));
        Ok(())
    })
}

/// Sends a message when it begins.
async fn wait_for_ever(waits: oneshot::Sender<()>) {
    let _somebody_listens = waits.send(());
    std::future::pending().await
}

/// Requests that wait for a connection, one of them cancelled, and a span that is kept meanwhile.
fn futures(tier: Tier) -> Outcome {
    const WAIT: Duration = Duration::from_millis(100);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build()?;
    measure_with(tier, silent(), |_| {
        let kept = info_span!("kept");
        let request = |kept: Span, refused: Option<oneshot::Sender<()>>| async move {
            let connect = async {
                match refused {
                    None => tokio::time::sleep(WAIT).await,
                    Some(waits) => wait_for_ever(waits).await,
                }
            };
            connect.instrument(info_span!("connect")).await;
            kept.in_scope(|| info_span!("render").in_scope(|| std::thread::sleep(WAIT / 10)));
            tokio::time::sleep(WAIT).await;
        };
        runtime.block_on(async {
            let spawn = |refused| tokio::spawn(request(kept.clone(), refused).instrument(info_span!("request")));
            let tasks: Vec<_> = (0..4).map(|_| spawn(None)).collect();
            for task in tasks {
                task.await?;
            }
            let (waits, has_begun) = oneshot::channel();
            let cancelled = spawn(Some(waits));
            let _it_waits = has_begun.await;
            tokio::time::sleep(WAIT / 2).await;
            cancelled.abort();
            let _cancelled = cancelled.await;
            // Two calls never end.
            for _ in 0..2 {
                let (waits, has_begun) = oneshot::channel();
                tokio::spawn(wait_for_ever(waits).instrument(info_span!("stuck")));
                let _it_waits = has_begun.await;
            }
            tokio::time::sleep(3 * WAIT).await;
            Ok::<_, tokio::task::JoinError>(())
        })?;
        Ok(())
    })
}

/// Spans that wait for children on other threads or for futures, and two that do not: one works while a short child
/// runs, one has ended before its child begins.
fn waits_for_children(tier: Tier) -> Outcome {
    const WORK: Duration = Duration::from_millis(40);
    let work = |parent: &Span, name: &'static str, time: Duration| {
        let child = info_span!(parent: parent, "child", nvtx.name = name);
        child.in_scope(|| std::thread::sleep(time));
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    measure_with(tier, silent(), |_| {
        let began = Instant::now();
        for _ in 0..2 {
            let drives = info_span!("drives").entered();
            runtime.block_on(async { tokio::time::sleep(WORK).await }.instrument(info_span!("timer")));
            drop(drives);
        }
        let busy = info_span!("busy").entered();
        let child_began = Instant::now();
        std::thread::scope(|scope| drop(scope.spawn(|| work(&busy, "short", WORK))));
        std::thread::sleep(3 * child_began.elapsed()); // however long the child took, this is longer
        drop(busy);
        let hands_over = info_span!("hands over");
        let parent_began = Instant::now();
        hands_over.in_scope(|| std::thread::sleep(WORK / 2));
        let longer = 2 * parent_began.elapsed(); // so it did not run while its parent did
        on_thread("later", move || work(&hands_over, "later", longer));
        // The eight take the most own time, however long the others took.
        let fan_out = info_span!("fan out").entered();
        let so_far = began.elapsed();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..2).for_each(|_| work(&fan_out, "chunk", so_far / 4)));
            }
        });
        drop(fan_out);
        Ok(())
    })
}

/// Futures that plain spans make, inside of each other, and that are awaited once these spans have ended. Each third
/// is made after it, as its explicit child. Only `leaf` waits.
fn made_in_plain_spans(tier: Tier) -> Outcome {
    type Walk = Pin<Box<dyn Future<Output = ()>>>;
    fn walk(number: usize) -> Walk {
        let make = info_span!("make");
        let inside = make.in_scope(|| (!number.is_multiple_of(3)).then(|| info_span!("walk")));
        let span = inside.unwrap_or_else(|| info_span!(parent: &make, "walk"));
        let body = async move {
            Pending(1).instrument(info_span!("leaf")).await;
            for below in [2 * number, 2 * number + 1] {
                if below < 30 {
                    walk(below).await;
                }
            }
        };
        Box::pin(body.instrument(span))
    }
    measure(tier, || {
        let mut outer = pin!(async { walk(1).await }.instrument(info_span!("outer")));
        while poll(outer.as_mut()).is_pending() {
            std::thread::sleep(Duration::from_millis(2)); // the time that is measured
        }
    })
}

/// Futures that wait until a span ends, on one thread: one that is followed, and is woken in the span `opens`; and
/// others, each for a span `holds`.
fn who_ended_waits(tier: Tier) -> Outcome {
    let asleep = |name: &'static str, ms: u64, wake: Option<oneshot::Sender<()>>| {
        info_span!("job", nvtx.name = name).in_scope(|| {
            std::thread::sleep(Duration::from_millis(ms));
            wake.map(|wake| wake.send(()))
        })
    };
    measure(tier, || {
        let (wake, woken) = oneshot::channel();
        let request = async { woken.await.is_ok() };
        let mut request = pin!(tracing_gpu::follow(request.instrument(info_span!("request"))));
        assert!(poll(request.as_mut()).is_pending());
        asleep("opens", 5, Some(wake));
        asleep("to_csv", 40, None);
        assert_eq!(poll(request.as_mut()), Poll::Ready(true));
        for _ in 0..60 {
            let (wake, woken) = oneshot::channel();
            let holds = async {
                Pending(1).await;
                std::thread::sleep(Duration::from_millis(5));
                wake.send(())
            };
            let mut holds = pin!(holds.instrument(info_span!("holds")));
            assert!(poll(holds.as_mut()).is_pending());
            let mut waiter = pin!(async { woken.await.is_ok() }.instrument(info_span!("waiter")));
            assert!(poll(waiter.as_mut()).is_pending());
            asleep("between", 5, None); // so that `holds` does not run for most of the wait
            assert_eq!(poll(holds.as_mut()), Poll::Ready(Ok(())));
            assert_eq!(poll(waiter.as_mut()), Poll::Ready(true));
        }
    })
}

/// More time than any of the spans takes.
const OUTSIDE: Duration = Duration::from_millis(60);

fn outside_of_spans(tier: Tier) -> Outcome {
    measure(tier, || {
        std::thread::sleep(OUTSIDE);
        info_span!("load").in_scope(|| info_span!("read").in_scope(|| std::thread::sleep(OUTSIDE / 3)));
    })
}

fn awaited_all_the_time(tier: Tier) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    measure_with(tier, silent(), |_| {
        runtime.block_on(async { tokio::time::sleep(OUTSIDE).await }.instrument(info_span!("request")));
        Ok(())
    })
}

/// Requests with queries that are ready soon, a thread that has no time to poll them, and a thread without futures.
fn busy_worker(tier: Tier) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let request = || async {
        tokio::time::sleep(OUTSIDE / 30).instrument(info_span!("query")).await;
        info_span!("render").in_scope(|| std::thread::sleep(OUTSIDE / 3));
    };
    measure_with(tier, silent(), |_| {
        let serve = info_span!("serve").entered();
        on_thread("compute", || info_span!("compute").in_scope(|| std::thread::sleep(OUTSIDE)));
        runtime.block_on(async {
            tokio::time::sleep(OUTSIDE).await;
            let tasks: Vec<_> = (0..5).map(|_| tokio::spawn(request().instrument(info_span!("request")))).collect();
            for task in tasks {
                task.await?;
            }
            Ok::<_, tokio::task::JoinError>(())
        })?;
        drop(serve);
        Ok(())
    })
}

/// Requests whose work runs on other threads, in their spans.
fn blocking_pool(tier: Tier) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    measure(tier, || {
        let request = || async {
            let span = Span::current();
            tokio::task::spawn_blocking(move || span.in_scope(|| std::thread::sleep(OUTSIDE / 10))).await
        };
        runtime.block_on(async {
            let requests = [(); 3].map(|()| tokio::spawn(request().instrument(info_span!("request"))));
            for request in requests {
                assert!(request.await.is_ok_and(|done| done.is_ok()));
            }
        });
    })
}

/// Queries that a worker runs inside their spans, as databases do; the worker drops each span last. Then an item that a
/// worker does in part, while a guard holds it open.
fn held_by_a_worker(tier: Tier) -> Outcome {
    measure(tier, || {
        for _ in 0..3 {
            let query = info_span!("query");
            query.in_scope(|| ());
            let ((answer, answered), (done, ended)) = (mpsc::channel(), mpsc::channel());
            let held = query.clone();
            let worker = std::thread::spawn(move || {
                let _inside = held.enter();
                answer.send(()).is_ok() && ended.recv().is_ok()
            });
            assert_eq!(answered.recv(), Ok(()));
            query.in_scope(|| ());
            query.in_scope(|| ()); // to be dropped
            drop(query);
            assert_eq!(done.send(()), Ok(()));
            assert_eq!(worker.join().ok(), Some(true));
            let item = info_span!("item").entered();
            let part = item.clone();
            on_thread("worker", move || part.in_scope(|| ()));
        }
    })
}

/// A parent whose name is made at run time.
fn parent_with_values(tier: Tier) -> Outcome {
    measure(tier, || {
        for name in ["x", "y"] {
            let outer = info_span!("outer", nvtx.name = name);
            outer.in_scope(|| info_span!("here").in_scope(|| ()));
            let task = outer.in_scope(|| info_span!("task"));
            on_thread("worker", move || {
                task.in_scope(|| info_span!("there").in_scope(|| ()));
                info_span!(parent: &outer, "explicit", nvtx.category = "c").in_scope(|| ());
            });
        }
    })
}

/// An unmeasured span leaves no gap: its children are under its own parent.
fn parent_filtered_out(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let outer = info_span!("outer");
        let between = outer.in_scope(|| debug_span!("between"));
        outer.in_scope(|| between.in_scope(|| info_span!("nested").in_scope(|| ())));
        let elsewhere = between.clone();
        let created = info_span!(parent: &between, "explicit");
        created.in_scope(|| ());
        on_thread("worker", move || {
            created.in_scope(|| ());
            elsewhere.in_scope(|| info_span!("contextual").in_scope(|| ()));
        });
        Ok(())
    })
}

/// Entered when its parent is not, on the thread that made it and on another.
fn filtered_out_later(tier: Tier) -> Outcome {
    measure(tier, || {
        let outer = info_span!("outer");
        let task = outer.in_scope(|| debug_span!("task"));
        let step = task.in_scope(|| debug_span!("step"));
        task.in_scope(|| info_span!("here").in_scope(|| ()));
        step.in_scope(|| info_span!("here").in_scope(|| ()));
        let alone = debug_span!("alone");
        alone.in_scope(|| info_span!("root").in_scope(|| ()));
        on_thread("worker", move || {
            for task in [&task, &step] {
                task.in_scope(|| info_span!("there").in_scope(|| ()));
            }
            alone.in_scope(|| info_span!("root").in_scope(|| ()));
        });
    })
}

/// Exited before the span that was entered inside of it.
fn filtered_out_across(tier: Tier) -> Outcome {
    measure(tier, || {
        let outer = info_span!("outer");
        let task = outer.in_scope(|| debug_span!("task"));
        on_thread("worker", move || {
            enter(&task);
            let (below, above) = (info_span!("below"), info_span!("above"));
            enter(&below);
            exit(&task);
            enter(&above);
            exit(&above);
            exit(&below);
        });
    })
}

fn recursion(tier: Tier) -> Outcome {
    fn down(depth: usize) {
        let _span = info_span!("recursive").entered();
        if depth > 1 {
            down(depth - 1);
        } else {
            info_span!("bottom").in_scope(|| ());
        }
    }
    measure(tier, || down(2_000))
}

/// Two that call each other, and a third that both sometimes call.
fn mutual_recursion(tier: Tier) -> Outcome {
    fn even(depth: usize) {
        let _span = info_span!("even").entered();
        if depth > 0 {
            odd(depth - 1);
            info_span!("leaf").in_scope(|| ());
        }
    }
    fn odd(depth: usize) {
        let _span = info_span!("odd").entered();
        if depth > 0 {
            even(depth - 1);
        }
    }
    measure(tier, || even(500))
}

/// Each level is on its own thread, so none is inside another there.
fn recursion_across_threads(tier: Tier) -> Outcome {
    fn down(depth: usize) {
        let span = info_span!("level").entered();
        let next = info_span!("next");
        drop(span);
        if depth > 1 {
            on_thread("level", move || next.in_scope(|| down(depth - 1)));
        }
    }
    measure(tier, || down(100))
}

fn two_layers(tier: Tier) -> Outcome {
    #[cfg(feature = "nvidia")]
    if tier == Tier::Nvidia {
        let theirs = nvtx::tracing::NvtxLayer::default;
        set_global_default(tracing_subscriber::registry().with(theirs()).with(theirs()))?;
        info_span!("once").in_scope(|| ());
        return Ok(());
    }
    let profiler = silent().build()?;
    match tier {
        Tier::Layer => {
            set_global_default(tracing_subscriber::registry().with(profiler.layer()).with(profiler.layer()))?;
        }
        _ => set_global_default(profiler.subscriber())?,
    }
    let span = info_span!("span", nvtx.name = "once", nvtx.lifetime = true);
    span.in_scope(|| info!("event"));
    drop(span);
    if tier == Tier::Subscriber {
        with_default(profiler.subscriber(), || info_span!("second").in_scope(|| info!("event")));
    }
    print(&profiler.summary())?;
    profiler.finish()?;
    Ok(())
}

fn two_profilers(tier: Tier) -> Outcome {
    let (first, second) = (silent().build()?, silent().build()?);
    match tier {
        Tier::Layer => {
            set_global_default(tracing_subscriber::registry().with(second.layer()).with(first.layer()))?;
            let span = info_span!("both", nvtx.name = "both", nvtx.lifetime = true);
            span.in_scope(|| info_span!("inner").in_scope(|| info!("event")));
        }
        _ => {
            set_global_default(first.subscriber())?;
            let both = || {
                let span = info_span!("both", nvtx.name = "both", nvtx.lifetime = true);
                span.in_scope(|| info_span!("inner").in_scope(|| info!("event")));
            };
            both();
            with_default(second.subscriber(), both);
        }
    }
    print(&first.summary())?;
    print(&second.summary())?;
    first.finish()?;
    second.finish()?;
    Ok(())
}

/// When the first profiler finishes, NVTX is free for the next one that is built.
fn nvtx_passes_on(tier: Tier) -> Outcome {
    let run = |name: &'static str, profiler: Profiler| -> Outcome {
        let body = || info_span!("span", nvtx.name = name).in_scope(|| ());
        match tier {
            Tier::Layer => with_default(tracing_subscriber::registry().with(profiler.layer()), body),
            _ => with_default(profiler.subscriber(), body),
        }
        print(&profiler.summary())?;
        profiler.finish()?;
        Ok(())
    };
    let first = silent().build()?;
    let without = silent().build()?;
    run("first", first)?;
    run("without NVTX", without)?;
    run("next", silent().build()?)
}

/// The program's logging does not depend on measuring.
fn log() {
    debug_span!("debug span").in_scope(|| debug!("debug event"));
    info_span!("info span").in_scope(|| {
        debug!("debug inside");
        info_span!("below").in_scope(|| info!("info event"));
    });
}

fn beside_fmt(_: Tier) -> Outcome {
    let profiler = silent().build()?;
    let fmt = tracing_subscriber::fmt::layer().without_time().with_ansi(false).with_writer(std::io::stderr);
    let fmt = fmt.with_filter(LevelFilter::DEBUG);
    set_global_default(tracing_subscriber::registry().with(profiler.layer()).with(fmt))?;
    log();
    print(&profiler.summary())?;
    profiler.finish()?;
    debug!("debug after");
    Ok(())
}

fn beside_fmt_first(_: Tier) -> Outcome {
    let profiler = silent().build()?;
    let fmt = tracing_subscriber::fmt::layer().without_time().with_ansi(false).with_writer(std::io::stderr);
    set_global_default(tracing_subscriber::registry().with(fmt).with(profiler.layer()).with(LevelFilter::DEBUG))?;
    log();
    print(&profiler.summary())?;
    profiler.finish()?;
    debug!("debug after");
    Ok(())
}

fn filter(tier: Tier) -> Outcome {
    let filter = Targets::new().with_default(LevelFilter::WARN).with_target("app", Level::DEBUG);
    measure_with(tier, silent().filter(filter), |_| {
        info_span!("below the default").in_scope(|| {
            debug_span!(target: "app::part", "of the target").in_scope(|| {
                tracing::trace_span!(target: "app", "below the target").in_scope(|| ());
            });
            tracing::warn_span!("warn").in_scope(|| info!("event below"));
        });
        Ok(())
    })
}
