//! GPU work by span: a known workload, checked against the program's own record of launches, and made for a comparison
//! with Nsight Systems.
//!
//! `activity SUMMARY.json` runs it with CUPTI, checks the summary and writes it; `activity none` runs the same with
//! NVTX only, for Nsight Systems, which needs CUPTI itself. `tests/gpu/compare_activity.py` compares the two.

mod ledger;
mod parts;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tracing_gpu::summary::{ActivityLosses, GpuActivity, GpuWork, MemoryKind, NodeWork, TreeNode};
use tracing_gpu::{Gpu, Report, Summary};

use crate::device::install;
use ledger::{Ledger, Range};
use workload::Kernel;

/// Prints the name and outcome of every check, and continues after a failure.
#[derive(Default)]
struct Checks {
    failed: usize,
}

impl Checks {
    fn that(&mut self, name: &str, holds: bool, otherwise: impl FnOnce() -> String) {
        if holds {
            println!("ok     {name}");
        } else {
            println!("FAILED {name}\n{}", otherwise());
            self.failed += 1;
        }
    }

    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, name: &str, found: &T, expected: &T) {
        self.that(name, found == expected, || format!("  found    {found:?}\n  expected {expected:?}"));
    }

    /// Compares key by key, so that a difference is shown.
    fn same<K: Ord + std::fmt::Debug, V: PartialEq + std::fmt::Debug>(
        &mut self,
        name: &str,
        found: &BTreeMap<K, V>,
        expected: &BTreeMap<K, V>,
    ) {
        let keys: BTreeSet<&K> = found.keys().chain(expected.keys()).collect();
        let differences: Vec<String> = keys
            .into_iter()
            .filter(|key| found.get(key) != expected.get(key))
            .map(|key| format!("  {key:?}: found {:?}, expected {:?}", found.get(key), expected.get(key)))
            .collect();
        self.that(&format!("{name} ({})", expected.len()), differences.is_empty(), || differences.join("\n"));
    }
}

/// The work without a table of the GPU's, for another tool to look at.
pub(crate) fn run_for_others() {
    let _profiler = install(Gpu::Off, &[]);
    let total = parts::run().total();
    println!("{} operations known by themselves, and {} calls of cuBLAS", total.operations(), total.foreign);
}

/// The work, the checks, and the summary as JSON. Returns whether all checks hold.
pub(crate) fn run(summary_path: &Path) -> bool {
    // All tables: API calls are recorded too.
    let profiler = install(Gpu::Cupti, Report::ALL);
    let ledger = parts::run();
    let summary = profiler.summary();
    std::fs::write(summary_path, serde_json::to_string_pretty(&summary).expect("json")).expect("the summary's file");
    println!("notes: {:#?}", summary.notes);
    let mut checks = Checks::default();
    match &summary.gpu {
        Some(gpu) => {
            losses(&mut checks, &summary, gpu);
            kernels(&mut checks, &summary, gpu, &ledger);
            memory(&mut checks, &summary, gpu, &ledger);
            spans(&mut checks, &summary, gpu, &ledger);
            ranges(&mut checks, gpu, &ledger);
            calls(&mut checks, gpu);
        }
        None => checks.that("CUPTI recorded", false, || "  the summary has nothing of the GPU's".to_owned()),
    }
    println!("{} checks failed", checks.failed);
    checks.failed == 0
}

fn losses(checks: &mut Checks, summary: &Summary, gpu: &GpuActivity) {
    let mut captured = ActivityLosses::default();
    captured.outstanding = parts::CAPTURED;
    checks.equal("nothing is lost, and nothing awaited but what was captured", &summary.losses.activity, &captured);
    checks.equal("nothing is unmatched", &gpu.unmatched.operations, &0);
    let all = own_work(summary).values().map(|work| work.operations).sum::<u64>() + gpu.outside.operations;
    checks.equal("what spans launched and what was launched outside is all", &all, &gpu.total.operations);
    checks.that(
        "busy is at most the sum, and at least a third of it with three streams",
        gpu.total.busy_ns <= gpu.total.sum_ns && gpu.total.busy_ns * 3 >= gpu.total.sum_ns,
        || format!("  {} of {}", gpu.total.busy_ns, gpu.total.sum_ns),
    );
}

/// Kernels by name, counts and times; the rest are cuBLAS's.
fn kernels(checks: &mut Checks, summary: &Summary, gpu: &GpuActivity, ledger: &Ledger) {
    let expected = ledger.total().kernels;
    for kernel in Kernel::ALL {
        let rows: Vec<_> = gpu.kernels.iter().filter(|row| kernel.is_named(&row.name)).collect();
        let (count, ns) = expected[&kernel];
        let found = rows
            .first()
            .map_or((0, 0.0), |row| (row.times.instances, row.times.total_ns as f64 / row.times.instances as f64));
        let asked = ns as f64 / count as f64;
        let near = found.1 >= asked * 0.99 && found.1 <= asked * 1.03 + 5_000.0;
        checks.that(
            &format!("{}: {count} times {:.1} us", kernel.name(), asked / 1e3),
            rows.len() == 1 && found.0 == count && near,
            || {
                format!(
                    "  found {} rows, {} times {:.1} us; all rows: {:#?}",
                    rows.len(),
                    found.0,
                    found.1 / 1e3,
                    gpu.kernels.iter().map(|row| &row.name).collect::<Vec<_>>()
                )
            },
        );
    }
    let others = gpu.kernels.iter().filter(|row| !Kernel::ALL.iter().any(|kernel| kernel.is_named(&row.name)));
    let others: u64 = others.map(|row| row.times.instances).sum();
    let foreign: u64 = own_work(summary)
        .iter()
        .filter(|(path, _)| ledger.foreign_names().contains(*path))
        .map(|(_, work)| work.operations - work.memory.iter().map(|memory| memory.operations).sum::<u64>())
        .sum();
    checks.equal("all other kernels are in the spans that call cuBLAS", &others, &foreign);
}

fn memory(checks: &mut Checks, summary: &Summary, gpu: &GpuActivity, ledger: &Ledger) {
    let mut expected = ledger.total().memory;
    for (path, work) in own_work(summary) {
        if ledger.foreign_names().contains(&path) {
            for memory in work.memory {
                let sum = expected.entry(memory.kind).or_default();
                *sum = (sum.0 + memory.operations, sum.1 + memory.bytes);
            }
        }
    }
    let found = gpu.memory.iter().map(|row| (row.kind, (row.sizes.count, row.sizes.total_bytes))).collect();
    checks.same("copies and sets: operations and bytes of each kind", &found, &expected);
    checks.that("each has a time", gpu.memory.iter().all(|row| row.times.instances == row.sizes.count), String::new);
}

/// The work that every span launched itself, and with spans below.
fn spans(checks: &mut Checks, summary: &Summary, gpu: &GpuActivity, ledger: &Ledger) {
    let mut found: BTreeMap<String, Counts> = own_work(summary)
        .iter()
        .filter(|(_, work)| work.operations > 0)
        .map(|(path, work)| (path.clone(), counts(work)))
        .collect();
    found.insert(String::new(), counts(&gpu.outside));
    let mut expected = BTreeMap::new();
    for (path, work) in ledger.by_span() {
        if work.foreign > 0 {
            // Only cuBLAS knows how many kernels a product takes, but each takes the same number.
            let products = found.remove(&path).map_or(0, |(operations, _)| operations);
            let holds = products >= work.foreign && (path != "sgemm" || products.is_multiple_of(work.foreign));
            checks.that(&format!("{path}: {products} operations of {} calls", work.foreign), holds, String::new);
        } else {
            expected.insert(path, (work.operations(), work.memory));
        }
    }
    checks.same("every span's own operations, its copies and sets by kind and bytes", &found, &expected);

    fn whole(node: &TreeNode) -> bool {
        let work = |node: &TreeNode| node.gpu.clone().unwrap_or_default();
        let NodeWork { own, total, .. } = work(node);
        let below = |sum: fn(&GpuWork) -> u64| node.children.iter().map(|child| sum(&work(child).total)).sum::<u64>();
        total.operations == own.operations + below(|work| work.operations)
            && total.sum_ns == own.sum_ns + below(|work| work.sum_ns)
            && total.busy_ns <= total.sum_ns
            && node.children.iter().all(whole)
    }
    checks.that(
        "the total of every span is its own and that of those below",
        summary.tree.iter().all(whole),
        String::new,
    );
}

/// Nsight's rules: launches on the thread while the range was open there.
fn ranges(checks: &mut Checks, gpu: &GpuActivity, ledger: &Ledger) {
    let foreign = ledger.foreign_names();
    let mut expected = ledger.calls_by_range();
    expected.retain(|(name, _), _| !foreign.contains(name));
    let known = gpu.projections.iter().filter(|row| !foreign.contains(&row.name));
    let found: BTreeMap<Range, u64> = known.map(|row| ((row.name.clone(), row.style), row.operations)).collect();
    checks.same("every projected range's launches", &found, &expected);

    let mut found: BTreeMap<(Option<Range>, Kernel), u64> = BTreeMap::new();
    for row in &gpu.range_kernels {
        let range = row.range.clone().zip(row.style).map(|((_, name), style)| (name, style));
        if let Some(kernel) = Kernel::ALL.into_iter().find(|kernel| kernel.is_named(&row.kernel)) {
            *found.entry((range, kernel)).or_default() += row.kernel_instances;
        }
    }
    checks.same("every range's executions of every kernel", &found, &ledger.kernels_by_range());
}

fn calls(checks: &mut Checks, gpu: &GpuActivity) {
    let count = |function: &str| {
        let rows = gpu.calls.iter().flatten().filter(|row| row.name == function);
        rows.map(|row| row.times.instances).sum::<u64>()
    };
    checks.that("API calls were recorded", gpu.calls.is_some(), String::new);
    checks.equal("launches of the graph", &count("cuGraphLaunch"), &parts::REPLAYS);
    // The program makes no such call; its profiler makes several for each span on a named stream.
    for function in
        ["cuEventRecord", "cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode", "cuEventElapsedTime_v2"]
    {
        checks.equal(&format!("calls of {function} by the profiler in the table"), &count(function), &0);
    }
}

type Counts = (u64, BTreeMap<MemoryKind, (u64, u64)>);

fn counts(work: &GpuWork) -> Counts {
    (work.operations, work.memory.iter().map(|memory| (memory.kind, (memory.operations, memory.bytes))).collect())
}

/// The work that each span launched itself, by its path in the tree.
fn own_work(summary: &Summary) -> BTreeMap<String, GpuWork> {
    let mut works = BTreeMap::new();
    let mut left: Vec<(String, &TreeNode)> = summary.tree.iter().map(|node| (node.name.clone(), node)).collect();
    while let Some((path, node)) = left.pop() {
        left.extend(node.children.iter().map(|child| (format!("{path}/{}", child.name), child)));
        works.insert(path, node.gpu.as_ref().map(|work| work.own.clone()).unwrap_or_default());
    }
    works
}
