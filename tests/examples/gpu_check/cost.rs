//! The CPU time of a timed span in each tier, and its allocations.

use std::ffi::c_void;
use std::process::Command;
use std::time::{Duration, Instant};

use cudarc::driver::{CudaContext, CudaStream, sys};
use tracing::info_span;
use tracing_gpu::with_stream;

use super::allocations::Allocations;
use super::device::profiler;

/// More spans than a row keeps single durations, so that one pass makes the row warm.
const SPANS: usize = 20_000;
/// Spans of a pass. A pass is short (4 ms), because a machine's speed drifts and adjacent passes are compared.
const PASS: usize = 2_000;
const PASSES: usize = 150;
/// The profiler reads its pairs in batches of this size, too.
const BATCH: usize = 64;

/// The 5th percentile and the median.
fn spread(values: &mut [f64]) -> [f64; 2] {
    values.sort_by(f64::total_cmp);
    [values[values.len() / 20], values[values.len() / 2]]
}

/// Spans between two waits for the device. The device takes longer for two events than the CPU, and a thread that fills
/// a stream blocks. The waits are not timed.
const CHUNK: usize = 250;

/// CPU nanoseconds of a span, on average over [`PASS`] spans.
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

/// Makes the driver calls of a warm timed span, with a ring of events. Each record is preceded by a query of the
/// current context and one of captures. Pairs are read in batches, in the relaxed capture mode. `between` runs between
/// the two events of each pair.
#[allow(unsafe_code)]
fn by_hand(stream: sys::CUstream, context: sys::CUcontext, between: impl Fn()) -> impl FnMut() {
    let mut events = [[std::ptr::null_mut(); 2]; 4 * BATCH];
    for event in events.as_flattened_mut() {
        // SAFETY: writes one handle.
        assert!(unsafe { sys::cuEventCreate(event, 0) }.result().is_ok());
    }
    let record = move |event| {
        // SAFETY: the handles are live; the driver writes to locals only.
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

/// Blocks the stream on the host for a while, so that as many operations as possible queue up behind it.
fn hold(stream: &CudaStream, time: Duration) {
    extern "C" fn sleep(ms: *mut c_void) {
        std::thread::sleep(Duration::from_millis(ms.addr() as u64));
    }
    let ms = std::ptr::without_provenance_mut(time.as_millis() as usize);
    #[allow(unsafe_code)]
    // SAFETY: the function receives a number as its pointer and calls no CUDA function.
    let launched = unsafe { sys::cuLaunchHostFunc(stream.cu_stream(), Some(sleep), ms) };
    launched.result().expect("a host function in the stream");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

/// Runs each tier in a process of its own, because a process has one global subscriber.
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
    // Warm-up: rows get their samples, and more pairs wait at once than in any later pass.
    (0..SPANS / CHUNK).for_each(|_| hand());
    (0..SPANS / CHUNK).for_each(|_| hand_in_spans());
    spans(SPANS);
    hold(&stream, Duration::from_millis(10)); // shorter than the time to enqueue all pairs that can wait
    with_stream(&stream, || spans(SPANS));
    with_stream(&stream, || spans(3)); // the last span reuses the events of an earlier one
    synchronize();
    let warm = profiler.summary(); // reads all pairs and returns their events to the context
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
    // The same driver calls by hand, in a program with the same spans. The spans' code is then as cold after a driver
    // call as in the timed program.
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
        return; // the caller runs a tool that records every call
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
