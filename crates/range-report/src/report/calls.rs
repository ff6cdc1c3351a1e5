//! Calls of spans that are futures: how long each took from its creation to its end, and how much of that it waited.

use super::envelope::{section, title};
use super::fitted::{Keep, STAYS, figure, fitted};
use super::gpu_work::NO_CALL_OF_FUTURE;
use super::nsys::quantile_cell;
use super::options::RenderOptions;
use super::table::{Cell, Column, Table, Unit};
use crate::analysis::are_workers_busy;
use crate::text::number::{human_inline, integer, share};
use crate::text::width::wrapped;
use range_model::names::escaped;
use range_model::stats::{Lean, order};
use range_model::summary::schema::{Figures, Join};
use range_model::summary::{CallStates, SlowestCalls};
use range_model::{CallStats, CallTotals, Quantile, Summary, Times};

/// The description of the figures, for the page.
pub(super) const ABOUT: &str = "Spans that are futures, from creation to close, and then the outermost other spans, \
                                from entry to exit, or in their lifetimes. On thread is time in polls, and in CUDA, on \
                                and off CPU what is known of it; awaited is the rest until the last poll: ready for a \
                                poll, waiting for a child call, for GPU work that it launched, or otherwise; awaited \
                                self is that in which no child was alive; outlived is time after the last poll; in \
                                batch is time in which a batch that served the call was open, and share~ an estimate: \
                                its part of their running time; GPU share~, of the operations that they launched.";
/// *In CUDA*, *off CPU*, *ready*, *GPU work* and *outlived* get columns if they are this part of the latency of some
/// row.
const WORTH_A_COLUMN: u64 = 100;
/// Where times on and off the CPU have columns, *on thread* has one, too, if so large a part of it is in neither.
const UNKNOWN: u64 = 20;
/// At most so many rows have a line about their slowest calls, which names so many states.
const SLOWEST_ROWS: usize = 3;
const SLOWEST_PARTS: usize = 4;
/// Quantiles that every row has.
const ALWAYS: [f64; 3] = [0.5, 0.9, 0.99];
/// From this width on headers are written in full, like those of the tree.
const ROOMY: usize = 100;

/// `Calls`: one row per name, the longest own waiting first.
pub(crate) fn calls(summary: &Summary, options: &RenderOptions) -> String {
    let title = title("Calls and Waiting", " (calls)", options);
    let mut rows = sorted(summary);
    let rest = rest(&rows, options.rows);
    if let Some(rest) = &rest {
        rows.truncate(options.rows);
        rows.push(rest);
    }
    section(&title, &if rows.is_empty() { NO_CALL_OF_FUTURE.to_owned() } else { text(summary, &rows, options) })
}

/// The rows beyond the limit as one.
fn rest(rows: &[&CallStats], most: usize) -> Option<CallStats> {
    let others = rows.get(most..).filter(|others| others.len() > 1)?; // a single row needs no more room than the sum
    let totals: Vec<CallTotals> = others.iter().map(|row| row.totals()).in_vec();
    let all = CallTotals::join(&totals.iter().in_vec());
    let mut rest = CallStats::of_totals(&all);
    rest.name = format!("({} more)", others.len());
    Some(rest)
}

/// The table of these rows: number of calls, plain figures, latencies, and the other figures.
pub(super) fn table_of(rows: &[&CallStats], options: &RenderOptions) -> Table {
    let parts = parts(&rows.iter().map(|row| &row.latency).in_vec());
    let is_time = |header: &str| header.ends_with(" (ns)");
    let mut columns = vec![Column::of("Calls")];
    let push_figures = |columns: &mut Vec<Column>, times: bool| {
        for &header in CallTotals::HEADERS.iter().filter(|header| is_time(header) == times) {
            columns.push(Column::of(header));
        }
    };
    push_figures(&mut columns, false);
    for &q in &parts {
        columns.push(Column::of(format!("{} (ns)", percentile(q))));
    }
    columns.push(Column::of("Max (ns)"));
    columns.push(Column::of("Mean (ns)"));
    push_figures(&mut columns, true);
    columns.push(Column::name("Call"));
    let mut table = Table::new(columns);
    for row in rows {
        let Times { instances, max_ns, .. } = row.latency;
        let mut cells = vec![Cell::Whole(instances)];
        let shown = row.shown();
        let push_figures = |cells: &mut Vec<Cell>, times: bool| {
            for (at, _) in CallTotals::HEADERS.iter().enumerate().filter(|(_, header)| is_time(header) == times) {
                cells.push(Cell::known(shown.get(at).copied().flatten()));
            }
        };
        push_figures(&mut cells, false);
        for &q in &parts {
            cells.push(quantile_cell(row.latency.quantile(q)));
        }
        cells.push(Cell::Whole(max_ns));
        cells.push(Cell::Whole(mean(&row.latency)));
        push_figures(&mut cells, true);
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
#[must_use]
pub fn percentile(q: f64) -> String {
    format!("p{}", (q * 1e9).round() / 1e7)
}

/// A quantile for people, `~` before one that is not exact.
pub(super) fn quantile_text(quantile: Option<Quantile>) -> String {
    figure(Some(&quantile_cell(quantile)), Unit::Ns, false)
}

/// The rows with a call, in the order of printing.
pub(crate) fn sorted(summary: &Summary) -> Vec<&CallStats> {
    let mut rows: Vec<&CallStats> = summary.calls.iter().filter(|row| row.latency.instances > 0).in_vec();
    order::by(&mut rows, |a, b| {
        let key = |row: &CallStats| (row.awaited_self_ns, row.latency.total_ns);
        key(b).cmp(&key(a)).then_with(|| (&a.domain, &a.name).cmp(&(&b.domain, &b.name)))
    });
    rows
}

/// The quantiles that any row has, ascending.
pub(crate) fn parts(rows: &[&Times]) -> Vec<f64> {
    let mut parts = ALWAYS.to_vec();
    for quantile in rows.iter().flat_map(|times| &times.quantiles) {
        parts.push(quantile.q);
    }
    order::by(&mut parts, f64::total_cmp);
    parts.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
    parts
}

pub(crate) fn mean(times: &Times) -> u64 {
    let half = times.instances / 2;
    times.total_ns.saturating_add(half).checked_div(times.instances).unwrap_or(0)
}

fn text(summary: &Summary, rows: &[&CallStats], options: &RenderOptions) -> String {
    let roomy = options.columns() >= ROOMY;
    let no_cancelled = rows.iter().all(|row| row.cancelled == Some(0));
    let mut table = table_of(rows, options);
    let states = |of: fn(&CallStates) -> u64| {
        move |row: &CallStats| (row.states.as_ref().map_or(0, of), row.latency.total_ns.div_ceil(WORTH_A_COLUMN))
    };
    let any = |of: &dyn Fn(&CallStats) -> (u64, u64)| rows.iter().any(|row| of(row).0 > 0 && of(row).0 >= of(row).1);
    // Parts of another column, or of the rest of a latency, have columns where they say more.
    let mut unneeded = vec!["Child call", "Otherwise"];
    if !any(&states(|states| states.off_cpu_ns)) {
        unneeded.extend(["On CPU", "Off CPU"]);
    } else if !any(&|row| (row.states.map_or(row.busy_ns, |states| states.on_thread_ns), row.busy_ns / UNKNOWN)) {
        unneeded.push("On thread");
    }
    let mut keep_if_long = |column, of| {
        if !any(&states(of)) {
            unneeded.push(column);
        }
    };
    keep_if_long("In CUDA", |states| states.in_cuda_ns);
    keep_if_long("Ready", |states| states.ready_ns);
    keep_if_long("GPU work", |states| states.gpu_work_ns);
    if !any(&|row| (row.outlived_ns, row.latency.total_ns.div_ceil(WORTH_A_COLUMN))) {
        unneeded.push("Outlived");
    }
    if rows.iter().all(|row| row.batches.is_none()) {
        unneeded.extend(["Batches", "In batch", "Share~"]);
    }
    if rows.iter().all(|row| row.gpu_share_ns.is_none()) {
        unneeded.push("GPU share~");
    }
    unneeded.into_iter().for_each(|column| table.remove(column));
    let head = |column: &Column| {
        let (header, rank) = match &*column.page {
            "Cancelled" => (if roomy { "" } else { "Canc." }, if no_cancelled { 0 } else { 4 }),
            "Mean" | "Batches" => ("", 1),
            "On thread" | "On CPU" => ("", 2),
            "In CUDA" | "Off CPU" | "Ready" | "GPU work" => ("", 4),
            "Outlived" | "Awaited" | "In batch" | "Share~" | "GPU share~" => ("", 3),
            "p90" => ("", 5),
            "p50" => ("", 6),
            "Max" => ("", 7),
            "Awaited self" => (if roomy { "" } else { "Aw. self" }, STAYS),
            "Calls" | "p99" => ("", STAYS),
            _ => ("", 8), // the user asked for it
        };
        (if header.is_empty() { &*column.page } else { header }.to_owned(), rank)
    };
    let slowest = rows.iter().filter_map(|row| Some((*row, row.slowest.as_ref().filter(|slow| is_slow(row, slow))?)));
    let lines = slowest.filter_map(|(row, slowest)| slowest_text(summary, row, slowest, options)).take(SLOWEST_ROWS);
    let lines: String = lines.map(|line| wrapped(" ::", &line, options.columns())).collect();
    let gap = if lines.is_empty() { "" } else { "\n" };
    fitted(&table, Keep::End, &head, options) + gap + &lines
}

/// Whether the slowest calls took at least twice as long as all.
fn is_slow(row: &CallStats, slowest: &SlowestCalls) -> bool {
    slowest.latency_ns / slowest.calls.max(1) / 2 >= mean(&row.latency)
}

/// `slowest 12 of 1,200 calls of request, 552.9 ms each: 91.9% in child calls, 5.1% ready`. `None` where they did
/// nothing but wait, which the table says.
fn slowest_text(summary: &Summary, row: &CallStats, slowest: &SlowestCalls, options: &RenderOptions) -> Option<String> {
    let parts = slowest_parts(summary, row, slowest)?;
    let name = options.wording().label(row.domain.as_deref(), &row.name);
    let (mean, all) = (slowest.latency_ns / slowest.calls.max(1), integer(row.latency.instances, options.thousands));
    let (which, each) = match slowest.calls {
        1 => ("the slowest".to_owned(), ""),
        slow => (format!("slowest {}", integer(slow, options.thousands)), " each"),
    };
    let (name, mean) = (escaped(&name), human_inline(mean));
    Some(format!("{which} of {all} calls of {name}, {mean}{each}: {parts}"))
}

/// Of each name of calls whose slowest are slow, its label and what they are made of.
#[cfg(feature = "page")]
pub fn slowest_calls(summary: &Summary) -> impl Iterator<Item = (String, String)> {
    summary.calls.iter().filter_map(|row| {
        let slowest = row.slowest.as_ref().filter(|slow| is_slow(row, slow))?;
        let label = range_model::names::label(row.domain.as_deref(), &row.name)?;
        Some((label, slowest_parts(summary, row, slowest)?))
    })
}

/// `91.9% in child calls, 5.1% ready`
fn slowest_parts(summary: &Summary, row: &CallStats, slowest: &SlowestCalls) -> Option<String> {
    let mut parts = parts_of(&slowest.states);
    if are_workers_busy(summary) && !are_wakes_known(summary, row) {
        parts.iter_mut().filter(|(_, state)| *state == WAITING).for_each(|(_, state)| *state = READY_OR_WAITING);
    }
    order::by_most(&mut parts, |(ns, _)| *ns);
    let all = slowest.latency_ns;
    let parts = parts.iter().filter(|(ns, _)| *ns > 0 && *ns >= all / WORTH_A_COLUMN).take(SLOWEST_PARTS);
    let parts: Vec<_> = parts.in_vec();
    if let [(_, WAITING)] = parts[..] {
        return None;
    }
    let parts: Vec<String> = parts.iter().map(|(ns, state)| format!("{} {state}", share(*ns, all.into()))).in_vec();
    Some(parts.join(", "))
}

/// Whether it is known when calls of this name were woken, since nearly all of their waits were told. tokio's events
/// tell it of more calls, but not of which.
fn are_wakes_known(summary: &Summary, row: &CallStats) -> bool {
    let label = range_model::names::label(row.domain.as_deref(), &row.name);
    let told = summary.waits.iter().filter(|wait| wait.of_waits.is_none() && wait.resource.is_none());
    let told = told.filter(|wait| Some(&wait.waiter) == label.as_ref()).map(|wait| u128::from(wait.time_ns));
    let ready = row.states.map_or(0, |states| states.ready_ns);
    told.sum::<u128>() + u128::from(ready) >= u128::from(row.awaited_ns) * TOLD_PERCENT / 100
}

/// Waits that were told are nearly all that a call awaited.
const TOLD_PERCENT: u128 = 90;
const WAITING: &str = "waiting itself";
/// What a call does that is not active, where all workers are busy and nobody knows when it was woken.
const READY_OR_WAITING: &str = "ready or waiting";

/// The states of calls in words.
pub(crate) fn parts_of(states: &CallStates) -> Vec<(u64, &'static str)> {
    let CallStates { in_cuda_ns, on_cpu_ns, off_cpu_ns, on_thread_ns, ready_ns, child_call_ns, .. } = *states;
    let CallStates { gpu_work_ns, otherwise_ns, outlived_ns, .. } = *states;
    vec![
        (in_cuda_ns, "in CUDA"),
        (on_cpu_ns, "on CPU"),
        (off_cpu_ns, "off CPU"),
        (on_thread_ns, "on a thread"),
        (ready_ns, "ready"),
        (child_call_ns, "in child calls"),
        (gpu_work_ns, "waiting for its GPU work"),
        (otherwise_ns, WAITING),
        (outlived_ns, "after the last poll"),
    ]
}

#[cfg(test)]
mod tests;
