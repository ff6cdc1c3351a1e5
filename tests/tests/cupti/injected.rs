//! Programs that know no profiler: NVTX and the driver load one into them.
#![allow(unsafe_code)] // forks

use std::sync::Barrier;

use crate::fake::{COPY, Fake, LAUNCH, RUNTIME_LAUNCH, SET, START, STOP, SYNCHRONIZE};
use crate::graphs::EXECUTABLE;
use crate::profiler::HANDLE;

/// The kind of the records of whole graphs.
const GRAPH_TRACE: u32 = 51;
const KERNELS: u32 = 10;

pub(crate) fn run(fake: &Fake, scenario: &str) {
    match scenario {
        "outside" => outside(fake),
        "threads" => threads(fake),
        "fork" => fork(fake),
        "annotates" => annotate(),
        "initialises" => fake.init(),
        "unfinished" => unfinished(fake),
        "parts" => parts(fake, true),
        "part" => parts(fake, false),
        "graph before the part" => graph(fake, true),
        "graph in the part" => graph(fake, false),
        "graph before the range" => graph_before_range(fake),
        "reset" => reset(fake),
        "fails" => fail(fake),
        _ => panic!("{scenario}"),
    }
}

/// Uses NVTX alone.
fn annotate() {
    drop(nvtx_rs::range!("annotated"));
}

/// Work in no range, by the runtime and by the driver.
fn outside(fake: &Fake) {
    fake.init();
    for id in 1..4 {
        fake.runtime(RUNTIME_LAUNCH, LAUNCH, id);
        fake.kernel(id, c"_Z5scaleIfEvPT_S0_i", 500);
    }
    fake.call(LAUNCH, 4, HANDLE);
    fake.kernel(4, c"spin", 900);
    for (id, kind) in [(5, 1), (6, 1), (7, 2)] {
        fake.call(COPY, id, HANDLE);
        fake.memory(id, kind, 1 << 20, 100);
    }
    fake.call(SET, 8, HANDLE);
    fake.memory(8, 0, 4096, 50);
    fake.call(SYNCHRONIZE, 9, HANDLE);
}

/// Launches that fail in a range, behind one that does not.
fn fail(fake: &Fake) {
    fake.init();
    fake.call(LAUNCH, 1, HANDLE);
    fake.kernel(1, c"spin", 900);
    let _range = nvtx_rs::range!("step");
    fake.tell("fake_result", 700);
    (2..5).for_each(|id| fake.call(LAUNCH, id, HANDLE));
    fake.tell("fake_result", 0);
}

/// Threads that begin at once, half of them with NVTX.
fn threads(fake: &Fake) {
    const THREADS: u32 = 12;
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                if thread % 2 == 0 {
                    annotate();
                }
                fake.init();
                let launch = fake.launcher(HANDLE, c"spin", 10);
                (1..=100).for_each(|id| launch(thread * 1000 + id));
            });
        }
    });
}

/// The parent only annotates until its child has used CUDA, and then uses CUDA itself.
fn fork(fake: &Fake) {
    annotate();
    // SAFETY: the child needs no other thread of this program.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    fake.init();
    fake.launcher(HANDLE, c"spin", 10)(1);
    if child == 0 {
        return; // continues to the exit hook
    }
    fake.launcher(HANDLE, c"spin", 10)(2);
    let mut status = -1;
    // SAFETY: writes one integer.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}

/// Two parts, each from a `cuProfilerStart` to a `cuProfilerStop`, or one that lasts until the end.
fn parts(fake: &Fake, stops: bool) {
    fake.init();
    let launch = fake.launcher(HANDLE, c"spin", 10);
    launch(1);
    annotate();
    let around = nvtx_rs::range!("around");
    for part in 1..=2 {
        fake.call(START, 10 * part, HANDLE);
        launch(10 * part + 1);
        annotate();
        launch(10 * part + 2);
        if !stops {
            return drop(around);
        }
        fake.call(STOP, 10 * part + 3, HANDLE);
        launch(10 * part + 4);
        annotate();
    }
}

/// A part, and a graph that becomes executable before the part or in it. Only in the latter are whole graphs recorded.
fn graph(fake: &Fake, is_earlier: bool) {
    fake.init();
    if is_earlier {
        fake.graph(EXECUTABLE, 2, 0, 0);
    }
    fake.call(START, 10, HANDLE);
    fake.graph(EXECUTABLE, 3, 0, 0);
    fake.launcher(HANDLE, c"spin", 10)(11);
    assert_eq!(fake.enabled(0).contains(&GRAPH_TRACE), !is_earlier);
    fake.call(STOP, 12, HANDLE);
}

/// The same, where a range is the measured part.
fn graph_before_range(fake: &Fake) {
    fake.init();
    fake.graph(EXECUTABLE, 2, 0, 0);
    let _range = nvtx_rs::range!("annotated");
    fake.launcher(HANDLE, c"spin", 10)(11);
    assert!(!fake.enabled(0).contains(&GRAPH_TRACE) && fake.enabled(0).contains(&KERNELS));
}

/// One of two kernels has not ended when the program does.
fn unfinished(fake: &Fake) {
    fake.init();
    fake.launcher(HANDLE, c"spin", 10)(1);
    fake.call(LAUNCH, 2, HANDLE);
}

/// The context is destroyed before the program ends.
fn reset(fake: &Fake) {
    annotate();
    fake.init();
    fake.launcher(HANDLE, c"spin", 10)(1);
    fake.tell("fake_destroy", HANDLE);
}
