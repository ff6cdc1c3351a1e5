//! Two summaries of nvprof: what they state is put into a summary and printed again. (The times of a third program, and
//! the section on OpenACC, are tested where they are printed: in `tracing-gpu/src/report/nvprof/tests.rs`.)

use super::printed;
use tracing_gpu::summary::{ApiCallStats, GpuActivity, KernelStats, MemoryKind, MemoryStats, Process, Sizes, Times};
use tracing_gpu::{Report, Summary, TableStyle};

/// A total that does not follow from its five digits, in nanoseconds: of those that print as `209.16us` (209,155 to
/// 209,164), the nearest to it whose tenth is printed as `20.915us`.
const FOUND: (&str, u64) = ("cuMemAlloc", 209_159);

#[test]
fn convolutions() {
    let text = include_str!("../../golden/nvprof/openacc_cnn.txt");
    let openacc = text.find(" OpenACC (excl):").expect("the section that a summary has no data for");
    compare(&text[..openacc], [3, 19]);
}

#[test]
fn sample() {
    compare(include_str!("../../golden/nvprof/sample.txt"), [2, 11]);
}

fn compare(expected: &str, [operations, calls]: [usize; 2]) {
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
    // With the versions that CUPTI names them by.
    let call = |line| {
        let (name, times) = row(line);
        let version = if name.starts_with("cuda") { "_v7000" } else { "_v2" };
        ApiCallStats::new(name + version, times)
    };
    gpu.calls = Some(lines.map(call).collect());
    assert_eq!(gpu.calls.as_ref().map(Vec::len), Some(calls));

    let mut summary = Summary::default();
    summary.process = {
        let mut it = Process::default();
        it.pid = pid.parse().expect("a process id");
        it.command = command.to_owned();
        it
    };
    summary.gpu = Some(gpu);
    // The style of other tables makes no difference to this one.
    for style in [TableStyle::Current, TableStyle::Legacy] {
        assert_eq!(printed(&summary, Report::Nvprof, style), format!("\n{expected}\n"));
    }
}

/// Name and times as a line states them.
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

/// What a printed time states, to its last digit.
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
