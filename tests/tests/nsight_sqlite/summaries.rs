//! Reports with sums: compared with the definitions, and with our own tables of a summary with the same values.

use std::collections::BTreeMap;

use tracing_gpu::summary::{
    ApiCallStats, GpuActivity, KernelStats, MemoryKind, MemoryStats, ProjectionStats, RangeKernelStats, RangeStats,
    RangeStyle, Times,
};
use tracing_gpu::{RenderOptions, Report, Summary, SummaryExt as _};

use crate::expected::{Expected, Groups, label, sizes, times};
use crate::generate::PROCESS;
use crate::stats::{Row, number};

/// # Panics
/// If a figure differs by more than its last digit.
pub(crate) fn near(row: &Row, column: &str, expected: f64, digits: i32) {
    let allowed = 0.5001 * 10_f64.powi(-digits) + expected.abs() * 1e-9;
    assert!((number(row, column) - expected).abs() <= allowed, "{column}: not {expected} in {row:?}");
}

fn key(row: &Row, columns: &[&str]) -> Vec<String> {
    columns.iter().map(|column| row.get(*column).unwrap_or_else(|| panic!("no {column} in {row:?}")).clone()).collect()
}

/// Rows by their key.
///
/// # Panics
/// If two rows have the same key, or the keys differ from those of `expected`.
pub(crate) fn keyed<'a, T>(
    rows: &'a [Row],
    columns: &[&str],
    expected: &BTreeMap<Vec<String>, T>,
) -> BTreeMap<Vec<String>, &'a Row> {
    let keyed: BTreeMap<_, _> = rows.iter().map(|row| (key(row, columns), row)).collect();
    assert_eq!(keyed.len(), rows.len(), "two rows of one key");
    assert_eq!(keyed.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
    keyed
}

/// Average, median, minimum, maximum and deviation of columns such as `TAvg (ns)`.
pub(crate) fn spread(row: &Row, prefix: &str, times: &Times) {
    let column = |name: &str| format!("{prefix}{name} (ns)");
    near(row, &column("Avg"), times.total_ns as f64 / times.instances as f64, 1);
    near(row, &column("Med"), times.median_ns.unwrap_or(f64::NAN), 1);
    near(row, &column("Min"), times.min_ns as f64, 1);
    near(row, &column("Max"), times.max_ns as f64, 1);
    near(row, &column("StdDev"), times.stddev_ns, 1);
}

pub(crate) fn sums(rows: &[Row], columns: &[&str], count: &str, expected: &Groups) {
    let base: u64 = expected.values().flatten().sum();
    for (key, row) in keyed(rows, columns, expected) {
        let times = times(&expected[&key]);
        if base == 0 {
            assert_eq!(row["Time (%)"], "None"); // all calls are made up
        } else {
            near(row, "Time (%)", 100.0 * times.total_ns as f64 / base as f64, 1);
        }
        near(row, "Total Time (ns)", times.total_ns as f64, 1);
        near(row, count, times.instances as f64, 1);
        spread(row, "", &times);
    }
    assert!(rows.windows(2).all(|rows| number(&rows[0], "Total Time (ns)") >= number(&rows[1], "Total Time (ns)")));
}

pub(crate) fn bytes(rows: &[Row], expected: &Groups) {
    for (key, row) in keyed(rows, &["Operation"], expected) {
        let sizes = sizes(&expected[&key]);
        near(row, "Count", sizes.count as f64, 1);
        let all = [
            ("Total (MB)", sizes.total_bytes as f64),
            ("Avg (MB)", sizes.total_bytes as f64 / sizes.count as f64),
            ("Med (MB)", sizes.median_bytes.unwrap_or(f64::NAN)),
            ("Min (MB)", sizes.min_bytes as f64),
            ("Max (MB)", sizes.max_bytes as f64),
            ("StdDev (MB)", sizes.stddev_bytes),
        ];
        for (column, bytes) in all {
            near(row, column, bytes / 1e6, 3);
        }
    }
}

/// The profiler's summary of the same workload.
pub(crate) fn summary(expected: &Expected<'_>) -> Summary {
    let mut summary = Summary::default();
    let mut ranges: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for range in &expected.work.ranges {
        ranges.entry((range.domain, range.name, range.style)).or_default().push(range.end - range.start);
    }
    let row = |((domain, name, style), values): ((Option<&str>, &str, RangeStyle), Vec<u64>)| {
        let mut it = RangeStats::new(name, times(&values));
        it.domain = domain.map(str::to_owned);
        it.style = style;
        it
    };
    summary.ranges = ranges.into_iter().map(row).collect();
    let mut gpu = GpuActivity::default();
    let kernel = |(key, values): (Vec<String>, Vec<u64>)| KernelStats::new(key[2].clone(), times(&values));
    gpu.kernels = expected.kernels().into_iter().map(kernel).collect();
    let sized = expected.memory(|_, bytes| bytes);
    let kinds = |key: &str| {
        let kinds = ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"];
        let all = [
            MemoryKind::Unknown,
            MemoryKind::HtoD,
            MemoryKind::DtoH,
            MemoryKind::HtoA,
            MemoryKind::AtoH,
            MemoryKind::AtoA,
            MemoryKind::AtoD,
            MemoryKind::DtoA,
            MemoryKind::DtoD,
            MemoryKind::HtoH,
            MemoryKind::PtoP,
        ];
        kinds.iter().position(|kind| key.contains(kind)).map_or(MemoryKind::Set, |at| all[at])
    };
    let memory =
        |(key, values): (Vec<String>, Vec<u64>)| MemoryStats::new(kinds(&key[0]), times(&values), sizes(&sized[&key]));
    gpu.memory = expected.memory(|operation, _| operation.end - operation.start).into_iter().map(memory).collect();
    let call = |(key, values): (Vec<String>, Vec<u64>)| ApiCallStats::new(key[0].clone(), times(&values));
    gpu.calls = Some(expected.calls().into_iter().map(call).collect());
    gpu.projections = projections(expected);
    gpu.range_kernels = range_kernels(expected);
    summary.gpu = Some(gpu);
    summary
}

fn projections(expected: &Expected<'_>) -> Vec<ProjectionStats> {
    /// The key: domain, name and style. The value: projected durations, and four other sums.
    type Group<'a> = ((Option<&'a str>, &'a str, RangeStyle), (Vec<u64>, [u64; 4]));
    let mut groups: BTreeMap<_, (Vec<u64>, [u64; 4])> = BTreeMap::new();
    let launched = expected.launched_in();
    for (&at, operations) in &launched {
        let range = &expected.work.ranges[at];
        let group = groups.entry((range.domain, range.name, range.style)).or_default();
        let first = operations.iter().map(|operation| operation.start).min().unwrap_or(0);
        let last = operations.iter().map(|operation| operation.end).max().unwrap_or(0);
        let launches: std::collections::BTreeSet<u32> =
            operations.iter().map(|operation| operation.correlation).collect();
        let children = launched.keys().filter(|&&child| expected.parent(child, true) == Some(at)).count();
        group.0.push(last - first);
        let more = [range.end - range.start, launches.len() as u64, expected.level(at, true), children as u64];
        group.1.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    let row = |((domain, name, style), (values, sums)): Group<'_>| {
        let mut it = ProjectionStats::new(name, times(&values));
        it.domain = domain.map(str::to_owned);
        it.style = style;
        it.range_total_ns = sums[0];
        it.operations = sums[1];
        it.level_sum = sums[2];
        it.children_sum = sums[3];
        it
    };
    groups.into_iter().map(row).collect()
}

fn range_kernels(expected: &Expected<'_>) -> Vec<RangeKernelStats> {
    let names: BTreeMap<String, (Option<String>, String)> = expected
        .work
        .ranges
        .iter()
        .map(|range| (label(range), (range.domain.map(str::to_owned), range.name.to_owned())))
        .collect();
    let row = |(key, (values, ranges, kernels)): (Vec<String>, (Vec<u64>, usize, usize))| {
        let mut it = RangeKernelStats::new(key[4].clone(), times(&values));
        it.range = names.get(&key[0]).cloned();
        it.style = match key[1].as_str() {
            "PushPop" => Some(RangeStyle::PushPop),
            "StartEnd" => Some(RangeStyle::StartEnd),
            _ => None,
        };
        it.pid = PROCESS;
        it.tid = key[3].parse().unwrap_or(0);
        it.range_instances = ranges as u64;
        it.kernel_instances = kernels as u64;
        it
    };
    expected.range_kernels().into_iter().map(row).collect()
}

/// Our table of a report, by its columns.
fn ours(summary: &Summary, report: Report) -> Vec<Row> {
    let mut text = Vec::new();
    // The tool's layout, which counts characters and not columns of a terminal.
    let options = RenderOptions::default().raw_names(true).rows(usize::MAX);
    summary.render_one(report, &options, &mut text).expect("writing to memory");
    let text = String::from_utf8(text).expect("UTF-8");
    let mut lines = text.lines().skip_while(|line| !line.starts_with(" **")).skip(2);
    let (headers, dashes) = (lines.next().expect("headers"), lines.next().expect("dashes"));
    let cut = |line: &str| -> Vec<String> {
        let mut letters = line.chars();
        let widths = dashes.split("  ").map(|dashes| dashes.trim().len());
        widths
            .map(|width| {
                letters
                    .by_ref()
                    .skip(if width == 0 { 0 } else { 1 })
                    .take(width + 1)
                    .collect::<String>()
                    .trim()
                    .to_owned()
            })
            .collect()
    };
    let headers = cut(headers);
    let row = |line| headers.iter().cloned().zip(cut(line)).collect();
    lines.take_while(|line| !line.is_empty()).map(row).collect()
}

/// Compares our table with that of Nsight Systems, cell by cell, in the columns that both have.
pub(crate) fn same(summary: &Summary, report: Report, theirs: &[Row]) {
    let normal = |row: &Row| -> Row {
        let cells = row.iter().map(|(column, cell)| {
            let cell = match column.as_str() {
                "GridXYZ" | "BlockXYZ" | "Category" => return (column.clone(), String::new()),
                // Version 2022.4 has the short names of copies.
                "Operation" => cell
                    .replace("Host", "H")
                    .replace("Device", "D")
                    .replace("Array", "A")
                    .replace("Peer", "P")
                    .replace("-to-", "to"),
                "Range" | "NVTX Range" | "Name" | "Kernel Name" => cell.replace(',', ""),
                // For an unknown launch, our table has the number of the process, and a dash for the thread.
                "PID" => String::new(),
                "TID" if cell == "-" => String::new(),
                _ => cell.replace(',', ""),
            };
            (column.clone(), if cell == "None" { String::new() } else { cell })
        });
        cells.filter(|(_, cell)| !cell.is_empty()).collect()
    };
    const TEXTS: [&str; 9] =
        ["Range", "NVTX Range", "Style", "TID", "Kernel Name", "Name", "Operation", "DevId", "API Name"];
    let sorted = |rows: &[Row]| {
        let mut rows: Vec<Row> = rows.iter().map(normal).collect();
        rows.sort_by_key(|row| TEXTS.map(|column| row.get(column).cloned()));
        rows
    };
    let ours = ours(summary, report);
    assert!(!ours.is_empty());
    let (ours, theirs) = (sorted(&ours), sorted(theirs));
    assert_eq!(ours.len(), theirs.len(), "{report}");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{report}");
        for (column, cell) in ours {
            // The GPU tables round ties like SQLite from 3.43 on, which Nsight Systems 2022.4 does not have.
            let tie = || (number(ours, column) - number(theirs, column)).abs() < 0.100_001 && report != Report::Ranges;
            assert!(
                *cell == theirs[column] || cell.contains('.') && tie(),
                "{report}, {column}:\n{ours:?}\n{theirs:?}"
            );
        }
    }
}
