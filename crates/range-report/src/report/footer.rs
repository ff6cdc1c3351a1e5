//! The text below the reports: losses, legends of marks, and the notes of the summary.

use super::envelope::{section, title};
use super::graphs;
use super::kinds::Report;
use super::options::RenderOptions;
use crate::analysis::{Finding, FindingKind, losses, nothing_enqueued};
use crate::notes::NoteExt as _;
use crate::text::emphasis::Emphasis;
use crate::text::width::wrapped;
use range_model::names;
use range_model::stats::Lean;
use range_model::summary::MemoryKind;
use range_model::{Quantile, Summary, TreeNode};

/// The footer, or an empty text if there is nothing to report.
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
    let body: String = lines.iter().map(|line| wrapped(" -", line, options.columns())).collect();
    section(&title("Notes", "", options), &Emphasis::Dim.of(&body, options.color))
}

/// Losses and changes, a sentence each, the most important one first: for formats without a footer.
pub(crate) fn losses_as_text(summary: &Summary, options: &RenderOptions) -> Vec<String> {
    sentences(&losses(summary, options.wording()), LOST)
}

/// Kinds of findings about missing data.
const LOST: &[FindingKind] = &[FindingKind::OpenRanges, FindingKind::Loss];

fn sentences(findings: &[Finding], kinds: &[FindingKind]) -> Vec<String> {
    findings.iter().filter(|one| kinds.contains(&one.kind())).map(|one| one.sentence.clone()).in_vec()
}

/// The notes, a sentence each, the most important one first: missing data, then possible errors, then how the figures
/// were obtained.
pub(crate) fn notes(summary: &Summary, reports: &[Report], options: &RenderOptions, approximate: bool) -> Vec<String> {
    let found = losses(summary, options.wording());
    let mut lines = sentences(&found, LOST);
    // In the tree, work that was launched outside any range has a row.
    if reports.iter().any(|report| report.needs_activity()) {
        lines.extend(sentences(&found, &[FindingKind::LaunchedOutside]));
    }
    if !reports.contains(&Report::Tree) || summary.tree.is_empty() {
        lines.extend(summary.advice.iter().map(|sentence| names::escaped(sentence).into_owned()));
    }
    lines.extend(summary.notes.iter().map(|note| names::escaped(&note.sentence()).into_owned()));
    lines.extend(sentences(&found, &[FindingKind::NoMedian]));
    if shows_approximate_percentile(summary, reports) {
        lines.push("~ marks figures from a histogram: within 0.2 % of the true ones.".to_owned());
    } else if approximate {
        lines.push("~ marks a median from a histogram: within 0.2 % of the true one.".to_owned());
    }
    lines.extend(host_copies(summary, reports, options));
    lines.extend(graphs::left_out(summary, reports, options));
    lines.extend(graphs::slowed(summary, options));
    if reports.contains(&Report::Ranges) {
        lines.extend(sentences(&found, &[FindingKind::EmptyStreamTimes]));
        if summary.stream_ranges.iter().any(|row| nothing_enqueued(row) && row.floor_ns > 0) {
            lines.push(BELOW_FLOOR.to_owned());
        }
    }
    lines
}

/// Copies that run on no device, where a table has them: other tools leave them out, so that sums differ.
fn host_copies(summary: &Summary, reports: &[Report], options: &RenderOptions) -> Option<String> {
    const WITH_COPIES: [Report; 4] = [Report::Nvprof, Report::Torch, Report::MemTime, Report::MemSize];
    let has_copies = |report| WITH_COPIES.contains(report);
    let row = summary.gpu.as_ref()?.memory.iter().find(|row| row.kind == MemoryKind::HtoH)?;
    let count = row.times.instances;
    let (copies, are) = if count == 1 { ("copy", "is") } else { ("copies", "are") };
    reports.iter().any(has_copies).then(|| {
        let count = options.wording().count(count);
        format!("{count} {copies} {are} from host to host: Nsight Systems leaves such copies out.")
    })
}

/// What a mark in the table of stream times means.
const BELOW_FLOOR: &str = "< marks a row in which nothing was enqueued: its times are those of empty pairs of events, \
                           and count in no percentage.";

fn shows_approximate_percentile(summary: &Summary, reports: &[Report]) -> bool {
    let approximate = |quantiles: &[Quantile]| quantiles.iter().any(|quantile| !quantile.exact);
    let mut nodes: Vec<&TreeNode> = summary.tree.iter().filter(|_| reports.contains(&Report::Tree)).in_vec();
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
