//! Replays of CUDA graphs: in which spans they were launched, and which spans captured what ran.

use std::cmp::Reverse;

use super::cuda::Made;
use super::gpu_work::NO_ACTIVITY;
use super::kinds::Report;
use super::nsys::name_cell;
use super::options::RenderOptions;
use super::replays::{OUTSIDE, by_size, label, recorded_whole, replayed, time};
use super::table::{Cell, Column, Table};
use crate::analysis::Phases;
use crate::text::number::human_inline;
use range_model::names::joined;
use range_model::names::label_or_none;
use range_model::stats::{Lean, order};
use range_model::{GraphWork, Summary};

/// For a summary without replays.
const NO_GRAPH: &str = "No CUDA graph was replayed, or `graphs=off` left out what is in them.\n";

/// For a summary without a kernel of a graph that has a time.
const NO_CAPTURED_KERNEL: &str = "No kernel of a CUDA graph was recorded by itself. `graphs=nodes` records each.\n";

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

/// One row for each kernel of such a pair, the longest first.
pub(super) fn kernels(summary: &Summary, options: &RenderOptions) -> Made {
    summary.gpu.as_ref().ok_or(NO_ACTIVITY)?;
    let phases = Phases::of(summary);
    let mut rows = Vec::new();
    for (index, graphs) in replayed(&phases, summary.gpu.as_ref()) {
        for part in &graphs.captured {
            for kernel in part.by_kernel.iter().filter(|kernel| kernel.executions > 0) {
                rows.push((path(&phases, index), label(part), kernel));
            }
        }
    }
    if rows.is_empty() {
        return Err(NO_CAPTURED_KERNEL);
    }
    order::by(&mut rows, |(a_in, a_part, a), (b_in, b_part, b)| {
        (Reverse(a.sum_ns), a_in, a_part, &a.name).cmp(&(Reverse(b.sum_ns), b_in, b_part, &b.name))
    });
    let mut table = Table::new(vec![
        Column::of("Time (%)").page("Share").share_of(1),
        Column::of("Total Time (ns)").summed(),
        Column::of("Instances").summed(),
        Column::of("Avg (ns)"),
        Column::text("Replayed In"),
        Column::text("Captured In"),
        Column::name("Kernel Name"),
    ]);
    let whole = rows.iter().map(|(.., kernel)| kernel.sum_ns).total();
    for (replayed_in, captured_in, kernel) in rows {
        table.push(vec![
            Cell::Share { part: kernel.sum_ns, whole },
            Cell::Whole(kernel.sum_ns),
            Cell::Whole(kernel.executions),
            Cell::mean(kernel.sum_ns, kernel.executions),
            Cell::text(replayed_in),
            Cell::text(captured_in),
            name_cell(Some(&kernel.name), options),
        ]);
    }
    Ok(table)
}

/// The names of a phase and of those around it, outermost first.
fn path(phases: &Phases, index: Option<usize>) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut at = index;
    while let Some(phase) = at.and_then(|index| phases.all().get(index)) {
        names.push(label_or_none(phase.node.domain.as_deref(), &phase.node.name));
        at = phase.parent;
    }
    if names.is_empty() { OUTSIDE.to_owned() } else { joined(names.into_iter().rev(), " > ") }
}

/// That the tables of kernels lack those of replays which were recorded as a whole, where such a table or the tree is
/// shown.
pub(super) fn left_out(summary: &Summary, reports: &[Report], options: &RenderOptions) -> Option<String> {
    const WITH_KERNELS: [Report; 8] = [
        Report::Nvprof,
        Report::Torch,
        Report::Kernels,
        Report::RangeKernels,
        Report::Hot,
        Report::KernelExec,
        Report::CapturedKernels,
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
    use crate::SummaryExt as _;
    use range_model::{CapturedKernel, CapturedWork, GpuActivity, GpuWork, NodeWork, TreeNode};

    fn part(captured_in: &str, kernels: u64, copies: u64, sum_ns: u64) -> CapturedWork {
        let timed = if sum_ns > 0 { kernels + copies } else { 0 };
        CapturedWork { kernels, copies, timed, sum_ns, ..CapturedWork::new(captured_in) }
    }

    fn summary(graphs: GraphWork) -> Summary {
        let mut replay = TreeNode::new("replay");
        replay.gpu = Some(NodeWork { graphs, ..NodeWork::new(GpuWork::default(), GpuWork::default()) });
        let mut generate = TreeNode::new("generate");
        generate.domain = Some("app".to_owned());
        generate.children = vec![replay];
        Summary { tree: vec![generate], gpu: Some(GpuActivity::default()), ..Summary::default() }
    }

    #[test]
    fn tables_say_that_they_lack_the_kernels_of_whole_replays() {
        let work = GraphWork { replays: 128, whole: 128, whole_ns: 20_310_000, ..GraphWork::default() };
        let whole = summary(work);
        let note = left_out(&whole, &[Report::Kernels], &RenderOptions::default()).unwrap();
        assert!(note.starts_with("128 replays of CUDA graphs were recorded as a whole, 20.31 ms on the GPU"), "{note}");
        assert!(left_out(&whole, &[Report::CapturedKernels], &RenderOptions::default()).is_some());
        assert_eq!(left_out(&whole, &[Report::Ranges], &RenderOptions::default()), None);
        let nodes = summary(GraphWork { replays: 2, captured: vec![part("a", 2, 2, 500)], ..GraphWork::default() });
        assert_eq!(left_out(&nodes, &[Report::Kernels], &RenderOptions::default()), None);
        assert_eq!(slowed(&whole, &RenderOptions::default()), None);
        let note = slowed(&nodes, &RenderOptions::default()).unwrap();
        assert!(note.starts_with("The nodes of 2 replays of CUDA graphs were recorded one by one"), "{note}");
    }

    #[test]
    fn kernels_have_a_row_for_each_pair_of_spans() {
        let part = |captured_in, kernels: &[(&str, u64, u64)]| CapturedWork {
            by_kernel: kernels.iter().map(|&(name, count, ns)| CapturedKernel::new(name, count, ns)).collect(),
            ..part(captured_in, 4, 0, 5)
        };
        let captured = vec![part("", &[("gemm", 2, 40)]), part("encoder", &[("add", 1, 20), ("gemm", 4, 140)])];
        let some = summary(GraphWork { replays: 2, captured, ..GraphWork::default() });
        let expected = "
 ** CUDA Graph Kernel Summary, by Capture (captured_kernels):

 Time (%)  Total Time (ns)  Instances  Avg (ns)       Replayed In             Captured In        Kernel Name
 --------  ---------------  ---------  --------  ---------------------  -----------------------  -----------
     70.0              140          4      35.0  app:generate > replay  encoder                  gemm       
     20.0               40          2      20.0  app:generate > replay  (in no span of its own)  gemm       
     10.0               20          1      20.0  app:generate > replay  encoder                  add        
";
        let text = |summary: &Summary| {
            let mut text = Vec::new();
            summary.render_one(Report::CapturedKernels, &RenderOptions::default(), &mut text).unwrap();
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(&some).trim_end_matches('\n'), expected.trim_end_matches('\n'));
        let whole = summary(GraphWork { replays: 1, whole: 1, captured: vec![part("a", &[])], ..GraphWork::default() });
        assert!(text(&whole).contains("`graphs=nodes` records each"));
        assert!(text(&Summary::default()).contains(NO_ACTIVITY));
    }

    #[test]
    fn the_table_has_a_row_for_each_pair_of_spans() {
        let work = GraphWork { replays: 2, whole: 1, whole_ns: 9, captured: vec![part("encoder", 4, 0, 5)] };
        let table = table(&summary(work), &RenderOptions::default()).unwrap();
        let row = |index: usize| table.rows[index].clone();
        assert_eq!(row(0)[..3], [14, 2, 1].map(Cell::Whole));
        assert_eq!((row(1)[0].clone(), row(1)[3].clone()), (Cell::Whole(5), Cell::Whole(4)));
        assert_eq!(row(1)[7..], ["app:generate > replay", "encoder"].map(Cell::text));
        assert_eq!(super::table(&summary(GraphWork::default()), &RenderOptions::default()).err(), Some(NO_GRAPH));
        assert_eq!(super::table(&Summary::default(), &RenderOptions::default()).err(), Some(NO_ACTIVITY));
    }
}
