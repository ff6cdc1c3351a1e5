//! What a timed span costs on the CPU.

use std::time::Instant;

use cudarc::driver::{CudaContext, sys};
use tracing::info_span;
use tracing_gpu::with_stream;

use super::device::profiler;

const SPANS: usize = 20_000;
const PASSES: usize = 7;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn per_span(mut pass: impl FnMut()) -> f64 {
    median(
        (0..PASSES)
            .map(|_| {
                let start = Instant::now();
                pass();
                start.elapsed().as_nanos() as f64 / SPANS as f64
            })
            .collect(),
    )
}

/// The same driver calls, in a ring of events.
#[allow(unsafe_code)]
fn by_hand(stream: sys::CUstream, context: sys::CUcontext) -> impl FnMut() {
    let mut events = [std::ptr::null_mut(); 512];
    for event in &mut events {
        // SAFETY: writes one handle.
        assert!(unsafe { sys::cuEventCreate(event, 0) }.result().is_ok());
    }
    move || {
        for span in 0..SPANS {
            for part in 0..2 {
                let event = events[(2 * span + part) % events.len()];
                // SAFETY: calls of the driver with live handles; what is written is on the stack.
                unsafe {
                    let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
                    sys::cuThreadExchangeStreamCaptureMode(&raw mut mode);
                    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
                    sys::cuStreamIsCapturing(stream, &raw mut status);
                    sys::cuCtxPushCurrent_v2(context);
                    sys::cuEventRecord(event, stream);
                    let mut popped = std::ptr::null_mut();
                    sys::cuCtxPopCurrent_v2(&raw mut popped);
                    sys::cuThreadExchangeStreamCaptureMode(&raw mut mode);
                }
            }
            // Reading: one query and one elapsed time a pair.
            let (start, end) = (events[(2 * span + 256) % events.len()], events[(2 * span + 257) % events.len()]);
            let mut ms = 0f32;
            // SAFETY: as above.
            unsafe {
                if sys::cuEventQuery(end) == sys::CUresult::CUDA_SUCCESS {
                    sys::cuEventElapsedTime_v2(&raw mut ms, start, end);
                }
            }
        }
    }
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}

pub(crate) fn run(quick: bool) {
    let context = CudaContext::new(0).expect("a CUDA device");
    let stream = context.new_stream().expect("a stream");
    stream.synchronize().expect("the device");
    let mut hand = by_hand(stream.cu_stream(), context.cu_ctx());
    hand();
    let by_hand = per_span(|| {
        hand();
        stream.synchronize().expect("the device");
    });
    let profiler = profiler();
    let spans = || (0..SPANS).for_each(|_| info_span!("timed").in_scope(|| ()));
    spans();
    let untimed = per_span(spans);
    with_stream(&stream, spans);
    let timed = per_span(|| {
        with_stream(&stream, spans);
        stream.synchronize().expect("the device");
    });
    println!(
        "by hand {by_hand:.0} ns a pair, timed span {timed:.0} ns, untimed span {untimed:.0} ns, above by hand {:+.0} ns",
        timed - by_hand
    );
    if quick {
        return; // under a tool that records every call
    }
    let before = resident_kib();
    let start = Instant::now();
    with_stream(&stream, || (0..1_000_000).for_each(|_| info_span!("million").in_scope(|| ())));
    let seconds = start.elapsed().as_secs_f64();
    stream.synchronize().expect("the device");
    let summary = profiler.summary();
    let row = summary.stream_ranges.iter().find(|row| row.name == "million").expect("the row");
    let losses = summary.losses.streams;
    let counted = row.times.instances + losses.dropped + losses.refused + losses.unreadable + losses.pending;
    println!(
        "a million timed spans in {seconds:.2} s: {} in the table, {counted} accounted for, resident +{} KiB, {losses:?}",
        row.times.instances,
        resident_kib().saturating_sub(before)
    );
    assert!(counted >= 1_000_000, "some are lost and not counted");
}
