//! A whole profiler with the made-up driver and libcupti: what was launched in which span, in tables, trees and both timelines.

use std::path::{Path, PathBuf};

use tracing::{info_span, subscriber::set_global_default};
use tracing_gpu::internals::GpuOp;
use tracing_gpu::{
    ActivityLosses, Gpu, GpuActivity, GpuWork, MemoryKind, Output, Profiler, ProfilerBuilder, RangeStyle, Report,
    Summary, TreeNode,
};
use tracing_subscriber::prelude::*;

use crate::fake::{COPY, Fake, GRAPH, LAUNCH, Place, RUNTIME_LAUNCH, SLIGHT, SYNCHRONIZE, monotonic};
use crate::files::{Chrome, rows};

pub(crate) const SPIN: &str = "spin";
pub(crate) const SCALE: &str = "void scale<float>(float*, float, int)";
/// The context that is current at a call: CUDA's handle, not CUPTI's number.
const HANDLE: usize = 5;
/// Operations run this long after they were launched: a tenth of a second.
const LATER: u64 = 100_000_000;

pub(crate) fn run(fake: &Fake, scenario: &str, tier: &str) {
    // A panic ends the process: unwinding would finish the profiler, and that wait for the collector's thread.
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
    fake.tell("fake_alone", 0); // the collector's own thread stays out of it
    match scenario {
        "attribution" => attribution(fake, tier),
        "calls" => calls(fake, tier),
        "losses" => losses(fake, tier),
        "unattended" => unattended(fake, tier),
        _ => panic!("{scenario}"),
    }
}

/// The files of this process, removed when this is dropped.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("tracing-gpu-cupti-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    fn trace(&self) -> PathBuf {
        self.0.join("run.json")
    }

    fn database(&self) -> PathBuf {
        self.0.join("run.sqlite")
    }

    fn builder(&self) -> ProfilerBuilder {
        builder().trace(self.trace()).sqlite(self.database())
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn builder() -> ProfilerBuilder {
    Profiler::builder().gpu(Gpu::Cupti).report([Report::Kernels]).output(Output::None)
}

fn start(builder: ProfilerBuilder, tier: &str) -> Profiler {
    let profiler = builder.build().expect("settings that can be used");
    match tier {
        "layer" => set_global_default(tracing_subscriber::registry().with(profiler.layer())),
        _ => set_global_default(profiler.subscriber()),
    }
    .expect("the first one");
    profiler
}

/// Ends it; the last summary is that of before, but for what only an end can tell.
fn finish(fake: &Fake, profiler: Profiler) {
    fake.tell("fake_together", 0); // it waits for the collector's thread
    profiler.finish().expect("files that can be written");
}

fn activity(summary: &Summary) -> &GpuActivity {
    summary.gpu.as_ref().unwrap_or_else(|| panic!("nothing was recorded: {:?}", summary.notes))
}

fn thread_number() -> u32 {
    // SAFETY: asks for a number.
    #[allow(unsafe_code)]
    let number = unsafe { libc::gettid() };
    u32::try_from(number).expect("a positive number")
}

/// Kernels by name: executions and total.
fn kernels(activity: &GpuActivity) -> Vec<(&str, u64, u64)> {
    activity.kernels.iter().map(|row| (row.name.as_str(), row.times.instances, row.times.total_ns)).collect()
}

/// Operations, their sum and their union.
fn work(work: &GpuWork) -> (u64, u64, u64) {
    (work.operations, work.sum_ns, work.busy_ns)
}

fn node<'a>(nodes: &'a [TreeNode], name: &str) -> &'a TreeNode {
    nodes.iter().find(|node| node.name == name).unwrap_or_else(|| panic!("no {name} in {nodes:?}"))
}

/// What ran, for the timelines: start after `base`, duration, device, context, stream, id, name, span.
type Ran = (u64, u64, u32, u32, u32, u32, &'static str, Option<&'static str>);

fn attribution(fake: &Fake, tier: &str) {
    let files = Files::new();
    let profiler = start(files.builder(), tier);
    // A warm-up, some of which comes late.
    fake.place(Place { device: 0, context: 1, stream: 7, node: 0, at: 0 });
    info_span!("warm-up").in_scope(|| {
        fake.call(LAUNCH, 1, HANDLE);
        fake.call(LAUNCH, 2, HANDLE);
    });
    fake.kernel(1, c"spin", 7_000);
    fake.tell("fake_drop", 5);
    assert_eq!(kernels(activity(&profiler.summary())), [(SPIN, 1, 7_000)]);
    assert_eq!(profiler.summary().losses.activity.dropped_records, 5);
    let open = info_span!("open").entered();
    fake.call(LAUNCH, 3, HANDLE);
    fake.kernel(2, c"spin", 100);
    fake.kernel(98, c"spin", 40); // of which nobody noted the launch
    fake.tell("fake_keep_back", 1);
    profiler.reset();
    fake.tell("fake_keep_back", 0);
    let before = profiler.summary();
    assert_eq!((kernels(activity(&before)), before.losses.activity), (vec![], ActivityLosses::default()));
    drop(open);

    let base = monotonic() + LATER;
    let at = |stream, node, after| fake.place(Place { device: 0, context: 1, stream, node, at: base + after });
    let launched = monotonic();
    info_span!("outer").in_scope(|| {
        fake.call(LAUNCH, 11, HANDLE);
        for id in [12, 13] {
            info_span!("inner").in_scope(|| {
                fake.call(LAUNCH, id, HANDLE);
                if id == 12 {
                    fake.call(COPY, 14, HANDLE);
                }
            });
        }
        fake.call(GRAPH, 15, HANDLE);
        fake.call(LAUNCH, 18, HANDLE);
        fake.call(LAUNCH, 19, HANDLE);
        fake.call(SYNCHRONIZE, 20, HANDLE);
    });
    let over = monotonic();
    fake.call(LAUNCH, 16, HANDLE);
    let worker = std::thread::scope(|scope| {
        let of_thread = || {
            info_span!("elsewhere").in_scope(|| fake.call(LAUNCH, 17, HANDLE));
            thread_number()
        };
        scope.spawn(of_thread).join().expect("no panic")
    });
    at(7, 0, 1_000);
    fake.kernel(11, c"_Z5scaleIfEvPT_S0_i", 500);
    at(8, 0, 2_000);
    fake.kernel(12, c"spin", 300);
    fake.tell("fake_new_buffer", 0);
    at(7, 0, 4_000);
    fake.kernel(13, c"spin", 500);
    at(8, 0, 3_000);
    fake.memory(14, 1, 4_096, 100);
    for (node, after) in [(1, 5_000), (2, 5_500)] {
        at(7, node, after);
        fake.kernel(15, c"spin", 1_000);
    }
    at(7, 3, 7_000);
    fake.memory(15, 0, 64, 50);
    fake.kernel(18, c"spin", 0);
    at(7, 0, 8_000);
    fake.kernel(16, c"spin", 10);
    fake.place(Place { device: 1, context: 2, stream: 7, node: 0, at: base + 9_000 });
    fake.kernel(17, c"_Z5scaleIfEvPT_S0_i", 20);
    at(9, 0, 9_500);
    fake.memory(99, 2, 10, 5);
    fake.tell("fake_drop", 3);
    let summary = profiler.summary();
    assert_window(&summary, worker);
    assert_eq!(summary.losses.activity, ActivityLosses { outstanding: 1, ..LOSSES });
    finish(fake, profiler);
    for context in [HANDLE, 9] {
        assert_eq!(fake.waited(context), i32::from(context == HANDLE), "waited for, once");
    }

    let ran: [Ran; 10] = [
        (1_000, 500, 0, 1, 7, 11, SCALE, Some("outer")),
        (2_000, 300, 0, 1, 8, 12, SPIN, Some("inner")),
        (3_000, 100, 0, 1, 8, 14, "HtoD", Some("inner")),
        (4_000, 500, 0, 1, 7, 13, SPIN, Some("inner")),
        (5_000, 1_000, 0, 1, 7, 15, SPIN, Some("outer")),
        (5_500, 1_000, 0, 1, 7, 15, SPIN, Some("outer")),
        (7_000, 50, 0, 1, 7, 15, "Set", Some("outer")),
        (8_000, 10, 0, 1, 7, 16, SPIN, None),
        (9_000, 20, 1, 2, 7, 17, SCALE, Some("elsewhere")),
        (9_500, 5, 0, 1, 9, 99, "DtoH", None),
    ];
    let seen = Seen { base, launched, over, main: thread_number(), worker, ran: &ran };
    assert_trace(&Chrome::read(&files.trace()), &seen);
    assert_database(&files.database(), &seen);
}

const LOSSES: ActivityLosses = ActivityLosses {
    dropped_records: 3,
    over_budget_records: 0,
    without_time: 1,
    unmatched: 1,
    late: 0,
    outstanding: 0,
    forgotten_launches: 0,
    unreadable_records: 0,
};

/// The window after the warm-up.
fn assert_window(summary: &Summary, worker: u32) {
    let all = activity(summary);
    assert_eq!(kernels(all), [(SPIN, 5, 2_810), (SCALE, 2, 520)]);
    let spin = &all.kernels[0].times;
    assert_eq!((spin.min_ns, spin.max_ns, spin.median_ns), (10, 1_000, Some(500.0)));
    let memory = all.memory.iter().map(|row| {
        let sizes = &row.sizes;
        (row.kind, row.times.total_ns, sizes.count, sizes.total_bytes, sizes.min_bytes, sizes.max_bytes)
    });
    let expected = [
        (MemoryKind::HtoD, 100, 1, 4_096, 4_096, 4_096),
        (MemoryKind::Set, 50, 1, 64, 64, 64),
        (MemoryKind::DtoH, 5, 1, 10, 10, 10),
    ];
    assert!(memory.eq(expected), "{:?}", all.memory);
    assert_eq!(all.calls, None);
    assert_eq!(work(&all.total), (10, 3_485, 2_985), "two kernels of the graph overlap by 500 ns");
    assert_eq!((work(&all.outside), work(&all.unmatched)), ((1, 10, 10), (1, 5, 5)));

    let outer = node(&summary.tree, "outer").gpu.as_ref().expect("work");
    assert_eq!((work(&outer.own), work(&outer.total)), ((4, 2_550, 2_050), (7, 3_450, 2_950)));
    let inner = node(&node(&summary.tree, "outer").children, "inner").gpu.as_ref().expect("work");
    assert_eq!((work(&inner.own), work(&inner.total)), ((3, 900, 900), (3, 900, 900)));
    assert_eq!(work(&node(&summary.tree, "elsewhere").gpu.as_ref().expect("work").total), (1, 20, 20));
    assert_eq!(node(&summary.tree, "open").gpu, None);

    let projections: Vec<_> = all
        .projections
        .iter()
        .map(|row| {
            let times = &row.projected;
            ((row.name.as_str(), times.instances, times.total_ns), (row.operations, row.level_sum, row.children_sum))
        })
        .collect();
    // The first of two starts with its kernel and ends with its copy.
    let expected =
        [(("outer", 1, 6_050), (5, 0, 2)), (("inner", 2, 1_600), (3, 2, 0)), (("elsewhere", 1, 20), (1, 0, 0))];
    assert_eq!(projections, expected);
    for row in &all.projections {
        let range = summary.ranges.iter().find(|range| range.name == row.name).expect("a range");
        assert_eq!(row.range_total_ns, range.times.total_ns, "{}", row.name);
    }
    let (main, pid) = (thread_number(), std::process::id());
    let rows: Vec<_> = all
        .range_kernels
        .iter()
        .map(|row| {
            let range = row.range.as_ref().map(|(_, name)| name.as_str());
            assert_eq!((row.pid, row.style), (pid, range.map(|_| RangeStyle::PushPop)));
            (range, row.tid, row.kernel.as_str(), (row.range_instances, row.kernel_instances, row.times.total_ns))
        })
        .collect();
    let expected = [
        (None, main, SPIN, (0, 1, 10)),
        (Some("elsewhere"), worker, SCALE, (1, 1, 20)),
        (Some("inner"), main, SPIN, (2, 2, 800)),
        (Some("outer"), main, SPIN, (1, 4, 2_800)),
        (Some("outer"), main, SCALE, (1, 1, 500)),
    ];
    assert_eq!(rows, expected);
}

/// What the timelines are to have, beside the warm-up.
struct Seen<'a> {
    base: u64,
    launched: u64,
    over: u64,
    main: u32,
    worker: u32,
    ran: &'a [Ran],
}

impl Seen<'_> {
    fn thread(&self, id: u32) -> Option<u32> {
        match id {
            99 => None,
            17 => Some(self.worker),
            _ => Some(self.main),
        }
    }
}

fn assert_trace(trace: &Chrome, seen: &Seen<'_>) {
    // The warm-up came first, with what was kept back; the operation without a time is nowhere.
    let operations: Vec<_> = trace.operations();
    assert_eq!(operations.iter().map(|each| each.id).collect::<Vec<_>>()[..3], [1, 2, 98]);
    assert_eq!(operations.len(), 3 + seen.ran.len());
    let origin = seen.base + 1_000 - operations.iter().find(|each| each.id == 11).expect("the first").start;
    for &(after, lasted, device, context, stream, id, name, span) in seen.ran {
        let found = operations.iter().filter(|each| each.id == id && each.start + origin == seen.base + after);
        let [found] = found.collect::<Vec<_>>()[..] else { panic!("{id} at {after}: {operations:?}") };
        let shown = match name {
            "HtoD" => "Memcpy HtoD (Pinned -> Device)",
            "DtoH" => "Memcpy DtoH (Pinned -> Device)",
            "Set" => "Memset (Device)",
            kernel => kernel,
        };
        assert_eq!((found.name.as_str(), found.lasted), (shown, lasted), "{found:?}");
        assert_eq!((found.device, found.context, found.stream), (device, context, stream), "{found:?}");
        assert!(found.track.starts_with(&format!("Stream {stream}")), "{found:?}");
        assert_eq!(found.span.as_deref(), span, "{found:?}");
        // An arrow from the thread, at the moment of the call.
        let from = found.launch.map(|(thread, _)| thread);
        assert_eq!(from, seen.thread(id), "{found:?}");
        let Some((_, at)) = found.launch else { continue };
        if (11..=15).contains(&id) {
            let within = seen.launched..=seen.over;
            assert!(within.contains(&(at + origin)), "{} is not in {within:?}: {found:?}", at + origin);
            let around = trace.slice(if [12, 13, 14].contains(&id) { "inner" } else { "outer" }, at);
            assert!(around.is_some_and(|thread| thread == seen.main), "{found:?} is not launched in its span");
        }
    }
    assert_eq!(trace.operations().iter().find(|each| each.id == 12).map(|each| each.symbol.clone()), Some(None));
    let symbol = trace.operations().iter().find(|each| each.id == 11).and_then(|each| each.symbol.clone());
    assert_eq!(symbol.as_deref(), Some("_Z5scaleIfEvPT_S0_i"));
    // Ranges on the streams that their work ran on, each on its level.
    let from = |after: u64| seen.base + after - origin;
    let mut projected = trace.projected();
    projected.retain(|(name, ..)| *name != "warm-up" && *name != "open");
    projected.sort_unstable();
    let expected = [
        ("elsewhere", "Stream 7 ranges", from(9_000), 20, 0),
        ("inner", "Stream 7 ranges, level 1", from(4_000), 500, 1),
        ("inner", "Stream 8 ranges, level 1", from(2_000), 1_100, 1),
        ("outer", "Stream 7 ranges", from(1_000), 6_050, 0),
        ("outer", "Stream 8 ranges", from(2_000), 1_100, 0),
    ];
    assert_eq!(projected, expected);
}

fn assert_database(path: &Path, seen: &Seen<'_>) {
    let base: u64 =
        rows(path, "SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId = 11")[0].parse().expect("");
    let shifted = base - 1_000;
    let kinds = ["KERNEL", "MEMCPY", "MEMSET"].map(|kind| {
        let name = match kind {
            "KERNEL" => "(SELECT value FROM StringIds WHERE id = demangledName)",
            "MEMCPY" => "CASE copyKind WHEN 1 THEN 'HtoD' WHEN 2 THEN 'DtoH' END",
            _ => "'Set'",
        };
        format!(
            "SELECT start - {shifted} AS at, end - start AS lasted, deviceId, contextId, streamId, o.correlationId AS id, {name} AS name,
                (SELECT globalTid & 0xFFFFFF FROM CUPTI_ACTIVITY_KIND_RUNTIME c WHERE c.correlationId = o.correlationId) AS thread,
                globalPid >> 24 & 0xFFFFFF AS pid
            FROM CUPTI_ACTIVITY_KIND_{kind} o WHERE o.correlationId NOT IN (1, 2, 98)"
        )
    });
    let pid = std::process::id();
    let expected = seen.ran.iter().map(|&(after, lasted, device, context, stream, id, name, _)| {
        let thread = seen.thread(id).map_or("-".to_owned(), |thread| thread.to_string());
        format!("{after}|{lasted}|{device}|{context}|{stream}|{id}|{name}|{thread}|{pid}")
    });
    assert_eq!(rows(path, &format!("{} ORDER BY at", kinds.join(" UNION ALL "))), expected.collect::<Vec<_>>());
    // Each launch is within the range that it was made in.
    let within = "SELECT c.correlationId, value FROM CUPTI_ACTIVITY_KIND_RUNTIME c JOIN NVTX_EVENTS e
            ON e.globalTid = c.globalTid AND e.start <= c.start AND e.end >= c.end JOIN StringIds s ON s.id = e.textId
        WHERE eventType = 59 AND c.correlationId > 10 ORDER BY 1, e.start";
    let expected = [
        "11|outer",
        "12|outer",
        "12|inner",
        "13|outer",
        "13|inner",
        "14|outer",
        "14|inner",
        "15|outer",
        "17|elsewhere",
    ];
    assert_eq!(rows(path, within), expected);
    assert_eq!(rows(path, "SELECT value FROM META_DATA_CAPTURE WHERE name = 'TRACING_GPU:COMPLETE'"), ["true"]);
    assert_eq!(rows(path, "SELECT id FROM TARGET_INFO_GPU ORDER BY 1"), ["0", "1"]);
}

/// With single calls: those of the runtime without the driver's inside them, those of the driver, and none of our own.
fn calls(fake: &Fake, tier: &str) {
    let files = Files::new();
    let profiler = start(files.builder().report([Report::Api]), tier);
    fake.report_calls();
    let span = info_span!("work");
    span.in_scope(|| {
        for id in 11..14 {
            fake.runtime(RUNTIME_LAUNCH, LAUNCH, id);
        }
        fake.call(LAUNCH, 14, HANDLE);
        fake.tell("fake_result", 700);
        fake.call(SYNCHRONIZE, 15, HANDLE);
        fake.tell("fake_result", 0);
        fake.call(SLIGHT, 16, HANDLE);
    });
    fake.call(SYNCHRONIZE, 17, HANDLE);
    fake.tell("fake_calls_itself", 18); // CUPTI's own call, where a summary makes it flush
    for id in 11..15 {
        fake.kernel(id, c"spin", 10);
    }
    let assert_calls = |summary: &Summary| {
        let mut calls: Vec<_> = activity(summary).calls.as_deref().expect("calls").iter().collect();
        calls.sort_by_key(|row| row.name.clone());
        let counts: Vec<_> = calls.iter().map(|row| (row.name.as_str(), row.times.instances)).collect();
        let expected =
            [("cuCtxGetCurrent", 1), ("cuCtxSynchronize", 2), ("cuLaunchKernel", 1), ("cudaLaunchKernel_v7000", 3)];
        assert_eq!(counts, expected);
        let of_span = &node(&summary.tree, "work").gpu.as_ref().expect("calls").calls;
        let of_span: Vec<_> = of_span.iter().map(|row| (row.name.as_str(), row.calls)).collect();
        // Of a slight one no entry is told, so that its span is not known.
        assert_eq!(of_span, [("cuCtxSynchronize", 1), ("cuLaunchKernel", 1), ("cudaLaunchKernel_v7000", 3)]);
        assert_eq!(summary.losses.activity, ActivityLosses::default());
    };
    (0..4).for_each(|_| assert_calls(&profiler.summary()));
    finish(fake, profiler);
    assert_eq!(fake.waited(HANDLE), 1);

    let trace = Chrome::read(&files.trace());
    let mut calls = trace.calls();
    calls.sort_unstable();
    let driver = "cuda_driver";
    let expected = [
        (11, "cudaLaunchKernel_v7000", "cuda_runtime", "CUDA API of main", None),
        (12, "cudaLaunchKernel_v7000", "cuda_runtime", "CUDA API of main", None),
        (13, "cudaLaunchKernel_v7000", "cuda_runtime", "CUDA API of main", None),
        (14, "cuLaunchKernel", driver, "CUDA API of main", None),
        (15, "cuCtxSynchronize", driver, "CUDA API of main", Some(700)),
        (16, "cuCtxGetCurrent", driver, "CUDA API of main", None),
        (17, "cuCtxSynchronize", driver, "CUDA API of main", None),
    ];
    assert_eq!(calls, expected);
    let select = "SELECT correlationId, value, eventClass, returnValue, globalTid & 0xFFFFFF, end > start
        FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId ORDER BY 1";
    let main = thread_number();
    let expected = expected.map(|(id, name, kind, _, result)| {
        let result = result.unwrap_or(0);
        format!("{id}|{name}|{}|{result}|{main}|1", u32::from(kind == driver))
    });
    assert_eq!(rows(&files.database(), select), expected);
}

/// Whatever is lost is counted, in the window in which it was.
fn losses(fake: &Fake, tier: &str) {
    /// Kernels and calls that a large buffer has room for.
    const KERNELS: u64 = (4 << 20) / 216;
    const CALLS: u64 = (4 << 20) / 40;
    const MEMORY: usize = 32 << 20;
    let profiler = start(builder().gpu_memory(MEMORY).report([Report::Api]), tier);
    let other = builder().build().expect("settings that can be used");
    let reason = "CUPTI recorded no GPU activity: CUPTI belongs to another profiler of this process.";
    assert!(other.summary().notes.contains(&reason.to_owned()), "{:?}", other.summary().notes);
    for round in 0..2 {
        info_span!("work").in_scope(|| fake.call(LAUNCH, 1 + round, HANDLE)); // its record has a buffer of its own
        let _before = profiler.summary();
        // Four large buffers, as many as there may be, and a small one. What the second holds is more than may wait to be attributed.
        assert!(KERNELS + CALLS > (MEMORY / 4 / size_of::<GpuOp>()) as u64 && 3 * KERNELS < CALLS);
        fake.tell("fake_new_buffer", 0);
        (0..KERNELS).for_each(|_| fake.kernel(1 + round, c"spin", 10));
        (0..CALLS).for_each(|_| fake.call(SLIGHT, 0, HANDLE));
        (0..2 * KERNELS + 3).for_each(|_| fake.kernel(1 + round, c"scale", 20));
        fake.tell("fake_other", 77);
        fake.tell("fake_drop", 2);
        let summary = profiler.summary();
        let (all, losses) = (activity(&summary), summary.losses.activity);
        assert_eq!(kernels(all), [("scale", 2 * KERNELS, 40 * KERNELS), (SPIN, KERNELS, 10 * KERNELS)], "{losses:?}");
        let launches = all.calls.as_deref().expect("calls").iter().map(|row| (row.name.as_str(), row.times.instances));
        assert!(launches.eq([("cuLaunchKernel", 1)]), "{:?}", all.calls);
        let expected = ActivityLosses {
            over_budget_records: CALLS + 3,
            unreadable_records: 1,
            dropped_records: 2,
            ..ActivityLosses::default()
        };
        assert_eq!(losses, expected, "{round}");
        profiler.reset();
        assert_eq!(profiler.summary().losses.activity, ActivityLosses::default());
    }
    other.finish().expect("nothing to be written");
    finish(fake, profiler);
    // CUPTI is free again.
    let next = builder().build().expect("settings that can be used");
    fake.kernel(7, c"spin", 1);
    assert_eq!(kernels(activity(&next.summary())), [(SPIN, 1, 1)]);
}

/// Nobody asks for a summary: the collector's own thread takes what comes, and it is in the files while the program runs.
fn unattended(fake: &Fake, tier: &str) {
    let files = Files::new();
    let profiler = start(files.builder(), tier);
    fake.tell("fake_together", 0);
    info_span!("work").in_scope(|| fake.call(LAUNCH, 11, HANDLE));
    fake.tell("fake_calls_itself", 12);
    fake.kernel(11, c"_Z5scaleIfEvPT_S0_i", 500);
    let began = std::time::Instant::now();
    while !std::fs::read_to_string(files.trace()).is_ok_and(|text| text.contains(SCALE)) {
        assert!(began.elapsed() < std::time::Duration::from_secs(60), "nothing is collected while the program runs");
        std::thread::yield_now();
    }
    // What comes after the last summary and is only complete at the end.
    fake.tell("fake_keep_back", 1);
    info_span!("last").in_scope(|| fake.call(LAUNCH, 13, HANDLE));
    fake.kernel(13, c"spin", 700);
    finish(fake, profiler);
    let trace = Chrome::read(&files.trace());
    let operations: Vec<_> = trace.operations().into_iter().map(|each| (each.id, each.lasted, each.span)).collect();
    assert_eq!(operations, [(11, 500, Some("work".to_owned())), (13, 700, Some("last".to_owned()))]);
    let mut projected: Vec<_> = trace.projected().into_iter().map(|(name, ..)| name).collect();
    projected.sort_unstable();
    assert_eq!(projected, ["last", "work"]);
}
