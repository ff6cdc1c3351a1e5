//! Fits a merged table to a width: all figures if there is room, else fewer, in readable units.

use super::rows::{Line, Rows, Unit, are_ranks, slowest};
use crate::report::fitted::left_out;
use crate::report::gpu_work::printable;
use crate::report::nsys::name_cell;
use crate::report::options::RenderOptions;
use crate::report::table::{Cell, Column, Layout, Table};
use crate::text::number::{bytes_between, human, human_between, human_bytes, integer, percent};
use crate::text::width::{shorten, width_of};
use range_model::{MergedSummary, RankTotals};

/// The least width at which names can be distinguished: figures are dropped before names get narrower.
const LEAST_NAME: usize = 32;
/// Largest width of a process's name if room is short.
const MAX_PROCESS: usize = 16;
/// Room for a time or a size: `1.234 ms`.
const FIGURE: usize = 8;

/// A column that may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Optional {
    /// A name or a total, which stays.
    Never,
    /// The least, average and greatest total of a process.
    Spread,
    /// The kind of a row, without its name.
    Kind,
    Mean,
    Deviation,
    Share,
    Min,
    Median,
    Max,
    Processes,
    /// The process with the greatest total, and its ratio to the average.
    Slowest,
    Count,
}

/// The columns in the order of dropping; the name and the total always stay. Of the figures of instances, the greatest
/// is dropped last. The figures that compare processes, the table's purpose, are dropped later still.
const COLUMNS: [Optional; 11] = [
    Optional::Spread,
    Optional::Kind,
    Optional::Mean,
    Optional::Deviation,
    Optional::Share,
    Optional::Min,
    Optional::Median,
    Optional::Max,
    Optional::Slowest,
    Optional::Processes,
    Optional::Count,
];

/// The table, and the dropped columns; each line ends in a line feed.
pub(super) fn fitted(rows: &Rows<'_>, merged: &MergedSummary, options: &RenderOptions) -> String {
    let alone = rows.by_name_alone();
    let with = |rows: &Rows<'_>, gone: usize, least: usize| {
        let gone = &COLUMNS[..gone];
        let text = with_names(rows, merged, gone, least, options)?;
        let gone = gone.iter().filter(|column| **column != Optional::Kind); // the name then contains the kind
        let all = columns(rows, merged, options);
        let gone = gone.flat_map(|gone| all.iter().filter(move |(column, ..)| column == gone));
        let gone: Vec<String> = gone.map(|(_, header, _)| header.clone()).collect();
        Some(text + &left_out(&gone, options.columns()))
    };
    let has_kind = |gone: usize| COLUMNS[gone..].contains(&Optional::Kind);
    let text = (0..=COLUMNS.len()).find_map(|gone| with(if has_kind(gone) { rows } else { &alone }, gone, LEAST_NAME));
    let text = text.or_else(|| with(&alone, COLUMNS.len(), 1));
    text.or_else(|| with(&rows.bare(), COLUMNS.len(), 0)).unwrap_or_default()
}

/// The table without columns that are `gone`, with its names cut to the room. `None` if the room is shorter than
/// `least` and a name would be cut.
fn with_names(
    rows: &Rows<'_>,
    merged: &MergedSummary,
    gone: &[Optional],
    least: usize,
    options: &RenderOptions,
) -> Option<String> {
    let layout = Layout { thousands: options.thousands, scan_rows: 0, max_width: 0, ..Layout::default() };
    let text = |rows: &Rows<'_>| {
        let all = columns(rows, merged, options);
        table_of(&all.iter().filter(|(column, ..)| !gone.contains(column)).collect::<Vec<_>>()).render(&layout)
    };
    let whole = text(rows);
    let excess = whole.lines().next().map_or(0, width_of).saturating_sub(options.columns());
    if excess == 0 {
        return Some(whole);
    }
    let longest = rows.lines.iter().map(|line| shown(line, options)).max()?;
    let aside = rows.lines.iter().map(|line| width_of(&line.aside)).max().unwrap_or(0);
    let room = longest.saturating_sub(excess);
    (room >= least + aside).then(|| text(&shortened(rows, room, options)))
}

/// Width of a printed name, with the remark behind it.
fn shown(line: &Line<'_>, options: &RenderOptions) -> usize {
    let name = line.names.last().map_or("", String::as_str);
    width_of(&printable(name, options)) + width_of(&line.aside)
}

fn shortened<'a>(rows: &Rows<'a>, room: usize, options: &RenderOptions) -> Rows<'a> {
    let lines = rows.lines.iter().map(|line| {
        let mut names = line.names.clone();
        if let Some(name) = names.last_mut() {
            let room = room.saturating_sub(width_of(&line.aside)).max(1);
            *name = shorten(&printable(name, options), room, room / 3);
        }
        Line { names, aside: line.aside.clone(), ..*line }
    });
    let names = rows.names.clone();
    Rows { lines: lines.collect(), names, ..*rows }
}

/// A column: whether and when it may be dropped, its header, and the figures of all lines in readable units.
type Figures = (Optional, String, Vec<Cell>);

/// All columns that have a value in some line, in the order of printing.
fn columns(rows: &Rows<'_>, merged: &MergedSummary, options: &RenderOptions) -> Vec<Figures> {
    let human_size = |bytes| if bytes < 1_000 { format!("{bytes} B ") } else { human_bytes(bytes) };
    let is_time = rows.unit == Unit::Time;
    let share = if is_time { "Time (%)" } else { "Size (%)" };
    let figure = |value| if is_time { human(value) } else { human_size(value) };
    let between = |least, most| if is_time { human_between(least, most) } else { bytes_between(least, most) };
    let [processes, process] = if are_ranks(merged) { ["Ranks", "Rank"] } else { ["Processes", "Process"] };
    let mut all: Vec<Figures> = Vec::new();
    let mut add = |column: Optional, header: &str, cell: &dyn Fn(&Line<'_>) -> Cell| {
        all.push((column, header.to_owned(), rows.lines.iter().map(cell).collect()));
    };
    let known =
        |line: &Line<'_>, text: Option<String>| text.filter(|_| !line.says_nothing).map_or(Cell::Unknown, Cell::tested);
    // As wide as the column, so that numbers are right-aligned.
    let wide = |line: &Line<'_>, text: Option<String>, width: usize| {
        let text = text.filter(|_| !line.says_nothing).unwrap_or_else(|| "-".to_owned());
        Cell::text(format!("{text:>width$}"))
    };
    let size = |line: &Line<'_>, value: Option<u64>, width: usize| wide(line, value.map(figure), width);
    let median = |line: &Line<'_>| {
        let (least, most) = line.each?.median?;
        Some(between(least as u64, most.round() as u64))
    };

    let (name, kinds) = rows.names.split_last().map_or(("", &[][..]), |(name, kinds)| (*name, kinds));
    add(Optional::Never, name, &|line| {
        let name = line.names.last().map_or("", String::as_str);
        name_cell(Some(&format!("{name}{}", line.aside)), options)
    });
    for (at, kind) in kinds.iter().enumerate() {
        add(Optional::Kind, kind, &|line| Cell::text(line.names.get(at).map_or("", String::as_str)));
    }
    add(Optional::Share, share, &|line| known(line, percent(line.total, rows.base)));
    add(Optional::Never, rows.total, &|line| size(line, Some(line.total), width_of(rows.total).max(FIGURE)));
    add(Optional::Count, rows.count, &|line| Cell::tested(integer(line.count, false)));
    if rows.lines.iter().any(|line| line.sum.is_some()) {
        add(Optional::Mean, "Avg", &|line| size(line, line.sum.and_then(|sum| sum.checked_div(line.count)), FIGURE));
    }
    if rows.lines.iter().any(|line| median(line).is_some()) {
        let widest = rows.lines.iter().filter_map(median).map(|text| width_of(&text)).max();
        add(Optional::Median, "Med", &|line| wide(line, median(line), widest.unwrap_or(0).max(FIGURE)));
    }
    if rows.lines.iter().any(|line| line.each.is_some()) {
        add(Optional::Min, "Min", &|line| size(line, line.each.map(|each| each.min), FIGURE));
        add(Optional::Max, "Max", &|line| size(line, line.each.map(|each| each.max), FIGURE));
        let deviation = |line: &Line<'_>| line.each.map(|each| each.deviation.round() as u64);
        add(Optional::Deviation, "StdDev", &|line| size(line, deviation(line), FIGURE));
    }
    add(Optional::Processes, processes, &|line| Cell::tested(integer(line.ranks.len() as u64, false)));
    let mut spread = |what: &str, total: &dyn Fn(&RankTotals) -> Option<u64>| {
        let header = format!("{what} {process}");
        add(Optional::Spread, &header, &|line| size(line, total(line.ranks), width_of(&header)));
    };
    spread("Min", &|ranks| ranks.fastest().map(|rank| rank.total));
    spread("Avg", &|ranks| ranks.total().checked_div(ranks.len() as u64));
    spread("Max", &|ranks| ranks.slowest().map(|rank| rank.total));
    add(Optional::Slowest, "Max/Avg", &|line| {
        known(line, line.ranks.imbalance().map(|imbalance| format!("{imbalance:.2}")))
    });
    add(Optional::Slowest, "Slowest", &|line| match line.says_nothing {
        true => Cell::Unknown,
        false => Cell::text(shorten(&slowest(line.ranks, merged, options), MAX_PROCESS, MAX_PROCESS / 2)),
    });
    all
}

fn table_of(columns: &[&Figures]) -> Table {
    let headers: Vec<Column> = columns.iter().map(|(_, header, _)| Column::of(header.clone())).collect();
    let mut table = Table::new(headers);
    for line in 0..columns.first().map_or(0, |(_, _, cells)| cells.len()) {
        table.push(columns.iter().map(|(_, _, cells)| cells[line].clone()).collect());
    }
    table
}
