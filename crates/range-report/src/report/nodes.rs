//! Tables of the figures of nodes, from their declarations in `figures!`.

use super::table::{Cell, Column, Table};
use range_model::names;
use range_model::stats::Lean;
use range_model::summary::schema::Figures;

/// A table with the figures of nodes, and more of each.
pub(super) fn table<F: Figures>(more: Vec<Column>) -> Table {
    let mut columns = vec![Column::of("Depth")];
    F::HEADERS.iter().for_each(|&header| columns.push(Column::of(header)));
    columns.extend(more);
    columns.push(Column::text("Phase"));
    Table::new(columns)
}

pub(super) fn cells(depth: usize, node: &impl Figures, more: Vec<Cell>, domain: Option<&str>, name: &str) -> Vec<Cell> {
    let mut cells = vec![Cell::Whole(depth as u64)];
    node.shown().into_iter().for_each(|figure| cells.push(Cell::known(figure)));
    cells.extend(more);
    cells.push(Cell::text(names::label_or_none(domain, name)));
    cells
}

/// Figures that the printed tree and the page lay out specially. Both append all other figures.
#[rustfmt::skip]
const LAID_OUT: [&str; 12] = [
    "Calls", "Instances", TOTAL, "Self Time (ns)", "On CPU (ns)", "Max (ns)", "Awaited (ns)", "Awaited Self (ns)",
    "Stream Total (ns)", "Stream Self (ns)", "GPU Busy (ns)", "GPU Self Busy (ns)",
];

/// A figure that is appended only if it says something: if it is a tenth of some node's total time, and a hundredth of
/// the longest.
const OFF_CPU: &str = "Off CPU (ns)";
const TOTAL: &str = "Total Time (ns)";

/// The other figures that any of these nodes has, each with its index in [`Figures::shown`].
pub fn appended_figures<'a, F: Figures + 'a>(nodes: impl Iterator<Item = &'a F>) -> Vec<(usize, Column)> {
    let shown: Vec<Vec<Option<u64>>> = nodes.map(Figures::shown).in_vec();
    let total = F::HEADERS.iter().position(|header| *header == TOTAL);
    let total_of = |node: &[Option<u64>]| total.and_then(|total| *node.get(total)?).unwrap_or(0);
    let longest = shown.iter().map(|node| total_of(node)).largest();
    let is_worth_it = |header: &str, figure: u64, node: &[Option<u64>]| {
        let least = if header == OFF_CPU { (total_of(node) / 10).max(longest / 100) } else { 0 };
        figure > 0 && figure >= least
    };
    let has = F::HEADERS.iter().enumerate().map(|(at, header)| {
        shown.iter().any(|node| node.get(at).copied().flatten().is_some_and(|figure| is_worth_it(header, figure, node)))
    });
    let headers = F::HEADERS.iter().zip(has).enumerate();
    let headers = headers.filter(|(_, (header, has))| *has && !LAID_OUT.contains(header));
    headers.map(|(place, (&header, _))| (place, Column::of(header))).in_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Node([Option<u64>; 4]);

    impl Figures for Node {
        const HEADERS: &'static [&'static str] = &["Calls", "Retries", "Polls", "Spilled (ns)"];

        fn shown(&self) -> Vec<Option<u64>> {
            self.0.into()
        }
    }

    #[test]
    fn time_off_the_cpu_is_appended_where_it_is_a_large_part() {
        struct Node([u64; 2]);
        impl Figures for Node {
            const HEADERS: &'static [&'static str] = &[TOTAL, OFF_CPU];

            fn shown(&self) -> Vec<Option<u64>> {
                self.0.map(Some).into()
            }
        }
        let is_appended = |nodes: [[u64; 2]; 2]| appended_figures(nodes.map(Node).iter()).len() == 1;
        assert!(is_appended([[1_000, 99], [100, 10]]) && is_appended([[1_000, 100], [1_000, 0]]));
        assert!(!is_appended([[1_000, 99], [100, 9]]), "no tenth");
        assert!(!is_appended([[1_001, 99], [11, 9]]), "no hundredth of the longest");
    }

    #[test]
    fn a_figure_that_is_not_laid_out_is_appended_where_a_node_has_it() {
        let nodes = [[Some(2), Some(0), None, Some(7)], [Some(3), Some(0), None, None]].map(Node);
        let appended = appended_figures(nodes.iter());
        let appended: Vec<_> = appended.iter().map(|(place, column)| (*place, &*column.page)).collect();
        assert_eq!(appended, [(3, "Spilled")]);
    }
}
