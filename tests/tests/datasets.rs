//! Datasets of Parquet files: of windows, and of timelines that were written before.

mod scenario;

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::RowAccessor as _;
use range_model::timeline::{Item, Sink};
use scenario::{BOTH, command, outcome};
use tests::launcher::Folder;
use tracing::dispatcher::with_default;
use tracing::{Dispatch, Instrument as _, info_span};
use tracing_gpu::import::{Identity, Imported, timeline};
use tracing_gpu::summary::Process;
use tracing_gpu::{ClockPair, Output, Profiler, ProfilerBuilder, Summary};
use tracing_subscriber::prelude::*;

fn builder() -> ProfilerBuilder {
    Profiler::builder().output(Output::None).nvtx(false).environment(false)
}

fn start(builder: ProfilerBuilder) -> (Profiler, Dispatch) {
    let profiler = builder.build().expect("settings that can be used");
    let subscriber = Dispatch::new(tracing_subscriber::registry().with(profiler.layer()));
    (profiler, subscriber)
}

/// A sink that keeps its items as texts.
struct Kept(Arc<Mutex<Vec<String>>>);

impl Sink for Kept {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        // A trace has the command among its labels alone.
        let known = (process.pid, &process.host, process.rank, &process.run_id, process.started_unix_ns);
        self.0.lock().expect("no test has failed").push(format!("{known:?}"));
        Ok(())
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        // A trace does not say of a number of what kind it was, and has a large one as a text. Datasets have texts.
        let text = format!("{item:?}").replace("Unsigned(", "Integer(");
        let text = text.replace(&format!("Text(\"{}\")", u64::MAX), &format!("Integer({})", u64::MAX));
        self.0.lock().expect("no test has failed").push(text);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, _: &Summary, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// All items of a file in the order of their texts.
fn imported(path: &Path) -> (Imported, Vec<String>) {
    let kept = Arc::<Mutex<Vec<String>>>::default();
    let folder = path.parent().expect("a folder");
    let new = &mut |_: &Process| Box::new(Kept(kept.clone())) as Box<dyn Sink>;
    let counts = timeline(path, &Identity::default(), folder, new).unwrap_or_else(|error| panic!("{error}"));
    let mut items = kept.lock().expect("no test has failed").clone();
    items.sort();
    (counts, items)
}

/// Checks that the trace and the database of one run have the same items. Returns how many.
fn assert_same(folder: &Folder, trace: &str) -> Imported {
    let [(counts, items), (expected_counts, expected)] =
        [trace, "run.sqlite"].map(|name| imported(&folder.0.join(name)));
    for (item, expected) in items.iter().zip(&expected) {
        assert_eq!(item, expected);
    }
    assert_eq!((items.len(), counts), (expected.len(), expected_counts));
    let left: Vec<_> = std::fs::read_dir(&folder.0).expect("a folder").map(|file| file.expect("a file")).collect();
    assert!(left.iter().all(|file| !file.file_name().to_string_lossy().starts_with(".convert")), "{left:?}");
    counts
}

#[test]
fn a_trace_has_the_ranges_and_calls_of_the_database() {
    for tier in BOTH {
        for (scenario, trace) in
            [("timeline", "run.json"), ("timeline-domains", "run.json.gz"), ("timeline-cut", "run.json")]
        {
            let folder = Folder::new();
            let setting = [("trace", trace), ("sqlite", "run.sqlite")]
                .map(|(key, name)| format!("{key}={}", folder.0.join(name).display()));
            let mut command: Command = command(scenario, tier);
            command.env("TRACING_GPU", setting.join(",")).env("TRACING_GPU_RUN_ID", "a, b").env("RANK", "3");
            outcome(&mut command);
            let counts = assert_same(&folder, trace);
            assert!(counts.ranges > 0, "{scenario}: {counts:?}");
        }
    }
}

#[test]
fn a_trace_has_the_kernels_of_the_database() {
    let folder = Folder::new();
    let [trace, database] = ["run.json", "run.sqlite"].map(|name| folder.0.join(name));
    let (profiler, subscriber) = start(builder().trace(&trace).sqlite(&database));
    let queue = profiler.ingest("Radeon", ClockPair::now(7_000_000_000));
    with_default(&subscriber, || {
        for number in 0..10 {
            let at = 8_000_000_000 + number * 100_000; // after its launch
            info_span!("frame", number).in_scope(|| {
                let submission = info_span!("pass").in_scope(|| queue.submit());
                queue.ran(submission, "shadows", at + 1_000, at + 11_000);
                queue.ran(submission, "main", at + 11_000, at + 31_000);
            });
        }
    });
    queue.ran(queue.submit(), "alone", 8_002_000_000, 8_002_000_400);
    profiler.finish().expect("files that can be written");
    let counts = assert_same(&folder, "run.json");
    assert_eq!((counts.ranges, counts.operations), (20, 21));
    let (_, items) = imported(&trace);
    let of_pass = "span: Some(\"pass\"), path: [\"frame\", \"pass\"]";
    assert_eq!(items.iter().filter(|item| item.contains("kernel: \"main\"") && item.contains(of_pass)).count(), 10);
}

/// The files of a dataset that are closed.
fn closed(folder: &Folder, dataset: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.0.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("a file").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match path.is_dir() {
                true => folders.push(path),
                false if name.starts_with(dataset) => found.push(path),
                false => {}
            }
        }
    }
    found
}

#[test]
fn windows_of_a_run_add_up_to_its_calls() {
    let folder = Folder::new();
    let settings = format!("every=20ms,parquet={},json={}", folder.0.display(), folder.0.join("w-%t").display());
    let (builder, complaints) = builder().settings(&settings);
    assert!(complaints.is_empty(), "{complaints:?}");
    let (profiler, subscriber) = start(builder);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let windows_so_far =
        || std::fs::read_dir(&folder.0).expect("a folder").filter(|file| is_of_window(file.as_ref())).count();
    let (began, mut calls) = (Instant::now(), 0);
    while windows_so_far() < 4 {
        assert!(began.elapsed() < Duration::from_secs(60), "no windows are written");
        with_default(&subscriber, || {
            runtime.block_on(tokio::task::yield_now().instrument(info_span!("request")));
        });
        calls += 1;
    }
    profiler.finish().expect("files that can be written");
    let mut windows = Vec::new();
    for path in closed(&folder, "states-") {
        let reader = SerializedFileReader::new(File::open(path).expect("a file")).expect("a Parquet file");
        for row in reader.get_row_iter(None).expect("rows") {
            let row = row.expect("a row");
            // window_start_ns, window_ns, state, instances
            let state = row.get_string(7).expect("a text").clone();
            if state == "awaited" || state == "otherwise" {
                windows.push([1, 2, 10].map(|column| row.get_long(column).expect("a number")));
            }
        }
    }
    windows.sort_unstable();
    assert!(windows.len() >= 3, "{windows:?}");
    assert_eq!(windows.iter().map(|[_, _, instances]| instances).sum::<i64>(), calls);
    assert!(windows.windows(2).all(|pair| pair[0][0] < pair[1][0]), "each window has a start of its own: {windows:?}");
}

fn is_of_window(file: Result<&std::fs::DirEntry, &io::Error>) -> bool {
    file.is_ok_and(|file| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.starts_with("w-") && !name.contains(".tmp")
    })
}
