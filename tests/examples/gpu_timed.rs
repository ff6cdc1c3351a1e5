//! A program that times spans on the driver of `fake_driver.rs`; a child of `tests/gpu_fake.rs`. Prints one JSON
//! object.
//!
//! With `TIER=layer` in the environment it measures through a layer. Its stream is named by a field, and inherited.

#[path = "gpu_check/allocations.rs"]
mod allocations;

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_void};

use allocations::Allocations;
use libloading::Library;
use tracing::info_span;
use tracing_gpu::{Output, Profiler, RawStream, stream_id};
use tracing_subscriber::prelude::*;

/// Number of timed spans between two readings of the counters: a multiple of the batch in which events are read.
const SPANS: u64 = 640;
const FUNCTIONS: [&str; 10] = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxPushCurrent_v2",
    "cuThreadExchangeStreamCaptureMode",
    "cuStreamIsCapturing",
    "cuStreamCreate",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
    "cuEventElapsedTime_v2",
];

fn spans(count: u64) {
    (0..count).for_each(|_| info_span!("step").in_scope(|| ()));
}

#[allow(unsafe_code)]
fn main() {
    // SAFETY: the library is the fake driver, which runs nothing when it is loaded.
    let driver = unsafe { Library::new("libcuda.so.1") }.expect("the fake driver");
    // SAFETY: the functions have these types there.
    let (calls, set_current) = unsafe {
        let calls = driver.get::<unsafe extern "C" fn(*const c_char) -> u64>(b"fake_driver_calls\0");
        let set_current = driver.get::<unsafe extern "C" fn(*mut c_void) -> c_int>(b"cuCtxSetCurrent\0");
        (calls.expect("the fake driver"), set_current.expect("the fake driver"))
    };
    let all_calls = || {
        FUNCTIONS.map(|name| {
            let text = CString::new(name).expect("a name");
            // SAFETY: the text ends in NUL.
            unsafe { calls(text.as_ptr()) }
        })
    };
    let (context, stream) = (std::ptr::without_provenance_mut(0x1000), std::ptr::without_provenance_mut(0x2000));
    // SAFETY: the fake driver takes any handles.
    let id = stream_id(&unsafe { RawStream::new(context, stream) });
    // SAFETY: as above. A program that uses a stream has its context current.
    unsafe { set_current(context.cast()) };

    let profiler = Profiler::builder().output(Output::None).build().expect("a profiler");
    if std::env::var("TIER").is_ok_and(|tier| tier == "layer") {
        tracing_subscriber::registry().with(profiler.layer()).init();
    } else {
        tracing::subscriber::set_global_default(profiler.subscriber()).expect("no other subscriber");
    }
    let outer = info_span!("outer", gpu.stream = id).entered();
    spans(20_032); // warm-up: the rows have their samples, and the last batch was complete
    let first = profiler.summary();
    let (before, allocated) = (all_calls(), Allocations::of_this_thread());
    spans(SPANS);
    let allocated = Allocations::of_this_thread() - allocated;
    let after = all_calls();
    let during: BTreeMap<&str, u64> =
        FUNCTIONS.into_iter().zip(after.into_iter().zip(before).map(|(after, before)| after - before)).collect();
    let so_far: BTreeMap<&str, u64> = FUNCTIONS.into_iter().zip(after).collect();
    profiler.reset();
    spans(3);
    drop(outer);
    let second = profiler.summary();
    profiler.reset();
    let around = info_span!("around", gpu.stream = id).entered();
    for _ in 0..100 {
        // Each name stands at several depths, and occurs once, twice or three times in a row.
        info_span!("a").in_scope(|| info_span!("b").in_scope(|| info_span!("a").in_scope(|| ())));
        info_span!("b").in_scope(|| (0..2).for_each(|_| info_span!("c").in_scope(|| ())));
        // Exited in the order of their entries.
        let left_first = info_span!("left first").entered();
        let left_last = info_span!("a").entered();
        drop(left_first);
        drop(left_last);
    }
    drop(around);
    let mixed = profiler.summary();
    let told = serde_json::json!({
        "spans": SPANS, "during": during, "so_far": so_far, "allocations": allocated.others, "pages": allocated.pages,
        "first": first, "second": second, "mixed": mixed,
    });
    println!("{told}");
}
