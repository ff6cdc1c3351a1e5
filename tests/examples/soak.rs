//! Endless spans on short-lived threads: `soak SPANS THREADS TIER [BUDGET]`, run by `soak/run`. BUDGET is the memory
//! for durations, in bytes.
//!
//! Eight threads at a time: each makes its part and ends. Spans are entered again, exited out of order, cloned, and
//! entered and closed on other threads. A summary is taken each second. Prints lines of CSV: spans so far, seconds,
//! nanoseconds of processor time per span since the line before, including summaries, KiB of resident memory and of the
//! heap, threads so far, milliseconds of processor time of a summary. At the end every count must be exact.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tracing::{Span, info_span};
use tracing_gpu::{Output, Profiler};
use tracing_subscriber::prelude::*;

const AT_ONCE: u64 = 8;
const PROCESS: libc::clockid_t = libc::CLOCK_PROCESS_CPUTIME_ID;
const THREAD: libc::clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;
/// Rounds of a thread between two spans that are exited out of order. The number is so small that rows stop keeping
/// single durations after a hundredth of the spans.
const OUT_OF_ORDER: u64 = 32;
/// Spans of a thread that another thread enters.
const HANDED_ON: u64 = 16;

/// Entries of a round, by name.
const ROUND: [(&str, u64); 4] = [("plain", 4), ("outer", 1), ("inner", 1), ("again", 2)];
const ENTRIES: u64 = 8;

fn enter(span: &Span) {
    span.with_subscriber(|(id, dispatch)| dispatch.enter(id));
}

fn exit(span: &Span) {
    span.with_subscriber(|(id, dispatch)| dispatch.exit(id));
}

/// One round. Some rounds also have a pair of spans whose exits do not nest: the second is closed and reopened.
fn round(number: u64) {
    (0..4).for_each(|_| info_span!("plain").in_scope(|| ()));
    info_span!("outer").in_scope(|| info_span!("inner").in_scope(|| ()));
    let again = info_span!("again");
    let kept = again.clone();
    again.in_scope(|| ());
    drop(again);
    kept.in_scope(|| ());
    if number.is_multiple_of(OUT_OF_ORDER) {
        let (first, second) = (info_span!("left first"), info_span!("left last"));
        enter(&first);
        enter(&second);
        exit(&first);
        exit(&second);
    }
}

/// The expected counts by name after `rounds` of each of `threads`.
fn expected(threads: u64, rounds: u64) -> BTreeMap<String, u64> {
    let mut counts: BTreeMap<String, u64> =
        ROUND.iter().map(|(name, count)| ((*name).to_owned(), threads * rounds * count)).collect();
    let pairs = threads * rounds.div_ceil(OUT_OF_ORDER);
    // The reopened one is two instances.
    counts.extend([
        ("left first".to_owned(), pairs),
        ("left last".to_owned(), 2 * pairs),
        ("handed on".to_owned(), threads * HANDED_ON),
    ]);
    counts
}

/// Nanoseconds of processor time by this clock, of the process or of the thread.
#[allow(unsafe_code)]
fn processor_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one struct.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn resident_kib() -> Result<u64, Box<dyn Error>> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    Ok(pages.split(' ').nth(1).ok_or("no resident set")?.parse::<u64>()? * 4)
}

/// Allocated KiB.
#[allow(unsafe_code)]
fn heap_kib() -> usize {
    // SAFETY: takes nothing and returns plain numbers.
    let heap = unsafe { libc::mallinfo2() };
    (heap.uordblks + heap.hblkhd) >> 10
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [spans, threads, tier, budget @ ..] = arguments.as_slice() else {
        return Err("soak SPANS THREADS TIER [BUDGET]".into());
    };
    let (spans, threads): (u64, u64) = (spans.parse()?, threads.parse()?);
    let threads = threads.next_multiple_of(AT_ONCE);
    let rounds = (spans / threads / ENTRIES).max(1);
    let builder = Profiler::builder().output(Output::None);
    let profiler = match budget {
        [] => builder.build()?,
        budget => builder.sample_budget(budget.concat().parse()?).build()?,
    };
    if tier == "layer" {
        tracing_subscriber::registry().with(profiler.layer()).init();
    } else {
        tracing::subscriber::set_global_default(profiler.subscriber())?;
    }
    let (made, ended, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let (hand_on, handed_on) = mpsc::channel::<Span>();
    println!("spans,seconds,ns_a_span,resident_kib,heap_kib,threads,summary_ms");
    std::thread::scope(|scope| -> Result<(), Box<dyn Error>> {
        for _ in 0..AT_ONCE {
            let (made, ended, hand_on) = (&made, &ended, hand_on.clone());
            scope.spawn(move || {
                for _ in 0..threads / AT_ONCE {
                    let hand_on = hand_on.clone();
                    let thread = std::thread::spawn(move || {
                        (0..rounds).for_each(round);
                        (0..HANDED_ON).all(|_| hand_on.send(info_span!("handed on")).is_ok())
                    });
                    assert!(thread.join().is_ok_and(|sent| sent));
                    made.fetch_add(rounds * ENTRIES, Relaxed);
                    ended.fetch_add(1, Relaxed);
                }
            });
        }
        drop(hand_on);
        let is_over = &is_over;
        // Entered and closed on a thread that did not create them.
        scope.spawn(move || {
            handed_on.iter().for_each(|span| span.in_scope(|| ()));
            is_over.store(true, Relaxed);
        });
        let began = Instant::now();
        let (mut last, mut next, mut due) = ((0, processor_ns(PROCESS)), 100_000, Duration::from_secs(1));
        loop {
            std::thread::sleep(Duration::from_millis(1));
            let over = is_over.load(Relaxed);
            let now = made.load(Relaxed);
            if !over && (now < next && began.elapsed() < due || now == last.0) {
                continue;
            }
            let used = processor_ns(PROCESS);
            let each = (used - last.1) as f64 / (now - last.0).max(1) as f64;
            let heap = heap_kib();
            let taken = processor_ns(THREAD);
            let summary = profiler.summary();
            let took = (processor_ns(THREAD) - taken) as f64 / 1e6;
            let counted: u64 = summary.ranges.iter().map(|row| row.times.instances).sum();
            assert!(counted >= now, "{counted} of {now}");
            let seconds = began.elapsed().as_secs_f64();
            if now > last.0 {
                println!("{now},{seconds:.2},{each:.2},{},{heap},{},{took:.2}", resident_kib()?, ended.load(Relaxed));
            }
            if over {
                return Ok(());
            }
            last = (now, used);
            while next <= now {
                next *= 2;
            }
            due = began.elapsed() + Duration::from_secs(1);
            if now > 10_000_000 {
                next = u64::MAX; // each second from here on
            }
        }
    })?;
    let summary = profiler.summary();
    let counts: BTreeMap<String, u64> =
        summary.ranges.iter().map(|row| (row.name.clone(), row.times.instances)).collect();
    let wanted = expected(threads, rounds);
    if counts != wanted {
        return Err(format!("{counts:?}, not {wanted:?}").into());
    }
    let mut losses = summary.losses;
    let splits = std::mem::take(&mut losses.split_instances);
    if !budget.is_empty() {
        losses.rows_without_median = 0;
    }
    if (splits, &losses) != (wanted["left first"], &Default::default()) {
        return Err(format!("{splits} splits, {losses:?}").into());
    }
    eprintln!("all counts are exact: {counts:?}");
    Ok(())
}
