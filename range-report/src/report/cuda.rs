//! The GPU's work in the tables of Nsight Systems.
//!
//! The generation of 2021 knew kernels, memory operations and API calls; what came later keeps its columns in that
//! style.

use std::cmp::Reverse;

use super::envelope::section;
use super::gpu_work::{
    self, NO_ACTIVITY, NO_CALL, NO_CALL_RECORDED, NO_KERNEL, NO_LAUNCH, NO_MEMORY, NO_OPENACC, NO_RANGE_KERNEL,
};
use super::kinds::TableStyle;
use super::nsys::{Columns, Figures, Row, known, name_cell, statistics_table, style_name, whole};
use super::options::RenderOptions;
use super::table::{Cell, Layout, Rest, Table};
use crate::text::names;
use crate::text::number::Rounding;
use crate::{ProjectionStats, RangeKernelStats, Sizes, Summary, Times};

/// A table, or the sentence on why there is none.
pub(crate) type Made = Result<Table, &'static str>;

/// `Kernels`.
pub(crate) fn kernels(summary: &Summary, options: &RenderOptions) -> String {
    let titles = [" ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):", "CUDA Kernel Statistics:"];
    report(titles, make_kernels(summary, options), options)
}

pub(super) fn make_kernels(summary: &Summary, options: &RenderOptions) -> Made {
    let gpu = summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let rows = gpu.kernels.iter().map(|kernel| (kernel.name.as_str(), &kernel.times));
    time_table(rows, ["Instances", "Name"], options).ok_or(NO_KERNEL)
}

/// `MemTime`.
pub(crate) fn memory_time(summary: &Summary, options: &RenderOptions) -> String {
    let titles = [
        " ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):",
        "CUDA Memory Operation Statistics (by time):",
    ];
    report(titles, make_memory_time(summary, options), options)
}

pub(super) fn make_memory_time(summary: &Summary, options: &RenderOptions) -> Made {
    let gpu = summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let count = match options.style {
        TableStyle::Current => "Count",
        TableStyle::Legacy => "Operations",
    };
    let rows = gpu.memory.iter().map(|memory| (gpu_work::bracketed(memory.kind, options.style), &memory.times));
    time_table(rows, [count, "Operation"], options).ok_or(NO_MEMORY)
}

/// `Api`.
pub(crate) fn calls(summary: &Summary, options: &RenderOptions) -> String {
    let titles = [" ** CUDA API Summary (cuda_api_sum):", "CUDA API Statistics:"];
    report(titles, make_calls(summary, options), options)
}

pub(super) fn make_calls(summary: &Summary, options: &RenderOptions) -> Made {
    let gpu = summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let calls = gpu.calls.as_ref().ok_or(NO_CALL_RECORDED)?;
    let rows = calls.iter().map(|call| (gpu_work::nsys_call(&call.name), &call.times));
    time_table(rows, ["Num Calls", "Name"], options).ok_or(NO_CALL)
}

/// `OpenAcc`.
pub(crate) fn openacc(summary: &Summary, options: &RenderOptions) -> String {
    let titles = [" ** OpenACC Events, Exclusive (openacc):", "OpenACC Event Statistics (exclusive):"];
    report(titles, make_openacc(summary, options), options)
}

pub(super) fn make_openacc(summary: &Summary, options: &RenderOptions) -> Made {
    let rows = summary.openacc.iter().map(|row| (row.label(), &row.times));
    time_table(rows, ["Events", "Event"], options).ok_or(NO_OPENACC)
}

/// `MemSize`.
pub(crate) fn memory_size(summary: &Summary, options: &RenderOptions) -> String {
    let titles = [
        " ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):",
        "CUDA Memory Operation Statistics (by size in KiB):",
    ];
    report(titles, make_memory_size(summary, options), options)
}

pub(super) fn make_memory_size(summary: &Summary, options: &RenderOptions) -> Made {
    summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let rows = size_rows(summary, options);
    if rows.is_empty() { Err(NO_MEMORY) } else { Ok(size_table(&rows, options)) }
}

/// The table of sizes, also without a row.
pub(super) fn sizes(summary: &Summary, options: &RenderOptions) -> Table {
    size_table(&size_rows(summary, options), options)
}

fn size_rows<'a>(summary: &'a Summary, options: &RenderOptions) -> Vec<(String, &'a Sizes)> {
    let mut rows: Vec<(String, &Sizes)> = summary
        .gpu
        .iter()
        .flat_map(|gpu| &gpu.memory)
        .filter(|memory| memory.sizes.count > 0)
        .map(|memory| (gpu_work::bracketed(memory.kind, options.style), &memory.sizes))
        .collect();
    rows.sort_by(|(a, x), (b, y)| (Reverse(x.total_bytes), a).cmp(&(Reverse(y.total_bytes), b)));
    rows
}

/// `GpuProjection`.
pub(crate) fn projection(summary: &Summary, options: &RenderOptions) -> String {
    let titles =
        [" ** NVTX GPU Projection Summary (nvtx_gpu_proj_sum):", "NVTX Range Statistics (projected onto the GPU):"];
    report(titles, make_projection(summary, options), options)
}

pub(super) fn make_projection(summary: &Summary, options: &RenderOptions) -> Made {
    summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let rows = projection_rows(summary);
    if rows.is_empty() { Err(NO_LAUNCH) } else { Ok(projection_table(&rows, options)) }
}

/// The table of projections, also without a row.
pub(super) fn projections(summary: &Summary, options: &RenderOptions) -> Table {
    projection_table(&projection_rows(summary), options)
}

fn projection_rows(summary: &Summary) -> Vec<(Option<String>, &ProjectionStats)> {
    let mut rows: Vec<(Option<String>, &ProjectionStats)> = summary
        .gpu
        .iter()
        .flat_map(|gpu| &gpu.projections)
        .filter(|row| row.projected.instances > 0)
        .map(|row| (names::label(row.domain.as_deref(), &row.name), row))
        .collect();
    rows.sort_by(|(a, x), (b, y)| {
        (Reverse(x.projected.total_ns), a, x.style).cmp(&(Reverse(y.projected.total_ns), b, y.style))
    });
    rows
}

/// `RangeKernels`.
pub(crate) fn range_kernels(summary: &Summary, options: &RenderOptions) -> String {
    let titles = [" ** NVTX Range Kernel Summary (nvtx_kern_sum):", "CUDA Kernel Statistics (by NVTX range):"];
    report(titles, make_range_kernels(summary, options), options)
}

pub(super) fn make_range_kernels(summary: &Summary, options: &RenderOptions) -> Made {
    let gpu = summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let mut rows: Vec<(Option<String>, &RangeKernelStats)> =
        gpu.range_kernels.iter().filter(|row| row.times.instances > 0).map(|row| (range_label(row), row)).collect();
    rows.sort_by(|(a, x), (b, y)| {
        let key = |row: &RangeKernelStats| (row.pid, row.tid, Reverse(row.times.total_ns), row.style);
        (a, key(x), &x.kernel).cmp(&(b, key(y), &y.kernel))
    });
    let any_kernel = gpu.kernels.iter().any(|kernel| kernel.times.instances > 0);
    match (rows.is_empty(), any_kernel) {
        (true, true) => Err(NO_RANGE_KERNEL), // what runs outside of all ranges has rows, too
        (true, false) => Err(NO_KERNEL),
        (false, _) => Ok(range_kernel_table(&rows, options)),
    }
}

/// `None` outside of any range only.
fn range_label(row: &RangeKernelStats) -> Option<String> {
    let (domain, name) = row.range.as_ref()?;
    Some(names::label(domain.as_deref(), name).unwrap_or_else(|| "None".to_owned()))
}

/// The envelope; in place of a table the sentence on why there is none.
fn report([current, legacy]: [&str; 2], made: Made, options: &RenderOptions) -> String {
    let title = match options.style {
        TableStyle::Current => current,
        TableStyle::Legacy => legacy,
    };
    match made {
        Ok(table) => section(title, &table.render(&Layout::as_nsight(options))),
        Err(sentence) => section(title, sentence),
    }
}

/// Rows by total time, then by name; `None` where there is none.
fn time_table<'a, N: AsRef<str> + Ord>(
    rows: impl Iterator<Item = (N, &'a Times)>,
    [count, name]: [&str; 2],
    options: &RenderOptions,
) -> Option<Table> {
    let mut rows: Vec<(N, &Times)> = rows.filter(|(_, times)| times.instances > 0).collect();
    rows.sort_by(|(a, x), (b, y)| (Reverse(x.total_ns), a).cmp(&(Reverse(y.total_ns), b)));
    let rows: Vec<Row> = rows
        .iter()
        .map(|(name, times)| Row { times, below: None, names: vec![name_cell(Some(name.as_ref()), options)] })
        .collect();
    (!rows.is_empty()).then(|| statistics_table(&rows, &Columns::of_gpu(count, &[name]), options))
}

fn size_table(rows: &[(String, &Sizes)], options: &RenderOptions) -> Table {
    let (headers, unit): (&[&str], f64) = match options.style {
        TableStyle::Current => {
            (&["Total (MB)", "Count", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)", "Operation"], 1e6)
        }
        TableStyle::Legacy => (&["Total", "Operations", "Average", "Minimum", "Maximum", "Operation"], 1024.0),
    };
    let size = |bytes: f64| Cell::tested(format!("{:.3}", bytes / unit));
    let mut table = Table::new(headers.iter().copied());
    for (name, sizes) in rows {
        let (total, count) = (size(sizes.total_bytes as f64), whole(sizes.count));
        let mean = size(sizes.total_bytes as f64 / sizes.count as f64);
        let median = sizes.median_bytes.map_or_else(Cell::unknown, size);
        let (min, max) = (size(sizes.min_bytes as f64), size(sizes.max_bytes as f64));
        let mut cells = match options.style {
            TableStyle::Current => vec![total, count, mean, median, min, max, size(sizes.stddev_bytes)],
            TableStyle::Legacy => vec![total, count, mean, min, max],
        };
        cells.push(Cell::text(name));
        table.push(cells);
    }
    table.sum_up(Rest { name: headers.len() - 1, sums: vec![0, 1], share: None })
}

fn projection_table(rows: &[(Option<String>, &ProjectionStats)], options: &RenderOptions) -> Table {
    let mut table = Table::new([
        "Range",
        "Style",
        "Total Proj Time (ns)",
        "Total Range Time (ns)",
        "Range Instances",
        "Proj Avg (ns)",
        "Proj Med (ns)",
        "Proj Min (ns)",
        "Proj Max (ns)",
        "Proj StdDev (ns)",
        "Total GPU Ops",
        "Avg GPU Ops",
        "Avg Range Lvl",
        "Avg Num Child",
    ]);
    for (label, row) in rows {
        let instances = row.projected.instances;
        let Figures { total, mean, median, min, max, stddev, .. } = Figures::of(&row.projected, 0, Rounding::Binary);
        let per_instance = |sum: u64| known(Rounding::Binary.average(sum, instances));
        table.push(vec![
            name_cell(label.as_deref(), options),
            Cell::text(style_name(row.style)),
            total,
            whole(row.range_total_ns),
            whole(instances),
            mean,
            median,
            min,
            max,
            stddev,
            whole(row.operations),
            per_instance(row.operations),
            per_instance(row.level_sum),
            per_instance(row.children_sum),
        ]);
    }
    table.sum_up(Rest { name: 0, sums: vec![2, 3, 4, 10], share: None })
}

fn range_kernel_table(rows: &[(Option<String>, &RangeKernelStats)], options: &RenderOptions) -> Table {
    let mut table = Table::new([
        "NVTX Range",
        "Style",
        "PID",
        "TID",
        "NVTX Inst",
        "Kern Inst",
        "Total Time (ns)",
        "Avg (ns)",
        "Med (ns)",
        "Min (ns)",
        "Max (ns)",
        "StdDev (ns)",
        "Kernel Name",
    ]);
    for (label, row) in rows {
        let Figures { total, mean, median, min, max, stddev, .. } = Figures::of(&row.times, 0, Rounding::Binary);
        table.push(vec![
            name_cell(Some(label.as_deref().unwrap_or("")), options), // outside of any range: an empty cell, as of 2025
            Cell::text(row.style.map_or("", style_name)),
            whole(row.pid.into()),
            if row.tid == 0 { Cell::unknown() } else { whole(row.tid.into()) },
            whole(row.range_instances),
            whole(row.kernel_instances),
            total,
            mean,
            median,
            min,
            max,
            stddev,
            name_cell(Some(&row.kernel), options),
        ]);
    }
    table.sum_up(Rest { name: 0, sums: vec![5, 6], share: None })
}

#[cfg(test)]
mod tests;
