//! A program that times spans on the driver of `fake_driver.rs` and ends, or checks its own effects on the process; a
//! child of `tests/gpu_fake.rs`.
//!
//! `CASE` in the environment selects the case. Its summary goes to the file that `SUMMARY` names.

use std::ffi::c_char;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use tracing::info_span;
use tracing_gpu::{Output, Profiler, RawStream, SummaryExt as _, stream_id, with_stream};

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

/// A context of which another binding named a stream before.
fn raw_first(profiler: Profiler) {
    let context = CudaContext::new(0).expect("the fake device");
    #[allow(unsafe_code)]
    // SAFETY: the fake driver takes any handle, and the context lives on.
    let raw = unsafe { RawStream::new(context.cu_ctx().cast(), std::ptr::without_provenance_mut(0x2000)) };
    info_span!("raw", gpu.stream = stream_id(&raw)).in_scope(|| ());
    for stream in [context.default_stream(), context.per_thread_stream()] {
        with_stream(&stream, || info_span!("default").in_scope(|| ()));
        info_span!("default", gpu.stream = stream_id(&stream)).in_scope(|| ());
    }
    with_stream(&raw, || info_span!("raw").in_scope(|| ()));
    profiler.finish().expect("a file");
}

/// Allocated bytes.
#[allow(unsafe_code)]
fn heap() -> usize {
    // SAFETY: takes nothing and returns plain numbers.
    let heap = unsafe { libc::mallinfo2() };
    heap.uordblks + heap.hblkhd
}

/// A stream for each request, as in servers.
fn many_streams(profiler: Profiler) {
    let context = CudaContext::new(0).expect("the fake device");
    let mut allocated = Vec::new();
    for number in 0..20_000 {
        if number % 10_000 == 9_999 {
            allocated.push(heap());
        }
        let stream = context.new_stream().expect("a stream");
        with_stream(&stream, || info_span!("request").in_scope(|| ()));
    }
    #[allow(unsafe_code)]
    // SAFETY: the library stays loaded, and this is its function.
    let destroyed = unsafe {
        let driver = libloading::Library::new("libcuda.so.1").expect("the fake driver");
        let calls = driver.get::<extern "C" fn(*const c_char) -> u64>(b"fake_driver_calls\0").expect("a function");
        calls(c"cuStreamDestroy_v2".as_ptr())
    };
    assert!(destroyed > 19_900, "{destroyed} of 20,000 streams are gone");
    let each = (allocated[1] - allocated[0]) / 10_000;
    assert!(each < 2_500, "{each} bytes for each");
    profiler.finish().expect("a file");
}

/// A stream for each request, without any timed span.
fn nothing_timed(profiler: Profiler) {
    let context = CudaContext::new(0).expect("the fake device");
    for _ in 0..100 {
        let stream = context.new_stream().expect("a stream");
        with_stream(&stream, || ());
    }
    #[allow(unsafe_code)]
    // SAFETY: the library stays loaded, and this is its function.
    let [destroyed, ours] = unsafe {
        let driver = libloading::Library::new("libcuda.so.1").expect("the fake driver");
        let calls = driver.get::<extern "C" fn(*const c_char) -> u64>(b"fake_driver_calls\0").expect("a function");
        [c"cuStreamDestroy_v2", c"cuThreadExchangeStreamCaptureMode"].map(|name| calls(name.as_ptr()))
    };
    assert_eq!((destroyed, ours), (100, 0), "nothing is asked of the driver");
    profiler.finish().expect("a file");
}

/// Forks while another thread has locked a stream's queue: it asks the driver for the time of its pairs.
#[allow(unsafe_code)]
fn fork(profiler: Profiler) {
    let context = CudaContext::new(0).expect("the fake device");
    let [held, other] = [(); 2].map(|()| context.new_stream().expect("a stream"));
    let timed = |name: &str, count| (0..count).for_each(|_| info_span!("step", nvtx.name = name).in_scope(|| ()));
    // SAFETY: the library stays loaded, and its functions are those of `fake_driver.rs`.
    let driver = unsafe { libloading::Library::new("libcuda.so.1") }.expect("the fake driver");
    // SAFETY: as above.
    let (hold, holding, calls) = unsafe {
        let hold = driver.get::<extern "C" fn(u32)>(b"fake_driver_hold\0").expect("a function");
        let holding = driver.get::<extern "C" fn() -> u64>(b"fake_driver_held\0").expect("a function");
        let calls = driver.get::<extern "C" fn(*const c_char) -> u64>(b"fake_driver_calls\0").expect("a function");
        (hold, holding, calls)
    };
    let recorded = || calls(c"cuEventRecord".as_ptr());
    with_stream(&held, || timed("before", 10)); // the floor is measured
    let mut before = 0;
    let status = with_stream(&held, || {
        timed("around", 1);
        let outer = info_span!("outer").entered();
        let status = with_stream(&other, || {
            timed("within", 1);
            let open = info_span!("open").entered();
            hold(1);
            let stream = Arc::clone(&held);
            let thread = std::thread::spawn(move || with_stream(&stream, || timed("there", 100)));
            while holding() == 0 {
                std::thread::yield_now();
            }
            before = recorded();
            // SAFETY: the child does what is tested, and exits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: sets a timer whose signal ends the child if it waits.
                unsafe { libc::alarm(20) };
                drop(open);
                timed("in the scope", 200);
                return None;
            }
            let mut status = 0;
            // SAFETY: waits for that child.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            hold(0);
            thread.join().expect("the thread");
            Some(status)
        });
        if status.is_none() {
            timed("in the scope around", 200);
        }
        drop(outer);
        status
    });
    let Some(status) = status else {
        with_stream(&held, || timed("in a new scope", 200));
        info_span!("by field", gpu.stream = stream_id(&held)).in_scope(|| ());
        let summary = profiler.summary();
        assert_eq!((recorded(), &summary.losses), (before, &Default::default()), "nothing is asked of the driver");
        assert!(summary.notes_as_text().iter().any(|note| note.contains("forked")), "{:?}", summary.notes);
        std::process::exit(3);
    };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 3, "the child: {status:#x}");
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
        Ok("fork") => fork(profiler),
        Ok("many_streams") => many_streams(profiler),
        Ok("nothing_timed") => nothing_timed(profiler),
        Ok("raw_first") => raw_first(profiler),
        case => panic!("{case:?}"),
    }
}
