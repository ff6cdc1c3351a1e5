//! The summary of a process that left none, from its row file.

use std::io;
use std::path::Path;

use range_model::stats::Keyed;
use range_model::{OpenRange, RangeStyle, Summary, TreeNode};

use crate::clock::rate_since;
use crate::core::drain::names::label_shown;
use crate::core::drain::part::Part;
use crate::core::drain::ranges::{Merged, categories, ranges};
use crate::core::drain::rows::Rows;
use crate::core::drain::tree::{count, node_totals, recursive_rows, spans_in_more, tree};
use crate::core::record::{Place, RangeKey};
use crate::core::session::catalog::{Limits, ROOT};
use crate::core::thread::row::RowCopy;
use crate::core::thread::rows::FIRST_ROWS;
use crate::parts::calls::drain::{self as calls, Calls};
use crate::parts::calls::thread::call_row::CallCopy;
use crate::parts::row_file::file::Lost;
use crate::parts::row_file::session::reading::RowLog;
use crate::parts::row_file::thread::state::{OPEN_WORDS, open_in_file};
use crate::parts::row_file::thread::{call_row, row};

/// A summary from the row file of a process.
#[doc(hidden)]
#[derive(Debug)]
pub struct RowFileSummary {
    /// All of its ranges, and the other parts of the snapshot if there is one.
    pub summary: Summary,
    /// Whether the file has all rows, so that counts and times are exact.
    pub is_whole: bool,
    /// Whether the process measured more than ranges: the GPU, or OpenACC. Only the snapshot has these figures.
    pub has_more: bool,
    /// The system's error for which rows are missing, unless the summary is the snapshot.
    pub error: Option<i32>,
}

/// The measurements of a process that ended without a summary: from its row file, and from the last snapshot that it
/// wrote, if any.
///
/// # Errors
/// If there is no such file, or it is no row file.
#[doc(hidden)]
pub fn read_row_file(path: &Path, snapshot: Option<Summary>) -> io::Result<RowFileSummary> {
    let log = RowLog::read(path, Limits { nodes: usize::MAX, run_time_names: usize::MAX })?;
    if let Some(snapshot) = snapshot.as_ref().filter(|_| log.is_incomplete()) {
        return Ok(RowFileSummary { summary: snapshot.clone(), is_whole: false, has_more: true, error: None });
    }
    let rate = rate_since(log.is_counter, log.origin, log.origin_ns);
    let mut rows = Rows::default();
    let mut is_whole = !log.is_incomplete();
    let mut last = None;
    for (thread, node, key, image) in log.rows(row::WORDS, FIRST_ROWS, row::SAMPLES) {
        if last.replace(thread).is_some_and(|last| last != thread) {
            rows.end_thread();
        }
        let (row, is_torn) = RowCopy::in_image(node, &image);
        is_whole &= !is_torn;
        rows.all.push((key, row));
    }
    rows.end_thread();
    let call_rows = log.call_rows(call_row::WORDS, call_row::SAMPLES);
    let (call_rows, torn): (Vec<_>, Vec<_>) =
        call_rows.map(|(identity, image)| CallCopy::in_image(identity, &image)).unzip();
    is_whole &= !torn.contains(&true);
    let has_snapshot = snapshot.is_some();
    let mut summary = snapshot.unwrap_or_default();
    if !has_snapshot {
        summary.process = log.process.clone();
    }
    let names = &log.names;
    let merged = Merged::of(&rows.all, names);
    let mut nodes = node_totals(&rows.all, &rows.by_thread(), names, &Keyed::default(), false);
    let mut parts: [Box<dyn Part + '_>; 1] = [Box::new(Calls::of(call_rows))];
    parts.iter_mut().for_each(|part| part.count(&mut nodes, names));
    // A lower bound: the ranges of an outermost row follow one another.
    let end = |(key, row): &(RangeKey, RowCopy)| {
        let nodes = names.catalog.nodes();
        let is_outermost = nodes.get(row.node as usize).is_some_and(|node| node.parent == ROOT);
        let follows = is_outermost && key.style == RangeStyle::PushPop;
        let took = if follows { u64::try_from(row.times.total).unwrap_or(u64::MAX) } else { row.times.max };
        row.first.saturating_sub(log.origin).saturating_add(took)
    };
    let longest = rows.all.iter().map(end).max().unwrap_or(0);
    summary.elapsed_ns = summary.elapsed_ns.max(rate.ns(u128::from(longest)));
    (summary.outside_ns, summary.threads) = (None, Vec::new()); // the file does not have the end of the process
    summary.ranges = ranges(&merged, names, rate, &[]);
    let before = std::mem::replace(&mut summary.tree, tree(&nodes, &parts, names, rate, log.origin, &[]));
    take_gpu(&mut summary.tree, &before);
    summary.calls = calls::stats(&calls::by_name(&nodes.calls, names), names, rate, &[]);
    summary.categories = categories(&merged, rate, &[]);
    summary.losses.open.retain(|range| range.style == RangeStyle::StartEnd);
    summary.losses.open.extend(open(&log));
    summary.losses.spans_dropped = summary.losses.spans_dropped.max(log.lost(Lost::Spans));
    summary.losses.stray_exits = summary.losses.stray_exits.max(log.lost(Lost::Exits));
    summary.losses.nodes_over_limit = spans_in_more(&rows.all, names);
    summary.losses.recursive_rows = recursive_rows(&nodes.totals, names);
    summary.losses.rows_without_median = count(summary.ranges.iter().filter(|row| row.times.median_ns.is_none()));
    Ok(RowFileSummary { summary, is_whole, has_more: log.lost(Lost::Others) > 0, error: log.error() })
}

/// The ranges that were open on each thread, but for those that the thread was just moving.
fn open(log: &RowLog) -> Vec<OpenRange> {
    let nodes = log.names.catalog.nodes();
    let of_thread = |(thread, words): (&str, &[u64])| {
        let named = |place: Place| {
            let node = nodes.get(log.node(place.node()) as usize).filter(|_| place.is_measured())?;
            Some(OpenRange::new(label_shown(&log.names, node.label), thread))
        };
        open_in_file(words).into_iter().filter_map(named).collect::<Vec<_>>()
    };
    log.open(OPEN_WORDS).flat_map(of_thread).collect()
}

/// GPU work stays below the ranges that launched it.
fn take_gpu(nodes: &mut [TreeNode], before: &[TreeNode]) {
    for node in nodes {
        if let Some(before) = before.iter().find(|other| (&other.domain, &other.name) == (&node.domain, &node.name)) {
            node.gpu.clone_from(&before.gpu);
            take_gpu(&mut node.children, &before.children);
        }
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::thread::{scope, sleep};
    use std::time::Duration;

    use range_model::RangeStats;
    use range_model::summary::CallStats;
    use tracing::{Instrument as _, info_span};
    use tracing_subscriber::prelude::*;

    use super::*;
    use crate::{Output, Profiler};

    /// A future of this name, which is ready at its second poll.
    fn call(name: &'static str, polls: usize) {
        let mut left = 2;
        let waits = std::future::poll_fn(|_| {
            left -= 1;
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut future = pin!(waits.instrument(info_span!("call", otel.name = name)));
        for _ in 0..polls {
            let _is_ready = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn calls_are_in_the_file_as_they_are_in_the_summary() {
        let path = std::env::temp_dir().join(format!("tracing-gpu-kept-calls-{}", std::process::id()));
        let profiler = Profiler::builder().nvtx(false).output(Output::None).name_from(["otel.name"]);
        let profiler = profiler.row_file(&path, || {}).build().expect("a profiler");
        let subscriber = tracing::Dispatch::new(tracing_subscriber::registry().with(profiler.layer()));
        let run = || {
            tracing::dispatcher::with_default(&subscriber, || {
                for _ in 0..20 {
                    info_span!("outer").in_scope(|| call("often", 2));
                    call("dropped", 1);
                }
                // More kinds than one page of the file has rows for.
                ["a", "b", "c", "d", "e", "f", "g", "h"]
                    .into_iter()
                    .for_each(|name| (0..4).for_each(|_| call(name, 2)));
            });
        };
        scope(|scope| [(); 2].map(|()| scope.spawn(run)).map(|thread| thread.join().expect("it ends")));
        let (live, kept) = (profiler.summary(), read_row_file(&path, None).expect("the file is there"));
        profiler.finish().expect("the file is removed");

        let figures = |calls: &CallStats| {
            let latency = &calls.latency;
            let is_median_exact = latency.median_ns.is_some_and(|median| median > 0.0) && latency.median_exact;
            (calls.name.clone(), latency.instances, calls.cancelled, is_median_exact)
        };
        assert!(kept.is_whole && live.calls.len() >= 9, "{:?}", live.calls);
        assert_eq!(sorted(&kept.summary.calls, figures), sorted(&live.calls, figures));
        // The rate of the clock was read at two moments, so only shares are equal.
        let share = |calls: &CallStats, ns: u64| ns as f64 / calls.latency.total_ns as f64;
        let shares = |calls: &CallStats| [calls.busy_ns, calls.awaited_self_ns].map(|ns| share(calls, ns));
        for live in &live.calls {
            let kept = kept.summary.calls.iter().find(|kept| kept.name == live.name).expect("it is in both");
            let differ = shares(kept).iter().zip(shares(live)).any(|(kept, live)| (kept - live).abs() > 1e-4);
            assert!(!differ, "{kept:?} is not {live:?}");
        }
        assert_eq!(of_tree(&kept.summary.tree), of_tree(&live.tree));
        let counts = |row: &RangeStats| (row.name.clone(), row.times.instances);
        assert_eq!(sorted(&kept.summary.ranges, counts), sorted(&live.ranges, counts));
    }

    fn sorted<T, K: Ord>(rows: &[T], figures: impl Fn(&T) -> K) -> Vec<K> {
        let mut all: Vec<K> = rows.iter().map(figures).collect();
        all.sort();
        all
    }

    fn of_tree(nodes: &[TreeNode]) -> Vec<(String, u64, u64, bool)> {
        let own = |node: &TreeNode| (node.name.clone(), node.calls, node.instances, node.awaited_ns.is_some());
        let mut all = sorted(nodes, own);
        all.extend(nodes.iter().flat_map(|node| of_tree(&node.children)));
        all.sort();
        all
    }
}
