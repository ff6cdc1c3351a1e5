//! The tables behind the reports, for programs: names as they are, numbers without separators, in the current style.

use super::nsys::Columns;
use super::table::{Cell, Table};
use super::{RenderOptions, Report, categories, cuda, names, nsys, streams};
use crate::{Summary, TreeNode};

/// How the cells of a file are written.
fn plain() -> RenderOptions {
    RenderOptions::default().thousands(false).raw_names(true)
}

/// The table behind a report; `None` for a report that is no single table, and a sentence where the table cannot be made.
pub(crate) fn table(summary: &Summary, report: Report) -> Option<cuda::Made> {
    let table = match report {
        Report::Ranges => nsys::table(summary, &plain()),
        Report::Tree => tree(summary),
        Report::Categories => categories::table(summary, &plain())
            .unwrap_or_else(|| nsys::statistics_table(&[], &Columns::of_ranges(&["Category"]), &plain())),
        of_gpu => return cuda::table(summary, of_gpu, &plain()),
    };
    Some(Ok(table))
}

/// The second table of [`Report::Ranges`].
pub(crate) fn stream_table(summary: &Summary) -> Table {
    streams::table(summary, &plain())
        .unwrap_or_else(|| nsys::statistics_table(&[], &Columns::of_ranges(&["Range", "Stream"]), &plain()))
}

/// The phase tree, a row a node in the order of printing; nothing is folded.
fn tree(summary: &Summary) -> Table {
    let mut table = Table::new([
        "Depth",
        "Calls",
        "Instances",
        "Total Time (ns)",
        "Self Time (ns)",
        "Stream Total (ns)",
        "Stream Self (ns)",
        "GPU Busy (ns)",
        "GPU Self Busy (ns)",
        "Phase",
    ]);
    let known = |ns: Option<u64>| ns.map_or_else(Cell::unknown, |ns| Cell::tested(ns.to_string()));
    let mut left: Vec<(u64, &TreeNode)> = summary.tree.iter().rev().map(|root| (0, root)).collect();
    while let Some((depth, node)) = left.pop() {
        left.extend(node.children.iter().rev().map(|child| (depth + 1, child)));
        let mut row: Vec<Cell> = [depth, node.calls, node.instances, node.total_ns, node.self_ns]
            .iter()
            .map(|number| Cell::tested(number.to_string()))
            .collect();
        row.extend([node.stream_total_ns, node.stream_self_ns].map(known));
        let gpu = node.gpu.as_ref();
        row.extend([gpu.map(|gpu| gpu.total.busy_ns), gpu.map(|gpu| gpu.own.busy_ns)].map(known));
        row.push(Cell::text(names::label(node.domain.as_deref(), &node.name).unwrap_or_else(|| "None".to_owned())));
        table.push(row);
    }
    table
}
