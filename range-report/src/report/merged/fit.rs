//! A merged table within a width: all figures where there is room, else fewer, in units for people.

use super::rows::{Line, Rows, Unit};
use super::{full, slowest};
use crate::MergedSummary;
use crate::report::nsys::name_cell;
use crate::report::table::{Cell, Layout, Table};
use crate::report::{RenderOptions, names};
use crate::text::number::{human, human_bytes, integer, percent};
use crate::text::width::{shorten, width_of};

/// The least width at which names can be distinguished: figures are left out before names get narrower.
const LEAST_NAME: usize = 16;
/// Widest name of a process where room is short.
const MAX_PROCESS: usize = 16;
/// Room for a time or a size: `1.234 ms`.
const FIGURE: usize = 8;

/// A column that gives way where room is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Optional {
    Share,
    Count,
    Ranks,
    /// What kind of row it is, without its name.
    Kind,
    /// The least and the average total of a process.
    Spread,
}

/// From the widest to the narrowest.
const CHOICES: [&[Optional]; 6] = [
    &[Optional::Share, Optional::Count, Optional::Ranks, Optional::Kind, Optional::Spread],
    &[Optional::Share, Optional::Count, Optional::Kind, Optional::Spread],
    &[Optional::Share, Optional::Kind, Optional::Spread],
    &[Optional::Kind, Optional::Spread],
    &[Optional::Spread],
    &[],
];

/// The table laid out; each line ends in a line feed.
pub(super) fn fitted(rows: &Rows<'_>, merged: &MergedSummary, options: &RenderOptions) -> String {
    let all = |lines: &Rows<'_>| full(lines, merged, options);
    if let Some(text) = with_names(rows, options, &all, LEAST_NAME) {
        return text;
    }
    let mut text = None;
    let alone = rows.by_name_alone();
    for columns in CHOICES {
        let rows = if columns.contains(&Optional::Kind) { rows } else { &alone };
        text = with_names(rows, options, &|lines| short(lines, columns, merged, options), LEAST_NAME);
        if text.is_some() {
            break;
        }
    }
    let narrowest =
        |rows: &Rows<'_>, least| with_names(rows, options, &|lines| short(lines, &[], merged, options), least);
    text.or_else(|| narrowest(&alone, 1)).or_else(|| narrowest(&rows.bare(), 0)).unwrap_or_default()
}

/// The table with names as long as there is room for; `None` where that is less than `least`, and than they are.
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

/// Columns that a name takes when it is printed, with what is said behind it.
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

/// Totals in units for people, with these columns beside those that stay.
fn short(rows: &Rows<'_>, columns: &[Optional], merged: &MergedSummary, options: &RenderOptions) -> Table {
    let has = |column: Optional| columns.contains(&column);
    let (share, figure): (_, fn(u64) -> String) = match rows.unit {
        Unit::Time => ("Time (%)", human),
        Unit::Size => ("Size (%)", |bytes| if bytes < 1_000 { format!("{bytes} B ") } else { human_bytes(bytes) }),
    };
    let (names, kinds) = rows.names.split_last().map_or(("", &[][..]), |(name, kinds)| (*name, kinds));
    let mut headers: Vec<&str> = Vec::new();
    headers.extend(has(Optional::Share).then_some(share));
    headers.push(rows.total);
    headers.extend(has(Optional::Count).then_some(rows.count));
    headers.extend(has(Optional::Ranks).then_some("Ranks"));
    headers.extend(["Min Rank", "Avg Rank"].iter().filter(|_| has(Optional::Spread)));
    headers.extend(["Max Rank", "Max/Avg", "Slowest"]);
    headers.extend(kinds.iter().filter(|_| has(Optional::Kind)));
    headers.push(names);
    let mut table = Table::new(headers);
    for line in &rows.lines {
        let known = |text: Option<String>| text.filter(|_| !line.says_nothing).map_or_else(Cell::unknown, Cell::tested);
        // As wide as the column, so that numbers stand to the right.
        let size = |value: Option<u64>, width: usize| {
            let text = value.filter(|_| !line.says_nothing).map_or_else(|| "-".to_owned(), figure);
            Cell::text(format!("{text:>width$}"))
        };
        let ranks = line.ranks;
        let mean = ranks.total().checked_div(ranks.len() as u64);
        let mut row = Vec::new();
        row.extend(has(Optional::Share).then(|| known(percent(line.total, rows.base))));
        row.push(size(Some(line.total), width_of(rows.total).max(FIGURE)));
        row.extend(has(Optional::Count).then(|| Cell::tested(integer(line.count, false))));
        row.extend(has(Optional::Ranks).then(|| Cell::tested(integer(ranks.len() as u64, false))));
        let spread = [ranks.fastest().map(|rank| rank.total), mean];
        row.extend(spread.into_iter().filter(|_| has(Optional::Spread)).map(|value| size(value, FIGURE)));
        row.push(size(ranks.slowest().map(|rank| rank.total), FIGURE));
        row.push(known(ranks.imbalance().map(|imbalance| format!("{imbalance:.2}"))));
        row.push(match line.says_nothing {
            true => Cell::unknown(),
            false => Cell::text(shorten(&slowest(ranks, merged, options), MAX_PROCESS, MAX_PROCESS / 2)),
        });
        let (name, others) = line.names.split_last().map_or(("", &[][..]), |(name, others)| (name.as_str(), others));
        row.extend(others.iter().filter(|_| has(Optional::Kind)).map(Cell::text));
        row.push(name_cell(Some(&format!("{name}{}", line.aside)), options));
        table.push(row);
    }
    table
}
