//! The tables of a summary as columns and rows, which the page sorts.

use std::borrow::Cow;
use std::cmp::Reverse;

use serde::Serialize;

use super::texts::{LONGEST, presentable};
use crate::TableStyle;
use crate::report::{self, bracketed, label, nsys_call, style_name};
use crate::summary::{GpuActivity, Quantile, RangeStyle, StreamStats, Summary, Times};

/// Rows of a table. What is beyond is counted.
pub(super) const MOST_ROWS: usize = 20_000;

#[derive(Debug, Serialize)]
pub(super) struct Table<'a> {
    /// Short, for a tab.
    pub(super) title: &'static str,
    /// What the figures are.
    pub(super) about: &'static str,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell<'a>>>,
    pub(super) rows_left_out: usize,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Column(pub(super) Cow<'static, str>, pub(super) Kind);

pub(super) const fn column(title: &'static str, kind: Kind) -> Column {
    Column(Cow::Borrowed(title), kind)
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Text,
    Count,
    Ns,
    Percent,
    Bytes,
    Number,
    /// Nanoseconds more, or fewer.
    Difference,
    Ratio,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Cell<'a> {
    Text(Cow<'a, str>),
    Count(u64),
    Signed(i64),
    Number(f64),
    /// From a histogram.
    About([f64; 1]),
    /// In words, and what to sort by.
    Said {
        by: f64,
        says: String,
    },
    Nothing(()),
}

const TIMES: [Column; 10] = [
    column("Time", Kind::Percent),
    column("Total", Kind::Ns),
    column("Instances", Kind::Count),
    column("Avg", Kind::Ns),
    column("p50", Kind::Ns),
    column("p90", Kind::Ns),
    column("p99", Kind::Ns),
    column("Min", Kind::Ns),
    column("Max", Kind::Ns),
    column("StdDev", Kind::Ns),
];

/// All tables that have rows, without the tree.
pub(super) fn tables(summary: &Summary) -> Vec<Table<'_>> {
    let mut tables = vec![ranges(summary), calls(summary), categories(summary), streams(summary)];
    if let Some(gpu) = &summary.gpu {
        tables.extend([kernels(gpu), memory(gpu), api_calls(gpu), projections(gpu), range_kernels(gpu)]);
    }
    tables.push(openacc(summary));
    tables.retain(|table| !table.rows.is_empty());
    for table in &mut tables {
        without_what_no_row_has(table, &["p90", "p99"]);
        table.rows_left_out = table.rows.len().saturating_sub(MOST_ROWS);
        table.rows.truncate(MOST_ROWS);
    }
    tables
}

/// Quantiles of a run of an older version are not known.
fn without_what_no_row_has(table: &mut Table<'_>, titles: &[&str]) {
    let has = |place: usize| table.rows.iter().any(|row| !matches!(row.get(place), None | Some(Cell::Nothing(()))));
    let kept: Vec<bool> = (0..)
        .zip(&table.columns)
        .map(|(place, Column(title, _))| !titles.contains(&title.as_ref()) || has(place))
        .collect();
    let mut keep = kept.iter().copied();
    table.columns.retain(|_| keep.next().unwrap_or(true));
    for row in &mut table.rows {
        let mut keep = kept.iter().copied();
        row.retain(|_| keep.next().unwrap_or(true));
    }
}

fn table<'a>(title: &'static str, about: &'static str, columns: Vec<Column>, rows: Vec<Vec<Cell<'a>>>) -> Table<'a> {
    Table { title, about, columns, rows, rows_left_out: 0 }
}

fn ranges(summary: &Summary) -> Table<'_> {
    let mut rows: Vec<_> = summary.ranges.iter().filter(|row| row.times.instances > 0).collect();
    rows.sort_by_key(|row| Reverse(row.times.total_ns));
    let base = sum(rows.iter().map(|row| &row.times));
    let any_start_end = rows.iter().any(|row| row.style == RangeStyle::StartEnd);
    let style_column = any_start_end.then_some(column("Style", Kind::Text));
    let cells = rows.into_iter().map(|row| {
        let style = any_start_end.then(|| style(row.style));
        [name(row.domain.as_deref(), &row.name)].into_iter().chain(style).chain(times(&row.times, base)).collect()
    });
    let cells = cells.collect();
    let columns = [column("Range", Kind::Text)].into_iter().chain(style_column).chain(TIMES).collect();
    table("Ranges", "Wall-clock time between entry and exit.", columns, cells)
}

/// Latencies of futures, and what of them was waited.
fn calls(summary: &Summary) -> Table<'_> {
    let rows = report::calls::sorted(summary);
    let parts = report::calls::parts(rows.iter().map(|row| &row.latency));
    let cells = rows.iter().map(|row| {
        let counts = [row.latency.instances, row.cancelled].map(Cell::Count);
        let quantiles = parts.iter().map(|&q| quantile(row.latency.quantile(q)));
        let mean = average(row.latency.total_ns, row.latency.instances);
        let figures = [Cell::Count(row.latency.max_ns), mean];
        let waiting = [row.busy_ns, row.awaited_ns, row.awaited_self_ns].map(Cell::Count);
        let name = [name(row.domain.as_deref(), &row.name)];
        name.into_iter().chain(counts).chain(quantiles).chain(figures).chain(waiting).collect()
    });
    let rows = cells.collect();
    let first = [column("Call", Kind::Text), column("Calls", Kind::Count), column("Cancelled", Kind::Count)];
    let quantiles = parts.iter().map(|&q| quantile_column(q));
    let last = ["Max", "Mean", "Busy", "Awaited", "Awaited self"].map(|title| column(title, Kind::Ns));
    let about = "Spans that are futures, from creation to end: busy is time in polls, awaited the rest, and awaited \
                 self that in which no child was alive.";
    table("Calls", about, first.into_iter().chain(quantiles).chain(last).collect(), rows)
}

pub(super) fn quantile_column(q: f64) -> Column {
    Column(report::calls::percentile(q).into(), Kind::Ns)
}

pub(super) fn quantile<'a>(quantile: Option<Quantile>) -> Cell<'a> {
    match quantile {
        Some(Quantile { ns, exact: false, .. }) if ns.is_finite() => Cell::About([ns]),
        Some(Quantile { ns, .. }) => number(ns),
        None => Cell::Nothing(()),
    }
}

fn categories(summary: &Summary) -> Table<'_> {
    let base = sum(summary.categories.iter().map(|row| &row.times));
    let rows = summary.categories.iter().filter(|row| row.times.instances > 0);
    let rows = rows.map(|row| [text(&row.category)].into_iter().chain(times(&row.times, base)).collect()).collect();
    let columns = [column("Category", Kind::Text)].into_iter().chain(TIMES).collect();
    table("Categories", "Ranges by nvtx.category, nested ones counted inclusively.", columns, rows)
}

fn streams(summary: &Summary) -> Table<'_> {
    let is_empty = |row: &StreamStats| row.empty >= row.times.instances;
    let mut rows: Vec<_> = summary.stream_ranges.iter().filter(|row| row.times.instances > 0).collect();
    rows.sort_by_key(|row| Reverse((!is_empty(row)).then_some(row.times.total_ns)));
    let base = sum(rows.iter().filter(|row| !is_empty(row)).map(|row| &row.times));
    let cells = rows.into_iter().map(|row| {
        let mut figures = times(&row.times, base);
        if is_empty(row) {
            // Instances alone: the times are those of the events themselves.
            figures = figures
                .into_iter()
                .enumerate()
                .map(|(i, cell)| if i == 2 { cell } else { Cell::Nothing(()) })
                .collect();
        }
        let names = [name(row.domain.as_deref(), &row.name), text(&row.stream)];
        names.into_iter().chain(figures).chain([Cell::Count(row.empty)]).collect()
    });
    let cells = cells.collect();
    let names = [column("Range", Kind::Text), column("Stream", Kind::Text)];
    let columns = names.into_iter().chain(TIMES).chain([column("Empty", Kind::Count)]).collect();
    let about = "Time between entry and exit on the stream (CUDA events), idle included. Empty: instances in which nothing was \
                 enqueued; a row of nothing else has no times.";
    table("Stream time", about, columns, cells)
}

fn kernels(gpu: &GpuActivity) -> Table<'_> {
    let base = sum(gpu.kernels.iter().map(|row| &row.times));
    let rows = gpu.kernels.iter().filter(|row| row.times.instances > 0);
    let rows = rows.map(|row| [text(&row.name)].into_iter().chain(times(&row.times, base)).collect()).collect();
    let columns = [column("Kernel", Kind::Text)].into_iter().chain(TIMES).collect();
    table("Kernels", "Execution on the GPU.", columns, rows)
}

fn memory(gpu: &GpuActivity) -> Table<'_> {
    let base = sum(gpu.memory.iter().map(|row| &row.times));
    let rows = gpu.memory.iter().filter(|row| row.times.instances > 0).map(|row| {
        let speed = row.sizes.total_bytes as f64 / row.times.total_ns as f64;
        let sizes = [
            Cell::Count(row.sizes.total_bytes),
            average(row.sizes.total_bytes, row.sizes.count),
            Cell::Count(row.sizes.max_bytes),
            number(speed),
        ];
        let operation = Cell::Text(bracketed(row.kind, TableStyle::Current).into());
        [operation].into_iter().chain(times(&row.times, base)).chain(sizes).collect()
    });
    let rows = rows.collect();
    let sizes = [
        column("Bytes", Kind::Bytes),
        column("Avg size", Kind::Bytes),
        column("Max size", Kind::Bytes),
        column("GB/s", Kind::Number),
    ];
    let columns = [column("Operation", Kind::Text)].into_iter().chain(TIMES).chain(sizes).collect();
    table("GPU memory", "Copies and sets, by kind.", columns, rows)
}

fn api_calls(gpu: &GpuActivity) -> Table<'_> {
    let base = sum(gpu.calls.iter().flatten().map(|row| &row.times));
    let rows = gpu.calls.iter().flatten().filter(|row| row.times.instances > 0);
    let rows = rows.map(|row| [text(nsys_call(&row.name))].into_iter().chain(times(&row.times, base)).collect());
    let columns = [column("Call", Kind::Text)].into_iter().chain(TIMES).collect();
    table("API calls", "Calls of the CUDA API, on the CPU.", columns, rows.collect())
}

fn openacc(summary: &Summary) -> Table<'_> {
    let base = sum(summary.openacc.iter().map(|row| &row.times));
    let rows = summary.openacc.iter();
    let rows = rows.map(|row| [label_cell(&row.label())].into_iter().chain(times(&row.times, base)).collect());
    let columns = [column("Event", Kind::Text)].into_iter().chain(TIMES).collect();
    table("OpenACC", "Events of the OpenACC runtime, without the events inside them.", columns, rows.collect())
}

fn projections(gpu: &GpuActivity) -> Table<'_> {
    let base = sum(gpu.projections.iter().map(|row| &row.projected));
    let rows = gpu.projections.iter().filter(|row| row.projected.instances > 0).map(|row| {
        let instances = row.projected.instances;
        let after = [
            Cell::Count(row.range_total_ns),
            Cell::Count(row.operations),
            average(row.operations, instances),
            average(row.level_sum, instances),
            average(row.children_sum, instances),
        ];
        let names = [name(row.domain.as_deref(), &row.name), style(row.style)];
        names.into_iter().chain(times(&row.projected, base)).chain(after).collect()
    });
    let rows = rows.collect();
    let names = [column("Range", Kind::Text), column("Style", Kind::Text)];
    let after = [
        column("Range total", Kind::Ns),
        column("GPU ops", Kind::Count),
        column("Avg ops", Kind::Number),
        column("Avg level", Kind::Number),
        column("Avg children", Kind::Number),
    ];
    let columns = names.into_iter().chain(TIMES).chain(after).collect();
    let about = "Ranges on the GPU: from the start of the first operation launched inside to the end of the last.";
    table("GPU projection", about, columns, rows)
}

fn range_kernels(gpu: &GpuActivity) -> Table<'_> {
    let base = sum(gpu.range_kernels.iter().map(|row| &row.times));
    let mut rows: Vec<_> = gpu.range_kernels.iter().filter(|row| row.times.instances > 0).collect();
    rows.sort_by_key(|row| Reverse(row.times.total_ns));
    let rows = rows.into_iter().map(|row| {
        let range = match &row.range {
            Some((domain, range)) => name(domain.as_deref(), range),
            None => Cell::Text("(outside any range)".into()),
        };
        let counts = [Cell::Count(row.tid.into()), Cell::Count(row.range_instances)];
        [range, text(&row.kernel)].into_iter().chain(times(&row.times, base)).chain(counts).collect()
    });
    let rows = rows.collect();
    let names = [column("Range", Kind::Text), column("Kernel", Kind::Text)];
    let counts = [column("Thread", Kind::Text), column("Range inst.", Kind::Count)];
    let columns = names.into_iter().chain(TIMES).chain(counts).collect();
    table("Kernels by range", "Kernels as launched inside ranges, once for each range around them.", columns, rows)
}

fn sum<'a>(times: impl Iterator<Item = &'a Times>) -> u128 {
    times.map(|times| u128::from(times.total_ns)).sum()
}

/// The cells of [`TIMES`].
fn times<'a>(times: &Times, base: u128) -> Vec<Cell<'a>> {
    let median = match times.median_ns {
        Some(median) if !times.median_exact && median.is_finite() => Cell::About([median]),
        Some(median) => number(median),
        None => Cell::Nothing(()),
    };
    vec![
        if base == 0 { Cell::Nothing(()) } else { number(100.0 * times.total_ns as f64 / base as f64) },
        Cell::Count(times.total_ns),
        Cell::Count(times.instances),
        average(times.total_ns, times.instances),
        median,
        quantile(times.quantile(0.9)),
        quantile(times.quantile(0.99)),
        Cell::Count(times.min_ns),
        Cell::Count(times.max_ns),
        number(times.stddev_ns),
    ]
}

fn average<'a>(total: u64, count: u64) -> Cell<'a> {
    number(total as f64 / count as f64)
}

pub(super) fn style<'a>(style: RangeStyle) -> Cell<'a> {
    Cell::Text(style_name(style).into())
}

pub(super) fn number<'a>(value: f64) -> Cell<'a> {
    if value.is_finite() { Cell::Number(value) } else { Cell::Nothing(()) }
}

fn text(text: &str) -> Cell<'_> {
    Cell::Text(presentable(text, LONGEST))
}

/// A name that was put together.
fn label_cell<'a>(label: &str) -> Cell<'a> {
    Cell::Text(presentable(label, LONGEST).into_owned().into())
}

pub(super) fn name<'a>(domain: Option<&str>, name: &'a str) -> Cell<'a> {
    match (domain, name) {
        (_, "") => Cell::Text("None".into()),
        (None, name) => text(name),
        (domain, name) => label_cell(&label(domain, name).unwrap_or_default()),
    }
}
