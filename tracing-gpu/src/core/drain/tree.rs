//! The tree: totals by node, and their nodes in the summary.

use range_model::stats::{Keyed, order};
use range_model::summary::LongestInstance;
use range_model::{RangeStyle, TreeNode};

use super::names::label_text;
use super::part::{Nodes, Part};
use super::recursion;
use super::times::quantiles;
use super::totals::{Longest, NodeTotals, ThreadRows};
use crate::clock::Rate;
use crate::core::record::RangeKey;
use crate::core::session::Names;
use crate::core::session::catalog::ROOT;
use crate::core::thread::row::RowCopy;

pub(crate) fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    items.count() as u64
}

/// Sums by node, without what parts add; `threads` are the same rows by thread.
#[inline(never)]
pub(crate) fn node_totals(
    rows: &[(RangeKey, RowCopy)],
    threads: &[ThreadRows<'_>],
    names: &Names,
    folded: &Keyed<u32, ()>,
    keep_times: bool,
) -> Nodes {
    let mut totals = vec![NodeTotals::default(); names.catalog.nodes().len()];
    for (_, row) in rows {
        if let Some(node) = totals.get_mut(row.node as usize) {
            node.calls = node.calls.wrapping_add(row.calls); // see `Row::change_calls`
            node.instances += row.times.count;
            node.total += row.times.total;
            if row.times.max > node.longest {
                node.longest = row.times.max;
                node.longest_instance = Longest::of(row);
            }
            if keep_times {
                node.times.merge(&row.times);
            }
            node.nested += u128::from(row.nested);
            node.on_cpu += u128::from(row.cpu.on);
            node.off_cpu += u128::from(row.cpu.off);
            // If any thread has entered one, creation times of others do not matter.
            let first = (row.times.count == 0, row.first);
            if row.first > 0 {
                node.first = Some(node.first.map_or(first, |before| before.min(first)));
            }
        }
    }
    for (node, again) in recursion::counted_again(&names.catalog, folded, threads) {
        if let Some(node) = totals.get_mut(node as usize) {
            node.again = again;
        }
    }
    Nodes { totals, calls: Keyed::default() }
}

#[inline(never)]
pub(crate) fn tree(
    sums: &Nodes,
    parts: &[Box<dyn Part + '_>],
    names: &Names,
    rate: Rate,
    window: u64,
    asked: &[f64],
) -> Vec<TreeNode> {
    let nodes = names.catalog.nodes();
    // A parent has a lower number than its children. From the last node to the first, every node is complete when it is
    // moved to its parent.
    let mut children: Vec<Vec<TreeNode>> = vec![Vec::new(); nodes.len()];
    for (place, node) in nodes.iter().enumerate().skip(ROOT as usize + 1).rev() {
        let id = place as u32;
        let mut below = children.get_mut(place).map(std::mem::take).unwrap_or_default();
        let is_used = |own: &&NodeTotals| {
            own.calls() + own.instances > 0 || !below.is_empty() || parts.iter().any(|part| part.has(id))
        };
        let Some(own) = sums.totals.get(place).filter(is_used) else { continue };
        let Some((domain, name)) = label_text(names, node.label).filter(|_| node.style == RangeStyle::PushPop) else {
            continue;
        };
        order::by_key(&mut below, |child| child.first_ns);
        // A node without an entry is as old as its children.
        let first_ns = match own.first {
            Some((_, first)) => rate.ns(u128::from(first.saturating_sub(window))),
            None => below.first().map_or(0, |child| child.first_ns),
        };
        let mut tree_node = TreeNode::new(name);
        tree_node.domain = domain;
        tree_node.calls = own.calls();
        tree_node.instances = own.instances;
        let total = own.total.saturating_sub(own.again);
        tree_node.total_ns = rate.ns(total);
        tree_node.self_ns = rate.ns(own.total.saturating_sub(own.nested));
        tree_node.blocked_ns = rate.ns(own.blocked);
        // Nobody knows which part of a node inside itself counts twice.
        let of_once = |time: u128| if own.again > 0 { 0 } else { time };
        let on_cpu = of_once(own.on_cpu).min(total);
        tree_node.on_cpu_ns = rate.ns(on_cpu);
        tree_node.off_cpu_ns = rate.ns((on_cpu + of_once(own.off_cpu)).min(total)).saturating_sub(tree_node.on_cpu_ns);
        tree_node.max_ns = rate.ns(u128::from(own.longest));
        tree_node.longest = own.longest_instance.map(|Longest { entered, is_first, number, of }| {
            let mut longest = LongestInstance::default();
            longest.ns = tree_node.max_ns;
            longest.start_ns = rate.ns(u128::from(entered.saturating_sub(window)));
            (longest.is_first, longest.number, longest.of) = (is_first, number, of);
            longest
        });
        tree_node.quantiles = quantiles(&own.times, rate, asked);
        tree_node.first_ns = first_ns;
        tree_node.children = below;
        parts.iter().for_each(|part| part.show(id, &mut tree_node, sums, rate));
        if let Some(siblings) = children.get_mut(node.parent as usize) {
            siblings.push(tree_node);
        }
    }
    let mut roots = children.first_mut().map(std::mem::take).unwrap_or_default();
    order::by_key(&mut roots, |node| node.first_ns);
    roots
}

/// Spans that the tree counts under another name than their own: those in `(more)` rows.
#[inline(never)]
pub(crate) fn spans_in_more(rows: &[(RangeKey, RowCopy)], names: &Names) -> u64 {
    let nodes = names.catalog.nodes();
    let in_more =
        |(key, row): &&(RangeKey, RowCopy)| nodes.get(row.node as usize).is_some_and(|node| node.label != key.label);
    let spans = rows.iter().filter(in_more).fold(0_u64, |sum, (_, row)| row.calls.wrapping_add(sum));
    u64::try_from(spans.cast_signed()).unwrap_or(0) // as in `NodeTotals::calls`
}

/// Rows of the tree that stand for recursion beyond the depth limit. Recursion in `(more)` rows counts there.
#[inline(never)]
pub(crate) fn recursive_rows(totals: &[NodeTotals], names: &Names) -> u64 {
    let catalog = &names.catalog;
    let rows = (0..).zip(catalog.nodes()).zip(totals).filter(|(_, own)| own.instances > 0);
    count(rows.filter(|((id, node), _)| catalog.recursion_of(*id).is_some() && !catalog.is_more(node)))
}
