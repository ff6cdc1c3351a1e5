//! What follows the reports: losses, marks that need a word, and the notes of the summary.

use super::envelope::section;
use super::kinds::{Report, TableStyle};
use super::options::RenderOptions;
use super::streams;
use crate::stats::Named;
use crate::text::names;
use crate::text::number::{human_inline, integer};
use crate::text::width::{shorten, wrapped};
use crate::{GpuWork, Losses, OpenRange, Quantile, RangeStyle, Summary, TreeNode};

/// Names of open ranges printed before the rest is only counted.
const MAX_OPEN: usize = 10;
/// Threads named for each of them.
const MAX_THREADS: usize = 3;
/// Widest name inside a sentence.
const MAX_NAME: usize = 60;

/// The footer, or nothing if there is nothing to say.
/// `approximate`: whether a table has a figure that comes from a histogram.
pub(crate) fn footer(summary: &Summary, reports: &[Report], options: &RenderOptions, approximate: bool) -> String {
    let mut lines = notes(summary, reports, options, approximate);
    if lines.is_empty() {
        return String::new();
    }
    match lines.len().saturating_sub(options.notes) {
        0 => {}
        more => {
            lines.truncate(options.notes);
            let notes = if more == 1 { "note" } else { "notes" };
            lines.push(format!("{more} more {notes}: `notes=all` prints all."));
        }
    }
    let title = match options.style {
        TableStyle::Current => " ** Notes:",
        TableStyle::Legacy => "Notes:",
    };
    let body: String = lines.iter().map(|line| wrapped(" -", line, options.columns())).collect();
    section(title, &body)
}

impl Summary {
    /// What was lost or changed, a sentence each, the most important one first: for values, which have no footer.
    ///
    /// ```
    /// use range_report::{RenderOptions, Summary};
    ///
    /// let mut summary = Summary::default();
    /// assert!(summary.losses_as_text(&RenderOptions::default()).is_empty());
    /// summary.losses.stray_exits = 2;
    /// assert!(summary.losses_as_text(&RenderOptions::default())[0].starts_with("2 exits"));
    /// ```
    #[must_use]
    pub fn losses_as_text(&self, options: &RenderOptions) -> Vec<String> {
        let mut lines = Vec::new();
        open_lines(&self.losses.open, &mut lines);
        span_lines(&self.losses, options, &mut lines);
        activity_lines(self, &[], options, &mut lines);
        lines
    }
}

/// What there is to say, a sentence each, the most important one first: what is missing, then what may be wrong, then
/// how the figures were obtained.
pub(crate) fn notes(summary: &Summary, reports: &[Report], options: &RenderOptions, approximate: bool) -> Vec<String> {
    let losses = &summary.losses;
    let mut lines = Vec::new();
    open_lines(&losses.open, &mut lines);
    span_lines(losses, options, &mut lines);
    activity_lines(summary, reports, options, &mut lines);
    if !reports.contains(&Report::Tree) || summary.tree.is_empty() {
        lines.extend(summary.advice.iter().map(|sentence| names::escaped(sentence).into_owned()));
    }
    lines.extend(summary.notes.iter().map(|note| names::escaped(note).into_owned()));
    counter(options, &mut lines)(
        losses.rows_without_median,
        "row has no median (-): the memory for durations was used up.",
        "rows have no median (-): the memory for durations was used up.",
    );
    if shows_approximate_percentile(summary, reports) {
        lines.push("~ marks figures from a histogram: within 0.2 % of the true ones.".to_owned());
    } else if approximate {
        lines.push("~ marks a median from a histogram: within 0.2 % of the true one.".to_owned());
    }
    if reports.contains(&Report::Ranges) {
        floor_lines(summary, options, &mut lines);
    }
    lines
}

/// Takes a number, and what to say of one and of several: nothing of none.
fn counter<'a>(options: &'a RenderOptions, lines: &'a mut Vec<String>) -> impl FnMut(u64, &str, &str) + 'a {
    let of_ranges = |sentence: &str| match options.of_command {
        true => sentence.replace("span", "range"),
        false => sentence.to_owned(),
    };
    move |count, one, many| match count {
        0 => {}
        1 => lines.push(format!("1 {}", of_ranges(one))),
        n => lines.push(format!("{} {}", integer(n, options.thousands), of_ranges(many))),
    }
}

/// What happened to spans, and to their times on streams.
fn span_lines(losses: &Losses, options: &RenderOptions, lines: &mut Vec<String>) {
    let mut counted = counter(options, lines);
    counted(
        losses.split_instances,
        "instance was closed and opened again, because a range below it was exited first: it counts as two.",
        "instances were closed and opened again, because a range below them was exited first: each counts as two.",
    );
    counted(
        losses.stray_exits,
        "exit was on a thread that had no such range open; it ended nothing there.",
        "exits were on a thread that had no such range open; they ended nothing there.",
    );
    counted(
        losses.names_over_limit,
        options.worded(
            "name exceeded the limit on distinct names: a span kept its own name, a range of other code is called (other).",
            "name exceeded the limit on distinct names: its ranges are called (other).",
        ),
        options.worded(
            "names exceeded the limit on distinct names: spans kept their own names, ranges of other code are called (other).",
            "names exceeded the limit on distinct names: their ranges are called (other).",
        ),
    );
    counted(
        losses.categories_over_limit,
        "category exceeded the limit on distinct categories; it has no row.",
        "categories exceeded the limit on distinct categories; they have no rows.",
    );
    counted(
        losses.nodes_over_limit,
        "span had no room in the tree; it is in a (more) row.",
        "spans had no room in the tree; they are in (more) rows.",
    );
    counted(
        losses.recursive_rows,
        "row of the tree has recursion deeper than 64 levels; its total counts time nested in itself once.",
        "rows of the tree have recursion deeper than 64 levels; their totals count time nested in themselves once.",
    );
    counted(
        losses.spans_dropped,
        "span could not be followed, and is in no table.",
        "spans could not be followed, and are in no table.",
    );
    counted(
        losses.streams.pending,
        "stream time was still pending, and is not counted.",
        "stream times were still pending, and are not counted.",
    );
    counted(
        losses.streams.captured,
        "instance has no stream time, because its stream was being captured into a graph.",
        "instances have no stream time, because their stream was being captured into a graph.",
    );
    counted(
        losses.streams.refused,
        "instance has no stream time, because its stream was gone or the driver refused.",
        "instances have no stream time, because their stream was gone or the driver refused.",
    );
    counted(
        losses.streams.dropped,
        "stream time was dropped, because its stream had too many unread ones.",
        "stream times were dropped, because their stream had too many unread ones.",
    );
    counted(
        losses.streams.unreadable,
        "stream time could not be read, because its context failed or is gone.",
        "stream times could not be read, because their context failed or is gone.",
    );
}

/// What the tables on the GPU's work do not have, or have in no span.
fn activity_lines(summary: &Summary, reports: &[Report], options: &RenderOptions, lines: &mut Vec<String>) {
    let losses = &summary.losses.activity;
    let (unmatched, outside) = summary.gpu.as_ref().map(|gpu| (&gpu.unmatched, &gpu.outside)).unzip();
    let mut counted = counter(options, lines);
    counted(
        losses.dropped_records,
        "GPU record was dropped by CUPTI, which had no memory left; its operation or call is in no table.",
        "GPU records were dropped by CUPTI, which had no memory left; their operations or calls are in no table.",
    );
    counted(
        losses.over_budget_records,
        "GPU record was dropped at the memory limit; its operation or call is in no table.",
        "GPU records were dropped at the memory limit; their operations or calls are in no table.",
    );
    counted(
        losses.unreadable_records,
        "GPU record had an unknown layout, and was skipped.",
        "GPU records had an unknown layout, and were skipped.",
    );
    counted(
        losses.without_time,
        "GPU operation or API call has no time, because tracing began too late for it or it had not finished; it is in no table.",
        "GPU operations or API calls have no time, because tracing began too late for them or they had not finished; they \
         are in no table.",
    );
    counted(
        losses.outstanding,
        "launch was still waiting for its GPU operations; they are in no table.",
        "launches were still waiting for their GPU operations; these are in no table.",
    );
    counted(
        losses.forgotten_launches,
        "launch was dropped at the memory limit before its GPU operations arrived; they count for no span.",
        "launches were dropped at the memory limit before their GPU operations arrived; these count for no span.",
    );
    counted(
        losses.forgotten_calls,
        "API call was dropped at the memory limit before its record arrived; it counts for no span, and may be the \
         profiler's own.",
        "API calls were dropped at the memory limit before their records arrived; they count for no span, and some may be the \
         profiler's own.",
    );
    counted(
        losses.late,
        "GPU operation is missing in the projection of a range, because the memory limit was reached.",
        "GPU operations are missing in projections of ranges, because the memory limit was reached; each counts once per range.",
    );
    let busy = |work: Option<&GpuWork>| match work {
        Some(work) if work.busy_ns > 0 => format!(" ({} busy)", human_inline(work.busy_ns)),
        _ => String::new(),
    };
    let of_unmatched = busy(unmatched);
    counted(
        losses.unmatched.max(unmatched.map_or(0, |work| work.operations)),
        &format!("GPU operation{of_unmatched} could not be matched with its launch; it counts for no span."),
        &format!("GPU operations{of_unmatched} could not be matched with their launches; they count for no span."),
    );
    // The tree has a row for it. Where there is no range at all, nothing else can be.
    if !summary.ranges.is_empty() && reports.iter().any(|report| report.needs_activity()) {
        let of_outside = busy(outside);
        counted(
            outside.map_or(0, |work| work.operations),
            &format!("GPU operation{of_outside} was launched outside any range."),
            &format!("GPU operations{of_outside} were launched outside any range."),
        );
    }
}

fn open_lines(open: &[OpenRange], lines: &mut Vec<String>) {
    for (cut, style, what) in [
        (true, RangeStyle::PushPop, "Open at the end, and counted up to then (cut): "),
        (false, RangeStyle::PushPop, "Still open, and not counted: "),
        (false, RangeStyle::StartEnd, "Start/end ranges still open, and not counted: "),
    ] {
        let mut threads_by_label: Named<&str, Named<&str, u64>> = Named::default();
        for range in open.iter().filter(|range| (range.cut, range.style) == (cut, style)) {
            let count = threads_by_label.row(&range.label).row(&range.thread);
            *count = count.saturating_add(range.count);
        }
        if threads_by_label.is_empty() {
            continue;
        }
        let mut named: Vec<String> =
            threads_by_label.iter().take(MAX_OPEN).map(|(label, threads)| open_range(label, threads)).collect();
        if threads_by_label.len() > MAX_OPEN {
            named.push(format!("and {} more", threads_by_label.len() - MAX_OPEN));
        }
        lines.push(format!("{what}{}.", named.join(", ")));
    }
}

/// `load (main)`, `poll (worker-1, worker-2 x3, 5 more threads)`.
fn open_range(label: &str, threads: &Named<&str, u64>) -> String {
    let name = if label.is_empty() { "None".to_owned() } else { shorten(&names::escaped(label), MAX_NAME, 0) };
    let mut named: Vec<String> = threads
        .iter()
        .take(MAX_THREADS)
        .map(|(thread, count)| {
            let thread = if thread.is_empty() { "unnamed thread" } else { thread };
            let thread = shorten(&names::escaped(thread), MAX_NAME, 0);
            if *count > 1 { format!("{thread} x{count}") } else { thread }
        })
        .collect();
    match threads.len().saturating_sub(MAX_THREADS) {
        0 => {}
        1 => named.push("1 more thread".to_owned()),
        more => named.push(format!("{more} more threads")),
    }
    format!("{name} ({})", named.join(", "))
}

/// What reads below the floor: in part of a row, where the figures do not show it, and in all of one, where a mark
/// does.
fn floor_lines(summary: &Summary, options: &RenderOptions, lines: &mut Vec<String>) {
    let (all, some): (Vec<_>, Vec<_>) =
        summary.stream_ranges.iter().filter(|row| row.empty > 0).partition(|row| streams::is_empty(row));
    let instances = some.iter().fold(0_u64, |sum, row| sum.saturating_add(row.empty));
    let rows = match some.len() {
        1 => "1 row".to_owned(),
        count => format!("{} rows", integer(count as u64, options.thousands)),
    };
    match instances {
        0 => {}
        1 => lines.push(format!(
            "1 instance in {rows} of stream time took no longer than an empty pair of events: nothing was enqueued in \
             it. Its time is counted."
        )),
        n => lines.push(format!(
            "{} instances in {rows} of stream time took no longer than an empty pair of events: nothing was enqueued \
             in them. Their times are counted.",
            integer(n, options.thousands)
        )),
    }
    if all.iter().any(|row| row.floor_ns > 0) {
        lines.push(
            "< marks a row in which nothing was enqueued: its times are those of empty pairs of events, and count in no \
             percentage."
                .to_owned(),
        );
    }
}

fn shows_approximate_percentile(summary: &Summary, reports: &[Report]) -> bool {
    let approximate = |quantiles: &[Quantile]| quantiles.iter().any(|quantile| !quantile.exact);
    let mut nodes: Vec<&TreeNode> = summary.tree.iter().filter(|_| reports.contains(&Report::Tree)).collect();
    while let Some(node) = nodes.pop() {
        if approximate(&node.quantiles) {
            return true;
        }
        nodes.extend(&node.children);
    }
    let mut calls = summary.calls.iter().filter(|row| row.latency.instances > 0);
    reports.contains(&Report::Calls)
        && calls.any(|row| {
            let median_exact = row.latency.median_exact || row.latency.median_ns.is_none();
            !median_exact || approximate(&row.latency.quantiles)
        })
}

#[cfg(test)]
mod tests;
