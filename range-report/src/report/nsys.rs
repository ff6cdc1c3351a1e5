//! The range statistics in the tables of Nsight Systems.

use std::cmp::Reverse;

use super::envelope::section;
use super::kinds::TableStyle;
use super::options::RenderOptions;
use super::table::{Cell, Layout, Rest, Table};
use crate::text::names;
use crate::text::number::{Rounding, integer};
use crate::{RangeStats, RangeStyle, Summary, Times};

/// `Ranges`: the range statistics, by total time.
pub(crate) fn ranges(summary: &Summary, options: &RenderOptions) -> String {
    let rows = sorted(summary);
    let of_style = |style: RangeStyle| rows.iter().filter(move |(_, range)| range.style == style);
    let any_start_end = of_style(RangeStyle::StartEnd).next().is_some();

    if options.style == TableStyle::Legacy {
        // That generation has a report of its own for each style, each with its own base for the percentages.
        let push_pop: Vec<Row> = of_style(RangeStyle::PushPop).map(|row| name_row(row, options)).collect();
        let start_end: Vec<Row> = of_style(RangeStyle::StartEnd).map(|row| name_row(row, options)).collect();
        let mut out = String::new();
        if !push_pop.is_empty() || !any_start_end {
            out += &table_section("NVTX Push-Pop Range Statistics:", &push_pop, &["Range"], options);
        }
        if any_start_end {
            out += &table_section("NVTX Start-End Range Statistics:", &start_end, &["Range"], options);
        }
        return out;
    }
    let title = match any_start_end {
        true => " ** NVTX Range Summary (nvtx_sum):",
        false => " ** NVTX Push/Pop Range Summary (nvtx_pushpop_sum):",
    };
    let layout = Layout::as_nsight(options);
    section(title, &if rows.is_empty() { super::NO_RANGE.to_owned() } else { table(summary, options).render(&layout) })
}

/// The table of `Ranges` in the current style.
pub(crate) fn table(summary: &Summary, options: &RenderOptions) -> Table {
    let rows = sorted(summary);
    if rows.iter().any(|(_, range)| range.style == RangeStyle::StartEnd) {
        let rows: Vec<Row> = rows.iter().map(|row| style_row(row, options)).collect();
        return statistics_table(&rows, &Columns::of_ranges(&["Style", "Range"]), options);
    }
    let rows: Vec<Row> = rows.iter().map(|row| name_row(row, options)).collect();
    statistics_table(&rows, &Columns::of_ranges(&["Range"]), options)
}

/// The rows that have an instance, in the order of printing, with their names.
fn sorted(summary: &Summary) -> Vec<(Option<String>, &RangeStats)> {
    let mut rows: Vec<(Option<String>, &RangeStats)> = summary
        .ranges
        .iter()
        .filter(|range| range.times.instances > 0)
        .map(|range| (names::label(range.domain.as_deref(), &range.name), range))
        .collect();
    rows.sort_by(|(a, x), (b, y)| {
        (Reverse(x.times.total_ns), a, x.style).cmp(&(Reverse(y.times.total_ns), b, y.style))
    });
    rows
}

/// A row of a statistics table: the durations, and the cells that say whose they are.
pub(crate) struct Row<'a> {
    pub(crate) times: &'a Times,
    /// Where the durations say nothing: what they are all below. Such a row has no share, and no part in those of
    /// others.
    pub(crate) below: Option<u64>,
    pub(crate) names: Vec<Cell>,
}

fn name_row<'a>((label, range): &(Option<String>, &'a RangeStats), options: &RenderOptions) -> Row<'a> {
    Row { times: &range.times, below: None, names: vec![name_cell(label.as_deref(), options)] }
}

fn style_row<'a>((label, range): &(Option<String>, &'a RangeStats), options: &RenderOptions) -> Row<'a> {
    let names = vec![Cell::text(style_name(range.style)), name_cell(label.as_deref(), options)];
    Row { times: &range.times, below: None, names }
}

pub(crate) const fn style_name(style: RangeStyle) -> &'static str {
    match style {
        RangeStyle::PushPop => "PushPop",
        RangeStyle::StartEnd => "StartEnd",
    }
}

/// The tool tests names for being numbers like any other cell, so that a range `1000` is `1,000` there. For people a
/// name is as the program has it.
pub(crate) fn name_cell(label: Option<&str>, options: &RenderOptions) -> Cell {
    let label = label.unwrap_or("None");
    if options.raw_names { Cell::tested(label) } else { Cell::text(names::escaped(label)) }
}

fn table_section(title: &str, rows: &[Row], names: &[&str], options: &RenderOptions) -> String {
    if rows.is_empty() {
        return section(title, super::NO_RANGE);
    }
    section(title, &statistics(rows, &Columns::of_ranges(names), options))
}

/// In what the tables of statistics differ.
pub(crate) struct Columns<'a> {
    /// The header over the numbers of instances.
    pub(crate) count: &'a str,
    /// Those over [`Row::names`].
    pub(crate) names: &'a [&'a str],
    pub(crate) rounding: Rounding,
}

impl<'a> Columns<'a> {
    /// As Nsight Systems 2022.4 printed the tables that ours are compared with.
    pub(crate) const fn of_ranges(names: &'a [&'a str]) -> Self {
        Self { count: "Instances", names, rounding: Rounding::Decimal }
    }

    /// As Nsight Systems 2025.3 did.
    pub(crate) const fn of_gpu(count: &'a str, names: &'a [&'a str]) -> Self {
        Self { count, names, rounding: Rounding::Binary }
    }
}

/// The table of statistics in either style, laid out.
pub(crate) fn statistics(rows: &[Row], columns: &Columns, options: &RenderOptions) -> String {
    let layout = Layout::as_nsight(options);
    statistics_table(rows, columns, options).render(&layout)
}

/// The table of statistics in either style; the percentages are of the sum over `rows`.
pub(crate) fn statistics_table(rows: &[Row], columns: &Columns, options: &RenderOptions) -> Table {
    let Columns { count, names, rounding } = *columns;
    let numbers: &[&str] = match options.style {
        TableStyle::Current => {
            &["Time (%)", "Total Time (ns)", count, "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)"]
        }
        TableStyle::Legacy => &["Time(%)", "Total Time (ns)", count, "Average", "Minimum", "Maximum"],
    };
    let base = rows.iter().filter(|row| row.below.is_none()).map(|row| u128::from(row.times.total_ns)).sum();
    let mut table = Table::new(numbers.iter().chain(names).copied());
    for row in rows {
        let Figures { share, total, mean, median, min, max, stddev } = match row.below {
            None => Figures::of(row.times, base, rounding),
            Some(floor) => Figures::below(floor),
        };
        let instances = whole(row.times.instances);
        let mut cells = match options.style {
            TableStyle::Current => vec![share, total, instances, mean, median, min, max, stddev],
            TableStyle::Legacy => vec![share, total, instances, mean, min, max],
        };
        cells.extend(row.names.iter().cloned());
        table.push(cells);
    }
    let name = names.iter().position(|name| *name != "Style").unwrap_or(0);
    table.sum_up(Rest { name: numbers.len() + name, sums: vec![1, 2], share: Some((0, 1)) })
}

/// The cells of a row that are made from its times.
pub(crate) struct Figures {
    pub(crate) share: Cell,
    pub(crate) total: Cell,
    pub(crate) mean: Cell,
    pub(crate) median: Cell,
    pub(crate) min: Cell,
    pub(crate) max: Cell,
    pub(crate) stddev: Cell,
}

impl Figures {
    pub(crate) fn of(times: &Times, base: u128, rounding: Rounding) -> Self {
        Self {
            share: Cell::tested(rounding.percent(times.total_ns, base).unwrap_or_else(|| "None".to_owned())),
            total: whole(times.total_ns),
            mean: known(rounding.average(times.total_ns, times.instances)),
            median: median(times, rounding),
            min: whole(times.min_ns),
            max: whole(times.max_ns),
            stddev: known(rounding.rounded(times.stddev_ns)),
        }
    }

    /// All that is known is a bound; of a sum or a spread not even that. A bound of 0 is none.
    fn below(floor: u64) -> Self {
        let bound = if floor > 0 { Cell::below(integer(floor, false)) } else { Cell::unknown() };
        let (share, total, stddev) = (Cell::unknown(), Cell::unknown(), Cell::unknown());
        Self { share, total, mean: bound.clone(), median: bound.clone(), min: bound.clone(), max: bound, stddev }
    }
}

pub(crate) fn whole(value: u64) -> Cell {
    Cell::tested(integer(value, false))
}

/// A number, or the place of one that is not known.
pub(crate) fn known(number: Option<String>) -> Cell {
    number.map_or_else(Cell::unknown, Cell::tested)
}

fn median(times: &Times, rounding: Rounding) -> Cell {
    match times.median_ns.and_then(|ns| rounding.rounded(ns)) {
        Some(median) if times.median_exact => Cell::tested(median),
        Some(median) => Cell::approximate(median),
        None => Cell::unknown(),
    }
}
