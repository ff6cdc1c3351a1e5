//! The tables of the reports in a form for programs: names unchanged, numbers without separators, in the current style.

use super::cuda::Made;
#[allow(unused_imports)] // for the docs
use super::kinds::Report;
use super::nsys::Columns;
use super::options::RenderOptions;
use super::table::{Column, Table};
use super::{calls, nodes, nsys, streams, tree};
use range_model::stats::Lean;
use range_model::{Summary, TreeNode};

/// The form of cells in files.
pub(super) fn plain() -> RenderOptions {
    RenderOptions::default().thousands(false).raw_names(true)
}

/// [`Report::Ranges`].
pub(super) fn ranges(summary: &Summary, options: &RenderOptions) -> Made {
    Ok(nsys::table(summary, options))
}

/// [`Report::Calls`].
pub(super) fn calls(summary: &Summary, options: &RenderOptions) -> Made {
    Ok(calls::table(summary, options))
}

/// The second table of [`Report::Ranges`].
pub(crate) fn stream_table(summary: &Summary) -> Table {
    streams::table(summary, &plain())
        .unwrap_or_else(|| nsys::statistics_table(&[], &Columns::of_ranges(&["Range", "Stream"]), &plain()))
}

/// [`Report::Tree`]: a row for each node in the order of printing, without folding.
pub(super) fn tree(summary: &Summary, _: &RenderOptions) -> Made {
    let quantiles = tree::quantiles(summary);
    let headers = quantiles.iter().map(|&q| Column::of(format!("{} (ns)", calls::percentile(q))));
    let mut table = nodes::table::<TreeNode>(headers.collect());
    let mut left: Vec<(usize, &TreeNode)> = summary.tree.iter().rev().map(|root| (0, root)).in_vec();
    while let Some((depth, node)) = left.pop() {
        left.extend(node.children.iter().rev().map(|child| (depth + 1, child)));
        let of_node = |q: f64| node.quantiles.iter().find(|quantile| quantile.q == q).copied();
        let quantiles = quantiles.iter().map(|&q| nsys::quantile_cell(of_node(q)));
        table.push(nodes::cells(depth, node, quantiles.in_vec(), node.domain.as_deref(), &node.name));
    }
    Ok(table)
}
