//! The range statistics in the tables of Nsight Systems.

use std::cmp::Reverse;

use super::envelope::section;
use super::kinds::TableStyle;
use super::options::RenderOptions;
use super::table::{Cell, Column, Layout, Table, Unit};
use crate::text::number::Rounding;
use range_model::names;
use range_model::stats::{Lean, order};
use range_model::{Quantile, RangeStats, RangeStyle, Summary, Times};

/// `Ranges`: the range statistics, by total time.
pub(crate) fn ranges(summary: &Summary, options: &RenderOptions) -> String {
    let rows = sorted(summary);
    let of_style = |style: RangeStyle| rows.iter().filter(move |(_, range)| range.style == style);
    let any_start_end = of_style(RangeStyle::StartEnd).next().is_some();

    if options.style == TableStyle::Legacy {
        // Nsight Systems of that time prints one report for each style, and the percentages of each add up to 100.
        let push_pop: Vec<Row> = of_style(RangeStyle::PushPop).map(|row| name_row(row, options)).in_vec();
        let start_end: Vec<Row> = of_style(RangeStyle::StartEnd).map(|row| name_row(row, options)).in_vec();
        let mut out = String::new();
        if !push_pop.is_empty() || !any_start_end {
            out += &table_section("NVTX Push-Pop Range Statistics:", &push_pop, options);
        }
        if any_start_end {
            out += &table_section("NVTX Start-End Range Statistics:", &start_end, options);
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
        let rows: Vec<Row> = rows.iter().map(|row| style_row(row, options)).in_vec();
        return statistics_table(&rows, &Columns::of_ranges(&["Style", "Range"]), options);
    }
    let rows: Vec<Row> = rows.iter().map(|row| name_row(row, options)).in_vec();
    statistics_table(&rows, &Columns::of_ranges(&["Range"]), options)
}

/// The rows that have an instance, in the order of printing, with their names.
fn sorted(summary: &Summary) -> Vec<(Option<String>, &RangeStats)> {
    let mut rows: Vec<(Option<String>, &RangeStats)> = summary
        .ranges
        .iter()
        .filter(|range| range.times.instances > 0)
        .map(|range| (names::label(range.domain.as_deref(), &range.name), range))
        .in_vec();
    order::by(&mut rows, |(a, x), (b, y)| {
        (Reverse(x.times.total_ns), a, x.style).cmp(&(Reverse(y.times.total_ns), b, y.style))
    });
    rows
}

/// A row of a statistics table: the durations, and the cells that name what lasted so long.
pub(crate) struct Row<'a> {
    pub(crate) times: &'a Times,
    /// The upper bound of all durations, if they are not known themselves. Such a row has no share, and does not count
    /// in the total of the shares.
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

/// `PushPop` or `StartEnd`.
#[must_use]
pub const fn style_name(style: RangeStyle) -> &'static str {
    match style {
        RangeStyle::PushPop => "PushPop",
        RangeStyle::StartEnd => "StartEnd",
    }
}

/// Nsight Systems formats each cell that looks like a number, and so prints a range named `1000` as `1,000`. Reports
/// for people keep names unchanged.
pub(crate) fn name_cell(label: Option<&str>, options: &RenderOptions) -> Cell {
    let label = label.unwrap_or("None");
    if options.raw_names { Cell::tested(label) } else { Cell::text(names::escaped(label)) }
}

fn table_section(title: &str, rows: &[Row], options: &RenderOptions) -> String {
    if rows.is_empty() {
        return section(title, super::NO_RANGE);
    }
    let table = statistics_table(rows, &Columns::of_ranges(&["Range"]), options);
    section(title, &table.render(&Layout::as_nsight(options)))
}

/// The differences between the tables of statistics.
pub(crate) struct Columns<'a> {
    /// The header over the numbers of instances.
    pub(crate) count: &'a str,
    /// The headers over [`Row::names`].
    pub(crate) names: &'a [&'a str],
    pub(crate) rounding: Rounding,
}

impl<'a> Columns<'a> {
    /// The form of Nsight Systems 2022.4, with whose tables ours are compared.
    pub(crate) const fn of_ranges(names: &'a [&'a str]) -> Self {
        Self { count: "Instances", names, rounding: Rounding::Decimal }
    }

    /// The form of Nsight Systems 2025.3.
    pub(crate) const fn of_gpu(count: &'a str, names: &'a [&'a str]) -> Self {
        Self { count, names, rounding: Rounding::Binary }
    }
}

/// The columns of times: their headers in either style, and on the page. The share is that of the total in the next
/// column.
const TIMES: [[&str; 3]; 10] = [
    ["Time (%)", "Time(%)", "Time"],
    ["Total Time (ns)", "Total Time (ns)", "Total"],
    ["", "", "Instances"],
    ["Avg (ns)", "Average", "Avg"],
    ["Med (ns)", "", "p50"],
    ["", "", "p90"],
    ["", "", "p99"],
    ["Min (ns)", "Minimum", "Min"],
    ["Max (ns)", "Maximum", "Max"],
    ["StdDev (ns)", "", "StdDev"],
];
const SHARE: usize = 0;
const TOTAL: usize = 1;
const COUNT: usize = 2;

/// The table of statistics in either style; the percentages are of the sum over `rows`.
pub(crate) fn statistics_table(rows: &[Row], columns: &Columns, options: &RenderOptions) -> Table {
    let Columns { count, names, rounding } = *columns;
    let base = rows.iter().filter(|row| row.below.is_none()).map(|row| row.times.total_ns).total();
    let times = TIMES.iter().enumerate().map(|(at, &[current, legacy, page])| {
        let header = if options.style == TableStyle::Current { current } else { legacy };
        match at {
            SHARE => Column::of(header).unit(Unit::Percent).share_of(TOTAL),
            TOTAL => Column::of(header).summed(),
            COUNT => Column::of(count.to_owned()).summed(),
            _ => Column::of(header).unit(Unit::Ns),
        }
        .page(page)
    });
    let name = |name: &&str| if *name == "Style" { Column::text("Style") } else { Column::name((*name).to_owned()) };
    // The first of several names is the row's; the others distinguish rows of one name.
    let mut names: Vec<Column> = names.iter().map(name).in_vec();
    let others = names.iter_mut().filter(|column| column.is_name()).skip(1);
    others.for_each(|column| *column = Column::text(column.header.clone()));
    let mut table = Table::new([times.in_vec(), names].concat()).rounded(rounding);
    for row in rows {
        let times = match row.below {
            None => times_cells(row.times, base),
            Some(floor) => below_cells(row.times.instances, floor),
        };
        table.push([&times[..], &row.names].concat());
    }
    table
}

/// The cells of a row for [`TIMES`].
pub(crate) fn times_cells(times: &Times, base: u128) -> [Cell; 10] {
    let &Times { instances: count, total_ns: total, .. } = times;
    let quantile = |q: f64| quantile_cell(times.quantile(q));
    [
        Cell::Share { part: total, whole: base },
        Cell::Whole(total),
        Cell::Whole(count),
        Cell::mean(total, count),
        quantile(0.5),
        quantile(0.9),
        quantile(0.99),
        Cell::Whole(times.min_ns),
        Cell::Whole(times.max_ns),
        Cell::Number(times.stddev_ns),
    ]
}

/// The cells of a row of which only a bound is known. A sum, a spread and a share stay unknown, and so does a bound
/// of 0.
fn below_cells(instances: u64, floor: u64) -> [Cell; 10] {
    let bound = || if floor > 0 { Cell::Below(floor) } else { Cell::Unknown };
    let unknown = || Cell::Unknown;
    let count = Cell::Whole(instances);
    [unknown(), unknown(), count, bound(), bound(), unknown(), unknown(), bound(), bound(), unknown()]
}

pub(crate) fn quantile_cell(quantile: Option<Quantile>) -> Cell {
    match quantile {
        Some(Quantile { ns, exact: true, .. }) => Cell::Number(ns),
        Some(Quantile { ns, .. }) => Cell::About(ns),
        None => Cell::Unknown,
    }
}

/// A number, or the place of one that is not known.
#[cfg(feature = "compare")]
pub(crate) fn known(number: Option<String>) -> Cell {
    number.map_or(Cell::Unknown, Cell::tested)
}
