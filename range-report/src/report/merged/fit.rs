//! Fits a merged table to a width: all figures if there is room, else fewer, in readable units.

use super::rows::{Line, Rows, Unit, are_ranks, slowest};
use crate::MergedSummary;
use crate::report::fitted::left_out;
use crate::report::nsys::name_cell;
use crate::report::options::RenderOptions;
use crate::report::table::{Cell, Column, Layout, Table};
use crate::text::names;
use crate::text::number::{bytes_between, human, human_between, human_bytes, integer, percent};
use crate::text::width::{shorten, width_of};

/// The least width at which names can be distinguished: figures are dropped before names get narrower.
const LEAST_NAME: usize = 32;
/// Largest width of a process's name if room is short.
const MAX_PROCESS: usize = 16;
/// Room for a time or a size: `1.234 ms`.
const FIGURE: usize = 8;

/// A column that may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Optional {
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
        let (gone, columns) = COLUMNS.split_at(gone);
        let text = with_names(rows, options, &|lines| short(lines, columns, merged, options), least)?;
        let gone = gone.iter().filter(|column| **column != Optional::Kind); // the name then contains the kind
        let gone: Vec<String> = gone.flat_map(|column| headers(*column, rows, merged)).collect();
        Some(text + &left_out(&gone, options.columns()))
    };
    let has_kind = |gone: usize| COLUMNS[gone..].contains(&Optional::Kind);
    let text = (0..=COLUMNS.len()).find_map(|gone| with(if has_kind(gone) { rows } else { &alone }, gone, LEAST_NAME));
    let text = text.or_else(|| with(&alone, COLUMNS.len(), 1));
    text.or_else(|| with(&rows.bare(), COLUMNS.len(), 0)).unwrap_or_default()
}

/// The table, with its names cut to the room. `None` if the room is shorter than `least` and a name would be cut.
fn with_names(
    rows: &Rows<'_>,
    options: &RenderOptions,
    table: &dyn Fn(&Rows<'_>) -> Table,
    least: usize,
) -> Option<String> {
    let layout = Layout { thousands: options.thousands, scan_rows: 0, max_width: 0, ..Layout::default() };
    let text = table(rows).render(&layout);
    let excess = text.lines().next().map_or(0, width_of).saturating_sub(options.columns());
    if excess == 0 {
        return Some(text);
    }
    let longest = rows.lines.iter().map(|line| shown(line, options)).max()?;
    let aside = rows.lines.iter().map(|line| width_of(&line.aside)).max().unwrap_or(0);
    let room = longest.saturating_sub(excess);
    (room >= least + aside).then(|| table(&shortened(rows, room, options)).render(&layout))
}

/// Width of a printed name, with the remark behind it.
fn shown(line: &Line<'_>, options: &RenderOptions) -> usize {
    let name = line.names.last().map_or("", String::as_str);
    let name = if options.raw_names { width_of(name) } else { width_of(&names::escaped(name)) };
    name + width_of(&line.aside)
}

fn shortened<'a>(rows: &Rows<'a>, room: usize, options: &RenderOptions) -> Rows<'a> {
    let lines = rows.lines.iter().map(|line| {
        let mut names = line.names.clone();
        if let Some(name) = names.last_mut() {
            let escaped = if options.raw_names { name.as_str().into() } else { names::escaped(name) };
            let room = room.saturating_sub(width_of(&line.aside)).max(1);
            *name = shorten(&escaped, room, room / 3);
        }
        Line { names, aside: line.aside.clone(), ..*line }
    });
    let names = rows.names.clone();
    Rows { lines: lines.collect(), names, ..*rows }
}

/// The headers of a column; empty if no row has a value there.
fn headers(column: Optional, rows: &Rows<'_>, merged: &MergedSummary) -> Vec<String> {
    let [processes, process] = if are_ranks(merged) { ["Ranks", "Rank"] } else { ["Processes", "Process"] };
    let any = |has: fn(&Line<'_>) -> bool| rows.lines.iter().any(has);
    let has = match column {
        Optional::Mean => any(|line| line.sum.is_some()),
        Optional::Median => any(|line| line.each.is_some_and(|each| each.median.is_some())),
        Optional::Min | Optional::Max | Optional::Deviation => any(|line| line.each.is_some()),
        _ => true,
    };
    let all = match column {
        _ if !has => vec![],
        Optional::Spread => return ["Min", "Avg", "Max"].map(|total| format!("{total} {process}")).into(),
        Optional::Kind => rows.names.split_last().map_or(vec![], |(_, kinds)| kinds.to_vec()),
        Optional::Share if rows.unit == Unit::Time => vec!["Time (%)"],
        Optional::Share => vec!["Size (%)"],
        Optional::Processes => vec![processes],
        Optional::Slowest => vec!["Max/Avg", "Slowest"],
        Optional::Count => vec![rows.count],
        _ => EACH.iter().filter(|(of, _)| *of == column).map(|(_, header)| *header).collect(),
    };
    all.into_iter().map(str::to_owned).collect()
}

/// Figures in readable units, with these columns besides the fixed ones.
fn short(rows: &Rows<'_>, columns: &[Optional], merged: &MergedSummary, options: &RenderOptions) -> Table {
    let headers = |column: Optional| match columns.contains(&column) {
        true => headers(column, rows, merged),
        false => vec![],
    };
    let has = |column: Optional| !headers(column).is_empty();
    let human_size = |bytes| if bytes < 1_000 { format!("{bytes} B ") } else { human_bytes(bytes) };
    let (figure, between): (fn(u64) -> String, Between) = match rows.unit {
        Unit::Time => (human, human_between),
        Unit::Size => (human_size, bytes_between),
    };
    let process = if are_ranks(merged) { "Rank" } else { "Process" };
    let mut all = vec![rows.names.last().copied().unwrap_or_default().to_owned()];
    all.extend(headers(Optional::Kind));
    all.extend(headers(Optional::Share));
    all.push(rows.total.to_owned());
    let figures = [Optional::Count].into_iter().chain(EACH.map(|(column, _)| column));
    let figures = figures.chain([Optional::Processes, Optional::Spread, Optional::Slowest]);
    all.extend(figures.flat_map(headers));
    let mut table = Table::new(all.into_iter().map(Column::of).collect::<Vec<_>>());
    for line in &rows.lines {
        let known = |text: Option<String>| text.filter(|_| !line.says_nothing).map_or_else(Cell::unknown, Cell::tested);
        // As wide as the column, so that numbers are right-aligned.
        let wide = |text: Option<String>, width: usize| {
            let text = text.filter(|_| !line.says_nothing).unwrap_or_else(|| "-".to_owned());
            Cell::text(format!("{text:>width$}"))
        };
        let size = |value: Option<u64>, width: usize| wide(value.map(figure), width);
        let ranks = line.ranks;
        let (name, kinds) = line.names.split_last().map_or(("", &[][..]), |(name, kinds)| (name.as_str(), kinds));
        let mut row = vec![name_cell(Some(&format!("{name}{}", line.aside)), options)];
        row.extend(kinds.iter().filter(|_| has(Optional::Kind)).map(Cell::text));
        row.extend(has(Optional::Share).then(|| known(percent(line.total, rows.base))));
        row.push(size(Some(line.total), width_of(rows.total).max(FIGURE)));
        row.extend(has(Optional::Count).then(|| Cell::tested(integer(line.count, false))));
        for (column, _) in EACH.into_iter().filter(|(column, _)| has(*column)) {
            row.push(match (column, line.each) {
                (Optional::Mean, _) => size(line.sum.and_then(|sum| sum.checked_div(line.count)), FIGURE),
                (_, None) => wide(None, FIGURE),
                (Optional::Median, Some(each)) => {
                    let median = each.median.map(|(least, most)| between(least as u64, most.round() as u64));
                    wide(median, median_width(rows, between))
                }
                (Optional::Min, Some(each)) => size(Some(each.min), FIGURE),
                (Optional::Max, Some(each)) => size(Some(each.max), FIGURE),
                (_, Some(each)) => size(Some(each.deviation.round() as u64), FIGURE),
            });
        }
        row.extend(has(Optional::Processes).then(|| Cell::tested(integer(ranks.len() as u64, false))));
        if has(Optional::Spread) {
            let mean = ranks.total().checked_div(ranks.len() as u64);
            let spread = [ranks.fastest().map(|rank| rank.total), mean, ranks.slowest().map(|rank| rank.total)];
            row.extend(spread.map(|value| size(value, width_of(process) + "Min ".len())));
        }
        if has(Optional::Slowest) {
            row.push(known(ranks.imbalance().map(|imbalance| format!("{imbalance:.2}"))));
            row.push(match line.says_nothing {
                true => Cell::unknown(),
                false => Cell::text(shorten(&slowest(ranks, merged, options), MAX_PROCESS, MAX_PROCESS / 2)),
            });
        }
        table.push(row);
    }
    table
}

/// Formats two bounds of a value.
type Between = fn(u64, u64) -> String;

/// The columns of figures per instance, in the order of Nsight Systems.
const EACH: [(Optional, &str); 5] = [
    (Optional::Mean, "Avg"),
    (Optional::Median, "Med"),
    (Optional::Min, "Min"),
    (Optional::Max, "Max"),
    (Optional::Deviation, "StdDev"),
];

/// Width of the column of medians.
fn median_width(rows: &Rows<'_>, between: Between) -> usize {
    let medians = rows.lines.iter().filter_map(|line| line.each?.median);
    let widths = medians.map(|(least, most)| width_of(&between(least as u64, most.round() as u64)));
    widths.max().unwrap_or(0).max(FIGURE)
}
