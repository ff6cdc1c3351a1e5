//! Runs side by side, for the page: what is slower in words, and the table that it sorts and draws bars from.

use serde::Serialize;

use super::data::{LONGEST_COMMAND, identity};
use super::tables::{Cell, Column, Kind, MOST_ROWS, Table, name, number, style};
use super::texts::presentable;
use crate::report::{RenderOptions, change, verdicts};
use crate::summary::{Process, RangeStyle};
use crate::{ComparedRange, Comparison};

/// Bytes of the name of a run that are kept.
const LONGEST_NAME: usize = 200;
/// Letters of a sentence: all of its phases fit.
const COLUMNS: usize = 1_000;
/// Runs with which a table has its most rows; with more runs it has fewer.
const FEW_RUNS: usize = 4;

#[derive(Debug, Serialize)]
pub(super) struct Compared<'a> {
    runs: Vec<Run>,
    table: Table<'a>,
}

#[derive(Debug, Serialize)]
struct Run {
    name: String,
    /// Its first column in the table: the total, and then the share, and of all runs but the first the difference and the ratio.
    first: usize,
    /// Labels and values; none where the process is not known.
    identity: Vec<(&'static str, String)>,
    command: String,
    /// Milliseconds since 1970 in UTC; 0 where it is not known.
    started_ms: u64,
    /// Whether something is slower than in the first run, and what. Nothing of the first.
    slower: bool,
    verdict: String,
}

/// What a page of nothing else is called.
pub(super) fn title(comparison: &Comparison) -> String {
    let names: Vec<String> = comparison.runs.iter().map(|name| run_name(name)).collect();
    presentable(&format!("Comparison: {}", names.join(", ")), LONGEST_NAME).into_owned()
}

pub(super) fn compared(comparison: &Comparison) -> Compared<'_> {
    let any_start_end = comparison.ranges.iter().any(|range| range.style == RangeStyle::StartEnd);
    let mut columns = vec![Column("Range", Kind::Text)];
    columns.extend(any_start_end.then_some(Column("Style", Kind::Text)));
    let mut said = verdicts(comparison, COLUMNS, &RenderOptions::default()).into_iter();
    let mut runs = Vec::new();
    for (at, (name, process)) in comparison.runs.iter().zip(&comparison.processes).enumerate() {
        let verdict = (at > 0).then(|| said.next()).flatten();
        runs.push(Run {
            name: run_name(name),
            first: columns.len(),
            identity: if *process == Process::default() { Vec::new() } else { identity(process) },
            command: presentable(&process.command, LONGEST_COMMAND).into_owned(),
            started_ms: process.started_unix_ns / 1_000_000,
            slower: verdict.as_ref().is_some_and(|verdict| verdict.slower),
            verdict: verdict.map(|verdict| verdict.text).unwrap_or_default(),
        });
        columns.extend([Column("Total", Kind::Ns), Column("Share", Kind::Percent)]);
        if at > 0 {
            columns.extend([Column("Difference", Kind::Difference), Column("Ratio", Kind::Ratio)]);
        }
    }
    let most = MOST_ROWS * FEW_RUNS / comparison.runs.len().max(FEW_RUNS);
    let rows = comparison.ranges.iter().take(most).map(|range| row(range, any_start_end)).collect();
    let table = Table {
        title: "Comparison",
        about: "Time between entry and exit, on the CPU. Difference and ratio are to the first run.",
        columns,
        rows,
        rows_left_out: comparison.ranges.len().saturating_sub(most),
    };
    Compared { runs, table }
}

fn run_name(name: &str) -> String {
    if name.is_empty() { "(no name)".to_owned() } else { presentable(name, LONGEST_NAME).into_owned() }
}

fn row(range: &ComparedRange, with_style: bool) -> Vec<Cell<'_>> {
    let mut cells = vec![name(range.domain.as_deref(), &range.name)];
    cells.extend(with_style.then(|| style(range.style)));
    for (run, place) in range.in_runs.iter().enumerate() {
        match place {
            Some(place) => cells.extend([Cell::Count(place.times.total_ns), number(100.0 * place.share)]),
            None => cells.extend([Cell::Nothing(()), Cell::Nothing(())]),
        }
        if run > 0 {
            cells.push(range.difference_ns(run).map_or(Cell::Nothing(()), Cell::Signed));
            cells.push(changed(range, run));
        }
    }
    cells
}

/// In the words of the report, and as a number to sort by: what is new comes after every ratio, what is gone before.
fn changed<'a>(range: &ComparedRange, run: usize) -> Cell<'a> {
    let by = match (range.total_ns(0), range.total_ns(run)) {
        (None, None) => return Cell::Nothing(()),
        (None, Some(_)) => f64::MAX,
        (Some(_), None) => -1.0,
        (Some(0), Some(0)) => 1.0,
        (Some(base), Some(total)) => (total as f64 / base as f64).min(f64::MAX / 2.0),
    };
    Cell::Said { by, says: change(range, run) }
}
