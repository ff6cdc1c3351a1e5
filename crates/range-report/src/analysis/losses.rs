//! Findings about data that was not measured, or not as the program wrote it.

use range_model::stats::{Lean, Named};

use super::finding::{Evidence, Finding};
use crate::text::number::human_inline;
use crate::text::width::shorten;
use crate::text::wording::Wording;
use range_model::names;
use range_model::names::joined;
use range_model::summary::GpuIdle;
use range_model::{GpuWork, Losses, OpenRange, RangeStyle, StreamStats, Summary};

/// The largest number of open ranges that a sentence names; further ones are counted.
const MAX_OPEN: usize = 10;
/// The largest number of threads that are named for each open range.
const MAX_THREADS: usize = 3;
/// Widest name inside a sentence.
const MAX_NAME: usize = 60;

/// The losses, the most important ones first: missing data, then data that may be wrong, then missing figures.
pub(crate) fn losses(summary: &Summary, wording: Wording) -> Vec<Finding> {
    let mut found = open_ranges(&summary.losses.open);
    for (figure, count, sentences) in counted(&summary.losses, wording).into_iter().chain(unexplained(summary)) {
        found.extend(counted_finding(Evidence::Loss { figure, count }, count, sentences, 0, wording));
    }
    found.extend(unattributed(summary, wording));
    let count = summary.losses.rows_without_median;
    let sentences = [
        "row has no median (-): the memory for durations was used up.",
        "rows have no median (-): the memory for durations was used up.",
    ];
    found.extend(counted_finding(Evidence::NoMedian { rows: count }, count, sentences, 0, wording));
    found.extend(empty_stream_times(summary, wording));
    found
}

/// A finding with a count; `None` if the count is 0.
fn counted_finding(
    evidence: Evidence,
    count: u64,
    [one, many]: [&str; 2],
    at_stake_ns: u64,
    wording: Wording,
) -> Option<Finding> {
    let sentence = format!("{} {}", wording.count(count), if count == 1 { one } else { many });
    let sentence = if wording.of_command { sentence.replace("span", "range") } else { sentence };
    (count > 0).then(|| Finding { at_stake_ns, ..Finding::of_run(evidence, sentence) })
}

/// Each count with its name in [`Losses`], and the sentences for one and for several.
fn counted(losses: &Losses, wording: Wording) -> Vec<(&'static str, u64, [&'static str; 2])> {
    macro_rules! rows {
        ($($($field:ident).+: $one:expr, $many:expr;)+) => {
            vec![$((stringify!($($field).+), losses.$($field).+, [$one, $many]),)+]
        };
    }
    rows! {
        split_instances:
            "instance was closed and opened again, because a range below it was exited first: it counts as two.",
            "instances were closed and opened again, because a range below them was exited first: each counts as two.";
        stray_exits:
            "exit was on a thread that had no such range open; it ended nothing there.",
            match wording.of_command && are_moved(losses) {
                true => MOVED,
                false => "exits were on a thread that had no such range open; they ended nothing there.",
            };
        names_over_limit:
            wording.of(
                "name exceeded the limit on distinct names: a span kept its own name, a range of other code is called (other).",
                "name exceeded the limit on distinct names: its ranges are called (other).",
            ),
            wording.of(
                "names exceeded the limit on distinct names: spans kept their own names, ranges of other code are called (other).",
                "names exceeded the limit on distinct names: their ranges are called (other).",
            );
        categories_over_limit:
            "category exceeded the limit on distinct categories; it has no row.",
            "categories exceeded the limit on distinct categories; they have no rows.";
        nodes_over_limit:
            "span had no room in the tree; it is in a (more) row.",
            "spans had no room in the tree; they are in (more) rows.";
        recursive_rows:
            "row of the tree has recursion deeper than 64 levels; its total counts time nested in itself once.",
            "rows of the tree have recursion deeper than 64 levels; their totals count time nested in themselves once.";
        spans_dropped:
            "span could not be followed, and is in no table.",
            "spans could not be followed, and are in no table.";
        streams.pending:
            "stream time was still pending, and is not counted.",
            "stream times were still pending, and are not counted.";
        streams.captured:
            "instance has no stream time, because its stream was being captured into a graph.",
            "instances have no stream time, because their stream was being captured into a graph.";
        streams.refused:
            "instance has no stream time, because its stream was gone or the driver refused.",
            "instances have no stream time, because their stream was gone or the driver refused.";
        streams.dropped:
            "stream time was dropped, because its stream had too many unread ones.",
            "stream times were dropped, because their stream had too many unread ones.";
        streams.unreadable:
            "stream time could not be read, because its context failed or is gone.",
            "stream times could not be read, because their context failed or is gone.";
        activity.dropped_records:
            "GPU record was dropped by CUPTI, which had no memory left; its operation or call is in no table.",
            "GPU records were dropped by CUPTI, which had no memory left; their operations or calls are in no table.";
        activity.over_budget_records:
            "GPU record was dropped at the memory limit; its operation or call is in no table.",
            "GPU records were dropped at the memory limit; their operations or calls are in no table.";
        activity.unreadable_records:
            "GPU record had an unknown layout, and was skipped.",
            "GPU records had an unknown layout, and were skipped.";
        activity.without_time:
            "GPU operation or API call has no time, because tracing began too late for it or it had not finished; it is in no table.",
            "GPU operations or API calls have no time, because tracing began too late for them or they had not finished; they are in no table.";
        activity.outstanding:
            "launch was still waiting for its GPU operations; they are in no table.",
            "launches were still waiting for their GPU operations; these are in no table.";
        activity.forgotten_launches:
            "launch was dropped at the memory limit before its GPU operations arrived; they count for no span.",
            "launches were dropped at the memory limit before their GPU operations arrived; these count for no span.";
        activity.forgotten_calls:
            "API call was dropped at the memory limit before its record arrived; it counts for no span, and may be the profiler's own.",
            "API calls were dropped at the memory limit before their records arrived; they count for no span, and some may be the profiler's own.";
        activity.late:
            "GPU operation is missing in the projection of a range, because the memory limit was reached.",
            "GPU operations are missing in projections of ranges, because the memory limit was reached; each counts once per range.";
    }
}

const MOVED: &str = "exits were on a thread that had no such range open, as many as ranges were open at the end: pops \
                     probably come on other threads than their pushes, as goroutines and coroutines make them. Then the \
                     times of push/pop ranges are of no use. Start/end ranges may change threads.";

/// Whether pops that met no range make up for ranges that were left open. A process that is stopped leaves more open.
fn are_moved(losses: &Losses) -> bool {
    let open = losses
        .open
        .iter()
        .filter(|range| range.style == RangeStyle::PushPop)
        .fold(0_u64, |sum, range| sum.saturating_add(range.count));
    let (stray, many) = (losses.stray_exits, 10);
    stray > 1 && (stray == open || stray < open && stray >= many)
}

/// The same of idle time.
fn unexplained(summary: &Summary) -> impl Iterator<Item = (&'static str, u64, [&'static str; 2])> {
    let rows = |idle: &GpuIdle| {
        [
            (
                "idle.late",
                idle.late,
                [
                    "GPU operation arrived too late to be set apart from the idle time around it.",
                    "GPU operations arrived too late to be set apart from the idle time around them.",
                ],
            ),
            (
                "idle.dropped_calls",
                idle.dropped_calls,
                [
                    "API call was dropped at the memory limit; the idle time in it has no cause.",
                    "API calls were dropped at the memory limit; the idle time in them has no cause.",
                ],
            ),
            (
                "idle.unmatched_copies",
                idle.unmatched_copies,
                [
                    "copy of pageable memory could not be matched with its call; it is in no finding.",
                    "copies of pageable memory could not be matched with their calls; they are in no finding.",
                ],
            ),
        ]
    };
    summary.idle.as_ref().map(rows).into_iter().flatten()
}

/// Work for the GPU that counts for no span.
fn unattributed(summary: &Summary, wording: Wording) -> Vec<Finding> {
    let (unmatched, outside) = summary.gpu.as_ref().map(|gpu| (&gpu.unmatched, &gpu.outside)).unzip();
    let finding = |work: Option<&GpuWork>, evidence: Evidence, count, [one, many]: [&str; 2]| {
        let busy_ns = work.map_or(0, |work| work.busy_ns);
        let busy = if busy_ns > 0 { format!(" ({} busy)", human_inline(busy_ns)) } else { String::new() };
        let sentences = [format!("GPU operation{busy} {one}"), format!("GPU operations{busy} {many}")];
        counted_finding(evidence, count, sentences.each_ref().map(String::as_str), busy_ns, wording)
    };
    let operations = |work: Option<&GpuWork>| work.map_or(0, |work| work.operations);
    let count = summary.losses.activity.unmatched.max(operations(unmatched));
    let sentences = [
        "could not be matched with its launch; it counts for no span.",
        "could not be matched with their launches; they count for no span.",
    ];
    let unmatched = finding(unmatched, Evidence::Loss { figure: "activity.unmatched", count }, count, sentences);
    // In a run without ranges, launches outside of ranges are no finding.
    let count = if summary.ranges.is_empty() { 0 } else { operations(outside) };
    let sentences = ["was launched outside any range.", "were launched outside any range."];
    let outside = finding(outside, Evidence::LaunchedOutside { operations: count }, count, sentences);
    unmatched.into_iter().chain(outside).in_vec()
}

/// Instances that read below the floor in rows whose other figures do not show it.
fn empty_stream_times(summary: &Summary, wording: Wording) -> Option<Finding> {
    let rows = summary.stream_ranges.iter().filter(|row| row.empty > 0 && !nothing_enqueued(row));
    let instances = rows.clone().fold(0_u64, |sum, row| sum.saturating_add(row.empty));
    let rows = match rows.count() {
        1 => "1 row".to_owned(),
        count => format!("{} rows", wording.count(count as u64)),
    };
    let sentences = [("instance", "it. Its time is"), ("instances", "them. Their times are")].map(|(what, times)| {
        format!(
            "{what} in {rows} of stream time took no longer than an empty pair of events: nothing was enqueued in \
             {times} counted."
        )
    });
    let sentences = sentences.each_ref().map(String::as_str);
    counted_finding(Evidence::EmptyStreamTimes { instances }, instances, sentences, 0, wording)
}

/// Whether no instance enqueued anything, so that all its times are those of the events themselves.
pub(crate) fn nothing_enqueued(row: &StreamStats) -> bool {
    row.times.instances > 0 && row.empty >= row.times.instances
}

fn open_ranges(open: &[OpenRange]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (cut, style, what) in [
        (true, RangeStyle::PushPop, "Open at the end, and counted up to then (cut): "),
        (false, RangeStyle::PushPop, "Still open, and not counted: "),
        (false, RangeStyle::StartEnd, "Start/end ranges still open, and not counted: "),
    ] {
        let mut ranges = 0_u64;
        let mut threads_by_label: Named<&str, Named<&str, u64>> = Named::default();
        for range in open.iter().filter(|range| (range.cut, range.style) == (cut, style)) {
            let count = threads_by_label.row(&range.label).row(&range.thread);
            *count = count.saturating_add(range.count);
            ranges = ranges.saturating_add(range.count);
        }
        if threads_by_label.is_empty() {
            continue;
        }
        let mut named: Vec<String> =
            threads_by_label.iter().take(MAX_OPEN).map(|(label, threads)| open_range(label, threads)).in_vec();
        if threads_by_label.len() > MAX_OPEN {
            named.push(format!("and {} more", threads_by_label.len() - MAX_OPEN));
        }
        let sentence = format!("{what}{}.", joined(&named, ", "));
        found.push(Finding::of_run(Evidence::OpenRanges { ranges, cut }, sentence));
    }
    found
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
        .in_vec();
    match threads.len().saturating_sub(MAX_THREADS) {
        0 => {}
        1 => named.push("1 more thread".to_owned()),
        more => named.push(format!("{more} more threads")),
    }
    format!("{name} ({})", joined(&named, ", "))
}
