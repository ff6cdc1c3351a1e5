//! How long it takes to join 10,000 summaries, and in how much memory:
//! `cargo run --release -p tests --example merge_scale`.
//!
//! The summaries are made up: 40 ranges, 60 nodes, 20 names of calls and 30 kernels each, read from JSON one by one.

use std::fs;
use std::io;
use std::time::Instant;

use tracing_gpu::summary::{CallStats, GpuActivity, KernelStats, Process, Quantile, RangeStats, Times, TreeNode};
use tracing_gpu::{MergedSummaryExt as _, RenderOptions, Summary, SummaryExt as _};

fn times(rank: u64, row: u64) -> Times {
    let mut times = Times::new(1_000 + row, 1_000_000 * (row + 1) + rank);
    (times.min_ns, times.max_ns, times.median_ns, times.stddev_ns) = (100, 90_000, Some(1_000.5), 44.25);
    times.quantiles = [0.9, 0.99].map(|q| Quantile::new(q, 5_000.0, true)).to_vec();
    times.histogram = (60..100).map(|at| (at, 25 + rank % 3)).collect();
    times
}

fn summary(rank: u64) -> Summary {
    let mut summary = Summary::default();
    let mut process = Process::default();
    (process.pid, process.rank) = (rank as u32, u32::try_from(rank).ok());
    (process.host, process.run_id) = (format!("node{}", rank / 8), "made up".to_owned());
    summary.process = process;
    summary.elapsed_ns = 60_000_000_000;
    summary.ranges = (0..40).map(|row| RangeStats::new(format!("range {row}"), times(rank, row))).collect();
    summary.calls = (0..20).map(|row| CallStats::new(format!("call {row}"), times(rank, row))).collect();
    summary.tree = (0..6)
        .map(|root| {
            let mut root = TreeNode::new(format!("root {root}"));
            root.children = (0..9)
                .map(|child| {
                    let mut child = TreeNode::new(format!("child {child}"));
                    (child.calls, child.instances, child.total_ns, child.self_ns) = (9, 9, 1_000 + rank, 1_000);
                    child
                })
                .collect();
            root
        })
        .collect();
    let mut gpu = GpuActivity::default();
    gpu.kernels = (0..30).map(|row| KernelStats::new(format!("kernel {row}"), times(rank, row))).collect();
    summary.gpu = Some(gpu);
    summary
}

fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.trim().trim_end_matches(" kB").trim().parse::<u64>().ok()).unwrap_or(0) / 1_024
}

fn main() -> io::Result<()> {
    let ranks: u64 = std::env::args().nth(1).and_then(|ranks| ranks.parse().ok()).unwrap_or(10_000);
    let folder = std::env::temp_dir().join(format!("merge-scale-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let path = |rank: u64| folder.join(format!("{rank}.json"));
    for rank in 0..ranks {
        summary(rank).write_json(fs::File::create(path(rank))?)?;
    }
    let (before, bytes) = (peak_mib(), fs::metadata(path(0))?.len());
    let began = Instant::now();
    let read = |rank| Summary::read_json(fs::File::open(path(rank)).ok()?).ok();
    let merged = Summary::merge((0..ranks).filter_map(read));
    let joined = began.elapsed();
    let mut text = Vec::new();
    merged.render(&RenderOptions::default(), &mut text)?;
    println!(
        "{} summaries of {bytes} bytes: joined in {joined:?}, printed in {:?}; peak {} MiB, {before} before",
        merged.processes.len(),
        began.elapsed() - joined,
        peak_mib()
    );
    fs::remove_dir_all(folder)
}
