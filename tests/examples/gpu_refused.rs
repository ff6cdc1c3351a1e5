//! A program that times spans on the driver of `fake_driver.rs`, one call of which fails; a child of
//! `tests/gpu_fake.rs`.
//!
//! With `TIER=layer` in the environment it measures through a layer. The program's own calls do not fail. Prints one
//! JSON object.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};

use libloading::Library;
use tracing::info_span;
use tracing_gpu::{Output, Profiler, RawStream, stream_id, with_stream};
use tracing_subscriber::prelude::*;

const PROGRAMS: usize = 0x1000;
const OTHER: usize = 0x3000;

fn pointer(handle: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(handle)
}

/// The program and its work: 5 spans on one stream, 3 on a stream of a context that is not the current one.
fn work() {
    // SAFETY: the fake driver takes any handles.
    let [stream, other] =
        [PROGRAMS, OTHER].map(|context| unsafe { RawStream::new(pointer(context).cast(), pointer(0x2000).cast()) });
    with_stream(&stream, || (0..5).for_each(|_| info_span!("step").in_scope(|| ())));
    (0..3).for_each(|_| info_span!("step", gpu.stream = stream_id(&other)).in_scope(|| ()));
}

fn main() {
    // SAFETY: the library is the fake driver, which runs nothing when it is loaded.
    let driver = unsafe { Library::new("libcuda.so.1") }.expect("the fake driver");
    // SAFETY: the functions have these types there.
    let (arm, set_current, get_current, exchange) = unsafe {
        let arm = driver.get::<extern "C" fn(c_uint) -> u64>(b"fake_driver_arm\0");
        let set = driver.get::<unsafe extern "C" fn(*mut c_void) -> c_int>(b"cuCtxSetCurrent\0");
        let get = driver.get::<unsafe extern "C" fn(*mut *mut c_void) -> c_int>(b"cuCtxGetCurrent\0");
        let exchange = driver.get::<unsafe extern "C" fn(*mut c_uint) -> c_int>(b"cuThreadExchangeStreamCaptureMode\0");
        let found = "the fake driver has it";
        (arm.expect(found), set.expect(found), get.expect(found), exchange.expect(found))
    };
    // SAFETY: the fake driver takes any handle.
    unsafe { set_current(pointer(PROGRAMS)) };
    let profiler = Profiler::builder().output(Output::None).build().expect("a profiler");
    if std::env::var("TIER").is_ok_and(|tier| tier == "layer") {
        tracing_subscriber::registry().with(profiler.layer()).init();
    } else {
        tracing::subscriber::set_global_default(profiler.subscriber()).expect("no other subscriber");
    }
    arm(1);
    work();
    let first = profiler.summary();
    work();
    let summary = profiler.summary();
    let calls = arm(0);
    let (mut current, mut mode) = (std::ptr::null_mut(), 0);
    // SAFETY: both write to live variables.
    unsafe { (get_current(&raw mut current), exchange(&raw mut mode)) };
    let current = current.addr();
    println!(
        "{}",
        serde_json::json!({ "first": first, "summary": summary, "calls": calls, "current": current, "mode": mode })
    );
}
