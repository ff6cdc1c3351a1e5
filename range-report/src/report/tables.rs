//! The tables behind the reports, for programs: names as they are, numbers without separators, in the current style.

use super::cuda::Made;
#[allow(unused_imports)] // for the docs
use super::kinds::Report;
use super::nsys::Columns;
use super::options::RenderOptions;
use super::table::{Cell, Table};
use super::{calls, categories, nsys, streams, tree};
use crate::text::names;
use crate::{Summary, TreeNode};

/// How the cells of a file are written.
pub(super) fn plain() -> RenderOptions {
    RenderOptions::default().thousands(false).raw_names(true)
}

/// [`Report::Ranges`].
pub(super) fn ranges(summary: &Summary, options: &RenderOptions) -> Made {
    Ok(nsys::table(summary, options))
}

/// [`Report::Calls`].
pub(super) fn calls(summary: &Summary, _: &RenderOptions) -> Made {
    Ok(calls::table(summary))
}

/// [`Report::Categories`]. Without a category it has headers alone.
pub(super) fn categories(summary: &Summary, options: &RenderOptions) -> Made {
    let table = categories::table(summary, options);
    Ok(table.unwrap_or_else(|| nsys::statistics_table(&[], &Columns::of_ranges(&["Category"]), options)))
}

/// The second table of [`Report::Ranges`].
pub(crate) fn stream_table(summary: &Summary) -> Table {
    streams::table(summary, &plain())
        .unwrap_or_else(|| nsys::statistics_table(&[], &Columns::of_ranges(&["Range", "Stream"]), &plain()))
}

/// [`Report::Tree`]: a row for each node in the order of printing; nothing is folded.
pub(super) fn tree(summary: &Summary, _: &RenderOptions) -> Made {
    let quantiles = tree::quantiles(summary);
    let mut headers: Vec<String> = [
        "Depth",
        "Calls",
        "Instances",
        "Total Time (ns)",
        "Self Time (ns)",
        "Max (ns)",
        "Awaited (ns)",
        "Awaited Self (ns)",
        "Stream Total (ns)",
        "Stream Self (ns)",
        "GPU Busy (ns)",
        "GPU Self Busy (ns)",
    ]
    .map(str::to_owned)
    .into();
    headers.extend(quantiles.iter().map(|&q| format!("{} (ns)", calls::percentile(q))));
    headers.push("Phase".to_owned());
    let mut table = Table::new(headers);
    let known = |ns: Option<u64>| ns.map_or_else(Cell::unknown, |ns| Cell::tested(ns.to_string()));
    let mut left: Vec<(u64, &TreeNode)> = summary.tree.iter().rev().map(|root| (0, root)).collect();
    while let Some((depth, node)) = left.pop() {
        left.extend(node.children.iter().rev().map(|child| (depth + 1, child)));
        let mut row: Vec<Cell> = [depth, node.calls, node.instances, node.total_ns, node.self_ns]
            .iter()
            .map(|number| Cell::tested(number.to_string()))
            .collect();
        row.push(known(Some(node.max_ns).filter(|&ns| ns > 0)));
        row.extend([node.awaited_ns, node.awaited_self_ns, node.stream_total_ns, node.stream_self_ns].map(known));
        let gpu = node.gpu.as_ref();
        row.extend([gpu.map(|gpu| gpu.total.busy_ns), gpu.map(|gpu| gpu.own.busy_ns)].map(known));
        let of_node = |q: f64| node.quantiles.iter().find(|quantile| quantile.q == q).copied();
        row.extend(quantiles.iter().map(|&q| calls::quantile_cell(of_node(q))));
        row.push(Cell::text(names::label(node.domain.as_deref(), &node.name).unwrap_or_else(|| "None".to_owned())));
        table.push(row);
    }
    Ok(table)
}
