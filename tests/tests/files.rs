//! Files that are written at the end of a run: their places, and failures to write them.

mod scenario;
#[path = "files/start.rs"]
mod start;
#[path = "files/whole.rs"]
mod whole;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::usage::Usage;
use tests::with;

use scenario::{BOTH, LAYER, TemporaryFile, command, outcome};
use tests::recorder::example;
use tracing_gpu::summary::{
    ApiCallStats, CategoryStats, GpuActivity, GpuWork, KernelStats, MemoryKind, MemoryStats, NodeWork, ProjectionStats,
    Sizes, StreamStats, Times,
};
use tracing_gpu::{MergedSummaryExt as _, RenderOptions, Summary, SummaryExt as _};

/// A folder of its own, which the destructor removes.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tracing-gpu-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a folder can be read");
        let mut names: Vec<String> =
            entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn summary(path: &Path) -> Summary {
    let mut file = fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Summary::read_json(&mut file).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_form_is_written_after_the_report() {
    for tier in BOTH {
        let folder = Folder::new(tier);
        let at = |name: &str| folder.0.join(name).display().to_string();
        let setting =
            format!("report=ranges,json={},folded={},gpu_trace={}", at("%r-%p.json"), at("%h.folded"), at("100%%.txt"));
        let mut command = command("defaults", tier);
        let ran = outcome(command.env("TRACING_GPU", setting).env("RANK", "3").env("TRACING_GPU_RUN_ID", "nightly"));
        assert!(ran.status.success() && ran.stderr.contains("Range Summary ("), "{tier}: {}", ran.stderr);
        assert!(!ran.stderr.contains("tracing-gpu:"), "{tier}: {}", ran.stderr);

        let files = folder.files();
        let json = files.iter().find(|name| name.ends_with(".json")).expect("a summary");
        let summary = summary(&folder.0.join(json));
        let process = &summary.process;
        assert_eq!(*json, format!("3-{}.json", process.pid));
        assert_eq!((process.rank, process.run_id.as_str()), (Some(3), "nightly"));
        assert!(process.command.contains("spans") && process.started_unix_ns > 0 && !process.host.is_empty());
        assert_eq!(files.len(), 3, "{files:?}");

        let folded = fs::read_to_string(folder.0.join(format!("{}.folded", process.host))).expect("folded stacks");
        let weight = |line: &str| line.rsplit_once(' ').and_then(|(_, ns)| ns.parse::<u64>().ok()).expect("a weight");
        let covered: u64 = own_times(&summary.tree);
        assert_eq!(folded.lines().map(weight).sum::<u64>(), covered, "{folded}");
        assert!(folded.lines().any(|line| line.starts_with("outer;inner ")), "{folded}");
        assert!(files.iter().any(|name| name == "100%.txt"), "{files:?}");
    }
}

fn own_times(nodes: &[tracing_gpu::summary::TreeNode]) -> u64 {
    nodes.iter().map(|node| node.self_ns + own_times(&node.children)).sum()
}

/// Follows an error at the start that may be gone at the end.
const AGAIN: &str = "; the profiler tries again at the end";

#[test]
fn a_file_that_cannot_be_written_is_one_line() {
    let folder = Folder::new("unwritable");
    let directory = folder.0.display().to_string();
    let inside = folder.0.join("run.folded");
    for tier in BOTH {
        for (path, said, at_start) in [
            ("/dev/full", "No space left on device (os error 28)", false),
            ("/no/such/folder/run.json", "No such file or directory (os error 2)", true),
            (directory.as_str(), "Is a directory (os error 21)", true),
            ("/proc/version/run.json", "Not a directory (os error 20)", true),
        ] {
            // The other files are written, the report is printed, and the exit status is the program's own.
            let setting = format!("report=ranges,json={path},folded={}", inside.display());
            for (scenario, code) in [("defaults", 0), ("leaked-process-exit", 7), ("panic", 101)] {
                let ran = outcome(command(scenario, tier).env("TRACING_GPU", &setting));
                assert_eq!(ran.status.code(), Some(code), "{tier} {scenario} {path}: {}", ran.stderr);
                let line = format!("tracing-gpu: cannot write the JSON to `{path}`: {said}");
                let (first, last) = (format!("{line}{AGAIN}\n"), format!("\n{line}\n"));
                let told = if at_start { ran.stderr.starts_with(&first) } else { ran.stderr.ends_with(&last) };
                assert!(told, "{tier} {scenario} {path}: {}", ran.stderr);
                assert_eq!(ran.stderr.matches("tracing-gpu:").count(), 1, "{tier} {scenario} {path}");
                assert!(ran.stderr.contains("Range Summary ("), "{tier} {scenario} {path}: {}", ran.stderr);
                fs::remove_file(&inside).unwrap_or_else(|error| panic!("{tier} {scenario} {path}: {error}"));
            }
        }
    }
}

#[test]
fn each_file_has_its_line_and_finish_returns_them() {
    let setting = "report=ranges,json=/dev/full,folded=/no/such/a\nb,gpu_trace=/dev/full";
    let lines = [
        "cannot write the report to `/no/such/folder/report.txt`: No such file or directory (os error 2)",
        "cannot write the JSON to `/dev/full`: No space left on device (os error 28)",
        "cannot write the folded stacks to `/no/such/a\\nb`: No such file or directory (os error 2)",
        "cannot write the GPU trace to `/dev/full`: No space left on device (os error 28)",
    ];
    for tier in BOTH {
        let start = format!("tracing-gpu: {}{AGAIN}\ntracing-gpu: {}{AGAIN}\n", lines[0], lines[2]);
        let ran = outcome(command("unwritable-finish", tier).env("TRACING_GPU", setting));
        assert_eq!((ran.status.code(), ran.stdout), (Some(0), lines.join("\n") + "\n"), "{tier}: {}", ran.stderr);
        assert!(ran.stderr.starts_with(&start), "{tier}: {}", ran.stderr);
        assert_eq!(ran.stderr.matches("tracing-gpu:").count(), 2, "{tier}: {}", ran.stderr);
        let ran = outcome(command("unwritable-drop", tier).env("TRACING_GPU", setting));
        let end = format!("\ntracing-gpu: {}\ntracing-gpu: {}\n", lines[1], lines[3]);
        assert_eq!(ran.status.code(), Some(7), "{tier}: {}", ran.stderr);
        assert!(ran.stderr.starts_with(&start) && ran.stderr.ends_with(&end), "{tier}: {}", ran.stderr);
        assert_eq!(ran.stderr.matches("tracing-gpu:").count(), 4, "{tier}: {}", ran.stderr);
    }
}

#[test]
fn of_two_outputs_to_one_file_the_first_is_written() {
    for tier in BOTH {
        let folder = Folder::new(&format!("one-file-{tier}"));
        let (path, again) = (folder.0.join("run.json"), folder.0.join("./run.json"));
        let setting = format!("report=ranges,trace={},json={}", path.display(), again.display());
        let ran = outcome(command("defaults", tier).env("TRACING_GPU", setting));
        let line = format!("tracing-gpu: cannot write the JSON to `{}`: the trace goes there\n", again.display());
        assert!(ran.status.success() && ran.stderr.starts_with(&line), "{tier}: {}", ran.stderr);
        assert_eq!(ran.stderr.matches("tracing-gpu:").count(), 1, "{tier}: {}", ran.stderr);
        assert!(ran.stderr.contains("Range Summary ("), "{tier}: {}", ran.stderr);
        assert!(fs::read_to_string(&path).expect("a trace").starts_with("[\n"), "{tier}");

        // A device may be named any number of times.
        let ran = outcome(command("defaults", tier).env("TRACING_GPU", "trace=/dev/null,json=/dev/null"));
        assert!(ran.status.success() && !ran.stderr.contains("tracing-gpu:"), "{tier}: {}", ran.stderr);
    }
}

#[test]
fn of_two_profilers_with_one_file_the_first_writes_it_until_it_ends() {
    for tier in BOTH {
        let folder = Folder::new(&format!("two-profilers-{tier}"));
        let path = folder.0.join("run.json");
        let line = format!(
            "tracing-gpu: cannot write the JSON to `{}`: the JSON of another profiler goes there\n",
            path.display()
        );
        let setting = format!("json={}", path.display());
        let ran = outcome(command("two-profilers", tier).env("TRACING_GPU", &setting));
        assert!(ran.status.success() && ran.stderr == line, "{tier}: {}", ran.stderr);
        assert_eq!(summary(&path).notes, [], "{tier}: the second says that NVTX is not its own");

        // Of three profilers, the second lives beside the first, and the third is built after the second has ended.
        let ran = outcome(command("nvtx-passes-on", tier).env("TRACING_GPU", &setting));
        assert!(ran.status.success() && ran.stderr == line, "{tier}: {}", ran.stderr);
        assert_eq!(summary(&path).ranges[0].name, "next", "{tier}");
    }
}

/// The file is open elsewhere in the one way that Linux forbids to write: it is the running program.
#[test]
fn a_file_that_is_in_use_is_one_line() {
    let copy = TemporaryFile::new("spans");
    // A separate process makes the copy. Otherwise another test's child, forked while the copy is open for writing
    // here, would keep it busy.
    let copied = Command::new("cp").arg(example("spans")).arg(&copy.0).status().expect("cp is there");
    assert!(copied.success());
    let before = fs::metadata(&copy.0).expect("a file").len();
    let path = copy.0.display();
    let ran = outcome(Command::new(&copy.0).args(["defaults", LAYER]).env("TRACING_GPU", format!("json={path}")));
    assert_eq!(ran.status.code(), Some(0), "{}", ran.stderr);
    let line = format!("tracing-gpu: cannot write the JSON to `{path}`: Text file busy (os error 26){AGAIN}\n");
    assert!(ran.stderr.starts_with(&line) && ran.stderr.contains("Range Summary ("), "{}", ran.stderr);
    assert_eq!(ran.stderr.matches("tracing-gpu:").count(), 1, "{}", ran.stderr);
    assert_eq!(fs::metadata(&copy.0).expect("a file").len(), before);
}

/// The files of several processes, joined again.
#[test]
fn the_ranks_of_a_run_are_joined() {
    let folder = Folder::new("ranks");
    let setting = format!("out=none,json={}", folder.0.join("%r.json").display());
    for rank in ["0", "1", "2", "10"] {
        let mut command = command("defaults", LAYER);
        let ran = outcome(command.env("TRACING_GPU", &setting).env("SLURM_PROCID", rank).env("SLURM_JOB_ID", "77"));
        assert!(ran.status.success() && ran.stderr.is_empty(), "{}", ran.stderr);
    }
    assert_eq!(folder.files(), ["0.json", "1.json", "10.json", "2.json"]);
    let all: Vec<Summary> = folder.files().iter().map(|name| summary(&folder.0.join(name))).collect();
    let merged = Summary::merge(all.clone());
    let ranks: Vec<Option<u32>> = merged.processes.iter().map(|process| process.rank).collect();
    assert_eq!(ranks, [Some(0), Some(1), Some(2), Some(10)]);
    assert!(merged.processes.iter().all(|process| process.run_id == "77"));
    let step = merged.ranges.iter().find(|range| range.key.name == "step").expect("a range");
    let totals =
        || all.iter().flat_map(|one| &one.ranges).filter(|range| range.name == "step").map(|range| &range.times);
    assert_eq!((step.all.instances, step.ranks.len()), (40, 4));
    assert_eq!(step.all.total_ns, totals().map(|times| times.total_ns).sum::<u64>());
    assert_eq!(step.ranks.slowest().map(|rank| rank.total), totals().map(|times| times.total_ns).max());
    assert_eq!(step.ranks.fastest().map(|rank| rank.total), totals().map(|times| times.total_ns).min());
    let mut text = Vec::new();
    merged.render(&RenderOptions::default(), &mut text).expect("writing to memory");
    assert!(String::from_utf8_lossy(&text).contains(" ** Ranges of 4 Processes (merged):"));
    let root = merged.tree.iter().find(|node| node.key.name == "step").expect("a phase");
    assert_eq!((root.all.instances, root.ranks.len()), (40, 4));
}

/// Adds a GPU's part of a summary: a few dozen kernels and calls, streams, and work at each node of the tree.
fn with_gpu(summary: &mut Summary) {
    let times = |count: u64| {
        let mut it = Times::new(count, count * 12_345);
        it.min_ns = 1_000;
        it.max_ns = 30_000;
        it.median_ns = Some(12_000.5);
        it.median_exact = true;
        it.stddev_ns = 345.25;
        it
    };
    let mut work = GpuWork::new(90, 1_000_000, 900_000);
    work.memory = Vec::new();
    let mut sizes = Sizes::new(5, 5 << 20);
    sizes.min_bytes = 1 << 20;
    sizes.max_bytes = 1 << 20;
    let kernel = |n| format!("void at::native::vectorized_elementwise_kernel<{n}, at::native::CUDAFunctor_add<float>>");
    let mut gpu = GpuActivity::default();
    gpu.kernels = (0..60).map(|n| KernelStats::new(kernel(n), times(n + 1))).collect();
    let kinds = [MemoryKind::HtoD, MemoryKind::DtoH, MemoryKind::DtoD, MemoryKind::PtoP, MemoryKind::Set];
    gpu.memory = kinds.map(|kind| MemoryStats::new(kind, times(5), sizes.clone())).into();
    gpu.calls = Some((0..40).map(|n| ApiCallStats::new(format!("cudaCall{n}_v7000"), times(n + 1))).collect());
    let of_range = |range: &tracing_gpu::summary::RangeStats| {
        let mut it = ProjectionStats::new(range.name.clone(), times(8));
        it.domain = range.domain.clone();
        it.style = range.style;
        it.range_total_ns = 100_000;
        it.operations = 16;
        it.level_sum = 8;
        it.children_sum = 0;
        it
    };
    gpu.projections = summary.ranges.iter().take(60).map(of_range).collect();
    (gpu.total, gpu.outside) = (work.clone(), work.clone());
    let on_stream = |range: &tracing_gpu::summary::RangeStats| {
        with(StreamStats::new(range.name.clone(), "GPU 0 #1", times(8)), |it| it.floor_ns = 1_280)
    };
    summary.stream_ranges = summary.ranges.iter().take(60).map(on_stream).collect();
    summary.categories = (0..10).map(|n| CategoryStats::new(format!("category {n}"), times(n + 1))).collect();
    let mut left: Vec<_> = summary.tree.iter_mut().collect();
    while let Some(node) = left.pop() {
        node.gpu = Some(NodeWork::new(work.clone(), work.clone()));
        left.extend(node.children.iter_mut());
    }
    summary.gpu = Some(gpu);
}

/// As many files as a large run writes, read and joined. `cargo test --release -p tests --test files many --
/// --nocapture` prints the time.
#[test]
fn many_processes_are_joined_quickly() {
    let (count, bound) = if cfg!(debug_assertions) { (50, 60_000) } else { (1_000, 2_000) };
    let folder = Folder::new("many");
    let file = folder.0.join("full.json");
    let ran = outcome(command("phases-of-a-rank", LAYER).env("TRACING_GPU", format!("json={}", file.display())));
    assert!(ran.status.success(), "{}", ran.stderr);
    let mut one = summary(&file);
    with_gpu(&mut one);
    let mut bytes = 0;
    for rank in 0..count {
        one.process.rank = Some(rank);
        one.ranges[rank as usize % 7].times.total_ns += 1_000_000;
        let mut text = Vec::new();
        one.write_json(&mut text).expect("writing to memory");
        bytes += text.len();
        fs::write(folder.0.join(format!("{rank}.json")), text).expect("a file can be written");
    }
    let before = Usage::of_thread(); // processor time, because other programs run beside this one
    let merged = Summary::merge((0..count).map(|rank| summary(&folder.0.join(format!("{rank}.json")))));
    let took = Usage::of_thread() - before;
    let took = took.user + took.system;
    println!(
        "{count} files of {} ranges, {} kernels and {} nodes, {} KB in all: read and joined in {} ms",
        one.ranges.len(),
        one.gpu.as_ref().map_or(0, |gpu| gpu.kernels.len()),
        one.tree.iter().map(|root| 1 + root.children.len()).sum::<usize>(),
        bytes / 1_000,
        took.as_millis()
    );
    assert_eq!((merged.processes.len(), merged.ranges[0].ranks.len()), (count as usize, count as usize));
    let gpu = merged.gpu.expect("there are kernels");
    assert!(gpu.kernels.len() == 60 && gpu.kernels.iter().all(|kernel| kernel.ranks.len() == count as usize));
    assert_eq!(merged.tree.len(), one.tree.iter().map(|root| 1 + root.children.len()).sum::<usize>());
    assert!(took.as_millis() < bound, "{took:?}");
}
