//! Tables of the figures of nodes, from their declarations in `figures!`.

use super::table::{Cell, Column, Table};
use crate::summary::schema::Figures;
use crate::text::names;

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
    cells.push(Cell::text(names::label(domain, name).unwrap_or_else(|| "None".to_owned())));
    cells
}

/// Figures that the printed tree and the page lay out specially. Both append all other figures.
#[rustfmt::skip]
const LAID_OUT: [&str; 11] = [
    "Calls", "Instances", "Total Time (ns)", "Self Time (ns)", "Max (ns)", "Awaited (ns)", "Awaited Self (ns)",
    "Stream Total (ns)", "Stream Self (ns)", "GPU Busy (ns)", "GPU Self Busy (ns)",
];

/// The other figures that any of these nodes has, each with its index in [`Figures::shown`].
pub(crate) fn appended_figures<'a, F: Figures + 'a>(nodes: impl Iterator<Item = &'a F>) -> Vec<(usize, Column)> {
    let mut has = vec![false; F::HEADERS.len()];
    for node in nodes {
        has.iter_mut().zip(node.shown()).for_each(|(has, figure)| *has |= figure.is_some_and(|figure| figure > 0));
    }
    let headers = F::HEADERS.iter().zip(has).enumerate();
    let headers = headers.filter(|(_, (header, has))| *has && !LAID_OUT.contains(header));
    headers.map(|(place, (&header, _))| (place, Column::of(header))).collect()
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
    fn a_figure_that_is_not_laid_out_is_appended_where_a_node_has_it() {
        let nodes = [[Some(2), Some(0), None, Some(7)], [Some(3), Some(0), None, None]].map(Node);
        let appended = appended_figures(nodes.iter());
        let appended: Vec<_> = appended.iter().map(|(place, column)| (*place, &*column.page)).collect();
        assert_eq!(appended, [(3, "Spilled")]);
    }
}
