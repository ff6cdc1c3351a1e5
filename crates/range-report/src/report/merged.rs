//! Reports over many processes, one table for each kind of work: totals over all, and the least, average and longest
//! total of a process.

mod fit;
mod rows;
#[cfg(test)]
mod tests;

use super::envelope::{NO_RANGE, section, title};
use super::kinds::{MergedTable, TableStyle};
use super::nsys::{Columns, Row, known, name_cell, statistics_table};
use super::options::RenderOptions;
use super::table::{Cell, Column, Table};
use super::tree::titled as phase_tree;
use super::{calls, cuda, footer, nodes};
use crate::text::number::{average, integer, percent, rounded};
use range_model::{Merged, MergedSummary, NodeTotals, RankTotals};
use rows::{Line, Rows, Unit, slowest};

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

/// The tables and the losses.
pub(crate) fn merged(merged: &MergedSummary, tables: &[MergedTable], options: &RenderOptions) -> String {
    let count = integer(merged.processes.len() as u64, options.thousands);
    let s = if merged.processes.len() == 1 { "" } else { "es" };
    let titled = |what: &str| title(&format!("{what} of {count} Process{s}"), " (merged)", options);
    let mut text = String::new();
    for (table, what) in PRINTED.into_iter().filter(|(table, _)| tables.contains(table)) {
        let title = titled(what);
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
    let mut one = merged.as_one();
    (one.elapsed_ns, one.gpu) = (0, None);
    one.losses.rows_without_median = 0; // no table here has medians
    if !one.tree.is_empty() && tables.contains(&MergedTable::Tree) {
        text += &phase_tree(&one, &titled("Phase Tree"), options);
    }
    text + &footer::footer(&one, &[], options, false)
}

/// One table for programs: unchanged names, all figures, no separators. Its first columns are those of the table of one
/// process; the figures over processes follow.
pub(crate) fn merged_table(merged: &MergedSummary, table: MergedTable) -> Table {
    let plain = RenderOptions::default().raw_names(true);
    let one = || merged.as_one();
    let Some(mut rows) = Rows::of(merged, table, plain.style) else { return flat_tree(merged) };
    rows.as_of_one(table);
    let figures = match table {
        MergedTable::Work => work_table(&rows),
        MergedTable::MemSize => cuda::sizes(&one(), &plain),
        MergedTable::GpuProjection => cuda::projections(&one(), &plain),
        MergedTable::Calls => calls::table(&one(), &plain),
        MergedTable::Ranges | MergedTable::StreamTimes | MergedTable::Categories => {
            time_table(&rows, &Columns::of_ranges(&rows.names), &plain)
        }
        _ => time_table(&rows, &Columns::of_gpu(rows.count, &rows.names), &plain),
    };
    let unit = match rows.unit {
        Unit::Time => "ns",
        Unit::Size => "B",
    };
    figures.beside(process_headers(unit), rows.lines.iter().map(|line| process_cells(line, merged, &plain)))
}

/// The statistics of Nsight Systems.
fn time_table(rows: &Rows<'_>, columns: &Columns<'_>, options: &RenderOptions) -> Table {
    let lines = rows.lines.iter().filter_map(|line| {
        let (others, name) = line.names.split_at(line.names.len().saturating_sub(1));
        let names = others.iter().map(Cell::text).chain(name.iter().map(|name| name_cell(Some(name), options)));
        Some(Row { times: line.times?, below: line.says_nothing.then_some(0), names: names.collect() })
    });
    statistics_table(&lines.collect::<Vec<Row<'_>>>(), columns, options)
}

/// All operations of the GPUs; there is no such table for one process.
fn work_table(rows: &Rows<'_>) -> Table {
    let mut table = Table::new(["Time (%)", "Busy Time (ns)", "Operations", "Work"].map(Column::of));
    for line in &rows.lines {
        let share = percent(line.total, rows.base).unwrap_or_else(|| "None".to_owned());
        let name = line.names.last().map_or("", String::as_str);
        table.push(vec![Cell::tested(share), Cell::Whole(line.total), Cell::Whole(line.count), Cell::text(name)]);
    }
    table
}

/// Headers of the figures over processes: number of processes with the row, their totals, and the range of their
/// medians, in which the median of all instances lies.
fn process_headers(unit: &str) -> [String; 8] {
    [
        "Processes".to_owned(),
        format!("Min Process ({unit})"),
        format!("Avg Process ({unit})"),
        format!("Max Process ({unit})"),
        "Max/Avg".to_owned(),
        "Slowest".to_owned(),
        format!("Lowest Med ({unit})"),
        format!("Highest Med ({unit})"),
    ]
}

fn process_cells(line: &Line<'_>, merged: &MergedSummary, options: &RenderOptions) -> Vec<Cell> {
    let median = line.each.and_then(|each| each.median);
    let mut cells = cells_of(line.ranks, merged, options);
    cells.extend([median.map(|(least, _)| least), median.map(|(_, most)| most)].map(|ns| known(ns.and_then(rounded))));
    if line.says_nothing {
        cells[1..].fill(Cell::Unknown);
    }
    cells
}

/// The cells of those figures: number of processes, the least, average and greatest total, the ratio of greatest to
/// average, and the process with the greatest.
fn cells_of(ranks: &RankTotals, merged: &MergedSummary, options: &RenderOptions) -> Vec<Cell> {
    vec![
        Cell::Whole(ranks.len() as u64),
        known(ranks.fastest().map(|rank| integer(rank.total, false))),
        known(average(ranks.total(), ranks.len() as u64)),
        known(ranks.slowest().map(|rank| integer(rank.total, false))),
        known(ranks.imbalance().map(|imbalance| format!("{imbalance:.2}"))),
        Cell::text(slowest(ranks, merged, options)),
    ]
}

/// The phase tree, a row for each node in the order of printing.
fn flat_tree(merged: &MergedSummary) -> Table {
    let plain = RenderOptions::default().raw_names(true);
    let mut table = nodes::table::<NodeTotals>(Vec::new());
    for Merged { key, all, .. } in &merged.tree {
        table.push(nodes::cells(key.depth, all, Vec::new(), key.domain.as_deref(), &key.name));
    }
    let [of_processes @ .., _, _] = process_headers("ns");
    table.beside(of_processes, merged.tree.iter().map(|node| cells_of(&node.ranks, merged, &plain)))
}
