//! Replays of CUDA graphs: in which spans they were launched, and which spans captured what ran.

use super::cuda::Made;
use super::gpu_work::NO_ACTIVITY;
use super::kinds::Report;
use super::options::RenderOptions;
use super::table::{Cell, Column, Table};
use crate::analysis::Phases;
use crate::stats::{Lean, order};
use crate::text::number::{human_inline, integer};
use crate::text::width::{blanks, shorten, width_of};
use crate::text::{joined, names};
use crate::{CapturedWork, GraphWork, Summary};

/// For a summary without replays.
const NO_GRAPH: &str = "No CUDA graph was replayed, or `graphs=off` left out what is in them.\n";
/// Spans below the tree: those that replay graphs, and for each those that captured.
const MOST_SPANS: usize = 4;
const MOST_PARTS: usize = 8;
/// The room that a name gets in any case.
const LEAST_NAME: usize = 24;
pub(super) const OUTSIDE: &str = "(outside any range)";

/// The spans that replay graphs, by their paths, the longest replays first.
fn replayed(summary: &Summary) -> Vec<(String, &GraphWork)> {
    let phases = Phases::of(summary);
    let mut all: Vec<(String, &GraphWork)> = Vec::new();
    let mut path: Vec<&str> = Vec::new();
    for phase in phases.all() {
        path.truncate(phase.depth);
        path.push(&phase.node.name);
        if let Some(work) = phase.node.gpu.as_ref().filter(|work| !work.graphs.is_empty()) {
            all.push((joined(&path, " > "), &work.graphs));
        }
    }
    let outside = summary.gpu.as_ref().map(|gpu| &gpu.outside_graphs).filter(|graphs| !graphs.is_empty());
    all.extend(outside.map(|graphs| (OUTSIDE.to_owned(), graphs)));
    order::by_most(&mut all, |(_, graphs)| time(graphs));
    all
}

/// One row for each pair of spans: those of the replay, and those of the capture.
pub(super) fn table(summary: &Summary, _: &RenderOptions) -> Made {
    if summary.gpu.is_none() {
        return Err(NO_ACTIVITY);
    }
    let replayed = replayed(summary);
    if replayed.is_empty() {
        return Err(NO_GRAPH);
    }
    let mut table = Table::new(vec![
        Column::of("Total Time (ns)"),
        Column::of("Replays"),
        Column::of("Whole"),
        Column::of("Kernels"),
        Column::of("Copies"),
        Column::of("Sets"),
        Column::of("Others"),
        Column::text("Replayed In"),
        Column::text("Captured In"),
    ]);
    for (replayed_in, graphs) in replayed {
        let counts = [graphs.replays, graphs.whole].map(Cell::Whole);
        let nothing = || Cell::known(None);
        let mut cells = vec![Cell::known(Some(time(graphs)))];
        cells.extend(counts);
        cells.extend([nothing(), nothing(), nothing(), nothing()]);
        cells.extend([Cell::text(replayed_in.clone()), Cell::text(String::new())]);
        table.rows.push(cells);
        for part in by_size(graphs) {
            let mut cells = vec![Cell::known((part.timed > 0).then_some(part.sum_ns)), nothing(), nothing()];
            cells.extend([part.kernels, part.copies, part.sets, part.others].map(Cell::Whole));
            cells.extend([Cell::text(replayed_in.clone()), Cell::text(label(part).to_owned())]);
            table.rows.push(cells);
        }
    }
    Ok(table)
}

/// Time of replays: of whole ones, and of the nodes of others.
fn time(graphs: &GraphWork) -> u64 {
    graphs.captured.iter().fold(graphs.whole_ns, |sum, part| sum.saturating_add(part.sum_ns))
}

/// The largest parts first: by time, then by their number of kernels.
fn by_size(graphs: &GraphWork) -> Vec<&CapturedWork> {
    let mut parts: Vec<&CapturedWork> = graphs.captured.iter().in_vec();
    let rest = |part: &CapturedWork| part.copies.saturating_add(part.sets).saturating_add(part.others);
    let size = |part: &CapturedWork| (part.sum_ns, part.kernels, rest(part));
    order::by(&mut parts, |a, b| size(b).cmp(&size(a)));
    parts
}

fn label(part: &CapturedWork) -> &str {
    if part.captured_in.is_empty() { "(in no span of its own)" } else { &part.captured_in }
}

/// That the tables of kernels lack those of replays which were recorded as a whole, where such a table is shown.
pub(super) fn left_out(summary: &Summary, reports: &[Report], options: &RenderOptions) -> Option<String> {
    const WITH_KERNELS: [Report; 6] =
        [Report::Nvprof, Report::Torch, Report::Kernels, Report::RangeKernels, Report::Hot, Report::KernelExec];
    if !reports.iter().any(|report| WITH_KERNELS.contains(report)) {
        return None;
    }
    let all = replayed(summary);
    let sum = |of: fn(&GraphWork) -> u64| all.iter().fold(0_u64, |sum, (_, graphs)| sum.saturating_add(of(graphs)));
    let (count, ns) = (sum(|graphs| graphs.whole), sum(|graphs| graphs.whole_ns));
    let (replays, were) = if count == 1 { ("replay", "was") } else { ("replays", "were") };
    (count > 0).then(|| {
        format!(
            "{} {replays} of CUDA graphs {were} recorded as a whole, {} on the GPU: their kernels and copies are in no \
             table. `graphs=nodes` records each, and slows replays down.",
            options.wording().count(count),
            human_inline(ns)
        )
    })
}

/// Lines below the tree: each span that replays graphs, and below it those that captured what ran.
pub(super) fn below_tree(summary: &Summary, options: &RenderOptions) -> String {
    let number = |count: u64, one: &str, several: &str| {
        (count > 0).then(|| format!("{} {}", integer(count, options.thousands), if count == 1 { one } else { several }))
    };
    let mut lines: Vec<[String; 2]> = Vec::new();
    let more = |left: usize, what: &str, indent: &str, lines: &mut Vec<[String; 2]>| {
        if left > 0 {
            lines.push([format!("{indent}({left} more {what})"), String::new()]);
        }
    };
    let replayed = replayed(summary);
    for (path, graphs) in replayed.iter().take(MOST_SPANS) {
        let level = match graphs.whole {
            0 => String::new(),
            whole if whole == graphs.replays => ", recorded as a whole".to_owned(),
            whole => format!(", {} of them recorded as a whole", integer(whole, options.thousands)),
        };
        let replays = number(graphs.replays, "replay", "replays").unwrap_or_default();
        lines.push([names::escaped(path).into_owned(), format!("{replays} in {}{level}", human_inline(time(graphs)))]);
        let parts = by_size(graphs);
        for part in parts.iter().take(MOST_PARTS) {
            let counts = [
                number(part.kernels, "kernel", "kernels"),
                number(part.copies, "copy", "copies"),
                number(part.sets, "set", "sets"),
                number(part.others, "other node", "other nodes"),
            ];
            let mut figures = joined(counts.into_iter().flatten(), ", ");
            if part.timed > 0 {
                figures += &format!(" in {}", human_inline(part.sum_ns));
            }
            lines.push([format!("  {}", names::escaped(label(part))), figures]);
        }
        more(parts.len().saturating_sub(MOST_PARTS), "spans that captured", "  ", &mut lines);
    }
    more(replayed.len().saturating_sub(MOST_SPANS), "spans that replay graphs", "", &mut lines);
    let figures = lines.iter().map(|[_, figures]| width_of(figures)).largest();
    let room = options.columns().saturating_sub(figures + 5).max(LEAST_NAME);
    let width = lines.iter().map(|[name, _]| width_of(name)).largest().min(room);
    let mut text = String::new();
    for [name, figures] in &lines {
        let name = shorten(name, width, width / 3);
        let line = format!(" {name}{}  {figures}", blanks(&name, width));
        text += line.trim_end();
        text.push('\n');
    }
    if text.is_empty() { text } else { format!(" CUDA graphs, by the spans that replayed and captured them:\n{text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GpuActivity, GpuWork, NodeWork, TreeNode};

    fn part(captured_in: &str, kernels: u64, copies: u64, sum_ns: u64) -> CapturedWork {
        let timed = if sum_ns > 0 { kernels + copies } else { 0 };
        CapturedWork { kernels, copies, timed, sum_ns, ..CapturedWork::new(captured_in) }
    }

    fn summary(graphs: GraphWork) -> Summary {
        let mut replay = TreeNode::new("replay");
        replay.gpu = Some(NodeWork { graphs, ..NodeWork::new(GpuWork::default(), GpuWork::default()) });
        let mut generate = TreeNode::new("generate");
        generate.children = vec![replay];
        Summary { tree: vec![generate], gpu: Some(GpuActivity::default()), ..Summary::default() }
    }

    #[test]
    fn below_the_tree_stand_the_spans_that_captured_a_replay() {
        let captured =
            vec![part("decoder", 3_200, 0, 0), part("encoder > attention", 9_600, 256, 0), part("", 1, 0, 0)];
        let whole = summary(GraphWork { replays: 128, whole: 128, whole_ns: 20_310_000, captured });
        let expected = "\
 CUDA graphs, by the spans that replayed and captured them:
 generate > replay         128 replays in 20.31 ms, recorded as a whole
   encoder > attention     9,600 kernels, 256 copies
   decoder                 3,200 kernels
   (in no span of its own)  1 kernel
";
        let shown = below_tree(&whole, &RenderOptions::default());
        assert_eq!(shown.split_whitespace().collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>());
        let note = left_out(&whole, &[Report::Kernels], &RenderOptions::default()).unwrap();
        assert!(note.starts_with("128 replays of CUDA graphs were recorded as a whole, 20.31 ms on the GPU"), "{note}");
        assert_eq!(left_out(&whole, &[Report::Ranges], &RenderOptions::default()), None);
        let nodes =
            summary(GraphWork { replays: 2, captured: vec![part("encoder", 2, 2, 500)], ..GraphWork::default() });
        let shown = below_tree(&nodes, &RenderOptions::default());
        assert!(shown.contains("2 replays in 500 ns\n") && shown.contains("2 kernels, 2 copies in 500 ns"), "{shown}");
        assert_eq!(left_out(&nodes, &[Report::Kernels], &RenderOptions::default()), None);
        assert_eq!(below_tree(&summary(GraphWork::default()), &RenderOptions::default()), "");
    }

    #[test]
    fn long_names_lose_their_middle_before_figures_are_cut() {
        let name = "a_module::of_some_depth::".repeat(8);
        let long = summary(GraphWork { replays: 1, captured: vec![part(&name, 1, 0, 7)], ..GraphWork::default() });
        for columns in [80, 100, 200] {
            let options = RenderOptions::default().width(columns);
            let shown = below_tree(&long, &options);
            assert!(
                shown.lines().all(|line| width_of(line) <= columns) && shown.contains("1 kernel in 7 ns"),
                "{shown}"
            );
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_pair_of_spans() {
        let work = GraphWork { replays: 2, whole: 1, whole_ns: 9, captured: vec![part("encoder", 4, 0, 5)] };
        let table = table(&summary(work), &RenderOptions::default()).unwrap();
        let row = |index: usize| table.rows[index].clone();
        assert_eq!(row(0)[..3], [14, 2, 1].map(Cell::Whole));
        assert_eq!((row(1)[0].clone(), row(1)[3].clone()), (Cell::Whole(5), Cell::Whole(4)));
        assert_eq!(row(1)[7..], ["generate > replay", "encoder"].map(Cell::text));
        assert_eq!(super::table(&summary(GraphWork::default()), &RenderOptions::default()).err(), Some(NO_GRAPH));
        assert_eq!(super::table(&Summary::default(), &RenderOptions::default()).err(), Some(NO_ACTIVITY));
    }
}
