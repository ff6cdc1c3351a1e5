//! Calls of spans that are futures: how long each took from its creation to its end, and how much of that it waited.

use super::envelope::section;
use super::gpu_work::NO_CALL_OF_FUTURE;
use super::kinds::TableStyle;
use super::nsys::quantile_cell;
use super::options::RenderOptions;
use super::table::{Cell, Column, Table, Unit};
use crate::stats::order;
use crate::summary::schema::{Figures, Join};
use crate::text::number::{human, integer};
use crate::text::width::{blanks, shorten, width_of};
use crate::{CallStats, CallTotals, Quantile, Summary, Times};

/// What the figures are, for the page.
pub(super) const ABOUT: &str = "Spans that are futures, from creation to end: busy is time in polls, awaited the rest, \
                                and awaited self that in which no child was alive.";
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
    let totals: Vec<CallTotals> = others.iter().map(|row| row.totals()).collect();
    let all = CallTotals::join(&totals.iter().collect::<Vec<_>>());
    Some(CallStats { name: format!("({} more)", others.len()), ..CallStats::of_totals(&all) })
}

/// The table of these rows: their number, the figures that are numbers, latencies, and the other figures.
fn table_of(rows: &[&CallStats], options: &RenderOptions) -> Table {
    let parts = parts(rows.iter().map(|row| &row.latency));
    let (counts, times): (Vec<_>, Vec<_>) = CallTotals::HEADERS
        .iter()
        .map(|&header| Column::of(header))
        .enumerate()
        .partition(|(_, column)| column.unit != Unit::Ns);
    let figures = |columns: &[(usize, Column)], row: &CallStats| -> Vec<Cell> {
        let shown = row.shown();
        columns.iter().map(|(at, _)| Cell::known(shown.get(*at).copied().flatten())).collect()
    };
    let columns = |columns: &[(usize, Column)]| columns.iter().map(|(_, column)| column.clone()).collect::<Vec<_>>();
    let latencies = parts.iter().map(|&q| format!("{} (ns)", percentile(q)));
    let latencies = latencies.chain(["Max (ns)", "Mean (ns)"].map(str::to_owned)).map(Column::of);
    let first = [Column::of("Calls")].into_iter().chain(columns(&counts)).chain(latencies);
    let mut table = Table::new(first.chain(columns(&times)).chain([Column::name("Call")]));
    for row in rows {
        let Times { instances, max_ns, .. } = row.latency;
        let mut cells = vec![Cell::Whole(instances)];
        cells.extend(figures(&counts, row));
        cells.extend(parts.iter().map(|&q| quantile_cell(row.latency.quantile(q))));
        cells.extend([Cell::Whole(max_ns), Cell::Whole(mean(&row.latency))]);
        cells.extend(figures(&times, row));
        cells.push(Cell::text(options.wording().label(row.domain.as_deref(), &row.name)));
        table.push(cells);
    }
    table
}

/// The table alone, for programs.
pub(crate) fn table(summary: &Summary, options: &RenderOptions) -> Table {
    table_of(&sorted(summary), options)
}

/// `p99.9`
pub(crate) fn percentile(q: f64) -> String {
    format!("p{}", (q * 1e9).round() / 1e7)
}

/// A quantile for people, `~` before one that is not exact.
pub(super) fn quantile_text(quantile: Option<Quantile>) -> String {
    figure(&quantile_cell(quantile), Unit::Ns, false)
}

/// A figure for people.
fn figure(cell: &Cell, unit: Unit, thousands: bool) -> String {
    match *cell {
        Cell::Whole(value) if unit == Unit::Ns => human(value),
        Cell::Whole(value) => integer(value, thousands),
        Cell::Number(value) => human(value.round() as u64),
        Cell::About(value) => format!("~{}", human(value.round() as u64)),
        _ => UNKNOWN.to_owned(),
    }
}

/// The rows that have a call, in the order of printing.
pub(crate) fn sorted(summary: &Summary) -> Vec<&CallStats> {
    let mut rows: Vec<&CallStats> = summary.calls.iter().filter(|row| row.latency.instances > 0).collect();
    order::by(&mut rows, |a, b| {
        let key = |row: &CallStats| (row.awaited_self_ns, row.latency.total_ns);
        key(b).cmp(&key(a)).then_with(|| (&a.domain, &a.name).cmp(&(&b.domain, &b.name)))
    });
    rows
}

/// The quantiles that any row has, in rising order.
pub(crate) fn parts<'a>(rows: impl Iterator<Item = &'a Times>) -> Vec<f64> {
    let kept = rows.flat_map(|times| &times.quantiles).map(|quantile| quantile.q);
    let mut parts: Vec<f64> = ALWAYS.into_iter().chain(kept).collect();
    order::by(&mut parts, f64::total_cmp);
    parts.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    parts
}

pub(crate) fn mean(times: &Times) -> u64 {
    let half = times.instances / 2;
    times.total_ns.saturating_add(half).checked_div(times.instances).unwrap_or(0)
}

/// A column of figures. If the table is too wide, the column with the lowest rank is left out first.
struct Fitted {
    header: String,
    rank: usize,
    cells: Vec<String>,
}

impl Fitted {
    fn width(&self) -> usize {
        self.cells.iter().map(|cell| width_of(cell)).max().unwrap_or(0).max(width_of(&self.header))
    }
}

fn text(rows: &[&CallStats], options: &RenderOptions) -> String {
    let table = table_of(rows, options);
    let roomy = options.columns() >= ROOMY;
    let no_cancelled = rows.iter().all(|row| row.cancelled == 0);
    let column = |(at, column): (usize, &Column)| {
        let (header, rank) = match &*column.page {
            "Calls" => ("", STAYS),
            "Cancelled" => (if roomy { "" } else { "Canc." }, if no_cancelled { 0 } else { 6 }),
            "p50" => ("", 7),
            "p90" => ("", 2),
            "p99" => ("", STAYS),
            "Max" => ("", 3),
            "Mean" => ("", 1),
            "Busy" => ("", 4),
            "Awaited" => ("", 5),
            "Awaited self" => (if roomy { "" } else { "Aw. self" }, STAYS),
            _ => ("", 8), // was asked for
        };
        let header = if header.is_empty() { &*column.page } else { header }.to_owned();
        let cells = table.rows.iter().map(|row| figure(&row[at], column.unit, options.thousands)).collect();
        Fitted { header, rank, cells }
    };
    let mut columns: Vec<Fitted> =
        table.columns.iter().enumerate().filter(|(_, column)| !column.is_name()).map(column).collect();
    let names: Vec<String> = rows.iter().map(|row| options.wording().label(row.domain.as_deref(), &row.name)).collect();
    let longest = names.iter().map(|name| width_of(name)).max().unwrap_or(0).max("Call".len());
    let room = |columns: &[Fitted]| {
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
    let mut line = |cell: &dyn Fn(&Fitted) -> String, name: &str| {
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
        let cell = |column: &Fitted| column.cells.get(place).cloned().unwrap_or_default();
        line(&cell, &shorten(name, name_width, name_width * 2 / 3));
    }
    out
}

#[cfg(test)]
mod tests;
