//! GPU tables of Nsight Systems 2025.3 for runs on an H200: read into a summary and printed again, as text and as
//! comma-separated values.

use std::collections::HashMap;
use tests::with;

use super::golden;
use tracing_gpu::summary::{
    ApiCallStats, GpuActivity, KernelStats, MemoryKind, MemoryStats, ProjectionStats, RangeKernelStats, RangeStyle,
    Sizes, Times,
};
use tracing_gpu::{RenderOptions, Report, Summary, SummaryExt as _};

/// The cells of a printed row by their headers, without separators.
type Printed = HashMap<String, String>;

#[test]
fn kernels() {
    compare("cuda_gpu_kern_sum", Report::Kernels, |gpu, rows| {
        gpu.kernels = rows.iter().map(|row| KernelStats::new(row["Name"].clone(), times(row))).collect();
    });
}

#[test]
fn calls() {
    compare("cuda_api_sum", Report::Api, |gpu, rows| {
        // The name of the function in CUPTI's form; the tool omitted the version.
        let name = |row: &Printed| match row["Name"].as_str() {
            name @ "cuCtxSynchronize" => format!("{name}_v7000"),
            name => name.to_owned(),
        };
        gpu.calls = Some(rows.iter().map(|row| ApiCallStats::new(name(row), times(row))).collect());
    });
}

#[test]
fn memory_by_time() {
    compare("cuda_gpu_mem_time_sum", Report::MemTime, |gpu, rows| {
        let memory = |row| MemoryStats::new(memory_kind(row), times(row), Sizes::default());
        gpu.memory = rows.iter().map(memory).collect();
    });
}

#[test]
fn memory_by_size() {
    compare("cuda_gpu_mem_size_sum", Report::MemSize, |gpu, rows| {
        let memory = |row: &Printed| {
            let bytes = |column: &str| (number::<f64>(row, column) * 1e6) as u64;
            let mut sizes = Sizes::new(number(row, "Count"), bytes("Total (MB)"));
            sizes.min_bytes = bytes("Min (MB)");
            sizes.max_bytes = bytes("Max (MB)");
            sizes.median_bytes = Some(bytes("Med (MB)") as f64);
            MemoryStats::new(memory_kind(row), Times::default(), sizes)
        };
        gpu.memory = rows.iter().map(memory).collect();
    });
}

/// The tool puts a colon before ranges of the default domain. We do not, so here it is part of the name.
#[test]
fn projections() {
    compare("nvtx_gpu_proj_sum", Report::GpuProjection, projections_of);
    compare_csv("nvtx_gpu_proj_sum", Report::GpuProjection, projections_of);
}

fn projections_of(gpu: &mut GpuActivity, rows: &[Printed]) {
    let projection = |row: &Printed| {
        let instances: u64 = number(row, "Range Instances");
        let sum = |column| (number::<f64>(row, column) * instances as f64).round() as u64;
        let mut it = ProjectionStats::new(row["Range"].clone(), {
            let mut it = Times::new(instances, number(row, "Total Proj Time (ns)"));
            it.min_ns = number(row, "Proj Min (ns)");
            it.max_ns = number(row, "Proj Max (ns)");
            it.median_ns = Some(number(row, "Proj Med (ns)"));
            it.median_exact = true;
            it.stddev_ns = number(row, "Proj StdDev (ns)");
            it
        });
        it.style = style(row).expect("a style");
        it.range_total_ns = number(row, "Total Range Time (ns)");
        it.operations = number(row, "Total GPU Ops");
        it.level_sum = sum("Avg Range Lvl");
        it.children_sum = sum("Avg Num Child");
        it
    };
    gpu.projections = rows.iter().map(projection).collect();
}

#[test]
fn kernels_by_range() {
    compare("nvtx_kern_sum", Report::RangeKernels, range_kernels_of);
    compare_csv("nvtx_kern_sum", Report::RangeKernels, range_kernels_of);
}

fn range_kernels_of(gpu: &mut GpuActivity, rows: &[Printed]) {
    // A kernel inside nested ranges of one name is executed once and counted for each of them.
    let instances = |row: &Printed| number::<f64>(row, "Total Time (ns)") / number::<f64>(row, "Avg (ns)");
    let kernel = |row: &Printed| {
        let mut it = RangeKernelStats::new(
            row["Kernel Name"].clone(),
            with(times(row), |it| it.instances = instances(row).round() as u64),
        );
        it.range = Some((None, row["NVTX Range"].clone())).filter(|(_, name)| !name.is_empty());
        it.style = style(row);
        it.pid = number(row, "PID");
        it.tid = number(row, "TID");
        it.range_instances = number(row, "NVTX Inst");
        it.kernel_instances = number(row, "Kern Inst");
        it
    };
    gpu.range_kernels = rows.iter().map(kernel).collect();
}

/// Compares our text with the tool's, from rows in the opposite order.
fn compare(table: &str, report: Report, fill: impl Fn(&mut GpuActivity, &[Printed])) {
    let expected = std::fs::read_to_string(golden(&format!("../nsys-2025.3/{table}.txt"))).expect("golden table");
    let summary = summary_of(read(&expected), fill);
    let mut ours = Vec::new();
    summary.render_one(report, &RenderOptions::default(), &mut ours).expect("writing to memory");
    assert_eq!(String::from_utf8(ours).expect("UTF-8"), format!("\n{expected}\n"), "{table}");
    // The same cells as comma-separated values.
    let mut ours = Vec::new();
    summary.write_csv(report, &mut ours).expect("writing to memory");
    let ours = String::from_utf8(ours).expect("UTF-8");
    let headers = ours.lines().next().expect("headers").split(',').collect::<Vec<_>>();
    let printed: Vec<Printed> = read_csv(&ours);
    let plain =
        |row: &Printed| -> Vec<String> {
            let number = |cell: &String| cell.replace(',', "");
            headers
                .iter()
                .map(|header| {
                    if row[*header].starts_with(char::is_numeric) {
                        number(&row[*header])
                    } else {
                        row[*header].clone()
                    }
                })
                .collect()
        };
    assert_eq!(
        printed.iter().map(plain).collect::<Vec<_>>(),
        read(&expected).iter().map(plain).collect::<Vec<_>>(),
        "{table}"
    );
}

/// The output of `nsys stats --format csv` for a run with nested ranges and long kernel names, read and written again.
fn compare_csv(table: &str, report: Report, fill: impl Fn(&mut GpuActivity, &[Printed])) {
    let expected = std::fs::read_to_string(golden(&format!("../attribution/{table}.csv"))).expect("golden values");
    let rows = read_csv(&expected);
    assert!(rows.len() > 10 && expected.contains('"') == (report == Report::RangeKernels), "{table}");
    let mut ours = Vec::new();
    summary_of(rows, fill).write_csv(report, &mut ours).expect("writing to memory");
    let ours = String::from_utf8(ours).expect("UTF-8");
    for (line, (ours, expected)) in ours.lines().zip(expected.lines()).enumerate() {
        assert_eq!(ours, expected, "{table}, line {}", line + 1);
    }
    assert_eq!(ours.trim_end(), expected.trim_end(), "{table}");
}

/// The rows as a summary, passed in the opposite order.
fn summary_of(mut rows: Vec<Printed>, fill: impl Fn(&mut GpuActivity, &[Printed])) -> Summary {
    rows.reverse();
    let mut gpu = GpuActivity::default();
    fill(&mut gpu, &rows);
    let mut summary = Summary::default();
    summary.gpu = Some(gpu);
    summary
}

/// The rows of comma-separated values: a cell with a comma is quoted.
fn read_csv(text: &str) -> Vec<Printed> {
    let cells = |line: &str| {
        let (mut cells, mut quoted) = (vec![String::new()], false);
        for letter in line.chars() {
            match letter {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                letter => cells.last_mut().expect("a cell").push(letter),
            }
        }
        cells
    };
    let mut lines = text.trim_end().lines();
    let headers = cells(lines.next().expect("headers"));
    lines.map(|line| headers.iter().cloned().zip(cells(line)).collect()).collect()
}

/// Splits a table at its dashes.
fn read(table: &str) -> Vec<Printed> {
    let mut lines = table.lines().skip(2);
    let (headers, dashes) = (lines.next().expect("headers"), lines.next().expect("dashes"));
    let mut columns = Vec::new();
    let mut start = 1;
    for width in dashes.split("  ").map(|dashes| dashes.trim().len()) {
        columns.push(start..start + width);
        start += width + 2;
    }
    let cell = |line: &str, column| line.get(std::ops::Range::clone(column)).expect("a cell").trim().to_owned();
    lines.map(|line| columns.iter().map(|column| (cell(headers, column), cell(line, column))).collect()).collect()
}

fn number<T: std::str::FromStr>(row: &Printed, column: &str) -> T {
    let text = row[column].replace(',', "");
    text.parse().unwrap_or_else(|_| panic!("{column}: {text}"))
}

fn times(row: &Printed) -> Times {
    let count = ["Instances", "Num Calls", "Count"].into_iter().find(|column| row.contains_key(*column));
    let mut it = Times::new(count.map_or(0, |column| number(row, column)), number(row, "Total Time (ns)"));
    it.min_ns = number(row, "Min (ns)");
    it.max_ns = number(row, "Max (ns)");
    it.median_ns = Some(number(row, "Med (ns)"));
    it.median_exact = true;
    it.stddev_ns = number(row, "StdDev (ns)");
    it
}

fn style(row: &Printed) -> Option<RangeStyle> {
    match row["Style"].as_str() {
        "" => None,
        "PushPop" => Some(RangeStyle::PushPop),
        "StartEnd" => Some(RangeStyle::StartEnd),
        other => panic!("style {other}"),
    }
}

fn memory_kind(row: &Printed) -> MemoryKind {
    match row["Operation"].as_str() {
        "[CUDA memcpy Host-to-Device]" => MemoryKind::HtoD,
        "[CUDA memset]" => MemoryKind::Set,
        other => panic!("operation {other}"),
    }
}
