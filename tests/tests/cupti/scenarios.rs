//! A session with the made-up driver and libcupti, with launches by hand.
#![allow(unsafe_code)] // forks

use std::time::{Duration, Instant};

use gpu_activity::cupti::before_own_calls;
use range_model::timeline::{Api, ApiRecords, Work};
use tests::cupti::{Recording, Seen};
use tracing_gpu::summary::RangeStyle;
use tracing_gpu::{ClockPair, Gpu, NoteExt as _, Output, Profiler, Summary};

use crate::fake::{COPY, Fake, GET_DEVICE, GRAPH, LAUNCH, QUERY, RUNTIME_LAUNCH, SLIGHT, SYNCHRONIZE, monotonic};
use crate::graphs::EXECUTABLE;

const BUDGET: usize = 8 << 20;

pub(crate) fn run(fake: &Fake, scenario: &str) {
    match scenario {
        "whole" => whole(fake),
        "api" => api(fake),
        "weighty" => weighty(fake, true),
        "weighty_before_12_5" => weighty(fake, false),
        "budget" => budget(fake),
        "period" => period(fake, 500),
        "older" => period(fake, 2_000),
        "many" => many(fake),
        "fork" => fork(fake),
        "hang" => hang(fake),
        "timeline" => timeline(fake),
        "database" => database(fake),
        _ => panic!("{scenario}"),
    }
}

fn start(api_records: ApiRecords) -> Recording {
    Recording::start(api_records, BUDGET).unwrap_or_else(|reason| panic!("{reason}"))
}

fn correlations(seen: &Seen) -> Vec<u32> {
    seen.ops.iter().map(|op| op.correlation).collect()
}

/// Start, launches, flushes, an orderly end, and all of it once more.
fn whole(fake: &Fake) {
    for round in 0..2 {
        let session = start(ApiRecords::None);
        assert_eq!(
            Recording::start(ApiRecords::None, BUDGET).err().as_deref(),
            Some("another profiler of this program is using CUPTI")
        );
        assert_eq!(
            session.describe().sentence(),
            format!("CUPTI 13.0 ({}), driver for CUDA 13.0", std::env::var("TRACING_GPU_CUPTI").expect("set"))
        );
        let before = monotonic();
        fake.call(LAUNCH, 1, 5);
        fake.call(SYNCHRONIZE, 2, 9); // does not enqueue: neither reported nor waited for
        fake.call(GRAPH, 3, 6);
        fake.call(COPY, 4, 7);
        fake.tell("fake_destroy", 7);
        fake.kernel(1, c"_Z5scaleIfEvPT_S0_i", 500);
        fake.kernel(3, c"spin", 600);
        fake.tell("fake_other", 77);
        fake.kernel(3, c"spin", 0);
        session.flush();
        let seen = session.take();
        assert_eq!(seen.entered, [(LAUNCH, 1), (GRAPH, 3), (COPY, 4)]);
        assert_eq!((correlations(&seen).as_slice(), seen.unreadable, seen.over_budget), ([1, 3, 3].as_slice(), 1, 0));
        assert!(seen.ops[0].start >= before && seen.ops[0].start <= monotonic(), "stamped with CLOCK_MONOTONIC");
        assert_eq!((seen.ops[0].end - seen.ops[0].start, seen.ops[2].start, seen.ops[2].end), (500, 0, 0));
        let names = seen.ops.iter().map(|op| match op.work {
            Work::Kernel(kernel) => session.kernel_name(kernel.name),
            Work::Memory(_) | Work::Graph(_) => None,
        });
        let expected = ["void scale<float>(float*, float, int)", "spin", "spin"];
        assert_eq!(names.collect::<Vec<_>>(), expected.map(|name| Some(name.to_owned())));
        assert_eq!(session.function_name(Api::Driver, LAUNCH).as_deref(), Some("cuLaunchKernel"));
        assert_eq!(session.function_name(Api::Driver, 1), None);
        fake.tell("fake_drop", 5);
        assert_eq!((session.dropped(), session.dropped()), (5, 5));
        fake.tell("fake_drop", 3);
        fake.kernel(9, c"last", 1);
        session.finish(true);
        session.finish(true);
        session.finish(false);
        assert_eq!((correlations(&session.take()), session.dropped()), (vec![9], 8));
        assert_eq!([5, 6, 7, 9].map(|context| fake.waited(context)), [round + 1, round + 1, 0, 0]);
        fake.call(LAUNCH, 10, 5);
        fake.kernel(10, c"late", 1);
        session.flush();
        assert_eq!(session.take(), Seen::default());
        assert_eq!(session.kernel_name(2).as_deref(), Some("void scale<float>(float*, float, int)"));
    }
}

/// With API records, every driver call is reported.
fn api(fake: &Fake) {
    let session = start(ApiRecords::All);
    fake.call(LAUNCH, 1, 5);
    fake.call(SYNCHRONIZE, 2, 9);
    session.flush();
    let seen = session.take();
    assert_eq!(seen.entered, [(LAUNCH, 1), (SYNCHRONIZE, 2)]);
    let calls: Vec<_> = seen.calls.iter().map(|call| (call.api, call.function, call.correlation)).collect();
    assert_eq!(calls, [(Api::Driver, LAUNCH, 1), (Api::Driver, SYNCHRONIZE, 2)]);
    assert!(seen.calls.iter().all(|call| call.start <= call.end && call.end <= monotonic()));
    session.finish(true);
    assert_eq!([5, 9].map(|context| fake.waited(context)), [1, 0], "only where work was launched");
}

/// Calls that only query or set something are not recorded where the library can leave them out. Those that wait are,
/// of either API, and so are queries, with which a program polls. Our own queries are told from the program's.
fn weighty(fake: &Fake, by_function: bool) {
    let session = start(ApiRecords::Weighty);
    assert_eq!([4, 5].map(|kind| fake.enabled(0).contains(&kind)), [!by_function; 2]);
    assert_eq!([4, 5].map(|kind| fake.enabled(kind).is_empty()), [!by_function; 2]);
    fake.runtime(RUNTIME_LAUNCH, LAUNCH, 1);
    fake.runtime(GET_DEVICE, SLIGHT, 2);
    fake.call(SYNCHRONIZE, 3, 9);
    fake.call(SLIGHT, 4, 9);
    fake.call(QUERY, 5, 9);
    session.flush();
    let seen = session.take();
    assert_eq!(seen.entered, [(LAUNCH, 1), (SYNCHRONIZE, 3)]);
    let calls: Vec<_> = seen.calls.iter().map(|call| (call.correlation, call.api)).collect();
    let all = [(1, Api::Driver), (1, Api::Runtime), (2, Api::Driver), (2, Api::Runtime), (3, Api::Driver)];
    let all = [&all[..], &[(4, Api::Driver), (5, Api::Driver)]].concat();
    let expected = all.into_iter().filter(|(id, _)| !by_function || ![2, 4].contains(id));
    assert_eq!(calls, expected.collect::<Vec<_>>());
    before_own_calls();
    fake.call(SLIGHT, 6, 9);
    fake.call(QUERY, 7, 9);
    let entered = session.take().entered;
    assert_eq!(entered, if by_function { vec![(QUERY, 7)] } else { vec![(SLIGHT, 6), (QUERY, 7)] });
    session.finish(true);
    assert_eq!([4, 5].map(|kind| fake.enabled(kind)), [[0; 0]; 2], "the next session may want none");
}

/// A flush disturbs a replay that is recorded as a whole, so there are few while little arrives.
fn period(fake: &Fake, ms: u64) {
    let session = Recording::of_whole_graphs(BUDGET).unwrap_or_else(|reason| panic!("{reason}"));
    session.flush();
    assert!(session.is_due(), "there is no graph");
    let flushed = Instant::now();
    session.flush();
    fake.graph(EXECUTABLE, 2, 0, 0);
    while !session.is_due() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = flushed.elapsed();
    assert!(took >= Duration::from_millis(ms), "{took:?}");
    fake.kernel(1, c"k", 1);
    session.flush();
    session.keep_buffers();
    assert!(session.is_due(), "a buffer has arrived");
    session.read();
    session.flush();
    session.keep_changes(100_000);
    assert!(session.is_due(), "many changes have arrived");
    session.record_nodes();
    assert!(session.is_due());
    session.finish(true);
}

/// Buffers beyond the budget exist, and their records are counted.
fn budget(fake: &Fake) {
    let session = start(ApiRecords::None);
    for round in 0..3 {
        for correlation in 0..5 {
            fake.tell("fake_new_buffer", 0);
            fake.kernel(correlation, c"k", 1);
            fake.kernel(correlation, c"k", 1);
        }
        session.flush();
        let seen = session.take();
        assert_eq!((correlations(&seen), seen.over_budget), (vec![0, 0, 1, 1], 6), "{round}");
    }
    session.finish(true);
}

/// More records than fit into a buffer.
fn many(fake: &Fake) {
    let session = start(ApiRecords::None);
    for correlation in 0..30_000 {
        fake.kernel(correlation, c"k", 1);
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        session.flush();
        seen.extend(correlations(&session.take()));
        if seen.len() == 30_000 {
            break; // or CUPTI's thread was preempted between two buffers for longer than a flush waits
        }
    }
    assert!(seen.into_iter().eq(0..30_000));
    session.finish(false);
}

/// In a forked child everything returns at once without effect.
fn fork(fake: &Fake) {
    let session = start(ApiRecords::None);
    fake.kernel(1, c"k", 1);
    session.flush();
    fake.kernel(2, c"k", 1);
    // SAFETY: the child calls only the tested functions and `_exit`; there are no other threads.
    let child = unsafe { libc::fork() };
    if child == 0 {
        fake.call(LAUNCH, 3, 5);
        session.flush();
        session.finish(true);
        session.finish(false);
        let seen = session.take();
        let idle = correlations(&seen) == [1]
            && seen.entered.is_empty()
            && session.dropped() == 0
            && session.kernel_name(2).is_none()
            && session.function_name(Api::Driver, LAUNCH).is_none()
            && fake.waited(5) == 0;
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(if idle { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: writes one integer.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    fake.tell("fake_drop", 1);
    session.finish(true);
    assert_eq!((correlations(&session.take()), session.dropped()), (vec![1, 2], 1));
}

/// At the exit of the process CUPTI gets two seconds: if the first flush hangs, the last one delivers the available
/// records.
fn hang(fake: &Fake) {
    let session = start(ApiRecords::None);
    fake.kernel(1, c"k", 1);
    let began = Instant::now();
    session.finish(false);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(1_900) && took < Duration::from_secs(10), "{took:?}");
    assert_eq!(correlations(&session.take()), [1]);
}

/// A kernel launched in a span, in a file that names its device and its span.
fn timeline(fake: &Fake) {
    let path = std::env::temp_dir().join(format!("tracing-gpu-timeline-{}.json", std::process::id()));
    let profiler = Profiler::builder().nvtx(false).gpu(Gpu::Cupti).output(Output::None).trace(&path).build();
    let profiler = profiler.expect("a profiler");
    tracing::subscriber::with_default(profiler.subscriber(), || {
        tracing::info_span!("forward").in_scope(|| fake.call(LAUNCH, 1, 5));
    });
    fake.kernel(1, c"spin", 500);
    let queue = profiler.ingest("Radeon", ClockPair::now(5));
    queue.ran(queue.submit(), "pass", 5, 25);
    profiler.finish().expect("the file is written");
    let text = std::fs::read_to_string(&path).expect("the file is there");
    std::fs::remove_file(&path).expect("it is ours");
    let events: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    let of = |name: &str, key: &str| -> Vec<String> {
        let events = events.iter().filter(|event| event["name"] == name);
        events.map(|event| event["args"][key].as_str().expect("a text").to_owned()).collect()
    };
    let named = std::env::var_os("FAKE_UNNAMED").is_none();
    let expected = if named { "GPU 0 Made-up GPU A" } else { "GPU 0" };
    let mut devices = of("process_name", "name");
    devices.retain(|name| name.starts_with("GPU "));
    devices.sort_unstable();
    assert_eq!(devices, [expected, "GPU 32 Radeon"], "{text}");
    assert!(of("process_labels", "labels").iter().all(|labels| labels.starts_with("rank 3, host ")), "{text}");
    assert_eq!(of("spin", "span"), ["forward"]);
}

/// Every third range has a launch, while the collector and the writer run now and then. Counted ranges have the same
/// duration in the summary and in the database, to 1 ns an instance plus the precision of the clock's rate, a part in
/// 100,000.
fn database(fake: &Fake) {
    let path = std::env::temp_dir().join(format!("tracing-gpu-database-{}.sqlite", std::process::id()));
    let json = path.with_extension("json");
    let profiler =
        Profiler::builder().nvtx(false).gpu(Gpu::Cupti).output(Output::None).sqlite(&path).json(&json).build();
    let profiler = profiler.expect("a profiler");
    let launches = |number: u32| number.is_multiple_of(3);
    tracing::subscriber::with_default(profiler.subscriber(), || {
        for number in 0..600 {
            let request = tracing::info_span!("request", nvtx.lifetime = true);
            let _in = tracing::info_span!("step").entered();
            let start = Instant::now();
            if launches(number) {
                fake.call(LAUNCH, number + 1, 5);
                fake.kernel(number + 1, c"spin", 500);
            }
            while start.elapsed() < Duration::from_micros(700 + u64::from(number % 7)) {
                std::hint::spin_loop();
            }
            drop(request);
        }
    });
    profiler.finish().expect("the files are written");
    let summary: Summary = serde_json::from_slice(&std::fs::read(&json).expect("a summary")).expect("JSON");
    let file = rusqlite::Connection::open(&path).expect("a database");
    let mut durations = file
        .prepare("SELECT end - start FROM NVTX_EVENTS JOIN StringIds ON id = textId WHERE value = ?1 AND eventType = ?2 ORDER BY start")
        .expect("a query");
    for (name, style, kind) in [("step", RangeStyle::PushPop, 59), ("request", RangeStyle::StartEnd, 60)] {
        let all = durations.query_map((name, kind), |row| row.get(0)).expect("rows");
        let all: Vec<u64> = all.map(|duration| duration.expect("a duration")).collect();
        assert_eq!(all.len(), 600);
        let rows = &summary.gpu.as_ref().expect("GPU work").projections;
        let row = rows.iter().find(|row| (row.name.as_str(), row.style) == (name, style)).expect("a projection");
        assert_eq!(row.projected.instances, 200);
        let that_count: u64 =
            (0..).zip(&all).filter(|(number, _)| launches(*number)).map(|(_, duration)| duration).sum();
        let off = row.range_total_ns.abs_diff(that_count);
        assert!(off <= 200 + that_count / 100_000, "{name}: {} ns, not {that_count}", row.range_total_ns);
    }
    std::fs::remove_file(&path).expect("it is ours");
    std::fs::remove_file(&json).expect("it is ours");
}
