//! The summary of a process that has left none, from the file of its rows.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use range_report::{OpenRange, RangeStyle, Summary, TreeNode};

use super::{Merged, Open, categories, count, node_totals, ranges, recursive_rows, spans_in_more, tree};
use crate::clock::rate_since;
use crate::record::{Place, RangeKey};
use crate::row_file::Lost;
use crate::session::catalog::{Limits, ROOT};
use crate::session::row_log::RowLog;
use crate::thread::row::{RowCopy, SAMPLES, WORDS, copy_of_kept};
use crate::thread::rows::FIRST_ROWS;
use crate::thread::state::{OPEN_WORDS, open_in_file};

/// A summary from the file of the rows of a process.
#[doc(hidden)]
#[derive(Debug)]
pub struct Kept {
    /// All of its ranges; and the rest of the snapshot, if there is one.
    pub summary: Summary,
    /// Whether all rows were in the file, so that counts and times are exact.
    pub is_whole: bool,
    /// Whether more was measured than ranges: the GPU, or OpenACC. Of that there is the snapshot.
    pub has_more: bool,
}

/// What a process has measured that has ended without its summary: from the file of its rows, and the last summary that
/// it wrote before, if it did.
///
/// # Errors
/// Where there is no such file, or it is none.
#[doc(hidden)]
pub fn read_row_file(path: &Path, snapshot: Option<Summary>) -> io::Result<Kept> {
    let mut log = RowLog::read(path, Limits { nodes: usize::MAX, run_time_names: usize::MAX })?;
    if let Some(snapshot) = snapshot.as_ref().filter(|_| log.is_incomplete()) {
        return Ok(Kept { summary: snapshot.clone(), is_whole: false, has_more: true });
    }
    let rate = rate_since(log.is_tsc, log.origin, log.origin_ns);
    let (mut rows, mut ends): (Vec<(RangeKey, RowCopy)>, Vec<usize>) = Default::default();
    let mut is_whole = !log.is_incomplete();
    let mut last = None;
    for kept in log.rows(WORDS, FIRST_ROWS, SAMPLES) {
        if last.replace(kept.thread).is_some_and(|thread| thread != kept.thread) {
            ends.push(rows.len());
        }
        let key = kept.key;
        let (row, is_torn) = copy_of_kept(kept);
        is_whole &= !is_torn;
        rows.push((key, row));
    }
    ends.push(rows.len());
    let has_snapshot = snapshot.is_some();
    let mut summary = snapshot.unwrap_or_default();
    if !has_snapshot {
        summary.process = std::mem::take(&mut log.process);
    }
    let names = &log.names;
    let merged = Merged::of(rows.iter().map(|(key, row)| (*key, &row.times)), names);
    let totals = node_totals(&rows, &ends, &[], names, &BTreeSet::new(), false);
    // The least that it can be: the ranges of an outermost row follow one another.
    let end = |(key, row): &(RangeKey, RowCopy)| {
        let nodes = names.catalog.nodes();
        let is_outermost = nodes.get(row.node as usize).is_some_and(|node| node.parent == ROOT);
        let follows = is_outermost && key.style == RangeStyle::PushPop;
        let took = if follows { u64::try_from(row.times.total).unwrap_or(u64::MAX) } else { row.times.max };
        row.first.saturating_sub(log.origin).saturating_add(took)
    };
    let longest = rows.iter().map(end).max().unwrap_or(0);
    summary.elapsed_ns = summary.elapsed_ns.max(rate.ns(u128::from(longest)));
    (summary.outside_ns, summary.threads) = (None, Vec::new()); // how long calls awaited is not in the file
    summary.ranges = ranges(&merged, names, rate, &[]);
    let before =
        std::mem::replace(&mut summary.tree, tree(&totals, &BTreeMap::new(), None, names, rate, log.origin, &[]));
    take_gpu(&mut summary.tree, &before);
    summary.categories = categories(&merged, rate, &[]);
    summary.losses.open.retain(|range| range.style == RangeStyle::StartEnd);
    summary.losses.open.extend(open(&log));
    summary.losses.spans_dropped = summary.losses.spans_dropped.max(log.lost(Lost::Spans));
    summary.losses.stray_exits = summary.losses.stray_exits.max(log.lost(Lost::Exits));
    summary.losses.nodes_over_limit = spans_in_more(&rows, names);
    summary.losses.recursive_rows = recursive_rows(&totals, names);
    summary.losses.rows_without_median = count(summary.ranges.iter().filter(|row| row.times.median_ns.is_none()));
    Ok(Kept { summary, is_whole, has_more: log.lost(Lost::Others) > 0 })
}

/// The ranges that were open on each thread.
fn open(log: &RowLog) -> Vec<OpenRange> {
    let nodes = log.names.catalog.nodes();
    let of_thread = |(thread, words): (&str, &[u64])| {
        let named = |place: Place| {
            let node = nodes.get(log.node(place.node()) as usize).filter(|_| !place.is_none())?;
            Some(Open::pushed(node.label, thread.to_owned()).named(&log.names))
        };
        open_in_file(words).into_iter().filter_map(named).collect::<Vec<_>>()
    };
    log.open(OPEN_WORDS).flat_map(of_thread).collect()
}

/// The work of the GPU stays below the ranges that launched it.
fn take_gpu(nodes: &mut [TreeNode], before: &[TreeNode]) {
    for node in nodes {
        if let Some(before) = before.iter().find(|other| (&other.domain, &other.name) == (&node.domain, &node.name)) {
            node.gpu.clone_from(&before.gpu);
            take_gpu(&mut node.children, &before.children);
        }
    }
}
