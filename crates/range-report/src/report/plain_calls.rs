//! The page's table of calls: those of futures, and those of the outermost other spans.

use super::calls::{sorted, table_of};
use super::table::{Cell, Table};
use super::tables::plain;
use range_model::Summary;
use range_model::stats::Lean;
use range_model::summary::{CallStates, CallStats, RangeStyle, TreeNode};

/// The figures that are known of a call that is one range, beside its latency.
const KNOWN: [&str; 3] = ["On thread", "On CPU", "Off CPU"];
/// A span that lasts for most of the run counts as the outermost unless so many others are inside.
const MANY_INSIDE: u64 = 10;

/// The table of all calls. What is not known of a row is unknown, and not 0.
pub(super) fn table(summary: &Summary) -> Table {
    let futures = sorted(summary);
    let others = others(summary);
    let rows = futures.iter().copied().chain(&others).in_vec();
    let mut table = table_of(&rows, &plain());
    let first = table.columns.iter().position(|column| column.page == "Mean").map_or(0, |mean| mean + 1);
    for (cells, row) in table.rows.iter_mut().zip(&rows).skip(futures.len()) {
        for (cell, column) in cells.iter_mut().zip(&table.columns).skip(first) {
            let is_known = row.busy_ns > 0 && KNOWN.contains(&&*column.page);
            if matches!(cell, Cell::Whole(_)) && !is_known {
                *cell = Cell::Unknown;
            }
        }
    }
    table
}

/// A row for each name of the outermost spans that are no futures: of one that is entered once, its ranges; of one that
/// is never entered, its lifetimes, where they are recorded.
fn others(summary: &Summary) -> Vec<CallStats> {
    let mut outermost = Vec::new();
    add_outermost(&summary.tree, summary.elapsed_ns, &mut outermost);
    let mut rows: Vec<CallStats> = Vec::new();
    for node in outermost {
        let is_known = |row: &CallStats| is_of(node, &row.domain, &row.name);
        if summary.calls.iter().chain(&rows).any(is_known) {
            continue;
        }
        let mut all = TreeNode::new(node.name.clone());
        add_all(&summary.tree, node, &mut all);
        let style = if all.instances == 0 { RangeStyle::StartEnd } else { RangeStyle::PushPop };
        let ranges = summary.ranges.iter().find(|row| row.style == style && is_of(node, &row.domain, &row.name));
        let Some(times) = ranges.map(|row| &row.times).filter(|times| times.instances == all.calls) else { continue };
        let mut row = CallStats::new(node.name.clone(), times.clone());
        row.domain = node.domain.clone();
        row.busy_ns = if all.instances > 0 { times.total_ns } else { 0 };
        if all.on_cpu_ns + all.off_cpu_ns > 0 {
            let mut states = CallStates::default();
            (states.on_cpu_ns, states.off_cpu_ns) = (all.on_cpu_ns, all.off_cpu_ns);
            row.states = Some(states);
        }
        rows.push(row);
    }
    rows
}

fn is_of(node: &TreeNode, domain: &Option<String>, name: &str) -> bool {
    node.domain == *domain && node.name == name
}

/// The outermost nodes: below those that last for most of the run, as `main` does, the next.
fn add_outermost<'a>(nodes: &'a [TreeNode], elapsed_ns: u64, found: &mut Vec<&'a TreeNode>) {
    for node in nodes {
        let inside: u64 = node.children.iter().map(|child| child.calls).fold(0, u64::saturating_add);
        let each = node.total_ns.checked_div(node.calls).unwrap_or(0);
        if each > elapsed_ns / 2 && inside >= MANY_INSIDE {
            add_outermost(&node.children, elapsed_ns, found);
        } else {
            found.push(node);
        }
    }
}

/// Adds up all nodes that have the name of one.
fn add_all(nodes: &[TreeNode], of: &TreeNode, sum: &mut TreeNode) {
    for node in nodes {
        if is_of(of, &node.domain, &node.name) {
            sum.calls = sum.calls.saturating_add(node.calls);
            sum.instances = sum.instances.saturating_add(node.instances);
            sum.on_cpu_ns = sum.on_cpu_ns.saturating_add(node.on_cpu_ns);
            sum.off_cpu_ns = sum.off_cpu_ns.saturating_add(node.off_cpu_ns);
        }
        add_all(&node.children, of, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use range_model::RangeStats;
    use range_model::Times;

    fn node(name: &str, [calls, instances, total_ns]: [u64; 3], children: Vec<TreeNode>) -> TreeNode {
        TreeNode { calls, instances, total_ns, children, ..TreeNode::new(name) }
    }

    fn range(name: &str, style: RangeStyle, instances: u64) -> RangeStats {
        let mut row = RangeStats::new(name, Times::new(instances, instances * 100));
        row.style = style;
        row
    }

    /// The cells of a row that are known, by column: the number of calls, and those after the mean.
    fn known(table: &Table, row: usize) -> Vec<(&str, &Cell)> {
        let cells = table.columns.iter().map(|column| &*column.page).zip(&table.rows[row]);
        let after = table.columns.iter().position(|column| column.page == "Mean").unwrap();
        let kept = cells.enumerate().filter(|(at, (_, cell))| (*at == 0 || *at > after) && **cell != Cell::Unknown);
        kept.map(|(_, cell)| cell).collect()
    }

    #[test]
    fn outermost_spans_that_are_no_futures_have_rows() {
        let mut step = node("step", [12, 12, 1_200], vec![node("parse", [12, 12, 100], vec![])]);
        (step.on_cpu_ns, step.off_cpu_ns) = (900, 200);
        // `main` is no call of its own, since it lasts for the whole run; `request` is never entered.
        let main = node("main", [1, 1, 2_000], vec![step]);
        let request = node("request", [3, 0, 0], vec![node("infer", [3, 9, 30], vec![])]);
        // Entered again, and never entered without a lifetime: nothing is known of the calls.
        let again = node("again", [2, 5, 50], vec![]);
        let mut summary = Summary { elapsed_ns: 2_000, ..Summary::default() };
        summary.tree = vec![main, request, again, node("handed over", [4, 0, 0], vec![])];
        summary.calls = vec![CallStats::new("infer", Times::new(3, 90))];
        summary.ranges = vec![
            range("step", RangeStyle::PushPop, 12),
            range("parse", RangeStyle::PushPop, 12),
            range("main", RangeStyle::PushPop, 1),
            range("infer", RangeStyle::PushPop, 9),
            range("again", RangeStyle::PushPop, 5),
            range("request", RangeStyle::StartEnd, 3),
        ];
        let table = table(&summary);
        let cells = |name: &str, figures: &[(&'static str, u64)]| {
            let figures = figures.iter().map(|(column, figure)| (*column, Cell::Whole(*figure)));
            figures.chain([("Call", Cell::text(name))]).collect::<Vec<_>>()
        };
        let is = |row: usize, expected: Vec<(&str, Cell)>| {
            assert_eq!(known(&table, row), expected.iter().map(|(column, cell)| (*column, cell)).collect::<Vec<_>>());
        };
        assert_eq!(table.rows.len(), 3);
        assert_eq!(known(&table, 0).last(), Some(&("Call", &Cell::text("infer"))));
        is(1, cells("step", &[("Calls", 12), ("On thread", 1_200), ("On CPU", 900), ("Off CPU", 200)]));
        is(2, cells("request", &[("Calls", 3)]));
    }
}
