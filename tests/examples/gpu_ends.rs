//! A program that times spans on the driver of `fake_driver.rs` and ends, or looks at what it did to the process; a child of `tests/gpu_fake.rs`.
//!
//! `CASE` in the environment says which. Its summary goes to the file that `SUMMARY` names.

use cudarc::driver::CudaContext;
use tracing::info_span;
use tracing_gpu::{Output, Profiler, stream_id, stream_id_raw, with_stream};

fn is_driver_loaded() -> bool {
    std::fs::read_to_string("/proc/self/maps").expect("what is mapped").contains("/libcuda.so")
}

/// Spans without a stream, two summaries and an end.
fn no_stream(profiler: Profiler) {
    info_span!("plain").in_scope(|| ());
    drop(profiler.summary());
    profiler.reset();
    drop(profiler.summary());
    profiler.finish().expect("a file");
    assert!(!is_driver_loaded(), "nobody named a stream");
}

/// A guard that is never dropped, and pairs that nobody has read.
fn exit(profiler: Profiler) {
    let stream = CudaContext::new(0).expect("the fake device").new_stream().expect("a stream");
    with_stream(&stream, || (0..10).for_each(|_| info_span!("step").in_scope(|| ())));
    std::mem::forget((profiler, stream));
    std::process::exit(7);
}

/// A context that another binding named a stream of before.
fn raw_first(profiler: Profiler) {
    let context = CudaContext::new(0).expect("the fake device");
    #[allow(unsafe_code)]
    // SAFETY: the fake driver takes any handle, and the context lives on.
    let raw = unsafe { stream_id_raw(context.cu_ctx(), std::ptr::without_provenance_mut(0x2000)) };
    info_span!("raw", gpu.stream = raw).in_scope(|| ());
    for stream in [context.default_stream(), context.per_thread_stream()] {
        with_stream(&stream, || info_span!("default").in_scope(|| ()));
        info_span!("default", gpu.stream = stream_id(&stream)).in_scope(|| ());
    }
    info_span!("raw", gpu.stream = raw).in_scope(|| ());
    profiler.finish().expect("a file");
}

/// A stream for each request, as servers have them.
fn many_streams(profiler: Profiler) {
    let context = CudaContext::new(0).expect("the fake device");
    for _ in 0..20_000 {
        let stream = context.new_stream().expect("a stream");
        with_stream(&stream, || info_span!("request").in_scope(|| ()));
    }
    profiler.finish().expect("a file");
}

fn main() {
    let summary = std::env::var_os("SUMMARY").expect("where to");
    let profiler = Profiler::builder().output(Output::None).json(summary).build().expect("a profiler");
    if std::env::var("TIER").is_ok_and(|tier| tier == "layer") {
        use tracing_subscriber::prelude::*;
        tracing_subscriber::registry().with(profiler.layer()).init();
    } else {
        tracing::subscriber::set_global_default(profiler.subscriber()).expect("no other subscriber");
    }
    match std::env::var("CASE").as_deref() {
        Ok("no_stream") => no_stream(profiler),
        Ok("exit") => exit(profiler),
        Ok("many_streams") => many_streams(profiler),
        Ok("raw_first") => raw_first(profiler),
        case => panic!("{case:?}"),
    }
}
