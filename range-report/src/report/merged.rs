//! What many processes did, a table a kind of work: totals over all, and the least, average and longest of a process.

mod fit;
mod rows;
#[cfg(test)]
mod tests;

use std::io;

use super::names;
use super::nsys::{known, name_cell, whole};
use super::table::{Cell, Table};
use super::tree::titled as phase_tree;
use super::{NO_RANGE, RenderOptions, TableStyle, footer, section};
use crate::text::number::{average, integer, percent};
use crate::{MergedSummary, RankTotals, Summary};
use rows::{Rows, Unit};

/// A table of a [`MergedSummary`], for [`write_csv`](MergedSummary::write_csv).
///
/// ```
/// use range_report::{MergedTable, Summary};
///
/// let merged = Summary::merge([]);
/// for table in MergedTable::ALL {
///     let mut text = Vec::new();
///     merged.write_csv(*table, &mut text)?;
///     assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1, "{table:?} has its headers and no row");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MergedTable {
    /// Ranges by their time on the CPU.
    Ranges,
    /// All GPU work by busy time, and the work that counts for no span.
    Work,
    /// Kernels.
    Kernels,
    /// Ranges by stream time (CUDA events).
    StreamTimes,
    /// Copies and sets by time.
    MemTime,
    /// Copies and sets by size, in bytes.
    MemSize,
    /// Ranges by their time projected onto the GPU.
    GpuProjection,
    /// Calls of the CUDA API.
    Api,
    /// Events of OpenACC runtimes, by their own time.
    OpenAcc,
    /// Calls of futures, by the time that they awaited themselves.
    Calls,
    /// Sums over `nvtx.category`.
    Categories,
    /// The phase tree: one row per node, with its depth.
    Tree,
}

impl MergedTable {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Ranges,
        Self::Work,
        Self::Kernels,
        Self::StreamTimes,
        Self::MemTime,
        Self::MemSize,
        Self::GpuProjection,
        Self::Api,
        Self::OpenAcc,
        Self::Calls,
        Self::Categories,
        Self::Tree,
    ];
}

/// The tables that are printed unless they are empty, and their titles.
const PRINTED: [(MergedTable, &str); 9] = [
    (MergedTable::Ranges, "Ranges"),
    (MergedTable::Work, "GPU Work"),
    (MergedTable::Kernels, "CUDA GPU Kernels"),
    (MergedTable::StreamTimes, "Stream Times (CUDA events)"),
    (MergedTable::MemTime, "CUDA GPU MemOps (by Time)"),
    (MergedTable::MemSize, "CUDA GPU MemOps (by Size)"),
    (MergedTable::OpenAcc, "OpenACC (exclusive)"),
    (MergedTable::Calls, "Calls and Waiting"),
    (MergedTable::Categories, "Categories"),
];

impl MergedSummary {
    /// Prints what there is of these tables: ranges, GPU work, kernels, stream times, times and sizes of copies, events
    /// of OpenACC, calls of futures, categories. Each has totals over all processes, the least, average and longest
    /// total of a process, and which process that is. Then the phase tree with its totals (that of each process is in
    /// [`write_csv`](Self::write_csv)), and what was lost.
    ///
    /// Where the figures do not fit into the width, there are fewer of them, in units for people.
    ///
    /// ```
    /// use range_report::{RenderOptions, Summary};
    ///
    /// let mut text = Vec::new();
    /// Summary::merge([Summary::default(), Summary::default()]).render(&RenderOptions::default(), &mut text)?;
    /// assert!(text.starts_with(b"\n ** Ranges of 2 Processes (merged):\n"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn render(&self, options: &RenderOptions, mut out: impl io::Write) -> io::Result<()> {
        out.write_all(merged(self, MergedTable::ALL, options).as_bytes())
    }

    /// Prints those of the tables of [`render`](Self::render) that are listed, in its order, and what was lost.
    ///
    /// ```
    /// use range_report::{MergedTable, RenderOptions, Summary};
    ///
    /// let mut text = Vec::new();
    /// let merged = Summary::merge([Summary::default(), Summary::default()]);
    /// merged.render_tables(&[MergedTable::Kernels], &RenderOptions::default(), &mut text)?;
    /// assert!(text.is_empty(), "there is no kernel");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn render_tables(
        &self,
        tables: &[MergedTable],
        options: &RenderOptions,
        mut out: impl io::Write,
    ) -> io::Result<()> {
        out.write_all(merged(self, tables, options).as_bytes())
    }

    /// Writes one table as comma-separated values, quoted as [`Summary::write_csv`] does. A table in which
    /// there is nothing has its headers only.
    ///
    /// ```
    /// use range_report::{MergedTable, Summary};
    ///
    /// let mut text = Vec::new();
    /// Summary::merge([]).write_csv(MergedTable::Kernels, &mut text)?;
    /// assert!(text.starts_with(b"Time (%),Total Time (ns),Instances,Ranks,"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of `out`.
    pub fn write_csv(&self, table: MergedTable, mut out: impl io::Write) -> io::Result<()> {
        out.write_all(merged_table(self, table).csv().as_bytes())
    }
}

/// The tables and what was lost.
pub(crate) fn merged(merged: &MergedSummary, tables: &[MergedTable], options: &RenderOptions) -> String {
    let count = integer(merged.processes.len() as u64, options.thousands);
    let s = if merged.processes.len() == 1 { "" } else { "es" };
    let title = |what: &str| match options.style {
        TableStyle::Current => format!(" ** {what} of {count} Process{s} (merged):"),
        TableStyle::Legacy => format!("{what} of {count} Process{s}:"),
    };
    let mut text = String::new();
    for (table, what) in PRINTED.into_iter().filter(|(table, _)| tables.contains(table)) {
        let title = title(what);
        match Rows::of(merged, table, TableStyle::Legacy).filter(|rows| !rows.lines.is_empty()) {
            Some(rows) => {
                let beyond = rows.ranks_beyond(options.rows);
                let rows = rows.bounded(options.rows, beyond.as_ref());
                text += &section(&title, &fit::fitted(&rows, merged, options));
            }
            None if table == MergedTable::Ranges => text += &section(&title, NO_RANGE),
            None => {}
        }
    }
    // The tree has the GPU's work itself.
    let mut one = Summary { elapsed_ns: 0, gpu: None, stream_ranges: Vec::new(), calls: Vec::new(), ..merged.as_one() };
    one.losses.rows_without_median = 0; // no table here has medians
    if !one.tree.is_empty() && tables.contains(&MergedTable::Tree) {
        text += &phase_tree(&one, &title("Phase Tree"), options);
    }
    text + &footer::footer(&one, &[], options)
}

/// One table for programs: names as they are, all figures, without separators.
pub(crate) fn merged_table(merged: &MergedSummary, table: MergedTable) -> Table {
    let plain = RenderOptions::default().raw_names(true);
    match Rows::of(merged, table, plain.style) {
        Some(rows) => full(&rows, merged, &plain),
        None => flat_tree(merged),
    }
}

/// All figures, to the nanosecond or byte.
fn full(rows: &Rows<'_>, merged: &MergedSummary, options: &RenderOptions) -> Table {
    let (share, total, unit) = match rows.unit {
        Unit::Time => ("Time (%)", rows.total, "ns"),
        Unit::Size => ("Size (%)", rows.total, "B"),
    };
    let of = |what: &str| format!("{what} ({unit})");
    let mut headers = vec![share.to_owned(), of(total), rows.count.to_owned(), "Ranks".to_owned(), of("Avg")];
    headers.extend(rank_headers(unit));
    headers.extend(rows.names.iter().map(|&name| name.to_owned()));
    let mut table = Table::new(headers);
    for line in &rows.lines {
        let shown = |cell: Cell| if line.says_nothing { Cell::unknown() } else { cell };
        let mut row = vec![
            shown(Cell::tested(percent(line.total, rows.base).unwrap_or_else(|| "None".to_owned()))),
            shown(whole(line.total)),
            whole(line.count),
            whole(line.ranks.len() as u64),
            shown(known(line.sum.and_then(|sum| average(sum, line.count)))),
        ];
        let [min, mean, max, imbalance] = rank_cells(line.ranks).map(shown);
        row.extend([min, mean, max, imbalance, shown(Cell::text(slowest(line.ranks, merged, options)))]);
        let (name, others) = line.names.split_last().map_or(("", &[][..]), |(name, others)| (name.as_str(), others));
        row.extend(others.iter().map(Cell::text));
        row.push(name_cell(Some(name), options));
        table.push(row);
    }
    table
}

fn rank_headers(unit: &str) -> [String; 5] {
    [
        format!("Min Rank ({unit})"),
        format!("Avg Rank ({unit})"),
        format!("Max Rank ({unit})"),
        "Max/Avg".to_owned(),
        "Slowest".to_owned(),
    ]
}

/// The least, average and greatest total of a process, and the greatest by the average.
fn rank_cells(ranks: &RankTotals) -> [Cell; 4] {
    [
        known(ranks.fastest().map(|rank| integer(rank.total, false))),
        known(average(ranks.total(), ranks.len() as u64)),
        known(ranks.slowest().map(|rank| integer(rank.total, false))),
        known(ranks.imbalance().map(|imbalance| format!("{imbalance:.2}"))),
    ]
}

/// Which process has most.
fn slowest(ranks: &RankTotals, merged: &MergedSummary, options: &RenderOptions) -> String {
    let process = ranks.slowest().and_then(|rank| merged.processes.get(rank.process));
    let label = process.map_or_else(String::new, |process| process.label());
    if options.raw_names { label } else { names::escaped(&label).into_owned() }
}

/// The phase tree, a row a node in the order of printing.
fn flat_tree(merged: &MergedSummary) -> Table {
    let plain = RenderOptions::default().raw_names(true);
    let mut headers: Vec<String> = [
        "Depth",
        "Calls",
        "Instances",
        "Total Time (ns)",
        "Self Time (ns)",
        "Max (ns)",
        "Awaited (ns)",
        "Awaited Self (ns)",
        "Stream Total (ns)",
        "Stream Self (ns)",
        "GPU Busy (ns)",
        "GPU Self Busy (ns)",
        "Ranks",
    ]
    .map(str::to_owned)
    .into();
    headers.extend(rank_headers("ns"));
    headers.push("Phase".to_owned());
    let mut table = Table::new(headers);
    for node in &merged.tree {
        let (all, gpu) = (&node.all, node.all.gpu.as_ref());
        let mut row: Vec<Cell> =
            [node.key.depth as u64, all.calls, all.instances, all.total_ns, all.self_ns].map(whole).into();
        let known_ns = |ns: Option<u64>| known(ns.map(|ns| integer(ns, false)));
        row.push(known_ns(Some(all.max_ns).filter(|&ns| ns > 0)));
        row.extend([all.awaited_ns, all.awaited_self_ns, all.stream_total_ns, all.stream_self_ns].map(known_ns));
        row.extend([gpu.map(|gpu| gpu.total.busy_ns), gpu.map(|gpu| gpu.own.busy_ns)].map(known_ns));
        row.push(whole(node.ranks.len() as u64));
        row.extend(rank_cells(&node.ranks));
        row.push(Cell::text(slowest(&node.ranks, merged, &plain)));
        let label = names::label(node.key.domain.as_deref(), &node.key.name);
        row.push(Cell::text(label.unwrap_or_else(|| "None".to_owned())));
        table.push(row);
    }
    table
}
