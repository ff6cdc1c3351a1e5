//! The summary of a process that has left none, from the file of its rows.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use range_report::{RangeStats, Summary, Times, TreeNode};

use super::{Merged, categories, count, node_totals, ranges, recursive_rows, spans_in_more, tree};
use crate::clock::rate_since;
use crate::record::RangeKey;
use crate::session::catalog::Limits;
use crate::session::row_log::RowLog;
use crate::thread::row::{RowCopy, WORDS, copy_of_words};
use crate::thread::rows::FIRST_ROWS;

/// A summary from the file of the rows of a process.
#[doc(hidden)]
#[derive(Debug)]
pub struct Kept {
    /// All but open ranges, the GPU and quantiles, which are those of the snapshot.
    pub summary: Summary,
    /// Whether all rows were in the file, so that counts and totals are exact.
    pub is_whole: bool,
}

/// What a process has measured that has ended without its summary: from the file of its rows, and the last summary that
/// it wrote before, if it did.
///
/// # Errors
/// Where there is no such file, or it is none.
#[doc(hidden)]
pub fn read_row_file(path: &Path, snapshot: Option<Summary>) -> io::Result<Kept> {
    let mut log = RowLog::read(path, Limits { nodes: usize::MAX, run_time_names: usize::MAX })?;
    let rate = rate_since(log.is_tsc, log.origin, log.origin_ns);
    let (mut rows, mut ends): (Vec<(RangeKey, RowCopy)>, Vec<usize>) = Default::default();
    let mut is_whole = !log.is_incomplete();
    let mut last = None;
    for kept in log.rows(WORDS, FIRST_ROWS) {
        if last.replace(kept.thread).is_some_and(|thread| thread != kept.thread) {
            ends.push(rows.len());
        }
        let (row, is_torn) = copy_of_words(kept.node, kept.words);
        is_whole &= !is_torn;
        rows.push((kept.key, row));
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
    let longest = rows.iter().map(|(_, row)| row.first.saturating_sub(log.origin) + row.times.max).max().unwrap_or(0);
    summary.elapsed_ns = summary.elapsed_ns.max(rate.ns(u128::from(longest)));
    let before = std::mem::replace(&mut summary.ranges, ranges(&merged, names, rate, &[]));
    summary.ranges.iter_mut().for_each(|row| take_quantiles(row, &before));
    let before =
        std::mem::replace(&mut summary.tree, tree(&totals, &BTreeMap::new(), None, names, rate, log.origin, &[]));
    take_gpu(&mut summary.tree, &before);
    summary.categories = categories(&merged, rate, &[]);
    summary.losses.nodes_over_limit = spans_in_more(&rows, names);
    summary.losses.recursive_rows = recursive_rows(&totals, names);
    summary.losses.rows_without_median = count(summary.ranges.iter().filter(|row| row.times.median_ns.is_none()));
    Ok(Kept { summary, is_whole })
}

/// Where not all durations are known any more, those of the snapshot stand for them, if it has half of them.
fn take_quantiles(row: &mut RangeStats, before: &[RangeStats]) {
    let is_same =
        |other: &&RangeStats| (&other.domain, &other.name, other.style) == (&row.domain, &row.name, row.style);
    let Some(Times { median_ns: Some(median), instances, median_exact, quantiles, .. }) =
        before.iter().find(is_same).map(|row| &row.times)
    else {
        return;
    };
    if row.times.median_ns.is_none() && *instances >= row.times.instances / 2 {
        row.times.median_ns = Some(*median);
        row.times.median_exact = *median_exact;
        row.times.quantiles.clone_from(quantiles);
    }
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
