//! A whole profiler with the made-up driver and libcupti: GPU work and its launching spans, in tables, trees and both
//! timelines.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tests::with;

use tracing::{info_span, subscriber::set_global_default};
use tracing_gpu::summary::{ActivityLosses, GpuActivity, RangeStyle, TreeNode};
use tracing_gpu::{Gpu, Output, Profiler, ProfilerBuilder, Report, Summary, SummaryExt as _};
use tracing_subscriber::prelude::*;

use crate::fake::{Fake, LAUNCH, Place, RUNTIME_LAUNCH, SLIGHT, SYNCHRONIZE};
use crate::files::{Chrome, Page, rows};
use crate::graphs::EXECUTABLE;

pub(crate) const SPIN: &str = "spin";
pub(crate) const SCALE: &str = "void scale<float>(float*, float, int)";
/// The context that is current at a call: CUDA's handle, not CUPTI's number.
pub(crate) const HANDLE: usize = 5;

pub(crate) fn run(fake: &Fake, scenario: &str, tier: &str) {
    // A panic ends the process: unwinding would finish the profiler, which waits for the collector's thread.
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        tell(panic);
        std::process::abort();
    }));
    fake.tell("fake_alone", 0); // without the collector's own thread
    match scenario {
        "attribution" => crate::attribution::attribution(fake, tier),
        "calls" => calls(fake, tier),
        "graphs" => crate::graphs::graphs(fake, tier),
        "graphs from before" => crate::graphs::from_before(fake),
        "details" => crate::details::details(fake, tier),
        "outputs" => outputs(fake, tier),
        "helpers" => crate::helpers::helpers(fake, tier),
        "flood" => flood(fake, tier),
        "losses" => losses(fake, tier),
        "no_threads" => no_threads(fake),
        "lifetime" => lifetime(fake, tier),
        "notes" => notes(fake, tier),
        "many" => many(fake, tier),
        "unfinished" => unfinished(fake, tier),
        "late" => late(fake, tier),
        "refused" => crate::refused::refused(fake, tier),
        "unattended" => unattended(fake, tier),
        _ => panic!("{scenario}"),
    }
}

/// The files of this process, which the destructor removes.
pub(crate) struct Files(PathBuf);

impl Files {
    pub(crate) fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("tracing-gpu-cupti-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    pub(crate) fn trace(&self) -> PathBuf {
        self.0.join("run.json")
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.join("run.sqlite")
    }

    fn page(&self) -> PathBuf {
        self.0.join("run.html")
    }

    pub(crate) fn json(&self) -> PathBuf {
        self.0.join("run.summary.json")
    }

    /// The final summary.
    pub(crate) fn summary(&self) -> Summary {
        let text = std::fs::read_to_string(self.json()).expect("a summary");
        Summary::read_json(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn builder(&self) -> ProfilerBuilder {
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

pub(crate) fn start(builder: ProfilerBuilder, tier: &str) -> Profiler {
    let profiler = builder.build().expect("settings that can be used");
    match tier {
        "layer" => set_global_default(tracing_subscriber::registry().with(profiler.layer())),
        _ => set_global_default(profiler.subscriber()),
    }
    .expect("the first one");
    profiler
}

/// Ends the profiler. The last summary equals the one before, except for data that only the end has.
pub(crate) fn finish(fake: &Fake, profiler: Profiler) {
    fake.tell("fake_together", 0); // the end waits for the collector's thread
    profiler.finish().expect("files that can be written");
}

pub(crate) fn activity(summary: &Summary) -> &GpuActivity {
    summary.gpu.as_ref().unwrap_or_else(|| panic!("nothing was recorded: {:?}", summary.notes))
}

pub(crate) fn thread_number() -> u32 {
    // SAFETY: asks for a number.
    #[allow(unsafe_code)]
    let number = unsafe { libc::gettid() };
    u32::try_from(number).expect("a positive number")
}

/// Kernels by name: executions and total.
pub(crate) fn kernels(activity: &GpuActivity) -> Vec<(&str, u64, u64)> {
    activity.kernels.iter().map(|row| (row.name.as_str(), row.times.instances, row.times.total_ns)).collect()
}

pub(crate) fn node<'a>(nodes: &'a [TreeNode], name: &str) -> &'a TreeNode {
    nodes.iter().find(|node| node.name == name).unwrap_or_else(|| panic!("no {name} in {nodes:?}"))
}

/// Single calls are recorded: those of the runtime without nested driver calls, those of the driver, and none of the
/// profiler.
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
    fake.tell("fake_calls_itself", 18); // CUPTI's own call, when a summary makes it flush
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
        // The entry of a slight call is not reported, so its span is not known.
        assert_eq!(of_span, [("cuCtxSynchronize", 1), ("cuLaunchKernel", 1), ("cudaLaunchKernel_v7000", 3)]);
        assert_eq!(summary.losses.activity, ActivityLosses::default());
    };
    (0..4).for_each(|_| assert_calls(&profiler.summary()));
    // A call that began in a window and arrives in the next is in neither.
    fake.tell("fake_keep_back", 1);
    fake.call(LAUNCH, 19, HANDLE);
    fake.call(SLIGHT, 20, HANDLE);
    fake.kernel(19, c"spin", 10);
    profiler.reset();
    fake.tell("fake_keep_back", 0);
    (0..3).for_each(|_| assert_eq!(activity(&profiler.summary()).calls.as_deref(), Some(&[][..])));
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
        (19, "cuLaunchKernel", driver, "CUDA API of main", None),
        (20, "cuCtxGetCurrent", driver, "CUDA API of main", None),
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

/// One run in all outputs has the same counts and sums, although the records of one call arrive in several drains.
fn outputs(fake: &Fake, tier: &str) {
    const ROUNDS: u32 = 20;
    let files = Files::new();
    let profiler = start(files.builder().json(files.json()).html(files.page()).report([Report::Api]), tier);
    fake.report_calls();
    for round in 0..ROUNDS {
        let id = 10 * round;
        info_span!("work").in_scope(|| {
            fake.call(LAUNCH, id + 1, HANDLE); // the first driver call of a runtime call
            drop(profiler.summary());
            fake.runtime(RUNTIME_LAUNCH, LAUNCH, id + 1);
            fake.call(LAUNCH, id + 2, HANDLE);
        });
        fake.kernel(id + 1, c"spin", 10);
        drop(profiler.summary());
        fake.kernel(id + 1, c"spin", 20); // its second operation
        fake.kernel(id + 2, c"scale", 30);
        fake.memory(id + 3, 1, 64, 5); // nobody noted its launch
    }
    finish(fake, profiler);

    let (summary, trace) = (files.summary(), Chrome::read(&files.trace()));
    let page = Page::read(&files.page());
    let all = activity(&summary);
    let rounds = u64::from(ROUNDS);
    let expected =
        [("Memcpy HtoD", rounds, 5 * rounds), ("scale", rounds, 30 * rounds), (SPIN, 2 * rounds, 30 * rounds)];
    let copies = &all.memory[0].times;
    let mut of_summary = kernels(all);
    of_summary.push(("Memcpy HtoD", copies.instances, copies.total_ns));
    of_summary.sort_unstable();
    assert_eq!(of_summary, expected);
    let mut of_trace = BTreeMap::<String, (u64, u64)>::new();
    for operation in trace.operations() {
        let sum = of_trace.entry(operation.name.split(" (").next().unwrap_or_default().to_owned()).or_default();
        *sum = (sum.0 + 1, sum.1 + operation.lasted);
    }
    assert!(of_trace.iter().map(|(name, sum)| (name.as_str(), sum.0, sum.1)).eq(expected), "{of_trace:?}");
    let of_page = page.sums("operations");
    let mut of_nsight = expected; // which names copies differently
    of_nsight[0].0 = "[CUDA memcpy Host-to-Device]";
    assert!(of_page.iter().map(|(name, sum)| (&**name, sum.0, sum.1)).eq(of_nsight), "{of_page:?}");
    let select = "SELECT value, count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_KERNEL JOIN StringIds ON id = shortName
        GROUP BY 1 UNION ALL SELECT 'Memcpy HtoD', count(*), sum(end - start) FROM CUPTI_ACTIVITY_KIND_MEMCPY ORDER BY 1";
    assert_eq!(rows(&files.database(), select), expected.map(|(name, count, sum)| format!("{name}|{count}|{sum}")));

    let expected = [("cuLaunchKernel", rounds), ("cudaLaunchKernel_v7000", rounds)];
    let mut calls: Vec<_> = all.calls.iter().flatten().map(|row| (row.name.as_str(), row.times.instances)).collect();
    calls.sort_unstable();
    assert_eq!(calls, expected);
    let mut of_trace = BTreeMap::<&str, u64>::new();
    trace.calls().iter().for_each(|call| *of_trace.entry(call.1).or_default() += 1);
    assert!(of_trace.into_iter().eq(expected), "{:?}", trace.calls());
    let of_page = page.sums("api");
    let named = expected.map(|(name, count)| (name.split("_v").next().unwrap_or(name), count)); // in the page's form
    assert!(of_page.iter().map(|(name, sum)| (&**name, sum.0)).eq(named), "{of_page:?}");
    let select = "SELECT value, count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME JOIN StringIds ON id = nameId GROUP BY 1";
    assert_eq!(rows(&files.database(), select), expected.map(|(name, count)| format!("{name}|{count}")));

    let projection = &all.projections[0];
    let lasted = trace.projected().iter().map(|&(_, _, _, lasted, _)| lasted).sum::<u64>();
    let expected = (projection.projected.instances, projection.projected.total_ns);
    assert_eq!((trace.projected().len() as u64, lasted), expected, "{projection:?}");
    assert_eq!(page.sums("projections").into_values().collect::<Vec<_>>(), [expected], "{projection:?}");
}

/// Many more calls than are remembered, in one drain: launches still have their spans, the profiler's own calls are in
/// no table, and a note counts the forgotten ones.
fn flood(fake: &Fake, tier: &str) {
    const MEMORY: usize = 32 << 20;
    const LAUNCHES: u64 = 5_000;
    const CALLS: u64 = 200_000;
    let profiler = start(builder().gpu_memory(MEMORY).report([Report::Api]), tier);
    fake.tell("fake_calls_itself", 1_000_000);
    fake.tell("fake_keep_back", 1);
    assert_eq!(activity(&profiler.summary()).calls.as_deref(), Some(&[][..])); // its own call arrives later
    let (launch, call) = (fake.caller(LAUNCH, HANDLE), fake.caller(SYNCHRONIZE, HANDLE));
    info_span!("launches").in_scope(|| (1..=LAUNCHES).for_each(|id| launch(id as u32)));
    info_span!("calls").in_scope(|| (1..=CALLS).for_each(|id| call((LAUNCHES + id) as u32)));
    (1..=LAUNCHES).for_each(|id| fake.kernel(id as u32, c"spin", 10));
    fake.tell("fake_keep_back", 0);
    let summary = profiler.summary();
    let (all, losses) = (activity(&summary), summary.losses.activity);
    let launches = node(&summary.tree, "launches").gpu.as_ref().expect("work");
    assert_eq!((launches.own.operations, all.unmatched.operations), (LAUNCHES, 0), "{losses:?}");
    let calls: Vec<_> = all.calls.iter().flatten().map(|row| (row.name.as_str(), row.times.instances)).collect();
    assert_eq!(calls.iter().map(|row| row.1).sum::<u64>(), LAUNCHES + CALLS, "{calls:?}");
    let of_span = node(&summary.tree, "calls").gpu.as_ref().expect("calls").calls[0].calls;
    assert_eq!(losses, with(ActivityLosses::default(), |it| it.forgotten_calls = CALLS - of_span));
    assert!(of_span > 100_000 && of_span < CALLS, "{of_span}");
    finish(fake, profiler);
}

/// All losses are counted, each in its window.
fn losses(fake: &Fake, tier: &str) {
    /// Number of kernels and of calls that fit into a large buffer.
    const KERNELS: u64 = (4 << 20) / 216;
    const CALLS: u64 = (4 << 20) / 40;
    /// Six sixteenths are four large buffers.
    const MEMORY: usize = (16 << 20) / 6 * 16 + 16;
    let profiler = start(builder().gpu_memory(MEMORY).report([Report::Api]), tier);
    let other = builder().build().expect("settings that can be used");
    let reason = "CUPTI recorded no GPU activity: CUPTI belongs to another profiler of this process. \
                  Ranges were measured all the same.";
    assert!(other.summary().notes_as_text().contains(&reason.to_owned()), "{:?}", other.summary().notes);
    for round in 0..2 {
        info_span!("work").in_scope(|| fake.call(LAUNCH, 1 + round, HANDLE)); // its record has a separate buffer
        let _before = profiler.summary();
        // Four large buffers, the allowed number, and a small one.
        fake.tell("fake_new_buffer", 0);
        (0..KERNELS).for_each(|_| fake.kernel(1 + round, c"spin", 10));
        (0..CALLS).for_each(|_| fake.call(SLIGHT, 0, HANDLE));
        (0..2 * KERNELS + 3).for_each(|_| fake.kernel(1 + round, c"scale", 20));
        fake.tell("fake_other", 77);
        fake.tell("fake_drop", 2);
        let summary = profiler.summary();
        let (all, losses) = (activity(&summary), summary.losses.activity);
        assert_eq!(kernels(all), [("scale", 2 * KERNELS, 40 * KERNELS), (SPIN, KERNELS, 10 * KERNELS)], "{losses:?}");
        let mut calls: Vec<_> =
            all.calls.iter().flatten().map(|row| (row.name.as_str(), row.times.instances)).collect();
        calls.sort_unstable();
        assert_eq!(calls, [("cuCtxGetCurrent", CALLS), ("cuLaunchKernel", 1)]);
        let mut expected = ActivityLosses::default();
        expected.over_budget_records = 3;
        expected.unreadable_records = 1;
        expected.dropped_records = 2;
        assert_eq!(losses, expected, "{round}");
        fake.tell("fake_other", 77); // seen by the reset itself
        profiler.reset();
        assert_eq!(profiler.summary().losses.activity, ActivityLosses::default());
        // Another thread launches while the window begins: earlier work is in neither window, and nothing is missing.
        fake.call(LAUNCH, 100 + round, HANDLE);
        fake.place(Place { at: 1_000, ..Place::default() });
        fake.kernel(100 + round, c"spin", 10);
        fake.place(Place::default());
        let summary = profiler.summary();
        assert_eq!((kernels(activity(&summary)), summary.losses.activity), (vec![], ActivityLosses::default()));
        profiler.reset();
    }
    other.finish().expect("nothing to be written");
    finish(fake, profiler);
    // CUPTI is free again.
    let next = builder().build().expect("settings that can be used");
    fake.kernel(7, c"spin", 1);
    assert_eq!(kernels(activity(&next.summary())), [(SPIN, 1, 1)]);
}

/// No collector thread can be started: a note says so, and the next profiler gets CUPTI.
fn no_threads(fake: &Fake) {
    fake.tell("fake_no_threads", 1);
    let without = builder().build().expect("settings that can be used");
    fake.tell("fake_no_threads", 0);
    let notes = without.summary().notes_as_text();
    assert!(notes.iter().any(|note| note.contains("no thread could be started to collect GPU records")), "{notes:?}");
    let next = builder().build().expect("settings that can be used");
    fake.kernel(7, c"spin", 1);
    assert_eq!(kernels(activity(&next.summary())), [(SPIN, 1, 1)]);
}

/// A request, whose range is on no stack.
fn lifetime(fake: &Fake, tier: &str) {
    let profiler = start(builder(), tier);
    let request = info_span!("request", nvtx.lifetime = true);
    info_span!("work").in_scope(|| fake.call(LAUNCH, 11, HANDLE));
    drop(request);
    fake.kernel(11, c"spin", 10);
    let summary = profiler.summary();
    let rows = activity(&summary).projections.iter();
    let mut rows: Vec<_> =
        rows.map(|row| (row.name.as_str(), row.style, row.projected.instances, row.projected.total_ns)).collect();
    rows.sort_unstable();
    assert_eq!(rows, [("request", RangeStyle::StartEnd, 1, 10), ("work", RangeStyle::PushPop, 1, 10)]);
    finish(fake, profiler);
}

/// More calls between two collections than there is room for notes.
fn notes(fake: &Fake, tier: &str) {
    const CALLS: u64 = (1 << 20) + 1_000;
    let profiler = start(builder(), tier);
    (1..=CALLS).for_each(|id| fake.call(LAUNCH, id as u32, HANDLE));
    let losses = profiler.summary().losses.activity;
    assert_eq!(losses.outstanding + losses.forgotten_launches, CALLS, "{losses:?}");
    assert_eq!(losses, {
        let mut it = ActivityLosses::default();
        it.outstanding = losses.outstanding;
        it.forgotten_launches = losses.forgotten_launches;
        it
    });
    profiler.reset();
    assert_eq!(profiler.summary().losses.activity, ActivityLosses::default());
    finish(fake, profiler);
}

/// Many times more calls than are remembered at once. They are collected before any is forgotten: long before the two
/// seconds that the collector waits otherwise.
fn many(fake: &Fake, tier: &str) {
    const ROUNDS: u32 = 64;
    /// Some 12,000 are remembered. The collector starts after a fifth of that many note lines, of which each of these
    /// calls has two.
    const CALLS: u32 = 1_800;
    let profiler = start(builder().gpu_memory(32 << 20).report([Report::Api]), tier);
    fake.tell("fake_together", 0);
    fake.graph(EXECUTABLE, 2, 0, 0); // with a graph, and this CUPTI, nothing is collected for two seconds otherwise
    let launch = fake.launcher(HANDLE, c"spin", 10);
    let mut early = 0;
    for round in 0..ROUNDS {
        let began = Instant::now();
        for number in 1..=CALLS {
            info_span!("work").in_scope(|| launch(round * CALLS + number));
        }
        let flushes = fake.flushes();
        while fake.flushes() == flushes {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing is collected");
            std::thread::yield_now();
        }
        early += u32::from(began.elapsed() < Duration::from_millis(1_500));
    }
    // One is enough. Without the early wake-up there are none.
    assert!(early > 0, "none of {ROUNDS} rounds came early");
    // On a busy machine the collector's thread may not have got what its last flush delivers.
    let (mut summary, began) = (profiler.summary(), Instant::now());
    while summary.losses.activity.outstanding > 0 && began.elapsed() < Duration::from_secs(60) {
        summary = profiler.summary();
    }
    let all = u64::from(ROUNDS * CALLS);
    assert_eq!(summary.losses.activity, ActivityLosses::default());
    let of_span = node(&summary.tree, "work").gpu.as_ref().expect("kernels");
    assert_eq!((kernels(activity(&summary)), of_span.own.operations), (vec![(SPIN, all, 10 * all)], all));
    finish(fake, profiler);
}

/// The driver fails to wait for launched work: it is missing at the end, and a note says so.
fn unfinished(fake: &Fake, tier: &str) {
    let files = Files::new();
    let profiler = start(builder().json(files.json()), tier);
    info_span!("work").in_scope(|| fake.call(LAUNCH, 11, HANDLE));
    finish(fake, profiler);
    let losses = files.summary().losses.activity;
    assert_eq!(losses, with(ActivityLosses::default(), |it| it.outstanding = 1));
}

/// Two buffers arrive only at the end, the second 10 ms after the first or after everything else. A third has no
/// records: CUPTI keeps it, and it holds no record of a captured launch.
fn late(fake: &Fake, tier: &str) {
    let files = Files::new();
    let profiler = start(builder().json(files.json()), tier);
    fake.tell("fake_keep_back", 1);
    fake.tell("fake_keep_buffer", 0);
    info_span!("work").in_scope(|| (11..=13).for_each(|id| fake.call(LAUNCH, id, HANDLE)));
    fake.kernel(11, c"spin", 10);
    fake.tell("fake_new_buffer", 0);
    fake.kernel(12, c"spin", 10);
    finish(fake, profiler);
    let summary = files.summary();
    let found = (kernels(activity(&summary)), summary.losses.activity);
    let expected = |ran: u64, outstanding| {
        let kernels = if ran == 0 { vec![] } else { vec![(SPIN, ran, 10 * ran)] };
        (kernels, with(ActivityLosses::default(), |it| it.outstanding = outstanding))
    };
    // The test reads how many came.
    match [expected(2, 0), expected(1, 2), expected(0, 3)].iter().position(|it| *it == found) {
        Some(missing) => println!("{}", 2 - missing),
        None => panic!("{found:?}"),
    }
}

/// Nobody asks for a summary: the collector's own thread takes the records, and they are in the files while the program
/// runs.
fn unattended(fake: &Fake, tier: &str) {
    let files = Files::new();
    let profiler = start(files.builder().report([Report::Api]), tier);
    fake.tell("fake_together", 0);
    info_span!("work").in_scope(|| fake.call(LAUNCH, 11, HANDLE));
    fake.tell("fake_calls_itself", 12);
    fake.kernel(11, c"_Z5scaleIfEvPT_S0_i", 500);
    let began = Instant::now();
    while !std::fs::read_to_string(files.trace()).is_ok_and(|text| text.contains(SCALE)) {
        assert!(began.elapsed() < Duration::from_secs(60), "nothing is collected while the program runs");
        std::thread::yield_now();
    }
    // Work after the last summary that is complete only at the end.
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
    // CUPTI's own call on the collector's thread is in no timeline.
    assert_eq!(trace.calls().into_iter().map(|(id, ..)| id).collect::<Vec<_>>(), [11, 13]);
}
