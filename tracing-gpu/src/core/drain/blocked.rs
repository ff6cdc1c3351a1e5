//! The part of a node's self time in which it only waited for its children: spans that ran on other threads meanwhile
//! (as under rayon's `join`) or awaited futures (as in `block_on`).
//!
//! No callback measures it. Rows are kept by thread, so the time of children is known on threads where their parent was
//! not open directly below them. When they ran is not known, so this is an estimate: children that took longer than
//! their parent was open elsewhere did not run inside it, and do not count.

use range_model::RangeStyle;
use range_model::stats::Keyed;

use crate::core::drain::part::Nodes;
use crate::core::drain::totals::{NodeTotals, ThreadRows};
use crate::core::session::catalog::{Node, ROOT};
use crate::parts::drain::nodes::NodeCalls;

/// The figures of a node on one thread.
#[derive(Default)]
struct OnThread {
    total: u128,
    nested: u128,
    /// Figures of its children: total time, longest instance, and number of instances.
    below: u128,
    longest_below: u64,
    instances_below: u64,
}

/// The time of children on threads where they did not run directly inside their parent.
#[derive(Default)]
struct Elsewhere {
    sum: u128,
    most: u128,
    instances: u64,
}

/// Sets the blocked time of all nodes. `threads` are the rows of each thread.
pub(crate) fn add_blocked(catalog: &[Node], nodes: &mut Nodes, threads: &[ThreadRows<'_>]) {
    for (node, ticks) in blocked(catalog, &nodes.totals, &nodes.calls, threads) {
        if let Some(node) = nodes.get_mut(node) {
            node.blocked = ticks;
        }
    }
}

/// Blocked time by node, in ticks. `threads` are the rows of each thread, `calls` those of futures.
#[inline(never)]
fn blocked(
    nodes: &[Node],
    totals: &[NodeTotals],
    calls: &Keyed<u32, NodeCalls>,
    threads: &[ThreadRows<'_>],
) -> Keyed<u32, u128> {
    let mut elsewhere: Keyed<u32, Elsewhere> = Keyed::default();
    let parent = |node: u32| nodes.get(node as usize).map(|node| node.parent).filter(|&parent| parent != ROOT);
    // A future's own time is the time of its polls, which do not wait.
    let plain = |node: u32| totals.get(node as usize).filter(|all| all.instances > 0 && !calls.contains_key(&node));
    for rows in threads {
        let mut here: Keyed<u32, OnThread> = Keyed::default();
        for (_, row) in rows.iter().filter(|(key, row)| key.style == RangeStyle::PushPop && row.times.count > 0) {
            let node = here.row(row.node);
            node.total += row.times.total;
            node.nested += u128::from(row.nested);
            if let Some(above) = parent(row.node).filter(|_| !calls.contains_key(&row.node)) {
                let above = here.row(above);
                above.below += row.times.total;
                above.longest_below = above.longest_below.max(row.times.max);
                above.instances_below += row.times.count;
            }
        }
        for (node, here) in here {
            let Some(all) = plain(node) else { continue };
            let apart = here.below.saturating_sub(here.nested);
            if apart > 0 && apart <= all.total.saturating_sub(here.total) && here.longest_below <= all.longest {
                let node = elsewhere.row(node);
                node.sum += apart;
                node.most = node.most.max(apart);
                node.instances += here.instances_below;
            }
        }
    }
    let mut blocked: Keyed<u32, u128> = Keyed::default();
    for (node, elsewhere) in elsewhere {
        // Children on one thread run one after another. Children on several threads may run at once: as many as one
        // instance has.
        let at_once = totals.get(node as usize).map_or(1, |all| elsewhere.instances.div_ceil(all.instances.max(1)));
        *blocked.row(node) = elsewhere.most.max(elsewhere.sum / u128::from(at_once.max(1)));
    }
    for (&node, awaited) in calls.iter() {
        if let Some((node, _)) = parent(node).and_then(|node| Some((node, plain(node)?))).filter(|(_, all)| {
            awaited.longest() <= all.longest + all.longest / 64 // may have been created just before
        }) {
            *blocked.row(node) += awaited.awaited();
        }
    }
    let own = |node: u32| totals.get(node as usize).map_or(0, |all| all.total.saturating_sub(all.nested));
    blocked.into_iter().map(|(node, ticks)| (node, own(node).min(ticks))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::record::RangeKey;
    use crate::core::session::catalog::{Catalog, Limits};
    use crate::core::thread::row::RowCopy;

    /// The blocked time of a node with one instance on each of these threads and a child on each of the others.
    fn waited(parents: &[u64], children: &[u64]) -> u128 {
        let mut catalog = Catalog::new(Limits { nodes: 10, run_time_names: 1 });
        let key = RangeKey { label: catalog.label(0, "a"), category: 0, style: RangeStyle::PushPop };
        let parent = catalog.child(ROOT, key);
        let child = catalog.child(parent, key);
        let row = |node, ticks: u64| {
            let mut row = RowCopy { node, ..RowCopy::default() };
            (row.times.count, row.times.total, row.times.max) = (1, ticks.into(), ticks);
            [(key, row)]
        };
        let threads: Vec<_> = parents
            .iter()
            .map(|&ticks| row(parent, ticks))
            .chain(children.iter().map(|&ticks| row(child, ticks)))
            .collect();
        let mut totals = vec![NodeTotals::default(); catalog.nodes().len()];
        for (_, row) in threads.iter().flatten() {
            let all = &mut totals[row.node as usize];
            all.instances += row.times.count;
            all.total += row.times.total;
            all.longest = all.longest.max(row.times.max);
        }
        let threads: Vec<_> = threads.iter().map(|rows| &rows[..]).collect();
        blocked(catalog.nodes(), &totals, &Keyed::default(), &threads).get(&parent).copied().unwrap_or(0)
    }

    #[test]
    fn children_at_once_are_waited_for_once() {
        assert_eq!(waited(&[100], &[20, 30, 25, 30]), 30);
        assert_eq!(waited(&[100; 4], &[20, 30, 25, 30]), 105, "one for each");
        assert_eq!(waited(&[100], &[101]), 0, "it ran longer than its parent");
    }
}
