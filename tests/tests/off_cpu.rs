//! What threads wait for inside of spans, by a program that knows it: each wait is timed by the program's own clock.
#![cfg(target_os = "linux")]

use std::io::{Read as _, Write as _};
use std::sync::{Mutex, mpsc};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use tracing::info_span;
use tracing_gpu::summary::OffCpuStats;
use tracing_gpu::{Output, Profiler};

/// Waits, and returns for how long.
type Wait = fn() -> Duration;

/// How long each thread waits, or spins.
const WAIT: Duration = Duration::from_secs(2);

fn profiler(looks: bool) -> Profiler {
    let profiler = Profiler::builder().nvtx(false).environment(false).off_cpu(looks).output(Output::None);
    profiler.build().expect("a profiler")
}

/// Runs this inside of a span, and returns how long it took.
fn timed(name: &'static str, run: impl FnOnce()) -> Duration {
    info_span!("wait", nvtx.name = name).in_scope(|| {
        let begun = Instant::now();
        run();
        begun.elapsed()
    })
}

fn spin(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {}
}

fn read_pipe() -> Duration {
    let (mut out, mut into) = std::io::pipe().expect("a pipe");
    scope(|scope| {
        scope.spawn(move || {
            sleep(WAIT);
            into.write_all(&[1]).expect("a reader");
        });
        timed("pipe", || out.read_exact(&mut [0]).expect("a writer"))
    })
}

fn lock() -> Duration {
    let (mutex, (tell, told)) = (Mutex::new(()), mpsc::channel());
    scope(|scope| {
        scope.spawn(|| {
            let _held = mutex.lock().expect("it is not poisoned");
            tell.send(()).expect("a receiver");
            sleep(WAIT);
        });
        told.recv().expect("a sender");
        timed("lock", || drop(mutex.lock().expect("it is not poisoned")))
    })
}

/// Sleeps that are shorter than the pause between two looks.
fn nap_often() -> Duration {
    let (begun, mut slept) = (Instant::now(), Duration::ZERO);
    while begun.elapsed() < WAIT {
        spin(Duration::from_millis(1));
        slept += timed("naps", || sleep(Duration::from_millis(2)));
    }
    slept
}

fn rows<'a>(all: &'a [OffCpuStats], name: &str) -> Vec<&'a OffCpuStats> {
    all.iter().filter(|row| row.name == name).collect()
}

/// Whether a sum of samples agrees: within 5 %, and what the first and the last sample are uncertain by.
fn agrees(row: &OffCpuStats, expected: Duration) -> bool {
    let expected = expected.as_secs_f64() * 1e9;
    let each = row.time_ns as f64 / row.samples as f64;
    (row.time_ns as f64 - expected).abs() <= 0.05 * expected + 2.0 * each
}

/// One look at four threads that wait and one that spins: each wait has its range and its system call. Returns what
/// disagrees in time.
fn times_that_disagree() -> Vec<String> {
    let profiler = profiler(true);
    let subscriber = tracing::Dispatch::new(profiler.subscriber());
    let within = |run: Wait| tracing::dispatcher::with_default(&subscriber, run);
    let waits: [(&str, &str, Wait); 4] = [
        ("pipe", "read (pipe)", read_pipe),
        ("lock", "futex (lock or condition)", lock),
        ("sleep", "clock_nanosleep", || timed("sleep", || sleep(WAIT))),
        ("naps", "clock_nanosleep", nap_often),
    ];
    let took = scope(|scope| {
        scope.spawn(|| within(|| timed("spin", || spin(WAIT))));
        let threads = waits.map(|(_, _, wait)| scope.spawn(move || within(wait)));
        threads.map(|thread| thread.join().expect("it ends"))
    });
    let all = profiler.summary().off_cpu;
    let mut disagree = Vec::new();
    for ((name, call, _), took) in waits.iter().zip(took) {
        let most = *rows(&all, name).first().unwrap_or_else(|| panic!("no {name} in {all:?}"));
        assert_eq!(most.call_of(), *call, "{all:?}");
        // Short waits are met by chance.
        if *name != "naps" && !agrees(most, took) {
            disagree.push(format!("{name} took {took:?}: {most:?}"));
        }
    }
    if rows(&all, "spin").iter().any(|row| row.time_ns >= WAIT.as_nanos() as u64 / 10) {
        disagree.push(format!("spin: {all:?}"));
    }
    profiler.reset();
    assert_eq!(profiler.summary().off_cpu, []);
    profiler.finish().expect("nothing to write");
    disagree
}

#[test]
fn each_wait_is_charged_to_its_range_and_its_system_call() {
    // A machine that takes the processor from the looking thread for a while hides what happens in it: one of five
    // runs is spared that.
    let mut runs = (0..5).map(|_| times_that_disagree());
    let disagree: Vec<_> = runs.by_ref().take_while(|disagree| !disagree.is_empty()).collect();
    assert!(disagree.len() < 5, "{disagree:#?}");
}

#[test]
fn nobody_looks_unless_asked_to() {
    let profiler = profiler(false);
    tracing::subscriber::with_default(profiler.subscriber(), || timed("sleep", || sleep(Duration::from_millis(300))));
    assert_eq!(profiler.summary().off_cpu, []);
    profiler.finish().expect("nothing to write");
}
