//! GPU work in the tables of Nsight Systems.
//!
//! The generation of 2021 had kernels, memory operations and API calls; later tables keep their columns in that style.

use std::cmp::Reverse;

use super::gpu_work::{
    self, NO_ACTIVITY, NO_CALL, NO_CALL_RECORDED, NO_KERNEL, NO_LAUNCH, NO_MEMORY, NO_OPENACC, NO_RANGE_KERNEL,
};
use super::kinds::TableStyle;
use super::nsys::{Columns, Row, name_cell, statistics_table, style_name, times_cells};
use super::options::RenderOptions;
use super::table::{Cell, Column, Table, Unit};
use crate::text::number::Rounding;
use range_model::names;
use range_model::stats::{Lean, order};
use range_model::{MemoryStats, ProjectionStats, RangeKernelStats, Sizes, Summary, Times};

/// The description of projections, for the page.
pub(super) const PROJECTED: &str =
    "Ranges on the GPU: from the start of the first operation launched inside to the end of the last.";

/// A table, or the sentence that explains why there is none.
pub(crate) type Made = Result<Table, &'static str>;

pub(super) fn kernels(summary: &Summary, options: &RenderOptions) -> Made {
    let gpu = summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let rows = gpu.kernels.iter().map(|kernel| (kernel.name.clone(), &kernel.times)).in_vec();
    time_table(rows, ["Instances", "Name", "Kernel"], options).ok_or(NO_KERNEL)
}

pub(super) fn memory_time(summary: &Summary, options: &RenderOptions) -> Made {
    let gpu = summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let count = match options.style {
        TableStyle::Current => "Count",
        TableStyle::Legacy => "Operations",
    };
    let mut memory: Vec<&MemoryStats> = gpu.memory.iter().filter(|memory| memory.times.instances > 0).in_vec();
    let name = |memory: &MemoryStats| gpu_work::bracketed(memory.kind, options.style);
    order::by_key(&mut memory, |memory| (Reverse(memory.times.total_ns), name(memory)));
    let rows = memory.iter().map(|memory| (name(memory), &memory.times)).in_vec();
    let mut table = time_table(rows, [count, "Operation", "Operation"], options).ok_or(NO_MEMORY)?;
    // The page shows sizes beside times.
    let bytes = |page: &'static str| Column::of("").unit(Unit::Bytes).page(page);
    let speed = Column::of("").unit(Unit::Number).page("GB/s");
    table.columns.extend(vec![bytes("Bytes"), bytes("Avg size"), bytes("Max size"), speed]);
    for (row, MemoryStats { times, sizes, .. }) in table.rows.iter_mut().zip(memory) {
        let mean = Cell::mean(sizes.total_bytes, sizes.count);
        let speed = Cell::Number(sizes.total_bytes as f64 / times.total_ns as f64);
        row.extend(vec![Cell::Whole(sizes.total_bytes), mean, Cell::Whole(sizes.max_bytes), speed]);
    }
    Ok(table)
}

pub(super) fn calls(summary: &Summary, options: &RenderOptions) -> Made {
    let gpu = summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let calls = gpu.calls.as_ref().ok_or(NO_CALL_RECORDED)?;
    let rows = calls.iter().map(|call| (gpu_work::nsys_call(&call.name).into(), &call.times)).in_vec();
    time_table(rows, ["Num Calls", "Name", "Call"], options).ok_or(NO_CALL)
}

pub(super) fn openacc(summary: &Summary, options: &RenderOptions) -> Made {
    let rows = summary.openacc.iter().map(|row| (row.label(), &row.times)).in_vec();
    time_table(rows, ["Events", "Event", "Event"], options).ok_or(NO_OPENACC)
}

pub(super) fn memory_size(summary: &Summary, options: &RenderOptions) -> Made {
    summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let rows = size_rows(summary, options);
    if rows.is_empty() { Err(NO_MEMORY) } else { Ok(size_table(&rows, options)) }
}

/// The table of sizes, also without a row.
#[cfg(feature = "compare")]
pub(super) fn sizes(summary: &Summary, options: &RenderOptions) -> Table {
    size_table(&size_rows(summary, options), options)
}

fn size_rows<'a>(summary: &'a Summary, options: &RenderOptions) -> Vec<(String, &'a Sizes)> {
    let memory = summary.gpu.as_ref().map_or(&[][..], |gpu| &gpu.memory);
    let mut rows: Vec<(String, &Sizes)> = memory
        .iter()
        .filter(|memory| memory.sizes.count > 0)
        .map(|memory| (gpu_work::bracketed(memory.kind, options.style), &memory.sizes))
        .in_vec();
    order::by(&mut rows, |(a, x), (b, y)| (Reverse(x.total_bytes), a).cmp(&(Reverse(y.total_bytes), b)));
    rows
}

pub(super) fn projection(summary: &Summary, options: &RenderOptions) -> Made {
    summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let rows = projection_rows(summary);
    if rows.is_empty() { Err(NO_LAUNCH) } else { Ok(projection_table(&rows, options)) }
}

/// The table of projections, also without a row.
#[cfg(feature = "compare")]
pub(super) fn projections(summary: &Summary, options: &RenderOptions) -> Table {
    projection_table(&projection_rows(summary), options)
}

fn projection_rows(summary: &Summary) -> Vec<(Option<String>, &ProjectionStats)> {
    let projections = summary.gpu.as_ref().map_or(&[][..], |gpu| &gpu.projections);
    let mut rows: Vec<(Option<String>, &ProjectionStats)> = projections
        .iter()
        .filter(|row| row.projected.instances > 0)
        .map(|row| (names::label(row.domain.as_deref(), &row.name), row))
        .in_vec();
    order::by(&mut rows, |(a, x), (b, y)| {
        (Reverse(x.projected.total_ns), a, x.style).cmp(&(Reverse(y.projected.total_ns), b, y.style))
    });
    rows
}

pub(super) fn range_kernels(summary: &Summary, options: &RenderOptions) -> Made {
    let gpu = summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let mut rows: Vec<(Option<String>, &RangeKernelStats)> =
        gpu.range_kernels.iter().filter(|row| row.times.instances > 0).map(|row| (range_label(row), row)).in_vec();
    order::by(&mut rows, |(a, x), (b, y)| {
        let key = |row: &RangeKernelStats| (row.pid, row.tid, Reverse(row.times.total_ns), row.style);
        (a, key(x), &x.kernel).cmp(&(b, key(y), &y.kernel))
    });
    let any_kernel = gpu.kernels.iter().any(|kernel| kernel.times.instances > 0);
    match (rows.is_empty(), any_kernel) {
        (true, true) => Err(NO_RANGE_KERNEL), // kernels outside of all ranges have rows, too
        (true, false) => Err(NO_KERNEL),
        (false, _) => Ok(range_kernel_table(&rows, options)),
    }
}

/// `None` only outside of any range.
fn range_label(row: &RangeKernelStats) -> Option<String> {
    let (domain, name) = row.range.as_ref()?;
    Some(names::label_or_none(domain.as_deref(), name))
}

/// Rows by total time, then by name; `None` if there are none.
fn time_table(
    mut rows: Vec<(String, &Times)>,
    [count, name, on_page]: [&'static str; 3],
    options: &RenderOptions,
) -> Option<Table> {
    rows.retain(|(_, times)| times.instances > 0);
    order::by(&mut rows, |(a, x), (b, y)| (Reverse(x.total_ns), a).cmp(&(Reverse(y.total_ns), b)));
    let rows: Vec<Row> = rows
        .iter()
        .map(|(name, times)| Row { times, below: None, names: vec![name_cell(Some(name), options)] })
        .in_vec();
    let mut table = statistics_table(&rows, &Columns::of_gpu(count, &[name]), options);
    table.columns.iter_mut().filter(|column| column.is_name()).for_each(|column| column.page = on_page.into());
    (!rows.is_empty()).then_some(table)
}

fn size_table(rows: &[(String, &Sizes)], options: &RenderOptions) -> Table {
    const HEADERS: [[&str; 2]; 7] = [
        ["Total (MB)", "Total"],
        ["Count", "Operations"],
        ["Avg (MB)", "Average"],
        ["Med (MB)", ""],
        ["Min (MB)", "Minimum"],
        ["Max (MB)", "Maximum"],
        ["StdDev (MB)", ""],
    ];
    let (style, unit) = match options.style {
        TableStyle::Current => (0, 1e6),
        TableStyle::Legacy => (1, 1024.0),
    };
    let mut columns: Vec<Column> = HEADERS.iter().map(|names| Column::of(names[0]).headed(names[style])).in_vec();
    columns[..2].iter_mut().for_each(|column| *column = column.clone().summed());
    columns.push(Column::name("Operation"));
    let mut table = Table::new(columns);
    for (name, sizes) in rows {
        let size = |bytes: f64| Cell::Size { bytes, unit };
        table.push(vec![
            size(sizes.total_bytes as f64),
            Cell::Whole(sizes.count),
            size(sizes.total_bytes as f64 / sizes.count as f64),
            sizes.median_bytes.map_or(Cell::Unknown, size),
            size(sizes.min_bytes as f64),
            size(sizes.max_bytes as f64),
            size(sizes.stddev_bytes),
            Cell::text(name),
        ]);
    }
    table
}

fn projection_table(rows: &[(Option<String>, &ProjectionStats)], options: &RenderOptions) -> Table {
    let base = rows.iter().map(|(_, row)| row.projected.total_ns).total();
    let ns = |header: &'static str, page: &'static str| Column::of(header).unit(Unit::Ns).page(page);
    let average = |header: &'static str, page: &'static str| Column::of(header).unit(Unit::Number).page(page);
    let mut table = Table::new([
        Column::name("Range"),
        Column::text("Style"),
        Column::of("").unit(Unit::Percent).page("Time"),
        ns("Total Proj Time (ns)", "Total").summed(),
        ns("Total Range Time (ns)", "Range total").summed(),
        Column::of("Range Instances").page("Instances").summed(),
        ns("Proj Avg (ns)", "Avg"),
        ns("Proj Med (ns)", "p50"),
        ns("", "p90"),
        ns("", "p99"),
        ns("Proj Min (ns)", "Min"),
        ns("Proj Max (ns)", "Max"),
        ns("Proj StdDev (ns)", "StdDev"),
        Column::of("Total GPU Ops").page("GPU ops").summed(),
        average("Avg GPU Ops", "Avg ops"),
        average("Avg Range Lvl", "Avg level"),
        average("Avg Num Child", "Avg children"),
    ])
    .rounded(Rounding::Binary);
    for (label, row) in rows {
        let instances = row.projected.instances;
        let [share, total, rest @ ..] = times_cells(&row.projected, base);
        let names = [name_cell(label.as_deref(), options), Cell::text(style_name(row.style))];
        let operations = [
            Cell::Whole(row.operations),
            Cell::mean(row.operations, instances),
            Cell::mean(row.level_sum, instances),
            Cell::mean(row.children_sum, instances),
        ];
        let totals = [share, total, Cell::Whole(row.range_total_ns)];
        table.push([&names[..], &totals, &rest, &operations].concat());
    }
    table
}

fn range_kernel_table(rows: &[(Option<String>, &RangeKernelStats)], options: &RenderOptions) -> Table {
    let base = rows.iter().map(|(_, row)| row.times.total_ns).total();
    let ns = |header: &'static str, page: &'static str| Column::of(header).unit(Unit::Ns).page(page);
    let mut table = Table::new([
        Column::name("NVTX Range").page("Range"),
        Column::text("Style").page(""),
        Column::of("PID").page(""),
        Column::of("TID").unit(Unit::Text).page("Thread"),
        Column::of("NVTX Inst").page("Range inst."),
        Column::of("Kern Inst").page("Instances").summed(),
        Column::of("").unit(Unit::Percent).page("Time"),
        ns("Total Time (ns)", "Total").summed(),
        ns("Avg (ns)", "Avg"),
        ns("Med (ns)", "p50"),
        ns("", "p90"),
        ns("", "p99"),
        ns("Min (ns)", "Min"),
        ns("Max (ns)", "Max"),
        ns("StdDev (ns)", "StdDev"),
        Column::text("Kernel Name").page("Kernel"),
    ])
    .rounded(Rounding::Binary);
    for (label, row) in rows {
        let [share, total, _, rest @ ..] = times_cells(&row.times, base);
        let places = [
            label.as_deref().map_or(Cell::Outside, |label| name_cell(Some(label), options)), // empty, as in 2025
            Cell::text(row.style.map_or("", style_name)),
            Cell::Whole(row.pid.into()),
            Cell::known(Some(row.tid.into()).filter(|&tid| tid > 0)),
            Cell::Whole(row.range_instances),
            Cell::Whole(row.kernel_instances),
        ];
        table.push([&places[..], &[share, total], &rest, &[name_cell(Some(&row.kernel), options)]].concat());
    }
    table
}

#[cfg(test)]
mod tests;
