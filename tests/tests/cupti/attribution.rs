//! GPU work and its launching spans: in every table, in the tree and in both timelines.

use std::path::Path;
use tests::with;

use tracing::info_span;
use tracing_gpu::Summary;
use tracing_gpu::summary::{ActivityLosses, GpuWork, MemoryKind, RangeStyle};

use crate::fake::{COPY, Fake, GRAPH, LAUNCH, Place, SYNCHRONIZE, monotonic};
use crate::files::{Chrome, rows};
use crate::profiler::{Files, HANDLE, SCALE, SPIN, activity, finish, kernels, node, start, thread_number};

/// Operations run this long after their launch: a tenth of a second.
const LATER: u64 = 100_000_000;

/// An operation for the timelines: start after `base`, duration, device, context, stream, id, name, span.
type Ran = (u64, u64, u32, u32, u32, u32, &'static str, Option<&'static str>);

pub(crate) fn attribution(fake: &Fake, tier: &str) {
    let files = Files::new();
    let profiler = start(files.builder().json(files.json()), tier);
    // A warm-up whose records arrive partly late.
    fake.place(Place { device: 0, context: 1, stream: 7, node: 0, at: 0 });
    info_span!("warm-up").in_scope(|| {
        fake.call(LAUNCH, 1, HANDLE);
        fake.call(LAUNCH, 2, HANDLE);
    });
    // From two crates, with the same readable name.
    fake.kernel(1, c"_ZN7kernels6square17h0123456789abcdefE", 7_000);
    fake.kernel(1, c"_ZN7kernels6square17h123456789abcdef0E", 1_000);
    fake.tell("fake_drop", 5);
    assert_eq!(kernels(activity(&profiler.summary())), [("kernels::square", 2, 8_000)]);
    assert_eq!(profiler.summary().losses.activity.dropped_records, 5);
    let open = info_span!("open").entered();
    fake.call(LAUNCH, 3, HANDLE);
    fake.kernel(2, c"spin", 100);
    fake.kernel(98, c"spin", 40); // nobody noted its launch
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
    at(7, 4, 7_500);
    fake.memory(15, 1, 1_024, 30);
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
    assert_eq!(summary.losses.activity, with(losses(), |it| it.outstanding = 1));
    finish(fake, profiler);
    let last = files.summary();
    assert_window(&last, worker);
    assert_eq!(last.losses.activity, losses(), "all that was launched has come");
    for context in [HANDLE, 9] {
        assert_eq!(fake.waited(context), i32::from(context == HANDLE), "waited for, once");
    }

    let ran: [Ran; 11] = [
        (1_000, 500, 0, 1, 7, 11, SCALE, Some("outer")),
        (2_000, 300, 0, 1, 8, 12, SPIN, Some("inner")),
        (3_000, 100, 0, 1, 8, 14, "HtoD", Some("inner")),
        (4_000, 500, 0, 1, 7, 13, SPIN, Some("inner")),
        (5_000, 1_000, 0, 1, 7, 15, SPIN, Some("outer")),
        (5_500, 1_000, 0, 1, 7, 15, SPIN, Some("outer")),
        (7_000, 50, 0, 1, 7, 15, "Set", Some("outer")),
        (7_500, 30, 0, 1, 7, 15, "HtoD", Some("outer")),
        (8_000, 10, 0, 1, 7, 16, SPIN, None),
        (9_000, 20, 1, 2, 7, 17, SCALE, Some("elsewhere")),
        (9_500, 5, 0, 1, 9, 99, "DtoH", None),
    ];
    let seen = Seen { base, launched, over, main: thread_number(), worker, ran: &ran };
    assert_trace(&Chrome::read(&files.trace()), &seen);
    assert_database(&files.database(), &seen);
}

fn losses() -> ActivityLosses {
    let mut losses = ActivityLosses::default();
    (losses.dropped_records, losses.without_time, losses.unmatched) = (3, 1, 1);
    losses
}

/// Checks the window after the warm-up.
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
        (MemoryKind::HtoD, 130, 2, 5_120, 1_024, 4_096),
        (MemoryKind::Set, 50, 1, 64, 64, 64),
        (MemoryKind::DtoH, 5, 1, 10, 10, 10),
    ];
    assert!(memory.eq(expected), "{:?}", all.memory);
    assert_eq!(all.calls, None);
    assert_eq!(work(&all.total), (11, 3_515, 3_015), "two kernels of the graph overlap by 500 ns");
    assert_eq!((work(&all.outside), work(&all.unmatched)), ((1, 10, 10), (1, 5, 5)));

    let outer = node(&summary.tree, "outer").gpu.as_ref().expect("work");
    assert_eq!((work(&outer.own), work(&outer.total)), ((5, 2_580, 2_080), (8, 3_480, 2_980)));
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
    // The first of the two starts with its kernel and ends with its copy.
    let expected =
        [(("outer", 1, 6_530), (5, 0, 2)), (("inner", 2, 1_600), (3, 2, 0)), (("elsewhere", 1, 20), (1, 0, 0))];
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

/// The expected contents of the timelines, besides the warm-up.
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
    // The warm-up is first, including its delayed record; the operation without a time is missing.
    let operations: Vec<_> = trace.operations();
    assert_eq!(operations.iter().map(|each| each.id).collect::<Vec<_>>()[..4], [1, 1, 2, 98]);
    assert_eq!(operations.len(), 4 + seen.ran.len());
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
        // An arrow from the thread, at the time of the call.
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
    // Ranges on the streams of their work, each on its level.
    let from = |after: u64| seen.base + after - origin;
    let mut projected = trace.projected();
    projected.retain(|(name, ..)| *name != "warm-up" && *name != "open");
    projected.sort_unstable();
    let expected = [
        ("elsewhere", "Stream 7 ranges", from(9_000), 20, 0),
        ("inner", "Stream 7 ranges, level 1", from(4_000), 500, 1),
        ("inner", "Stream 8 ranges, level 1", from(2_000), 1_100, 1),
        ("outer", "Stream 7 ranges", from(1_000), 6_530, 0),
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
    // Each launch is within the range in which it was made.
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

/// Operations, their sum and their union.
fn work(work: &GpuWork) -> (u64, u64, u64) {
    (work.operations, work.sum_ns, work.busy_ns)
}
