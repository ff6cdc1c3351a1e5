//! Calls of spans that are futures: how long each took from its creation to its end, and how much of that it waited.

use super::envelope::section;
use super::gpu_work::NO_CALL_OF_FUTURE;
use super::kinds::TableStyle;
use super::options::RenderOptions;
use super::table::{Cell, Table};
use crate::text::names;
use crate::text::number::{human, integer};
use crate::text::width::{blanks, shorten, width_of};
use crate::{CallStats, Quantile, Summary, Times};

/// Quantiles that every row has.
const ALWAYS: [f64; 3] = [0.5, 0.9, 0.99];
/// What a name gets, if it needs it, before figures that can be dispensed with; and however narrow it is.
const GOOD_NAME: usize = 24;
const MIN_NAME: usize = 12;
/// From this width on headers are written out, as those of the tree are.
const ROOMY: usize = 100;
/// The rank of a column that is never dispensed with.
const STAYS: usize = usize::MAX;
/// A figure that is not known, its dash below the digits of the others.
const UNKNOWN: &str = "-   ";

/// `Calls`: one row per name, those that waited longest themselves first.
pub(crate) fn calls(summary: &Summary, options: &RenderOptions) -> String {
    let title = match options.style {
        TableStyle::Current => " ** Calls and Waiting (calls):",
        TableStyle::Legacy => "Calls and Waiting:",
    };
    let mut rows = sorted(summary);
    let rest = rest(&rows, options.rows);
    if let Some(rest) = &rest {
        rows.truncate(options.rows);
        rows.push(rest);
    }
    section(title, &if rows.is_empty() { NO_CALL_OF_FUTURE.to_owned() } else { text(&rows, options) })
}

/// The rows beyond the bound as one.
fn rest(rows: &[&CallStats], most: usize) -> Option<CallStats> {
    let others = rows.get(most..).filter(|others| others.len() > 1)?; // one more is as short
    let sum = |of: fn(&CallStats) -> u64| others.iter().map(|row| of(row)).fold(0, u64::saturating_add);
    let mut latency = Times::new(sum(|row| row.latency.instances), sum(|row| row.latency.total_ns));
    latency.max_ns = others.iter().map(|row| row.latency.max_ns).max().unwrap_or(0);
    let mut rest = CallStats::new(format!("({} more)", others.len()), latency);
    rest.cancelled = sum(|row| row.cancelled);
    rest.busy_ns = sum(|row| row.busy_ns);
    rest.awaited_ns = sum(|row| row.awaited_ns);
    rest.awaited_self_ns = sum(|row| row.awaited_self_ns);
    Some(rest)
}

/// The table alone, for programs.
pub(crate) fn table(summary: &Summary) -> Table {
    let rows = sorted(summary);
    let parts = parts(rows.iter().map(|row| &row.latency));
    let mut headers: Vec<String> = ["Calls", "Cancelled"].map(str::to_owned).into();
    headers.extend(parts.iter().map(|&q| format!("{} (ns)", percentile(q))));
    headers
        .extend(["Max (ns)", "Mean (ns)", "Busy (ns)", "Awaited (ns)", "Awaited Self (ns)", "Call"].map(str::to_owned));
    let mut table = Table::new(headers);
    for row in rows {
        let mut cells: Vec<Cell> =
            [row.latency.instances, row.cancelled].map(|count| Cell::tested(count.to_string())).into();
        cells.extend(parts.iter().map(|&q| quantile_cell(row.latency.quantile(q))));
        let figures = [row.latency.max_ns, mean(&row.latency), row.busy_ns, row.awaited_ns, row.awaited_self_ns];
        cells.extend(figures.map(|ns| Cell::tested(ns.to_string())));
        cells.push(Cell::text(label(row, true)));
        table.push(cells);
    }
    table
}

/// A quantile for programs, with one decimal.
pub(crate) fn quantile_cell(quantile: Option<Quantile>) -> Cell {
    quantile.map_or_else(Cell::unknown, |Quantile { ns, .. }| Cell::tested(format!("{ns:.1}")))
}

/// `p99.9`
pub(crate) fn percentile(q: f64) -> String {
    format!("p{}", (q * 1e9).round() / 1e7)
}

/// A quantile for people, `~` before one that is not exact.
pub(super) fn quantile_text(quantile: Option<Quantile>) -> String {
    quantile.map_or_else(
        || UNKNOWN.to_owned(),
        |Quantile { ns, exact, .. }| format!("{}{}", if exact { "" } else { "~" }, human(ns.round() as u64)),
    )
}

/// The rows that have a call, in the order of printing.
pub(crate) fn sorted(summary: &Summary) -> Vec<&CallStats> {
    let mut rows: Vec<&CallStats> = summary.calls.iter().filter(|row| row.latency.instances > 0).collect();
    rows.sort_by(|a, b| {
        let key = |row: &CallStats| (row.awaited_self_ns, row.latency.total_ns);
        key(b).cmp(&key(a)).then_with(|| (&a.domain, &a.name).cmp(&(&b.domain, &b.name)))
    });
    rows
}

/// The quantiles that any row has, in rising order.
pub(crate) fn parts<'a>(rows: impl Iterator<Item = &'a Times>) -> Vec<f64> {
    let kept = rows.flat_map(|times| &times.quantiles).map(|quantile| quantile.q);
    let mut parts: Vec<f64> = ALWAYS.into_iter().chain(kept).collect();
    parts.sort_by(f64::total_cmp);
    parts.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    parts
}

pub(crate) fn mean(times: &Times) -> u64 {
    let half = times.instances / 2;
    times.total_ns.saturating_add(half).checked_div(times.instances).unwrap_or(0)
}

pub(crate) fn label(row: &CallStats, raw: bool) -> String {
    let label = names::label(row.domain.as_deref(), &row.name).unwrap_or_else(|| "None".to_owned());
    if raw { label } else { names::escaped(&label).into_owned() }
}

/// A column of figures. If the table is too wide, the column with the lowest rank is left out first.
struct Column {
    header: String,
    rank: usize,
    cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        self.cells.iter().map(|cell| width_of(cell)).max().unwrap_or(0).max(width_of(&self.header))
    }
}

fn text(rows: &[&CallStats], options: &RenderOptions) -> String {
    let mut columns: Vec<Column> = Vec::new();
    let mut column = |header: &str, rank: usize, cell: &dyn Fn(&CallStats) -> String| {
        columns.push(Column { header: header.to_owned(), rank, cells: rows.iter().map(|row| cell(row)).collect() });
    };
    let roomy = options.columns() >= ROOMY;
    let no_cancelled = rows.iter().all(|row| row.cancelled == 0);
    column("Calls", STAYS, &|row| integer(row.latency.instances, options.thousands));
    let cancelled = if roomy { "Cancelled" } else { "Canc." };
    column(cancelled, if no_cancelled { 0 } else { 6 }, &|row| integer(row.cancelled, options.thousands));
    for q in parts(rows.iter().map(|row| &row.latency)) {
        let rank = match ALWAYS.iter().position(|always| *always == q) {
            Some(0) => 7,
            Some(1) => 2,
            Some(_) => STAYS,
            None => 8, // was asked for
        };
        column(&percentile(q), rank, &|row| quantile_text(row.latency.quantile(q)));
    }
    column("Max", 3, &|row| human(row.latency.max_ns));
    column("Mean", 1, &|row| human(mean(&row.latency)));
    column("Busy", 4, &|row| human(row.busy_ns));
    column("Awaited", 5, &|row| human(row.awaited_ns));
    column(if roomy { "Awaited self" } else { "Aw. self" }, STAYS, &|row| human(row.awaited_self_ns));

    let names: Vec<String> = rows.iter().map(|row| label(row, options.raw_names)).collect();
    let longest = names.iter().map(|name| width_of(name)).max().unwrap_or(0).max("Call".len());
    let room = |columns: &[Column]| {
        let figures: usize = columns.iter().map(|column| column.width() + 2).sum();
        options.columns().saturating_sub(figures + 3) // the margin of the tree, in which it has its marks
    };
    while room(&columns) < longest.min(GOOD_NAME) {
        let least = columns.iter().enumerate().min_by_key(|(_, column)| column.rank);
        match least.filter(|(_, column)| column.rank < STAYS).map(|(place, _)| place) {
            Some(place) => drop(columns.remove(place)),
            None => break,
        }
    }
    let name_width = longest.min(room(&columns).max(MIN_NAME));

    let mut out = String::new();
    let mut line = |cell: &dyn Fn(&Column) -> String, name: &str| {
        let mut text = "  ".to_owned();
        for (place, column) in columns.iter().enumerate() {
            let cell = cell(column);
            text += if place == 0 { " " } else { "  " };
            text += &blanks(&cell, column.width());
            text += &cell;
        }
        out += format!("{text}  {name}").trim_end_matches(' ');
        out.push('\n');
    };
    line(&|column| column.header.clone(), "Call");
    line(&|column| "-".repeat(column.width()), &"-".repeat(name_width));
    for (place, name) in names.iter().enumerate() {
        let cell = |column: &Column| column.cells.get(place).cloned().unwrap_or_default();
        line(&cell, &shorten(name, name_width, name_width * 2 / 3));
    }
    out
}

#[cfg(test)]
mod tests;
