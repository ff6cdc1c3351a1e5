//! The tree beside a table that has the sums of a database.
//!
//! A database knows no lineage, so the nodes of a name share what its row differs by from their sum: some nanoseconds, for each range there is between two whole
//! ones. Then the tree says what the table says, to the digit.

use std::collections::HashMap;

use crate::summary::{RangeStyle, Summary, TreeNode};

/// A name with its domain.
type Label = (Option<String>, String);

/// What is spread over the nodes of a name.
#[derive(Default)]
struct Spread {
    instances: u64,
    total: u64,
    /// What is added to the nodes together.
    difference: i128,
    /// Total of those that have their part, and these parts.
    given: (u64, i128),
}

/// Whether that much is between the clock's conversions of one time, and not other instances: of so many, which took so long.
fn is_rounding(instances: u64, total_ns: u64, difference: u64) -> bool {
    difference <= 10 * instances + total_ns / 100_000
}

/// Has the nodes of each name add up to its row, where all of its instances are in them.
pub(super) fn agree(summary: &mut Summary) {
    let mut spreads: HashMap<Label, Spread> = HashMap::new();
    let mut waiting: Vec<&TreeNode> = summary.tree.iter().collect();
    while let Some(node) = waiting.pop() {
        let spread = spreads.entry((node.domain.clone(), node.name.clone())).or_default();
        spread.instances += node.instances;
        spread.total = spread.total.saturating_add(node.total_ns);
        waiting.extend(&node.children);
    }
    for row in summary.ranges.iter().filter(|row| row.style == RangeStyle::PushPop) {
        let Some(spread) = spreads.get_mut(&(row.domain.clone(), row.name.clone())) else { continue };
        let (total, difference) = (row.times.total_ns, row.times.total_ns.abs_diff(spread.total));
        if spread.instances == row.times.instances && is_rounding(spread.instances, total, difference) {
            spread.difference = i128::from(total) - i128::from(spread.total);
        }
    }
    let mut waiting: Vec<&mut TreeNode> = summary.tree.iter_mut().collect();
    while let Some(node) = waiting.pop() {
        if let Some(spread) = spreads.get_mut(&(node.domain.clone(), node.name.clone())) {
            spread.give(node);
        }
        waiting.extend(&mut node.children);
    }
}

impl Spread {
    fn give(&mut self, node: &mut TreeNode) {
        if self.difference == 0 {
            return;
        }
        let (before, given) = self.given;
        let upto = before.saturating_add(node.total_ns);
        let all = if upto == self.total {
            self.difference
        } else {
            self.difference * i128::from(upto) / i128::from(self.total)
        };
        self.given = (upto, all);
        let total = u64::try_from(i128::from(node.total_ns) + all - given).unwrap_or(0);
        // What has nothing inside of it has all of its time itself.
        node.self_ns = if node.self_ns == node.total_ns { total } else { node.self_ns.min(total) };
        node.total_ns = total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::{RangeStats, Times};

    fn node(name: &str, instances: u64, total_ns: u64, self_ns: u64, children: Vec<TreeNode>) -> TreeNode {
        TreeNode { name: name.to_owned(), instances, total_ns, self_ns, children, ..TreeNode::default() }
    }

    fn agreed(ranges: &[(&str, u64, u64)], tree: Vec<TreeNode>) -> Vec<TreeNode> {
        let row = |&(name, instances, total_ns): &(&str, u64, u64)| RangeStats {
            domain: None,
            name: name.to_owned(),
            style: RangeStyle::PushPop,
            times: Times { instances, total_ns, ..Times::default() },
        };
        let mut summary = Summary { ranges: ranges.iter().map(row).collect(), tree, ..Summary::default() };
        agree(&mut summary);
        summary.tree
    }

    #[test]
    fn the_nodes_of_a_name_add_up_to_its_row() {
        let inner = |total| node("inner", 3, total, total, vec![]);
        let tree =
            vec![node("outer", 1, 1_000, 400, vec![inner(600)]), inner(300), node("other", 2, 5, 5, vec![inner(100)])];
        let tree = agreed(&[("inner", 9, 1_007), ("outer", 1, 999), ("other", 2, 5)], tree);
        let outer = &tree[0];
        assert_eq!((outer.total_ns, outer.self_ns, tree[2].total_ns), (999, 400, 5));
        let inner = [&outer.children[0], &tree[1], &tree[2].children[0]];
        assert_eq!(inner.iter().map(|node| node.total_ns).sum::<u64>(), 1_007);
        for (node, was) in inner.into_iter().zip([600, 300, 100]) {
            assert!(node.self_ns == node.total_ns && (was..was + 6).contains(&node.total_ns), "{node:?}");
        }
    }

    #[test]
    fn what_is_more_than_rounding_stays() {
        // A row that another node has a part of, one whose recursion is counted once, and one without time.
        let tree =
            vec![node("part", 3, 900, 900, vec![]), node("again", 2, 500, 500, vec![]), node("no", 1, 0, 0, vec![])];
        let same = agreed(&[("part", 4, 903), ("again", 2, 900), ("no", 1, 0)], tree.clone());
        assert_eq!(same, tree);
    }

    #[test]
    fn a_node_without_time_may_get_some_and_none_gets_less_than_it_has() {
        let tree = agreed(
            &[("no", 2, 2), ("little", 2, 0)],
            vec![node("no", 2, 0, 0, vec![]), node("little", 2, 1, 1, vec![])],
        );
        assert_eq!((tree[0].total_ns, tree[1].total_ns, tree[1].self_ns), (2, 0, 0));
    }
}
