//! Time that a total would count more than once: a node inside itself.
//!
//! A node that recursion shares is open several times on one thread, and each instance has its whole duration. Its
//! inclusive time is that of the outermost instance. If the node calls itself, that is known: the sum of the self times
//! of it and the nodes below on that thread. If nodes call each other, it is at most the sum of all their self times,
//! and that bound is their total. With parents by creation, ranges inside may stand elsewhere in the tree, so their
//! time is missing; then the longest instance is the lower bound of the total.

use range_model::stats::Keyed;

use super::totals::ThreadRows;
use crate::core::session::catalog::{Catalog, ROOT};

/// Ticks to subtract from each node's total. Only for nodes that may be open inside themselves: through recursion, or
/// because a chain was `folded` into them. `threads` are the rows of each thread.
#[inline(never)]
pub(crate) fn counted_again(
    catalog: &Catalog,
    folded: &Keyed<u32, ()>,
    threads: &[ThreadRows<'_>],
) -> Keyed<u32, u128> {
    let mut again = Keyed::default();
    let nodes = catalog.nodes();
    let top = |node: u32| catalog.recursion_of(node).or(folded.contains_key(&node).then_some(node));
    let tops: Keyed<u32, u32> = (0..nodes.len() as u32).filter_map(|node| Some((node, top(node)?))).collect();
    if tops.is_empty() {
        return again;
    }
    for rows in threads {
        // Totals and longest instances of nodes; for the uppermost ones also the self times of everything below.
        let (mut totals, mut covered) = (Keyed::<u32, (u128, u64)>::default(), Keyed::<u32, i128>::default());
        for (_, row) in rows.iter().filter(|(_, row)| row.times.count > 0) {
            if tops.contains_key(&row.node) {
                let (total, longest) = totals.row(row.node);
                *total += row.times.total;
                *longest = row.times.max.max(*longest);
            }
            let own = i128::try_from(row.times.total).unwrap_or(i128::MAX).saturating_sub(i128::from(row.nested));
            let mut at = row.node;
            while let Some(node) = nodes.get(at as usize).filter(|_| at != ROOT) {
                if tops.get(&at) == Some(&at) {
                    *covered.row(at) += own;
                }
                at = node.parent;
            }
        }
        for (node, (total, longest)) in totals {
            let covered = tops.get(&node).and_then(|top| covered.get(top)).copied().unwrap_or(0);
            let once = u128::try_from(covered).unwrap_or(0).max(longest.into());
            *again.row(node) += total.saturating_sub(once);
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::record::RangeKey;
    use crate::core::session::catalog::{Catalog, Limits};
    use crate::core::thread::row::RowCopy;
    use range_model::RangeStyle;

    fn row(key: RangeKey, node: u32, total: u128, nested: u64) -> (RangeKey, RowCopy) {
        let mut row = RowCopy { node, nested, ..RowCopy::default() };
        (row.times.count, row.times.total) = (1, total);
        (key, row)
    }

    /// `a` under `b` under `a` and so on, down to where they share nodes. Returns these two nodes.
    fn shared() -> (Catalog, RangeKey, [u32; 2]) {
        let mut catalog = Catalog::new(Limits { nodes: 1_000, run_time_names: 1 });
        let key = |label| RangeKey { label, category: 0, style: RangeStyle::PushPop };
        let (a, b) = (key(catalog.label(0, "a")), key(catalog.label(0, "b")));
        let mut nodes = [ROOT; 2];
        for _ in 0..100 {
            nodes[0] = catalog.child(nodes[1], a);
            nodes[1] = catalog.child(nodes[0], b);
        }
        (catalog, a, nodes)
    }

    fn again(catalog: &Catalog, threads: &[ThreadRows<'_>]) -> Vec<(u32, u128)> {
        counted_again(catalog, &Keyed::default(), threads).into_iter().collect()
    }

    #[test]
    fn time_inside_itself_is_counted_once() {
        let (catalog, key, [a, b]) = shared();
        // `a` runs for 100, in it `b` for 90, in it `a` for 80, in it `b` for 70: 10 + 10 are a's own, 10 + 70 are b's.
        let thread = [row(key, a, 180, 160), row(key, b, 160, 80)];
        assert_eq!(again(&catalog, &[&thread]), [(a, 80), (b, 60)], "100 of a; b was open for 90 of them");
    }

    /// `a` runs for 100, in it `a` for 95, and in that for 90 a range that stands elsewhere by creation.
    #[test]
    fn a_total_is_no_less_than_the_longest_instance() {
        let (catalog, key, [a, _]) = shared();
        let mut thread = [row(key, a, 195, 185)];
        thread[0].1.times.max = 100;
        assert_eq!(again(&catalog, &[&thread]), [(a, 95)]);
    }

    #[test]
    fn rows_of_one_node_are_taken_together() {
        let (catalog, key, [a, _]) = shared();
        let other = RangeKey { category: 1, ..key };
        assert_eq!(again(&catalog, &[&[row(key, a, 100, 90), row(other, a, 90, 0)]]), [(a, 90)]);
    }

    #[test]
    fn what_runs_on_another_thread_is_not_inside() {
        let (catalog, key, [a, b]) = shared();
        let threads = [[row(key, a, 100, 0)], [row(key, b, 90, 0)], [row(key, a, 80, 0)]];
        assert_eq!(again(&catalog, &threads.each_ref().map(|rows| &rows[..])), [(a, 0), (b, 0)]);
    }

    /// A task begins with `b`, whose parent is on another thread.
    #[test]
    fn what_begins_below_the_uppermost_keeps_its_total() {
        let (catalog, key, [a, b]) = shared();
        assert_eq!(again(&catalog, &[&[row(key, b, 100, 50), row(key, a, 50, 0)]]), [(a, 0), (b, 0)]);
    }

    #[test]
    fn a_node_that_stands_nowhere_inside_itself_keeps_its_total() {
        let mut catalog = Catalog::new(Limits { nodes: 1_000, run_time_names: 1 });
        let key = RangeKey { label: catalog.label(0, "a"), category: 0, style: RangeStyle::PushPop };
        let node = catalog.child(ROOT, key);
        // A range without a parent ran inside; it is not a child of this node.
        assert_eq!(again(&catalog, &[&[row(key, node, 100, 90)]]), []);
    }
}
