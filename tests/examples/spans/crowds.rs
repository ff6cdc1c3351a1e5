//! Many threads at once, and threads, processes and profilers that end without running destructors.
#![allow(unsafe_code)] // fork, signals, and threads without Rust

use crate::stage::{Tier, measure_by, measure_with, on_thread, print, silent};
use crate::{Outcome, Scenario};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread::JoinHandle;
use std::time::Duration;
use tracing::dispatcher::with_default;
use tracing::{Dispatch, Span, info, info_span};
use tracing_gpu::{Profiler, Report};

pub(crate) const ALL: &[Scenario] = &[
    ("fork-crowd", fork_crowd),
    ("exit-crowd", exit_crowd),
    ("signal-storm", signal_storm),
    ("threads-cut-off", threads_cut_off),
    ("profilers", profilers),
    ("replaced", replaced),
    ("small-stacks", small_stacks),
    ("endless-recursion", endless_recursion),
];

const THREADS: usize = 64;
/// Seconds that a child may take, less than it would wait for a lock that nobody releases.
const SECONDS: u32 = 10;

/// Threads inside spans, which make more spans with new names until they are stopped.
struct Crowd {
    stop: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    /// Returns when all are inside.
    fn start() -> Self {
        let (stop, made, inside) = (Arc::default(), Arc::default(), Arc::new(Barrier::new(THREADS + 1)));
        let thread = |number| {
            let (stop, made, inside) = (Arc::clone(&stop), Arc::clone(&made), Arc::clone(&inside));
            std::thread::spawn(move || Self::work(number, &stop, &made, &inside))
        };
        let threads = (0..THREADS).map(thread).collect();
        inside.wait();
        Self { stop, made, threads }
    }

    fn work(number: usize, stop: &AtomicBool, made: &AtomicU64, inside: &Barrier) {
        let _inside = info_span!("inside").entered();
        inside.wait();
        for round in 0.. {
            if stop.load(Relaxed) {
                return;
            }
            let name = format!("{number} {}", round % 500);
            info_span!("step", nvtx.name = name, nvtx.lifetime = true).in_scope(|| info!("event"));
            made.fetch_add(1, Relaxed);
            std::thread::sleep(Duration::from_micros(100)); // leaves the processors to others
        }
    }

    /// Stops them. Returns how many spans they made inside.
    fn stop(self) -> u64 {
        self.stop.store(true, Relaxed);
        self.threads.into_iter().for_each(|thread| assert!(thread.join().is_ok()));
        self.made.load(Relaxed)
    }
}

/// Runs `body` in a child, which exits with the result of `body`. Returns how the child ended.
fn forked(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does what is tested, and exits; a signal ends it where it waits for ever.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::alarm(SECONDS);
            libc::exit(body());
        }
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process that nobody else waits for, and `status` is a live `c_int`.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    status
}

/// Children end the span around the fork, make spans with new names, and drop earlier spans.
fn fork_crowd(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let crowd = Crowd::start();
        let (mut around, kept) = (Some(info_span!("around").entered()), info_span!("kept", nvtx.name = "named"));
        let mut stuck = 0;
        for _ in 0..8 {
            let (around, kept) = (&mut around, kept.clone());
            stuck += u32::from(
                0 != forked(move || {
                    drop(around.take());
                    for number in 0..100 {
                        let span = info_span!("child", nvtx.name = format!("child {number}"), nvtx.lifetime = true);
                        span.in_scope(|| info!("event"));
                    }
                    kept.in_scope(|| info_span!("step").in_scope(|| ()));
                    kept.record("nvtx.name", "other");
                    drop(kept);
                    i32::from(std::thread::spawn(|| info_span!("thread of a child").in_scope(|| ())).join().is_err())
                }),
            );
        }
        drop(around);
        let made = crowd.stop();
        writeln!(std::io::stderr(), "{stuck} stuck, {made} made")?;
        Ok(())
    })
}

/// The process ends while all threads continue.
fn exit_crowd(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().report([Report::Ranges]).rows(usize::MAX).build()?;
    tier.install(&profiler)?;
    info_span!("done").in_scope(|| ());
    std::mem::forget(Crowd::start());
    std::process::exit(7);
}

/// How often the signal arrived.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count(_: i32) {
    SIGNALS.fetch_add(1, Relaxed);
}

/// Sends a signal every 50 us of processor time, whose handler makes the system restart no call.
fn storm(microseconds: i64) {
    let each = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    // SAFETY: zeros are a valid `sigaction`; the handler counts, and nothing else; both structs are live.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()), 0);
        let timer = libc::itimerval { it_interval: each, it_value: each };
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()), 0);
    }
}

/// The signals arrive during a whole run: from before the profiler is built until its files are written.
fn signal_storm(tier: Tier) -> Outcome {
    storm(50);
    let outcome = measure_by(tier, Profiler::builder(), || {
        std::thread::scope(|scope| {
            for number in 0..8 {
                scope.spawn(move || {
                    for round in 0..2_000 {
                        let span = info_span!("step", nvtx.lifetime = true, number, round);
                        span.in_scope(|| info_span!("inner").in_scope(|| info!(round, "event")));
                    }
                });
            }
        });
    });
    storm(0);
    outcome?;
    match SIGNALS.load(Relaxed) {
        0..100 => Err("no storm".into()),
        _ => Ok(()),
    }
}

extern "C" fn cut_off(_: *mut libc::c_void) -> *mut libc::c_void {
    info_span!("whole").in_scope(|| ());
    std::mem::forget(info_span!("open").entered());
    // SAFETY: ends this thread in the kernel: nothing of it is torn down.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    std::ptr::null_mut()
}

/// Threads that end by the system call, so that none of their destructors runs; and the memory that each leaves.
fn threads_cut_off(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        let mut before = 0;
        for number in 0..1_000 {
            if number == 100 {
                before = heap();
            }
            let mut thread = 0;
            // SAFETY: the thread's number is live; the function needs no argument. The kernel reports its end.
            unsafe {
                assert_eq!(libc::pthread_create(&raw mut thread, std::ptr::null(), cut_off, std::ptr::null_mut()), 0);
                assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
            }
        }
        writeln!(std::io::stderr(), "{}", (heap() - before) / 900)?;
        Ok(())
    })
}

/// Bytes that are allocated.
fn heap() -> usize {
    // SAFETY: takes nothing and returns plain numbers.
    let heap = unsafe { libc::mallinfo2() };
    heap.uordblks + heap.hblkhd
}

/// Profilers one after another, each on this thread and another; prints how many lost something, and the memory that
/// each leaves.
fn profilers(tier: Tier) -> Outcome {
    use tracing_subscriber::prelude::*;
    // SAFETY: no other thread runs yet. With one arena its figures are those of the process.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    let (mut before, mut wrong) = (0, 0);
    let count: u64 = std::env::var("FAULTS_PROFILERS").ok().and_then(|count| count.parse().ok()).unwrap_or(400);
    for number in 0..count {
        if number == count / 10 {
            before = heap();
        }
        let profiler = silent().build()?;
        let work = || (0..3).for_each(|_| info_span!("work").in_scope(|| info_span!("step").in_scope(|| ())));
        let dispatch = match tier {
            Tier::Layer => Dispatch::new(tracing_subscriber::registry().with(profiler.layer())),
            _ => Dispatch::new(profiler.subscriber()),
        };
        with_default(&dispatch, work);
        if number.is_multiple_of(16) {
            let dispatch = dispatch.clone();
            on_thread("other", move || with_default(&dispatch, work));
        }
        let rows = profiler.summary().ranges;
        let expected = if number.is_multiple_of(16) { 6 } else { 3 };
        wrong += u32::from(rows.len() != 2 || rows.iter().any(|row| row.times.instances != expected));
        profiler.finish()?;
    }
    writeln!(std::io::stdout(), "{wrong} wrong, {} bytes each", (heap() - before) as u64 / (count * 9 / 10))?;
    Ok(())
}

/// Another subscriber takes over inside spans, spans of one are entered under the other, and the first returns.
fn replaced(tier: Tier) -> Outcome {
    use tracing_subscriber::prelude::*;
    measure_with(tier, silent(), |_| {
        let second = silent().nvtx(false).build()?;
        let other = match tier {
            Tier::Layer => Dispatch::new(tracing_subscriber::registry().with(second.layer())),
            _ => Dispatch::new(second.subscriber()),
        };
        let mut kept: Vec<Span> = Vec::new();
        for _ in 0..100 {
            let outer = info_span!("outer").entered();
            with_default(&other, || {
                info_span!("of the other").in_scope(|| ());
                outer.in_scope(|| info_span!("inner").in_scope(|| ()));
                kept.push(info_span!("handed on"));
            });
            info_span!("after").in_scope(|| ());
        }
        drop(other);
        kept.iter().for_each(|span| span.in_scope(|| ()));
        drop(kept);
        print(&second.summary())?;
        Ok(())
    })
}

/// The first spans of threads with hardly any stack.
fn small_stacks(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        for _ in 0..4 {
            let small = std::thread::Builder::new().stack_size(32 << 10).spawn(|| {
                let span = info_span!("span", nvtx.lifetime = true, nvtx.category = "c", other = 7);
                span.in_scope(|| info_span!("inner", nvtx.name = "named").in_scope(|| info!(other = 7, "event")));
            })?;
            assert!(small.join().is_ok());
        }
        Ok(())
    })
}

#[expect(unconditional_recursion, reason = "on purpose")]
fn endless() -> u64 {
    let _span = info_span!("deeper").entered();
    std::hint::black_box(endless()) + 1
}

/// The stack overflows inside a span.
fn endless_recursion(tier: Tier) -> Outcome {
    measure_with(tier, silent(), |_| {
        writeln!(std::io::stdout(), "{}", endless())?;
        Ok(())
    })
}
