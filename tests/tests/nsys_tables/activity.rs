//! The tables of Nsight Systems 2025.3 on the GPU's work, for a run on an H200: read back into a summary and printed again.

use std::collections::HashMap;

use super::golden;
use tracing_gpu::{
    CallStats, GpuActivity, KernelStats, MemoryKind, MemoryStats, ProjectionStats, RangeKernelStats, RangeStyle,
    RenderOptions, Report, Sizes, Summary, Times, report,
};

/// The cells of a printed row by their headers, without separators.
type Printed = HashMap<String, String>;

#[test]
fn kernels() {
    compare("cuda_gpu_kern_sum", Report::Kernels, |gpu, rows| {
        gpu.kernels = rows.iter().map(|row| KernelStats { name: row["Name"].clone(), times: times(row) }).collect();
    });
}

#[test]
fn calls() {
    compare("cuda_api_sum", Report::Api, |gpu, rows| {
        // As CUPTI gives them; the tool left the version out.
        let name = |row: &Printed| match row["Name"].as_str() {
            name @ "cuCtxSynchronize" => format!("{name}_v7000"),
            name => name.to_owned(),
        };
        gpu.calls = Some(rows.iter().map(|row| CallStats { name: name(row), times: times(row) }).collect());
    });
}

#[test]
fn memory_by_time() {
    compare("cuda_gpu_mem_time_sum", Report::MemTime, |gpu, rows| {
        let memory = |row| MemoryStats { kind: memory_kind(row), times: times(row), sizes: Sizes::default() };
        gpu.memory = rows.iter().map(memory).collect();
    });
}

#[test]
fn memory_by_size() {
    compare("cuda_gpu_mem_size_sum", Report::MemSize, |gpu, rows| {
        let memory = |row: &Printed| {
            let bytes = |column: &str| (number::<f64>(row, column) * 1e6) as u64;
            let sizes = Sizes {
                count: number(row, "Count"),
                total_bytes: bytes("Total (MB)"),
                min_bytes: bytes("Min (MB)"),
                max_bytes: bytes("Max (MB)"),
                median_bytes: Some(bytes("Med (MB)") as f64),
                stddev_bytes: 0.0,
            };
            MemoryStats { kind: memory_kind(row), times: Times::default(), sizes }
        };
        gpu.memory = rows.iter().map(memory).collect();
    });
}

/// The tool puts a colon before ranges of the default domain. We do not; here it is part of the name.
#[test]
fn projections() {
    compare("nvtx_gpu_proj_sum", Report::GpuProjection, |gpu, rows| {
        let projection = |row: &Printed| ProjectionStats {
            domain: None,
            name: row["Range"].clone(),
            style: style(row).expect("a style"),
            projected: Times {
                instances: number(row, "Range Instances"),
                total_ns: number(row, "Total Proj Time (ns)"),
                min_ns: number(row, "Proj Min (ns)"),
                max_ns: number(row, "Proj Max (ns)"),
                median_ns: Some(number(row, "Proj Med (ns)")),
                median_exact: true,
                stddev_ns: number(row, "Proj StdDev (ns)"),
            },
            range_total_ns: number(row, "Total Range Time (ns)"),
            operations: number(row, "Total GPU Ops"),
            level_sum: number::<f64>(row, "Avg Range Lvl") as u64,
            children_sum: number::<f64>(row, "Avg Num Child") as u64,
        };
        gpu.projections = rows.iter().map(projection).collect();
    });
}

#[test]
fn kernels_by_range() {
    compare("nvtx_kern_sum", Report::RangeKernels, |gpu, rows| {
        let kernel = |row: &Printed| RangeKernelStats {
            range: Some((None, row["NVTX Range"].clone())).filter(|(_, name)| !name.is_empty()),
            style: style(row),
            pid: number(row, "PID"),
            tid: number(row, "TID"),
            range_instances: number(row, "NVTX Inst"),
            kernel_instances: number(row, "Kern Inst"),
            times: Times { instances: number(row, "Kern Inst"), ..times(row) },
            kernel: row["Kernel Name"].clone(),
        };
        gpu.range_kernels = rows.iter().map(kernel).collect();
    });
}

/// What the tool printed, with its rows handed over in the opposite order.
fn compare(table: &str, report: Report, fill: impl Fn(&mut GpuActivity, &[Printed])) {
    let expected = std::fs::read_to_string(golden(&format!("../nsys-2025.3/{table}.txt"))).expect("golden table");
    let mut rows = read(&expected);
    rows.reverse();
    let mut gpu = GpuActivity::default();
    fill(&mut gpu, &rows);
    let mut summary = Summary::default();
    summary.gpu = Some(gpu);

    let mut ours = Vec::new();
    report::render_one(&summary, report, &RenderOptions::default(), &mut ours).expect("writing to memory");
    assert_eq!(String::from_utf8(ours).expect("UTF-8"), format!("\n{expected}\n"), "{table}");
}

/// Cuts a table at its dashes.
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
    Times {
        instances: count.map_or(0, |column| number(row, column)),
        total_ns: number(row, "Total Time (ns)"),
        min_ns: number(row, "Min (ns)"),
        max_ns: number(row, "Max (ns)"),
        median_ns: Some(number(row, "Med (ns)")),
        median_exact: true,
        stddev_ns: number(row, "StdDev (ns)"),
    }
}

fn style(row: &Printed) -> Option<RangeStyle> {
    match row["Style"].as_str() {
        "" => None,
        "PushPop" => Some(RangeStyle::PushPop),
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
