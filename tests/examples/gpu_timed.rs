//! A program that times spans on the driver of `fake_driver.rs`; a child of `tests/gpu_fake.rs`. Prints one JSON object.
//!
//! `TIER=layer` in the environment has it measure through a layer. Its argument is what it does: see `main`.

#[path = "gpu_check/allocations.rs"]
mod allocations;

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::time::{Duration, Instant};

use allocations::Allocations;
use libloading::Library;
use tracing::info_span;
use tracing_gpu::{Output, Profiler, Report, Summary, stream_id_raw};
use tracing_subscriber::prelude::*;

/// Timed spans between two readings of the counters: whole batches of what is read at once.
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

const CONTEXT: usize = 0x1000;

fn spans(count: u64) {
    (0..count).for_each(|_| info_span!("step").in_scope(|| ()));
}

struct Driver(Library);

#[allow(unsafe_code)]
impl Driver {
    /// The fake one, with its context current, as in a program that uses a stream.
    fn open() -> Self {
        // SAFETY: the library is the fake driver, which runs nothing when it is loaded.
        let library = unsafe { Library::new("libcuda.so.1") }.expect("the fake driver");
        // SAFETY: the functions have these types there, and it takes any handles.
        unsafe {
            let init = library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit\0").expect("the fake driver");
            init(0);
            let set = library.get::<unsafe extern "C" fn(*mut c_void) -> c_int>(b"cuCtxSetCurrent\0");
            set.expect("the fake driver")(std::ptr::without_provenance_mut(CONTEXT));
        }
        Self(library)
    }

    /// How often each function was called so far: on this thread, or on others.
    fn calls(&self, elsewhere: bool) -> [u64; FUNCTIONS.len()] {
        FUNCTIONS.map(|name| {
            let text = CString::new(name).expect("a name");
            // SAFETY: the function has this type there, and the text ends in NUL.
            unsafe {
                let calls = self.0.get::<unsafe extern "C" fn(*const c_char, bool) -> u64>(b"fake_driver_calls\0");
                calls.expect("the fake driver")(text.as_ptr(), elsewhere)
            }
        })
    }
}

/// The number of a stream of the fake driver's.
#[allow(unsafe_code)]
fn stream(handle: usize) -> u64 {
    // SAFETY: the fake driver takes any handles.
    unsafe { stream_id_raw(std::ptr::without_provenance_mut(CONTEXT), std::ptr::without_provenance_mut(handle)) }
}

fn build(output: Output) -> Profiler {
    Profiler::builder().output(output).report([Report::Ranges]).build().expect("a profiler")
}

fn install(profiler: Profiler) -> Profiler {
    if std::env::var("TIER").is_ok_and(|tier| tier == "layer") {
        tracing_subscriber::registry().with(profiler.layer()).init();
    } else {
        tracing::subscriber::set_global_default(profiler.subscriber()).expect("no other subscriber");
    }
    profiler
}

/// Threads of this process by name, but the first.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads");
    let name = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
    let others = tasks.flatten().filter(|task| task.file_name() != *std::process::id().to_string());
    others.map(|task| name(task).trim().to_owned()).collect()
}

fn instances(summary: &Summary) -> u64 {
    summary.stream_ranges.iter().filter(|row| row.name == "step").map(|row| row.times.instances).sum()
}

fn main() {
    let driver = Driver::open();
    match std::env::args().nth(1).unwrap_or_default().as_str() {
        "warm" => warm(&driver),
        "threads" => print!("{}", serde_json::json!(threads_by_time())),
        "streams" => print!("{}", many_streams()),
        "summary" => print!("{}", last_spans()),
        "by itself" => print!("{}", by_itself()),
        "fork" => print!("{}", fork()),
        "finish" => {
            let profiler = install(build(Output::Stdout));
            info_span!("outer", gpu.stream = stream(0x2000)).in_scope(|| spans(5_000));
            profiler.finish().expect("a report");
        }
        "exit" => {
            std::mem::forget(install(build(Output::Stdout)));
            info_span!("outer", gpu.stream = stream(0x2000)).in_scope(|| spans(5_000));
            std::process::exit(7);
        }
        other => panic!("nothing is called `{other}`"),
    }
}

/// Calls and allocations of warm spans. Their stream is named by a field, and inherited.
fn warm(driver: &Driver) {
    let id = stream(0x2000);
    let profiler = install(build(Output::None));
    let outer = info_span!("outer", gpu.stream = id).entered();
    spans(20_032); // warm: the rows have their samples, and more have waited than will
    let first = profiler.summary();
    let (before, allocated) = (driver.calls(false), Allocations::of_this_thread());
    spans(SPANS);
    let allocated = Allocations::of_this_thread() - allocated;
    let after = driver.calls(false);
    let during: BTreeMap<&str, u64> =
        FUNCTIONS.into_iter().zip(after.into_iter().zip(before).map(|(after, before)| after - before)).collect();
    let start = Instant::now();
    while profiler.summary().losses.streams.pending > 0 && start.elapsed() < Duration::from_secs(10) {}
    let so_far: BTreeMap<&str, u64> = FUNCTIONS.into_iter().zip(after).collect();
    let elsewhere: BTreeMap<&str, u64> = FUNCTIONS.into_iter().zip(driver.calls(true)).collect();
    profiler.reset();
    spans(3);
    drop(outer);
    let second = profiler.summary();
    let told = serde_json::json!({
        "spans": SPANS, "during": during, "so_far": so_far, "elsewhere": elsewhere,
        "allocations": allocated.others, "pages": allocated.pages, "first": first, "second": second,
    });
    println!("{told}");
}

/// The other threads: with a profiler and spans, with a stream, after the finish, and with a profiler again.
fn threads_by_time() -> [Vec<String>; 4] {
    let profiler = install(build(Output::None));
    spans(10);
    let before = threads();
    info_span!("outer", gpu.stream = stream(0x2000)).in_scope(|| spans(10));
    std::thread::sleep(Duration::from_millis(50)); // a thread names itself
    let during = threads();
    profiler.finish().expect("no report");
    let after = threads();
    let again = build(Output::None);
    std::thread::sleep(Duration::from_millis(50));
    let with_another = threads();
    drop(again);
    [before, during, after, with_another]
}

/// Instances on 300 streams of 3 threads.
fn many_streams() -> u64 {
    let profiler = install(build(Output::None));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                for number in 0..100 {
                    let id = stream(0x2000 + 16 * (100 * thread + number));
                    info_span!("outer", gpu.stream = id).in_scope(|| spans(20));
                }
            });
        }
    });
    instances(&profiler.summary())
}

/// How many instances summaries lack or have too many right after the spans, over some windows with pauses of many lengths.
fn last_spans() -> u64 {
    let profiler = install(build(Output::None));
    let id = stream(0x2000);
    let mut wrong = 0;
    for window in 0..120u64 {
        profiler.reset();
        info_span!("outer", gpu.stream = id).in_scope(|| spans(7 * window));
        std::thread::sleep(Duration::from_micros(window % 40));
        info_span!("outer", gpu.stream = id).in_scope(|| spans(2));
        wrong += instances(&profiler.summary()).abs_diff(7 * window + 2);
    }
    wrong
}

/// Instances of more spans than may wait, enqueued faster than they are read, and what was not counted of them.
fn by_itself() -> u64 {
    let profiler = install(build(Output::None));
    info_span!("outer", gpu.stream = stream(0x2000)).in_scope(|| spans(200_000));
    let summary = profiler.summary();
    instances(&summary) + summary.losses.streams.dropped
}

/// Instances, and what was not counted of them, of a process that forks while they are read. The children enter spans, too, and end as programs do.
#[allow(unsafe_code)]
fn fork() -> u64 {
    let profiler = install(build(Output::None));
    let id = stream(0x2000);
    for _ in 0..30 {
        info_span!("outer", gpu.stream = id).in_scope(|| spans(1_500));
        // SAFETY: the child touches nothing that another thread of the parent's may have locked: that is what is tested.
        let child = unsafe { libc::fork() };
        if child == 0 {
            info_span!("outer", gpu.stream = stream(0x3000)).in_scope(|| spans(10));
            std::process::exit(0);
        }
        let mut status = 0;
        let start = Instant::now();
        // SAFETY: waits for the child of above.
        while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
            assert!(start.elapsed() < Duration::from_secs(20), "the child hangs");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(status, 0, "the child");
    }
    let summary = profiler.summary();
    instances(&summary) + summary.losses.streams.dropped // a slow reader leaves more than may wait
}
