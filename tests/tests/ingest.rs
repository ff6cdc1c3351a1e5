//! GPU work that the program has timed itself, in tables, trees and timelines, on a machine without a GPU.
#![allow(unsafe_code)] // forks

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tests::launcher::Folder;
use tracing::{Dispatch, Span, dispatcher::with_default, info_span};
use tracing_gpu::summary::{ActivityLosses, CallStates, InterferenceStats};
use tracing_gpu::{ClockPair, Gpu, Output, Profiler, ProfilerBuilder, Report, Summary, SummaryExt as _, TimedQueue};
use tracing_subscriber::prelude::*;

/// The GPU's clock counts from another moment.
const GPU_NOW: u64 = 7_000_000_000;

fn builder() -> ProfilerBuilder {
    Profiler::builder().output(Output::None).nvtx(false)
}

fn start(builder: ProfilerBuilder) -> (Profiler, Dispatch) {
    let profiler = builder.build().expect("settings that can be used");
    let subscriber = Dispatch::new(tracing_subscriber::registry().with(profiler.layer()));
    (profiler, subscriber)
}

/// A frame with two passes, and an upload on another queue; each takes some microseconds.
fn frame(upload: &TimedQueue, graphics: &TimedQueue, number: u64) {
    let at = GPU_NOW + number * 100_000;
    info_span!("frame").in_scope(|| {
        let uploaded = info_span!("upload").in_scope(|| upload.submit());
        let drawn = graphics.submit();
        upload.ran(uploaded, "copy", at, at + 5_000);
        graphics.ran(drawn, "shadows", at + 1_000, at + 11_000);
        graphics.ran(drawn, "main", at + 11_000, at + 31_000);
    });
}

fn kernels(summary: &Summary) -> Vec<(&str, u64, u64)> {
    let gpu = summary.gpu.as_ref().unwrap_or_else(|| panic!("no GPU work: {:?}", summary.notes));
    let mut rows: Vec<_> =
        gpu.kernels.iter().map(|row| (row.name.as_str(), row.times.instances, row.times.total_ns)).collect();
    rows.sort_unstable();
    rows
}

#[test]
fn operations_are_work_of_the_span_that_submitted_them() {
    let folder = Folder::new();
    let [trace, database] = ["run.json", "run.sqlite"].map(|name| folder.0.join(name));
    let (profiler, subscriber) = start(builder().trace(&trace).sqlite(&database));
    let clocks = ClockPair::now(GPU_NOW);
    let (upload, graphics) = (profiler.ingest("Radeon", clocks), profiler.ingest("Radeon", clocks));
    std::thread::scope(|scope| {
        scope.spawn(|| with_default(&subscriber, || (0..10).for_each(|number| frame(&upload, &graphics, number))));
    });
    graphics.ran(graphics.submit(), "alone", GPU_NOW + 2_000_000, GPU_NOW + 2_000_400);

    let summary = profiler.summary();
    assert_eq!(
        kernels(&summary),
        [("alone", 1, 400), ("copy", 10, 50_000), ("main", 10, 200_000), ("shadows", 10, 100_000)]
    );
    let frame = &summary.tree[0];
    let (all, own) = (frame.gpu.as_ref().expect("work"), frame.children[0].gpu.as_ref().expect("work"));
    assert_eq!((all.total.operations, all.total.busy_ns, own.own.busy_ns), (30, 310_000, 50_000));
    let gpu = summary.gpu.as_ref().expect("work");
    assert_eq!((gpu.outside.operations, gpu.calls.as_deref()), (1, None));
    assert_eq!(summary.losses.activity, ActivityLosses::default());
    let note = "GPU work that the program timed itself: Radeon".to_owned();
    assert!(summary.notes_as_text().contains(&note), "{:?}", summary.notes);
    profiler.finish().expect("files that can be written");

    let events: Vec<serde_json::Value> =
        serde_json::from_slice(&std::fs::read(&trace).expect("a trace")).expect("events");
    let kernels = events.iter().filter(|event| event["cat"] == "kernel").count();
    let device = events.iter().any(|event| event["args"]["name"].as_str().is_some_and(|name| name.contains("Radeon")));
    assert_eq!((kernels, device), (31, true));
    let database = rusqlite::Connection::open(&database).expect("a database");
    let select = "SELECT count(*), sum(end - start), count(DISTINCT streamId) FROM CUPTI_ACTIVITY_KIND_KERNEL";
    let found = database.query_row(select, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    assert_eq!(found.expect("a row"), (31, 350_400, 2));
    // Each operation begins after its submission, because the made-up times are later.
    let select = "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
        ON r.correlationId = k.correlationId AND r.globalTid != 0";
    let launched: u32 = database.query_row(select, [], |row| row.get(0)).expect("a number");
    assert!(launched >= 30, "{launched}");
}

#[test]
fn a_window_forgets_what_was_submitted_before() {
    let (profiler, subscriber) = start(builder());
    let queue = profiler.ingest("Radeon", ClockPair::now(GPU_NOW));
    let before = with_default(&subscriber, || info_span!("before").in_scope(|| queue.submit()));
    profiler.reset();
    queue.ran(before, "late", GPU_NOW, GPU_NOW + 10);
    // A clock that was read again: a millisecond ahead.
    queue.set_clocks(ClockPair { gpu_ns: 5, cpu: Instant::now() + Duration::from_millis(1) });
    queue.ran(with_default(&subscriber, || info_span!("after").in_scope(|| queue.submit())), "new", 5, 25);
    let summary = profiler.summary();
    assert_eq!((kernels(&summary), summary.losses.activity), (vec![("new", 1, 20)], ActivityLosses::default()));
    let last = with_default(&subscriber, || info_span!("after").in_scope(|| queue.submit()));
    assert_eq!(profiler.summary().losses.activity.outstanding, 1);
    queue.ran(last, "backwards", 9, 8);
    assert_eq!(profiler.summary().losses.activity.without_time, 1);
    profiler.finish().expect("nothing to be written");
    queue.ran(queue.submit(), "over", 5, 25);
}

/// The rows of a small request behind a hog on one queue and one thread. `is_over`: the hog was over before the small
/// one was submitted. Operations run long after they were submitted.
fn behind_a_hog(report: Report, is_over: bool) -> Vec<InterferenceStats> {
    let folder = Folder::new();
    let json = folder.0.join("run.json");
    let (profiler, subscriber) = start(builder().report([report]).name_from(["kind"]).json(&json));
    let queue = profiler.ingest("Radeon", ClockPair::now(GPU_NOW));
    let submit = |span: &Span| span.in_scope(|| info_span!("launch").in_scope(|| queue.submit()));
    with_default(&subscriber, || {
        let mut hog = Some(info_span!("request", kind = "hog"));
        let [first, second] = [(); 2].map(|()| submit(hog.as_ref().expect("it is open")));
        hog = hog.filter(|_| !is_over);
        let small = info_span!("request", kind = "small");
        let [third, fourth] = [(); 2].map(|()| submit(&small));
        drop((hog, small));
        let at = |ms: u64| GPU_NOW + 1_000_000_000_000 + ms * 1_000_000;
        for (submission, begin, end) in [(first, 0, 20), (second, 22, 30), (third, 30, 31), (fourth, 31, 32)] {
            queue.ran(submission, "spin", at(begin), at(end));
        }
    });
    profiler.finish().expect("a file that can be written");
    Summary::read_json(std::fs::File::open(json).expect("a summary")).expect("a summary").interference
}

#[test]
fn operations_wait_behind_those_of_other_requests() {
    let [hog, small] = ["hog", "small"].map(|kind| vec![kind.to_owned(), "launch".to_owned()]);
    let expected = [InterferenceStats::new(small, hog, 1, 28_000_000, 28_000_000)];
    for report in [Report::Interference, Report::Why] {
        assert_eq!(behind_a_hog(report, false), expected);
        assert_eq!(behind_a_hog(report, true), []);
    }
}

/// The states of a call that waits while its operation is queued, and of one without an operation. A task polls both:
/// so it is known that nothing is awaited between a last poll and the drop, however long a machine stops the thread
/// there.
fn states_beside_work(report: Report) -> [CallStates; 2] {
    let folder = Folder::new();
    let json = folder.0.join("run.json");
    let (profiler, subscriber) = start(builder().report([report]).json(&json));
    let queue = profiler.ingest("Radeon", ClockPair::now(GPU_NOW));
    with_default(&subscriber, || {
        let task = info_span!("task");
        let (calls, submission) = task.in_scope(|| {
            let [works, rests] = [info_span!("works"), info_span!("rests")];
            let submission = works.in_scope(|| info_span!("launch").in_scope(|| queue.submit()));
            rests.in_scope(|| ());
            ([works, rests], submission)
        });
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(20) {}
        // The last poll, and the entry of the drop, as `Instrumented` has them.
        task.in_scope(|| calls.iter().for_each(|span| (0..2).for_each(|_| span.in_scope(|| ()))));
        queue.ran(submission, "late", GPU_NOW + 1_000_000_000_000, GPU_NOW + 1_000_000_000_010);
    });
    profiler.finish().expect("a file that can be written");
    let summary = Summary::read_json(std::fs::File::open(json).expect("a summary")).expect("a summary");
    let states = |name: &str| summary.calls.iter().find(|row| row.name == name).and_then(|row| row.states);
    ["works", "rests"].map(|name| states(name).unwrap_or_else(|| panic!("no call {name}: {:?}", summary.calls)))
}

#[test]
fn a_call_waits_for_the_work_that_it_submitted() {
    let [works, rests] = states_beside_work(Report::Why);
    assert!(works.gpu_work_ns >= 20_000_000, "{works:?}");
    assert_eq!((works.otherwise_ns, rests.gpu_work_ns), (0, 0), "{works:?} {rests:?}");
    assert!(rests.otherwise_ns >= 20_000_000, "{rests:?}");
    let [works, _] = states_beside_work(Report::Calls);
    assert!(works.gpu_work_ns == 0 && works.otherwise_ns >= 20_000_000, "nobody asked: {works:?}");
}

/// What the requests of a batch have of its running time and of its operation. A task polls all, as above.
fn shares_of_a_batch(report: Report) -> [Option<u64>; 3] {
    let folder = Folder::new();
    let json = folder.0.join("run.json");
    let (profiler, subscriber) = start(builder().report([report]).json(&json));
    let queue = profiler.ingest("Radeon", ClockPair::now(GPU_NOW));
    with_default(&subscriber, || {
        let task = info_span!("task");
        let requests: Vec<Span> = task.in_scope(|| (0..3).map(|_| info_span!("request")).collect());
        task.in_scope(|| requests.iter().for_each(|span| span.in_scope(|| ())));
        let batch = info_span!("batch");
        requests.iter().for_each(|span| _ = batch.follows_from(span));
        let submission = batch.in_scope(|| info_span!("launch").in_scope(|| queue.submit()));
        let of_request = requests[0].in_scope(|| queue.submit());
        drop(batch);
        // It runs when the batch is over.
        for (submission, ns) in [(submission, 7_001), (of_request, 500)] {
            queue.ran(submission, "infer", GPU_NOW + 1_000_000_000_000, GPU_NOW + 1_000_000_000_000 + ns);
        }
        task.in_scope(|| requests.iter().for_each(|span| (0..2).for_each(|_| span.in_scope(|| ()))));
    });
    profiler.finish().expect("a file that can be written");
    let summary = Summary::read_json(std::fs::File::open(json).expect("a summary")).expect("a summary");
    let row = summary.calls.iter().find(|row| row.name == "request").expect("a row of calls");
    assert_eq!(row.latency.instances, 3);
    [row.batches, row.share_ns.map(|share| share.min(1)), row.gpu_share_ns]
}

#[test]
fn the_operation_of_a_batch_is_divided_among_what_it_serves() {
    let shares = shares_of_a_batch;
    assert_eq!(shares(Report::Why), [Some(3), Some(1), Some(7_001)], "not that of a request itself");
    assert_eq!(shares(Report::Calls), [Some(3), Some(1), None], "nobody asked");
}

#[test]
fn without_gpu_time_operations_are_ignored() {
    let (profiler, subscriber) = start(builder().gpu(Gpu::Off));
    let queue = profiler.ingest("Radeon", ClockPair::now(GPU_NOW));
    with_default(&subscriber, || info_span!("work").in_scope(|| frame(&queue, &queue, 0)));
    let summary = profiler.summary();
    assert_eq!((summary.gpu, summary.tree[0].name.as_str()), (None, "work"));
    profiler.finish().expect("nothing to be written");
}

/// Other threads of the parent hold the locks that the child would need.
#[cfg(unix)]
#[test]
fn a_forked_child_waits_for_no_lock() {
    let (profiler, _) = start(builder());
    let queue = profiler.ingest("Radeon", ClockPair::now(GPU_NOW));
    let is_over = AtomicBool::new(false);
    let work = || queue.ran(queue.submit(), "pass", GPU_NOW, GPU_NOW + 10);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(Relaxed) {
                    work();
                }
            });
        }
        let failed = (0..200).map(|_| in_forked_child(work)).find(|&status| status != 0);
        is_over.store(true, Relaxed);
        assert_eq!(failed, None, "a signal: it waited");
    });
}

/// Runs this in a child, which is ended if it waits. Returns its status.
#[cfg(unix)]
fn in_forked_child(body: impl FnOnce()) -> i32 {
    // SAFETY: the child calls only the body, which must do nothing there, and async-signal-safe functions.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(60); // ends a child that waits
            body();
            libc::_exit(0);
        }
        let mut status = -1;
        libc::waitpid(child, &raw mut status, 0);
        status
    }
}
