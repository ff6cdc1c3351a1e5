//! Two summaries of nvprof: their figures are read into a summary and printed again. (Times of a third program are
//! tested where they are printed: in `crates/range-report/src/report/nvprof/tests.rs`.)

use super::printed;
use tracing_gpu::summary::{
    ApiCallStats, GpuActivity, KernelStats, MemoryKind, MemoryStats, OpenAccStats, Process, Sizes, Times,
};
use tracing_gpu::{Report, Summary, TableStyle};

/// A total, in nanoseconds, that its five digits do not determine: `209.16us` may be 209,155 to 209,164. This is the
/// nearest one whose tenth is printed as `20.915us`.
const FOUND: (&str, u64) = ("cuMemAlloc", 209_159);

#[test]
fn convolutions() {
    compare(include_str!("../../golden/nvprof/openacc_cnn.txt"), [3, 19, 18]);
}

#[test]
fn sample() {
    compare(include_str!("../../golden/nvprof/sample.txt"), [2, 11, 0]);
}

fn compare(expected: &str, [operations, calls, events]: [usize; 3]) {
    let (title, rest) = expected.split_once('\n').expect("a title");
    let (pid, command) = title[2..].split_once("== Profiling application: ").expect("process and command");
    let mut lines = rest.lines().skip(2); // `Profiling result:` and the header

    let mut gpu = GpuActivity::default();
    for line in lines.by_ref().take(operations) {
        let (name, times) = row(line);
        match memory_kind(&name) {
            Some(kind) => gpu.memory.push(MemoryStats::new(kind, times, Sizes::default())),
            None => gpu.kernels.push(KernelStats::new(name, times)),
        }
    }
    // With CUPTI's version suffixes.
    let call = |line| {
        let (name, times) = row(line);
        let version = if name.starts_with("cuda") { "_v7000" } else { "_v2" };
        ApiCallStats::new(name + version, times)
    };
    gpu.calls = Some(lines.by_ref().take(calls).map(call).collect());

    let mut summary = Summary::default();
    summary.openacc = lines.map(event).collect();
    assert_eq!(summary.openacc.len(), events);
    summary.process = {
        let mut it = Process::default();
        it.pid = pid.parse().expect("a process id");
        it.command = command.to_owned();
        it
    };
    summary.gpu = Some(gpu);
    // The style of other tables does not affect this one.
    for style in [TableStyle::Current, TableStyle::Legacy] {
        assert_eq!(printed(&summary, Report::Nvprof, style), format!("\n{expected}\n"));
    }
}

/// An event of OpenACC.
fn event(line: &str) -> OpenAccStats {
    let (name, times) = row(line);
    let (event, place) = name.split_once('@').expect("a place");
    let (place, detail) = match place.strip_suffix(')').and_then(|place| place.split_once(" (")) {
        Some((place, detail)) => (place, Some(detail.to_owned())),
        None => (place, None),
    };
    let mut row = OpenAccStats::new(event, times);
    (row.place, row.detail) = (Some(place.to_owned()), detail);
    row
}

/// Name and times of a line.
fn row(line: &str) -> (String, Times) {
    let mut rest = line[16..].trim_start();
    let mut cell = || {
        let (cell, after) = rest.split_once(' ').expect("a cell");
        rest = after.trim_start();
        cell
    };
    let [_share, total, calls, _mean, min, max] = std::array::from_fn(|_| cell());
    let total_ns = if rest == FOUND.0 { FOUND.1 } else { nanoseconds(total) };
    let instances = calls.parse().expect("calls");
    let mut times = Times::new(instances, total_ns);
    times.min_ns = nanoseconds(min);
    times.max_ns = nanoseconds(max);
    (rest.to_owned(), times)
}

/// The nanoseconds of a printed time, to its last digit.
fn nanoseconds(time: &str) -> u64 {
    let (number, unit) = time.split_at(time.find(|c: char| c.is_ascii_alphabetic()).expect("a unit"));
    let size = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        other => panic!("unit {other}"),
    };
    (number.parse::<f64>().expect("a number") * size).round() as u64
}

fn memory_kind(name: &str) -> Option<MemoryKind> {
    match name {
        "[CUDA memcpy HtoD]" => Some(MemoryKind::HtoD),
        "[CUDA memcpy DtoH]" => Some(MemoryKind::DtoH),
        _ => None,
    }
}
