//! Replays of CUDA graphs: in which spans they were launched, and which spans captured what ran.

use super::cuda::Made;
use super::gpu_work::NO_ACTIVITY;
use super::kinds::Report;
use super::options::RenderOptions;
use super::replays::{OUTSIDE, by_size, label, recorded_whole, replayed, time};
use super::table::{Cell, Column, Table};
use crate::analysis::Phases;
use crate::text::joined;
use crate::text::number::human_inline;
use crate::{GraphWork, Summary};

/// For a summary without replays.
const NO_GRAPH: &str = "No CUDA graph was replayed, or `graphs=off` left out what is in them.\n";

/// One row for each pair of spans: those of the replay, and those of the capture.
pub(super) fn table(summary: &Summary, _: &RenderOptions) -> Made {
    if summary.gpu.is_none() {
        return Err(NO_ACTIVITY);
    }
    let phases = Phases::of(summary);
    let mut replayed = replayed(&phases, summary.gpu.as_ref()).peekable();
    if replayed.peek().is_none() {
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
    for (index, graphs) in replayed {
        let replayed_in = path(&phases, index);
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

/// The names of a phase and of those around it, outermost first.
fn path(phases: &Phases, index: Option<usize>) -> String {
    let mut names: Vec<&str> = Vec::new();
    let mut at = index;
    while let Some(phase) = at.and_then(|index| phases.all().get(index)) {
        names.push(&phase.node.name);
        at = phase.parent;
    }
    if names.is_empty() { OUTSIDE.to_owned() } else { joined(names.into_iter().rev(), " > ") }
}

/// That the tables of kernels lack those of replays which were recorded as a whole, where such a table or the tree is
/// shown.
pub(super) fn left_out(summary: &Summary, reports: &[Report], options: &RenderOptions) -> Option<String> {
    const WITH_KERNELS: [Report; 7] = [
        Report::Nvprof,
        Report::Torch,
        Report::Kernels,
        Report::RangeKernels,
        Report::Hot,
        Report::KernelExec,
        Report::Tree,
    ];
    if !reports.iter().any(|report| WITH_KERNELS.contains(report)) {
        return None;
    }
    let [count, ns] = recorded_whole(&Phases::of(summary), summary.gpu.as_ref())?;
    let (replays, were) = if count == 1 { ("replay", "was") } else { ("replays", "were") };
    Some(format!(
        "{} {replays} of CUDA graphs {were} recorded as a whole, {} on the GPU: the tables of kernels and copies lack \
         what ran in them. `graphs=nodes` records each, and slows replays down.",
        options.wording().count(count),
        human_inline(ns)
    ))
}

/// That replays whose nodes were recorded take longer than others.
pub(super) fn slowed(summary: &Summary, options: &RenderOptions) -> Option<String> {
    let phases = Phases::of(summary);
    let of_nodes = |graphs: &GraphWork| graphs.replays.saturating_sub(graphs.whole);
    let add = |sum: u64, (_, graphs): (_, &GraphWork)| sum.saturating_add(of_nodes(graphs));
    let count = replayed(&phases, summary.gpu.as_ref()).fold(0, add);
    let (replays, they) = if count == 1 { ("replay", "it") } else { ("replays", "them") };
    (count > 0).then(|| {
        format!(
            "The nodes of {} {replays} of CUDA graphs were recorded one by one, which slows {they} down: take idle times \
             from a run with `graphs=whole`.",
            options.wording().count(count)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CapturedWork, GpuActivity, GpuWork, NodeWork, TreeNode};

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
    fn tables_say_that_they_lack_the_kernels_of_whole_replays() {
        let work = GraphWork { replays: 128, whole: 128, whole_ns: 20_310_000, ..GraphWork::default() };
        let whole = summary(work);
        let note = left_out(&whole, &[Report::Kernels], &RenderOptions::default()).unwrap();
        assert!(note.starts_with("128 replays of CUDA graphs were recorded as a whole, 20.31 ms on the GPU"), "{note}");
        assert_eq!(left_out(&whole, &[Report::Ranges], &RenderOptions::default()), None);
        let nodes = summary(GraphWork { replays: 2, captured: vec![part("a", 2, 2, 500)], ..GraphWork::default() });
        assert_eq!(left_out(&nodes, &[Report::Kernels], &RenderOptions::default()), None);
        assert_eq!(slowed(&whole, &RenderOptions::default()), None);
        let note = slowed(&nodes, &RenderOptions::default()).unwrap();
        assert!(note.starts_with("The nodes of 2 replays of CUDA graphs were recorded one by one"), "{note}");
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
