//! The times on streams, in the form of the range statistics.

use std::cmp::Reverse;

use super::envelope::printed;
use super::gpu_work::printable;
use super::nsys::{Columns, Row, name_cell, statistics_table};
use super::options::RenderOptions;
use super::table::{Cell, Column, Table};
use crate::analysis::nothing_enqueued;
use range_model::names;
use range_model::stats::{Lean, order};
use range_model::{StreamStats, Summary};

/// The second table of `Ranges`: one row per range and stream, by total time. Empty if no range was timed on a stream.
pub(crate) fn streams(summary: &Summary, options: &RenderOptions) -> String {
    table(summary, options).map_or_else(String::new, |table| printed(TITLES, Ok(table), options))
}

const TITLES: [&str; 2] = [" ** Stream Time Summary (CUDA events):", "Stream Time Statistics (CUDA events):"];
/// Title and a sentence for the page.
#[cfg(feature = "page")]
pub(crate) const PAGE: [&str; 2] = [
    "Stream time",
    "Time between entry and exit on the stream (CUDA events), idle included. Empty: instances in which nothing was \
     enqueued; a row of nothing else has no times.",
];

/// The table alone, if there is one.
pub(crate) fn table(summary: &Summary, options: &RenderOptions) -> Option<Table> {
    let mut rows: Vec<(Option<String>, &StreamStats)> = summary
        .stream_ranges
        .iter()
        .filter(|row| row.times.instances > 0)
        .map(|row| (names::label(row.domain.as_deref(), &row.name), row))
        .in_vec();
    if rows.is_empty() {
        return None;
    }
    // Rows without a visible total come last.
    let total = |row: &StreamStats| (!nothing_enqueued(row)).then_some(row.times.total_ns);
    order::by(&mut rows, |(a, x), (b, y)| (Reverse(total(x)), a, &x.stream).cmp(&(Reverse(total(y)), b, &y.stream)));
    let cells: Vec<Row> = rows
        .iter()
        .map(|(label, row)| {
            let names = vec![name_cell(label.as_deref(), options), Cell::text(printable(&row.stream, options))];
            Row { times: &row.times, below: nothing_enqueued(row).then_some(row.floor_ns), names }
        })
        .in_vec();
    let mut table = statistics_table(&cells, &Columns::of_ranges(&["Range", "Stream"]), options);
    table.columns.push(Column::of("").page("Empty"));
    table.rows.iter_mut().zip(rows).for_each(|(cells, (_, row))| cells.push(Cell::Whole(row.empty)));
    Some(table)
}
