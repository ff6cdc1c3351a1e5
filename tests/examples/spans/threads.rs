//! Threads that begin, end, and come and go in large numbers; and tools that trace themselves.

use crate::stage::{enter, exit, measure, measure_with, on_thread, silent, thread};
use crate::{Outcome, Scenario, Tier};
use std::cell::RefCell;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tracing::span::EnteredSpan;
use tracing::{Span, info, info_span};

pub(crate) const ALL: &[Scenario] = &[
    ("thread-names", thread_names),
    ("dying-threads", dying_threads),
    ("dying-threads-with-guards", dying_threads_with_guards),
    ("left-open-by-many", left_open_by_many),
    ("churn", churn),
    ("crowd", crowd),
    ("on-cpu", on_cpu),
    ("beside-four", beside_four),
    ("tool-that-traces", tool_that_traces),
];

fn thread_names(tier: Tier) -> Outcome {
    measure(tier, || {
        info_span!("here").in_scope(|| ());
        on_thread("worker one", || info_span!("there").in_scope(|| ()));
        on_thread("größe", || info!("only an event"));
        let unnamed = std::thread::spawn(|| info_span!("unnamed").in_scope(|| ()));
        assert!(unnamed.join().is_ok());
        on_thread("nothing measured", || ());
    })
}

/// Ranges that run and sleep. Prints the processor time inside of each, and with what lies around it, by the system's
/// own account.
fn on_cpu(tier: Tier) -> Outcome {
    const WAIT: Duration = Duration::from_millis(60);
    /// In nanoseconds. The account is up to date once the thread has stopped.
    fn account() -> u64 {
        sleep(Duration::from_micros(1));
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
        text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
    }
    let spin = || {
        let begun = Instant::now();
        while begun.elapsed() < WAIT {
            std::hint::spin_loop();
        }
    };
    let timed = |span: Span, body: &dyn Fn()| {
        let before = account();
        let inside = span.in_scope(|| {
            let begun = account();
            body();
            account() - begun
        });
        eprintln!("{inside} {}", account() - before);
    };
    measure(tier, || {
        timed(info_span!("spins"), &spin);
        timed(info_span!("sleeps"), &|| sleep(WAIT));
        timed(info_span!("both"), &|| {
            spin();
            info_span!("sleeps inside").in_scope(|| sleep(WAIT));
            spin();
        });
        timed(info_span!("short ones"), &|| {
            (0..10_000).for_each(|_| info_span!("short").in_scope(|| ()));
            sleep(WAIT);
        });
    })
}

/// A range that does nothing but run another, on a processor that four more threads want.
fn beside_four(tier: Tier) -> Outcome {
    let status = std::fs::read_to_string("/proc/thread-self/status")?;
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("Linux has it");
    let first = allowed.trim().split([',', '-']).next().unwrap_or_default();
    let process = std::process::id().to_string();
    let pinned = Command::new("taskset").args(["-c", "-p", first, &process]).stdout(Stdio::null()).status()?;
    assert!(pinned.success());
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_done.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let outcome = measure(tier, || {
            for _ in 0..200 {
                info_span!("picture").in_scope(|| {
                    info_span!("decode").in_scope(|| {
                        let begun = Instant::now();
                        while begun.elapsed() < Duration::from_micros(300) {
                            std::hint::spin_loop();
                        }
                    });
                });
            }
        });
        is_done.store(true, Relaxed);
        outcome
    })
}

/// Makes and enters spans when its thread is torn down.
struct Last {
    made_before: Span,
}

impl Last {
    fn new() -> Self {
        Self { made_before: info_span!("made before", nvtx.lifetime = true) }
    }
}

impl Drop for Last {
    fn drop(&mut self) {
        self.made_before.in_scope(|| info!("event"));
        let span = info_span!("last", nvtx.name = "named", nvtx.lifetime = true);
        span.in_scope(|| info_span!("below").in_scope(|| info!("event")));
    }
}

/// Destructors of thread-locals that were made before the thread's first span, and after it.
fn dying_threads(tier: Tier) -> Outcome {
    thread_local! {
        static BEFORE: RefCell<Option<Last>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    measure(tier, || {
        for _ in 0..10 {
            on_thread("dying", || {
                BEFORE.with_borrow_mut(|_| ());
                info_span!("alive").in_scope(|| ());
                AFTER.with_borrow_mut(|last| *last = Some(Last::new()));
                BEFORE.with_borrow_mut(|last| *last = Some(Last::new()));
            });
        }
        let made = Last::new();
        on_thread("last", || AFTER.with_borrow_mut(|last| *last = Some(made)));
        info_span!("alive").in_scope(|| ());
    })
}

/// More threads than are remembered by name end with an open range, the last one with many.
fn left_open_by_many(tier: Tier) -> Outcome {
    measure(tier, || {
        let leave_open = || std::mem::forget(info_span!("left open").entered());
        for number in 0..500 {
            on_thread(&format!("thread {number}"), leave_open);
        }
        on_thread("last", move || (0..1_000).for_each(|_| leave_open()));
    })
}

/// Guards that their thread's end drops, or does not drop.
fn dying_threads_with_guards(tier: Tier) -> Outcome {
    thread_local! {
        static BEFORE: RefCell<Option<EnteredSpan>> = const { RefCell::new(None) };
        static AFTER: RefCell<Option<EnteredSpan>> = const { RefCell::new(None) };
    }
    measure(tier, || {
        on_thread("dying", || {
            BEFORE.with_borrow_mut(|_| ());
            info_span!("alive").in_scope(|| ());
            AFTER.with_borrow_mut(|guard| *guard = Some(info_span!("after").entered()));
            BEFORE.with_borrow_mut(|guard| *guard = Some(info_span!("before").entered()));
        });
        on_thread("leaving", || std::mem::forget(info_span!("left open").entered()));
        info_span!("alive").in_scope(|| ());
    })
}

fn resident_bytes() -> Result<u64, Box<dyn std::error::Error>> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let resident: u64 = pages.split(' ').nth(1).ok_or("no resident set")?.parse()?;
    Ok(resident * 4096)
}

/// 10,000 threads one after the other; prints how much memory grew after the first 100.
fn churn(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let mut before = 0;
        for number in 0..10_000 {
            if number == 100 {
                before = resident_bytes()?;
            }
            let kept = on_thread("short", || {
                let span = info_span!("short");
                span.in_scope(|| info_span!("inside").in_scope(|| ()));
                span
            });
            drop(kept); // closed after its thread has ended
        }
        writeln!(std::io::stderr(), "{}", resident_bytes()?.saturating_sub(before))?;
        Ok(())
    })
}

/// 32 threads that hand all their spans to each other.
fn crowd(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let shared = info_span!("shared");
        let barrier = Barrier::new(32);
        std::thread::scope(|scope| {
            for number in 0..32u64 {
                let (shared, barrier) = (shared.clone(), &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for _ in 0..200 {
                        let own = info_span!(parent: &shared, "own", nvtx.payload = number);
                        shared.in_scope(|| own.in_scope(|| info_span!("leaf").in_scope(|| ())));
                        enter(&own);
                        enter(&shared);
                        exit(&own);
                        exit(&shared);
                    }
                });
            }
        });
        Ok(())
    })
}

/// A tool in this process that makes spans and events whenever it is called.
fn tool_that_traces(tier: Tier) -> Outcome {
    nvtx_rs::tool::attach(Box::new(|_: &nvtx_rs::tool::Call<'_>| {
        let _span = info_span!("from the tool", nvtx.name = "tool", nvtx.category = "tool").entered();
        info!("from the tool");
    }))?;
    measure_with(tier, silent(), |_| {
        info_span!("request", nvtx.lifetime = true).in_scope(|| ());
        let outer = info_span!("outer", nvtx.category = "c").entered();
        let inner = info_span!("inner").entered();
        info!("event");
        drop(outer);
        drop(inner);
        thread("worker", || info_span!("there").in_scope(|| ()))?.join().map_err(|_| "the worker failed")?;
        Ok(())
    })
}
