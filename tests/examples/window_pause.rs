//! How long windows make measured threads wait: `cargo run --release -p tests --example window_pause`.
//!
//! A thread enters spans, and times each. It does so while nobody reads, and while three threads read windows without a
//! break. Batches in which the system took the processor away are left out, by its own count of such switches: what is
//! left is the cost of the span, interrupts, and waiting for whoever reads. Also printed: the time of a window.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tracing::{Dispatch, dispatcher::with_default, info_span};
use tracing_gpu::{Output, Profiler, Windows};
use tracing_subscriber::prelude::*;

/// How long each of the rounds takes.
const ROUND: Duration = Duration::from_secs(4);
const BATCH: u64 = 2_000;

/// How often the system took the processor away from this thread.
fn switches() -> u64 {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// Durations of spans, in nanoseconds, the longest ones last.
fn spans(name: impl Fn(u64) -> Option<String>) -> (Vec<u64>, u64) {
    let (began, mut all, mut left_out) = (Instant::now(), Vec::new(), 0);
    while began.elapsed() < ROUND {
        let (before, mut batch) = (switches(), Vec::with_capacity(BATCH as usize));
        for number in 0..BATCH {
            let name = name(number);
            let start = Instant::now();
            match &name {
                None => info_span!("plain").in_scope(|| ()),
                Some(name) => info_span!("named", nvtx.name = name.as_str()).in_scope(|| ()),
            }
            batch.push(start.elapsed().as_nanos() as u64);
        }
        if switches() == before {
            all.append(&mut batch);
        } else {
            left_out += 1;
        }
    }
    all.sort_unstable();
    (all, left_out)
}

fn round(what: &str, profiler: &Profiler, readers: usize, name: impl Fn(u64) -> Option<String>) {
    let (done, windows, longest) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let cursors: Vec<Windows> = (0..readers).map(|_| profiler.windows()).collect();
    let (all, left_out) = std::thread::scope(|scope| {
        for cursor in &cursors {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    let start = Instant::now();
                    std::hint::black_box(cursor.next());
                    longest.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
                    windows.fetch_add(1, Relaxed);
                }
            });
        }
        let spans = spans(name);
        done.store(true, Relaxed);
        spans
    });
    let at = |part: f64| all.get(((all.len() as f64 * part) as usize).min(all.len().saturating_sub(1))).copied();
    let [half, most, nearly, longest_span] = [0.5, 0.999, 0.99999, 1.0].map(|part| at(part).unwrap_or(0));
    let long = all.len() - all.partition_point(|ns| *ns <= 50_000);
    let (windows, reading) = (windows.load(Relaxed), longest.load(Relaxed));
    println!(
        "{what:<34} {:>9} spans ({left_out} batches left out): median {half} ns, 99.9 % {most} ns, 99.999 % {nearly} \
         ns, longest {longest_span} ns, {long} over 50 us; {windows} windows, {} us each",
        all.len(),
        reading / 1_000 / windows.max(1)
    );
}

fn main() {
    let profiler = Profiler::builder().output(Output::None).build().expect("a profiler");
    let subscriber = Dispatch::new(tracing_subscriber::registry().with(profiler.layer()));
    with_default(&subscriber, || {
        let names = AtomicU64::new(0);
        let plain = |_| None;
        let new = |number: u64| number.is_multiple_of(200).then(|| format!("name {}", names.fetch_add(1, Relaxed)));
        for _ in 0..2 {
            for readers in [0, 1, 3] {
                round(&format!("plain, {readers} cursors"), &profiler, readers, plain);
            }
        }
        for readers in [0, 1, 3] {
            round(&format!("a new name each 200, {readers} cursors"), &profiler, readers, new);
        }
    });
}
