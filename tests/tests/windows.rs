//! Windows: each instance is in exactly one window of each cursor, whatever the others read, and whatever runs
//! meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tests::launcher::Folder;
use tracing::dispatcher::with_default;
use tracing::{Dispatch, Instrument as _, info_span};
use tracing_gpu::summary::Times;
use tracing_gpu::{ClockPair, Output, Profiler, ProfilerBuilder, Summary, SummaryExt as _, TreeNode, Windows};
use tracing_subscriber::prelude::*;

fn builder() -> ProfilerBuilder {
    Profiler::builder().output(Output::None).nvtx(false).environment(false)
}

fn start(builder: ProfilerBuilder) -> (Profiler, Dispatch) {
    let profiler = builder.build().expect("settings that can be used");
    let subscriber = Dispatch::new(tracing_subscriber::registry().with(profiler.layer()));
    (profiler, subscriber)
}

/// Counts and times of rows, by table and name; the counts are to be equal, and the times to be near.
#[derive(Clone, Default, Debug)]
struct Totals {
    windows: u64,
    rows: BTreeMap<String, (Vec<u64>, u64)>,
}

impl Totals {
    fn add(&mut self, name: String, counts: &[u64], time: u64) {
        let (all, total) = self.rows.entry(name).or_insert_with(|| (vec![0; counts.len()], 0));
        all.iter_mut().zip(counts).for_each(|(all, more)| *all += more);
        *total += time;
    }

    fn add_times(&mut self, name: String, times: &Times) {
        let in_buckets = times.histogram.iter().map(|(_, count)| count).sum::<u64>();
        assert_eq!(in_buckets, times.instances, "{name}: {times:?}");
        assert!(times.median_ns.is_some() && times.min_ns as f64 <= times.max_ns as f64, "{name}: {times:?}");
        self.add(name, &[times.instances], times.total_ns);
        for (bucket, count) in &times.histogram {
            assert!(*count > 0 && *bucket < 512);
        }
    }

    fn add_node(&mut self, above: &str, node: &TreeNode) {
        let name = format!("{above}/{}", node.name);
        let work = node.gpu.as_ref().map_or([0; 3], |gpu| [gpu.own.operations, gpu.total.operations, gpu.own.sum_ns]);
        self.add(format!("node {name}"), &[node.calls, node.instances, work[0], work[1], work[2]], node.total_ns);
        self.add(format!("self {name}"), &[], node.self_ns);
        node.children.iter().for_each(|child| self.add_node(&name, child));
    }

    fn add_summary(&mut self, summary: &Summary) {
        self.windows += 1;
        for row in summary.ranges.iter().filter(|row| row.times.instances > 0) {
            self.add_times(format!("range {}", row.label()), &row.times);
        }
        for row in &summary.categories {
            self.add_times(format!("category {}", row.category), &row.times);
        }
        for row in summary.calls.iter().filter(|row| row.latency.instances > 0) {
            self.add_times(format!("call {}", row.label()), &row.latency);
            let states = row.states.expect("states");
            self.add(format!("ready {}", row.label()), &[], states.ready_ns);
        }
        let gpu = summary.gpu.as_ref().expect("work of the GPU");
        for row in &gpu.kernels {
            self.add_times(format!("kernel {}", row.name), &row.times);
            self.add(format!("time of {}", row.name), &[row.times.total_ns], 0);
        }
        self.add("operations".to_owned(), &[gpu.total.operations, gpu.total.sum_ns, gpu.total.busy_ns], 0);
        summary.tree.iter().for_each(|node| self.add_node("", node));
        self.add("strays".to_owned(), &[summary.losses.stray_exits, summary.losses.spans_dropped], 0);
    }

    fn is_equal(&self, whole: &Self) {
        let names = |totals: &Self| totals.rows.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(self), names(whole));
        for ((name, (counts, time)), (all_counts, all_time)) in self.rows.iter().zip(whole.rows.values()) {
            assert_eq!(counts, all_counts, "{name}, in {} windows", self.windows);
            // Each window rounds, and the rate of the clock is known better and better.
            let off = 2 * self.windows + all_time / 1_000;
            assert!(time.abs_diff(*all_time) <= off, "{name}: {time} of {all_time}, in {} windows", self.windows);
        }
    }
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

/// How many windows each of the cursors reads.
const WINDOWS: [u64; 3] = [6_000, 3_000, 1_000];

#[test]
fn ten_thousand_windows_by_three_cursors_have_each_instance_once() {
    let (profiler, subscriber) = start(builder());
    let queue = profiler.ingest("Radeon", ClockPair::now(7_000_000_000));
    let (done, read_so_far, cursors) = (AtomicBool::new(false), AtomicU64::new(0), WINDOWS.map(|_| profiler.windows()));
    // Each load goes on while windows are read, and stays a little ahead of them.
    let go_on = |batch: &mut u64| {
        *batch += 1;
        while read_so_far.load(Relaxed) < *batch && !done.load(Relaxed) {
            std::thread::yield_now();
        }
        !done.load(Relaxed)
    };
    let hot = || {
        let mut batch = 0;
        while go_on(&mut batch) {
            (0..200).for_each(|_| info_span!("hot").in_scope(|| ()));
        }
    };
    let nested = || {
        let mut batch = 0;
        while go_on(&mut batch) {
            info_span!("outer", nvtx.category = "io").in_scope(|| {
                info_span!("inner").in_scope(|| info_span!("innermost").in_scope(|| ()));
                info_span!("named", nvtx.name = format!("name {}", batch / 500 % 12)).in_scope(|| ());
            });
        }
    };
    let calls = || {
        let step = |number: u32| async move {
            tokio::task::yield_now().await;
            number
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let mut batch = 0;
        while go_on(&mut batch) {
            runtime.block_on(async {
                let both = async { tokio::join!(step(2), step(1).instrument(info_span!("child"))) };
                both.instrument(info_span!("request")).await;
            });
        }
    };
    let short = || {
        let mut batch = 0;
        while go_on(&mut batch) {
            batch += 9;
            let run = || with_default(&subscriber, || (0..10).for_each(|_| info_span!("short").in_scope(|| ())));
            std::thread::scope(|scope| _ = scope.spawn(run));
        }
    };
    let frames = || {
        let mut batch = 0;
        while go_on(&mut batch) {
            let at = 7_000_000_000 + batch * 10_000;
            info_span!("frame").in_scope(|| {
                let drawn = info_span!("draw").in_scope(|| queue.submit());
                queue.ran(drawn, "shadows", at, at + 1_000 + batch % 7);
                queue.ran(queue.submit(), "main", at + 2_000, at + 4_000);
            });
        }
    };
    let read = |windows: &Windows, count: u64| {
        let (mut totals, mut resident) = (Totals::default(), 0);
        for window in 0..count {
            totals.add_summary(&windows.next());
            read_so_far.fetch_add(1, Relaxed);
            if window == count / 2 {
                resident = resident_kib();
            }
        }
        (totals, resident)
    };
    let mut totals: Vec<(Totals, u64)> = std::thread::scope(|scope| {
        let loads: [&(dyn Fn() + Sync); 5] = [&hot, &nested, &calls, &short, &frames];
        let subscriber = &subscriber;
        let loads = loads.map(|load| scope.spawn(move || with_default(subscriber, load)));
        let readers = std::array::from_fn::<_, 3, _>(|cursor| {
            let windows = &cursors[cursor];
            scope.spawn(move || read(windows, WINDOWS[cursor]))
        });
        let totals = readers.map(|reader| reader.join());
        done.store(true, Relaxed);
        loads.into_iter().for_each(|load| load.join().expect("a load"));
        totals.map(|totals| totals.expect("a reader")).into()
    });
    let (resident, half) = (resident_kib(), totals[0].1);
    let mut whole = Totals::default();
    whole.add_summary(&profiler.summary());
    for ((totals, _), windows) in totals.iter_mut().zip(&cursors) {
        totals.add_summary(&windows.next());
        totals.is_equal(&whole);
        assert!(windows.next().ranges.iter().all(|row| row.times.instances == 0), "it was read already");
    }
    // The finish adds nothing, and the profiler's own cursor has not read yet.
    let late = profiler.windows();
    let mut own = Totals::default();
    own.add_summary(&profiler.window());
    own.is_equal(&whole);
    profiler.finish().expect("nothing to write");
    let mut after = Totals::default();
    after.add_summary(&late.next());
    after.is_equal(&whole);
    assert!(late.next().ranges.is_empty());
    assert!(resident < half + (8 << 10), "{half} KiB after half of the windows, {resident} KiB at their end");
}

#[test]
fn a_reset_begins_the_windows_anew() {
    let (profiler, subscriber) = start(builder());
    let (windows, other) = (profiler.windows(), profiler.windows());
    let spans = |count| (0..count).for_each(|_| info_span!("step").in_scope(|| ()));
    let instances = |summary: Summary| summary.ranges.iter().map(|row| row.times.instances).sum::<u64>();
    with_default(&subscriber, || {
        spans(3);
        assert_eq!(instances(windows.next()), 3);
        spans(4);
        profiler.reset();
        assert_eq!([&windows, &other].map(|windows| instances(windows.next())), [0, 0]);
        spans(2);
        let (window, whole) = (windows.next(), profiler.summary());
        assert!(window.elapsed_ns < whole.elapsed_ns, "the window began later");
        assert_eq!([window, whole].map(instances), [2, 2]);
        spans(20);
        assert_eq!([&windows, &other].map(|windows| instances(windows.next())), [20, 22]);
    });
}

/// A span that is open over several windows is in the one in which it ends, with all of its time.
#[test]
fn an_instance_is_in_the_window_in_which_it_ends() {
    let (profiler, subscriber) = start(builder());
    let wait = Duration::from_millis(20);
    with_default(&subscriber, || {
        info_span!("long").in_scope(|| {
            assert!(profiler.window().ranges.is_empty());
            std::thread::sleep(wait);
            info_span!("short").in_scope(|| ());
            let window = profiler.window();
            assert_eq!(window.ranges.len(), 1, "{:?}", window.ranges);
            assert_eq!((window.losses.open.len(), window.outside_ns), (1, None));
        });
        info_span!("short").in_scope(|| std::thread::sleep(wait));
        let window = profiler.window();
        let times = |name: &str| window.ranges.iter().find(|row| row.name == name).map(|row| row.times.clone());
        let (long, short) = (times("long").expect("it ended"), times("short").expect("the second one"));
        assert!(long.min_ns == long.total_ns && u128::from(long.total_ns) >= wait.as_nanos(), "{long:?}");
        // The first one was shorter, but is not of this window.
        assert!(short.instances == 1 && short.min_ns == short.max_ns && short.median_exact, "{short:?}");
        assert!(u128::from(short.min_ns) >= wait.as_nanos() && window.ended_unix_ns > Some(0), "{short:?}");
        let long = window.tree.iter().find(|node| node.name == "long").expect("its node");
        assert_eq!((long.calls, long.instances, long.first_ns), (0, 1, 0), "it was created and entered before");
    });
}

/// The files whose names begin so, once there are so many. Waits for a thread of the profiler.
fn files(folder: &Folder, start: &str, count: usize) -> Vec<PathBuf> {
    let began = Instant::now();
    loop {
        let all = fs::read_dir(&folder.0).expect("a folder").map(|file| file.expect("a file").path());
        let is_meant = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(start) && !name.contains(".tmp")
        };
        let mut all: Vec<PathBuf> = all.filter(is_meant).collect();
        all.sort();
        if all.len() >= count {
            return all;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{all:?}");
        std::thread::yield_now();
    }
}

#[test]
fn files_of_windows_add_up_to_the_run() {
    let folder = Folder::new();
    let path = |name: &str| folder.0.join(name).display().to_string();
    let settings = format!("every=20ms,json={},folded={}", path("run-%t.json"), path("run.folded"));
    let (builder, complaints) = builder().settings(&settings);
    assert!(complaints.is_empty(), "{complaints:?}");
    let (profiler, subscriber) = start(builder);
    let count = 1_000;
    with_default(&subscriber, || {
        for number in 0..count {
            info_span!("step").in_scope(|| ());
            if number % 250 == 249 {
                files(&folder, "run-", number / 250 + 2);
            }
        }
    });
    let before = files(&folder, "run-", 5).len();
    profiler.finish().expect("files that can be written");
    let all = files(&folder, "run-", before + 1);
    let windows: Vec<Summary> =
        all.iter().map(|path| Summary::read_json(fs::File::open(path).expect("a file")).expect("a summary")).collect();
    let instances = windows.iter().flat_map(|window| &window.ranges).map(|row| row.times.instances).sum::<u64>();
    assert_eq!(instances, count as u64);
    assert!(windows.is_sorted_by_key(|window| window.ended_unix_ns), "names sort as the windows do");
    assert!(windows.iter().all(|window| window.empty_because.is_none()));
    assert!(files(&folder, "run.folded", 1).len() == 1, "a name without a time is of the whole run");
}

#[test]
fn two_readers_of_one_cursor_share_its_windows() {
    let (profiler, subscriber) = start(builder());
    let (windows, barrier) = (profiler.windows(), Barrier::new(3));
    let read = || {
        barrier.wait();
        (0..200).map(|_| windows.next().ranges.iter().map(|row| row.times.instances).sum::<u64>()).sum::<u64>()
    };
    let instances: u64 = std::thread::scope(|scope| {
        let readers = [(); 2].map(|()| scope.spawn(read));
        barrier.wait();
        with_default(&subscriber, || (0..10_000).for_each(|_| info_span!("step").in_scope(|| ())));
        readers.into_iter().map(|reader| reader.join().expect("a reader")).sum()
    });
    let rest: u64 = windows.next().ranges.iter().map(|row| row.times.instances).sum();
    assert_eq!(instances + rest, 10_000);
}
