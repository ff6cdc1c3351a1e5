//! The ranges of many processes in one table.

use super::nsys::name_cell;
use super::number::{average, integer, percent};
use super::table::{Cell, Layout, Table};
use super::{NO_RANGE, RenderOptions, TableStyle, footer, names, section};
use crate::{MergedRange, MergedSummary, RangeStyle, Summary};

/// The table and what was lost.
pub(crate) fn merged(merged: &MergedSummary, options: &RenderOptions) -> String {
    let count = integer(merged.processes.len() as u64, options.thousands);
    let s = if merged.processes.len() == 1 { "" } else { "es" };
    let title = match options.style {
        TableStyle::Current => format!(" ** Ranges of {count} Process{s} (merged):"),
        TableStyle::Legacy => format!("Ranges of {count} Process{s}:"),
    };
    let layout = Layout { thousands: options.thousands, ..Layout::default() };
    let body = match merged.ranges.is_empty() {
        true => NO_RANGE.to_owned(),
        false => merged_table(merged, options).render(&layout),
    };
    let mut losses = Summary::default();
    losses.losses.clone_from(&merged.losses);
    losses.notes.clone_from(&merged.notes);
    section(&title, &body) + &footer::footer(&losses, &[], options)
}

/// The table alone.
pub(crate) fn merged_table(merged: &MergedSummary, options: &RenderOptions) -> Table {
    let any_start_end = merged.ranges.iter().any(|range| range.style == RangeStyle::StartEnd);
    let mut headers = vec![
        "Time (%)",
        "Total Time (ns)",
        "Instances",
        "Ranks",
        "Avg (ns)",
        "Min Rank (ns)",
        "Avg Rank (ns)",
        "Max Rank (ns)",
        "Max/Avg",
        "Slowest",
    ];
    headers.extend(any_start_end.then_some("Style"));
    headers.push("Range");
    let mut table = Table::new(headers);
    let base = merged.ranges.iter().map(|range| u128::from(range.times.total_ns)).sum();
    for range in &merged.ranges {
        let mut row = figures(merged, range, base, options).to_vec();
        row.extend(any_start_end.then(|| {
            Cell::text(match range.style {
                RangeStyle::PushPop => "PushPop",
                RangeStyle::StartEnd => "StartEnd",
            })
        }));
        row.push(name_cell(names::label(range.domain.as_deref(), &range.name).as_deref(), options));
        table.push(row);
    }
    table
}

fn figures(merged: &MergedSummary, range: &MergedRange, base: u128, options: &RenderOptions) -> [Cell; 10] {
    let number = |text: Option<String>| text.map_or_else(Cell::unknown, Cell::tested);
    let whole = |value: u64| Some(integer(value, false));
    let (ranks, times) = (range.ranks.len() as u64, &range.times);
    let slowest = range.slowest();
    let name =
        slowest.and_then(|rank| merged.processes.get(rank.process)).map_or_else(String::new, |process| process.label());
    [
        Cell::tested(percent(times.total_ns, base).unwrap_or_else(|| "None".to_owned())),
        number(whole(times.total_ns)),
        number(whole(times.instances)),
        number(whole(ranks)),
        number(average(times.total_ns, times.instances)),
        number(range.fastest().and_then(|rank| whole(rank.total_ns))),
        number(average(times.total_ns, ranks)),
        number(slowest.and_then(|rank| whole(rank.total_ns))),
        number(range.imbalance().map(|imbalance| format!("{imbalance:.2}"))),
        Cell::text(if options.raw_names { name } else { names::escaped(&name).into_owned() }),
    ]
}
