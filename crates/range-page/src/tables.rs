//! The tables of a summary as columns and rows, which the page can sort.

use std::borrow::Cow;
use std::cmp::Reverse;

use serde::Serialize;

use super::texts::{LONGEST, presentable};
use range_model::names::label;
use range_model::summary::{Quantile, RangeStyle, Summary};
use range_report::page::{self, Unit, page_tables, percentile, style_name};

/// The largest number of rows of a table. Further ones are counted.
pub(super) const MOST_ROWS: usize = 20_000;

/// Columns that are left out where no row has them: quantiles of a run by an older version are unknown, few programs
/// have batches, and some no futures.
const MAY_BE_UNKNOWN: [&str; 17] = [
    "p90",
    "p99",
    "Batches",
    "In batch",
    "Share~",
    "GPU share~",
    "Cancelled",
    "Awaited",
    "Awaited self",
    "Outlived",
    "In CUDA",
    "On CPU",
    "Off CPU",
    "Ready",
    "Child call",
    "GPU work",
    "Otherwise",
];

#[derive(Debug, Serialize)]
pub(super) struct Table<'a> {
    /// Short, for a tab.
    pub(super) title: &'static str,
    /// A description of the figures.
    pub(super) about: &'static str,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell<'a>>>,
    pub(super) rows_left_out: usize,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct Column(pub(super) Cow<'static, str>, pub(super) Unit);

impl From<page::Column> for Column {
    fn from(column: page::Column) -> Self {
        Self(column.page, column.unit)
    }
}

pub(super) const fn column(title: &'static str, unit: Unit) -> Column {
    Column(Cow::Borrowed(title), unit)
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Cell<'a> {
    Text(Cow<'a, str>),
    Count(u64),
    Signed(i64),
    Number(f64),
    /// A value from a histogram.
    About([f64; 1]),
    /// Words, and a number to sort by.
    Said {
        by: f64,
        says: String,
    },
    Nothing(()),
}

/// All tables that have rows, without the tree.
pub(super) fn tables(summary: &Summary) -> Vec<Table<'_>> {
    let made = page_tables(summary).into_iter().filter(|(_, table)| !table.rows.is_empty());
    let mut tables: Vec<Table<'_>> = made.map(|(titles, table)| page_table(titles, table)).collect();
    for table in &mut tables {
        without_what_no_row_has(table, &MAY_BE_UNKNOWN);
        table.rows_left_out = table.rows.len().saturating_sub(MOST_ROWS);
        table.rows.truncate(MOST_ROWS);
    }
    tables
}

/// A report's table in the page's order: the name comes first, then other texts, then figures.
fn page_table<'a>([title, about]: [&'static str; 2], mut table: page::Table) -> Table<'a> {
    let mut order: Vec<usize> = (0..table.columns.len()).filter(|&at| !table.columns[at].page.is_empty()).collect();
    let rank = |at: &usize| match &table.columns[*at] {
        column if column.is_name() => 0,
        column if column.unit == Unit::Text => 1,
        _ => 2,
    };
    order.sort_by_key(rank);
    // The longest total first, even if the text is in order of names.
    if let Some(total) = table.columns.iter().position(|column| column.page == "Total") {
        table.rows.sort_by_key(|row| Reverse(if let Some(&page::Cell::Whole(ns)) = row.get(total) { ns } else { 0 }));
    }
    let columns = order.iter().map(|&at| &table.columns[at]);
    let columns = columns.map(|column| Column::from(column.clone())).collect();
    let cells = |row: &Vec<page::Cell>| order.iter().map(|&at| row.get(at).map_or(Cell::Nothing(()), cell)).collect();
    Table { title, about, columns, rows: table.rows.iter().map(cells).collect(), rows_left_out: 0 }
}

fn cell<'a>(cell: &page::Cell) -> Cell<'a> {
    match *cell {
        page::Cell::Text(ref text) | page::Cell::Tested(ref text) => label_cell(text),
        page::Cell::Whole(value) => Cell::Count(value),
        page::Cell::Size { bytes: value, .. } | page::Cell::Number(value) => number(value),
        page::Cell::Mean { total, count } => number(total as f64 / count as f64),
        page::Cell::About(value) if value.is_finite() => Cell::About([value]),
        page::Cell::Share { part, whole } if whole > 0 => number(100.0 * part as f64 / whole as f64),
        page::Cell::Outside => Cell::Text("(outside any range)".into()),
        _ => Cell::Nothing(()),
    }
}

/// Removes those of these columns that no row has.
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

pub(super) fn quantile_column(q: f64) -> Column {
    Column(percentile(q).into(), Unit::Ns)
}

pub(super) fn quantile<'a>(quantile: Option<Quantile>) -> Cell<'a> {
    match quantile {
        Some(Quantile { ns, exact: false, .. }) if ns.is_finite() => Cell::About([ns]),
        Some(Quantile { ns, .. }) => number(ns),
        None => Cell::Nothing(()),
    }
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

/// A cell with a composed name.
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
