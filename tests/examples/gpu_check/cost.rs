//! What a timed span costs on the CPU, in each tier, and what it allocates.

use std::ffi::c_void;
use std::process::Command;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, CudaStream, sys};
use tracing::info_span;
use tracing_gpu::with_stream;

use super::allocations::Allocations;
use super::device::profiler;

/// More than the durations that a row keeps one by one, so that a pass makes it warm.
const SPANS: usize = 20_000;
/// Spans of a pass, some 4 ms: short, since a machine's pace changes, and what is compared is what lies side by side.
const PASS: usize = 2_000;
const PASSES: usize = 150;
/// Pairs are read in batches, as ours are.
const BATCH: usize = 64;

/// The least of twenty, and the median.
fn spread(values: &mut [f64]) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    [values[values.len() / 20], values[values.len() / 2]]
}

/// Spans between two waits for the device, which are not timed: the device takes longer over two events than the CPU,
/// and whoever enqueues more than a stream holds waits for it.
const CHUNK: usize = 250;

/// CPU time a span, of [`PASS`].
fn per_span(mut chunk: impl FnMut(), wait: impl Fn()) -> f64 {
    let mut total = Duration::ZERO;
    for _ in 0..PASS / CHUNK {
        let start = Instant::now();
        chunk();
        total += start.elapsed();
        wait();
    }
    total.as_nanos() as f64 / PASS as f64
}

/// The driver calls of a timed span that is warm, in a ring of events: two records, each after a look at the current
/// context and one at captures; and the reading, batch by batch, in the relaxed capture mode. `between` runs between
/// the two events of each pair.
#[allow(unsafe_code)]
fn by_hand(stream: sys::CUstream, context: sys::CUcontext, between: impl Fn()) -> impl FnMut() {
    let mut events = [[std::ptr::null_mut(); 2]; 4 * BATCH];
    for event in events.as_flattened_mut() {
        // SAFETY: writes one handle.
        assert!(unsafe { sys::cuEventCreate(event, 0) }.result().is_ok());
    }
    let record = move |event| {
        // SAFETY: calls of the driver with live handles; what is written is on the stack.
        unsafe {
            let mut current = std::ptr::null_mut();
            sys::cuCtxGetCurrent(&raw mut current);
            assert!(current == context, "no other context is used here");
            let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
            sys::cuStreamIsCapturing(stream, &raw mut status);
            sys::cuEventRecord(event, stream);
        }
    };
    let mut spans = 0..;
    move || {
        for span in spans.by_ref().take(CHUNK) {
            let [start, end] = events[span % events.len()];
            record(start);
            between();
            record(end);
            if span % BATCH < BATCH - 1 {
                continue;
            }
            // SAFETY: as above.
            unsafe {
                let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
                sys::cuThreadExchangeStreamCaptureMode(&raw mut mode);
                for read in span + 2 * BATCH..span + 3 * BATCH {
                    let [start, end] = events[(read + 1) % events.len()];
                    let mut ms = 0f32;
                    let _not_ready_is_an_answer_too = sys::cuEventElapsedTime_v2(&raw mut ms, start, end);
                }
                sys::cuThreadExchangeStreamCaptureMode(&raw mut mode);
            }
        }
    }
}

/// Has the stream wait on the host for a while, so that what is enqueued next waits, as much of it as ever will.
fn hold(stream: &CudaStream, time: Duration) {
    extern "C" fn sleep(ms: *mut c_void) {
        std::thread::sleep(Duration::from_millis(ms.addr() as u64));
    }
    let ms = std::ptr::without_provenance_mut(time.as_millis() as usize);
    #[allow(unsafe_code)]
    // SAFETY: the function takes a number for a pointer, and calls nothing of CUDA.
    let launched = unsafe { sys::cuLaunchHostFunc(stream.cu_stream(), Some(sleep), ms) };
    launched.result().expect("a host function in the stream");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Both tiers, each in a process of its own: as the global subscriber, which a program has one of.
pub(crate) fn run(quick: bool) {
    if std::env::var_os("TIER").is_some() {
        return run_tier(quick);
    }
    let program = std::env::current_exe().expect("the path of this program");
    for tier in ["subscriber", "layer"] {
        let mut child = Command::new(&program);
        child.arg("cost").args(quick.then_some("quick")).env("TIER", tier);
        let status = child.status().expect("a child process");
        if !status.success() {
            std::process::exit(status.code().unwrap_or(1));
        }
    }
}

fn run_tier(quick: bool) {
    let tier = std::env::var("TIER").unwrap_or_default();
    let context = CudaContext::new(0).expect("a CUDA device");
    let stream = context.new_stream().expect("a stream");
    let synchronize = || stream.synchronize().expect("the device");
    let mut hand = by_hand(stream.cu_stream(), context.cu_ctx(), || ());
    let mut hand_in_spans =
        by_hand(stream.cu_stream(), context.cu_ctx(), || info_span!("timed by hand").in_scope(|| ()));
    let profiler = profiler();
    let spans = |count: usize| (0..count).for_each(|_| info_span!("timed").in_scope(|| ()));
    // Warm: rows have their samples, and more pairs have waited than will.
    (0..SPANS / CHUNK).for_each(|_| hand());
    (0..SPANS / CHUNK).for_each(|_| hand_in_spans());
    spans(SPANS);
    hold(&stream, Duration::from_millis(10)); // less than it takes to enqueue as many pairs as may wait
    with_stream(&stream, || spans(SPANS));
    with_stream(&stream, || spans(3)); // the last one has taken the events of another
    synchronize();
    let warm = profiler.summary(); // reads all, after which the events are the context's again
    assert!(warm.stream_ranges.iter().all(|row| row.times.instances == SPANS as u64 + 3), "{:?}", warm.losses);
    assert_eq!(std::sync::Arc::strong_count(&stream), 1, "a stream is held until its pairs are read, and no longer");
    let (mut hands, mut untimeds, mut timeds, mut added) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut together, mut above_together) = (Vec::new(), Vec::new());
    let mut allocated = Allocations::default();
    for _ in 0..PASSES {
        let by_hand = per_span(&mut hand, synchronize);
        let untimed = per_span(|| spans(CHUNK), || ());
        let before = Allocations::of_this_thread();
        let timed = per_span(|| with_stream(&stream, || spans(CHUNK)), synchronize);
        allocated += Allocations::of_this_thread() - before;
        let in_spans = per_span(&mut hand_in_spans, synchronize);
        together.push(in_spans);
        above_together.push(timed - in_spans);
        hands.push(by_hand);
        untimeds.push(untimed);
        timeds.push(timed);
        added.push(timed - untimed - by_hand);
    }
    let [by_hand, untimed, timed, added] = [hands, untimeds, timeds, added].map(|mut values| spread(&mut values));
    println!(
        "{tier:>10}: by hand {:.0} ns a pair, untimed span {:.0} ns, timed span {:.0} ns; above by hand {:+.0} ns, \
         added by timing {:+.0} ns ({:+.0} by the least of twenty of each)",
        by_hand[1],
        untimed[1],
        timed[1],
        timed[1] - by_hand[1],
        added[1],
        timed[0] - untimed[0] - by_hand[0]
    );
    // What it would be by hand in a program that has these spans: their code is found as cold after a driver call as it
    // is where we time them.
    let [together, above_together] = [together, above_together].map(|mut values| spread(&mut values));
    println!(
        "{tier:>10}: the same calls by hand around untimed spans {:.0} ns; a timed span above these {:+.0} ns ({:+.0} by the least of twenty of each)",
        together[1],
        above_together[1],
        timed[0] - together[0]
    );
    let timed_spans = (PASS * PASSES) as f64;
    println!(
        "{tier:>10}: {:.5} allocations a timed span once warm, and {} histogram pages in {timed_spans:.0} spans",
        allocated.others as f64 / timed_spans,
        allocated.pages,
    );
    if allocated.others > 0 {
        eprintln!("{tier}: FAILED: a timed span allocates when warm ({} times)", allocated.others);
        std::process::exit(1);
    }
    if quick {
        return; // under a tool that records every call
    }
    let before = resident_kib();
    let start = Instant::now();
    with_stream(&stream, || (0..1_000_000).for_each(|_| info_span!("million").in_scope(|| ())));
    let seconds = start.elapsed().as_secs_f64();
    synchronize();
    let summary = profiler.summary();
    let row = summary.stream_ranges.iter().find(|row| row.name == "million").expect("the row");
    let losses = summary.losses.streams;
    let counted = row.times.instances + losses.dropped + losses.refused + losses.unreadable + losses.pending;
    println!(
        "{tier:>10}: a million timed spans in {seconds:.2} s: {} in the table, {counted} accounted for, resident +{} KiB, {losses:?}",
        row.times.instances,
        resident_kib().saturating_sub(before)
    );
    assert!(counted >= 1_000_000, "some are lost and not counted");
}
