//! The phase trees of many processes as one: nodes are the same if the labels from the root down to them are.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::labels::PhaseLabel;
use super::rows::{self, Merged};
use crate::stats::order;
use crate::{NodeTotals, TreeNode};

/// A domain and a name.
type Label = (Option<String>, String);

/// The collected nodes. Nothing here recurses, because files may hold deep trees.
#[derive(Default)]
pub(super) struct Trees {
    /// Index of each node, by the index of its parent (none for a root) and its label.
    places: HashMap<(Option<usize>, Label), usize>,
    nodes: Vec<Vec<(usize, NodeTotals)>>,
}

impl Trees {
    pub(super) fn add(&mut self, process: usize, roots: Vec<TreeNode>) {
        let mut left: Vec<(Option<usize>, TreeNode)> = roots.into_iter().map(|root| (None, root)).collect();
        while let Some((parent, node)) = left.pop() {
            let totals = node.totals();
            let TreeNode { domain, name, children, .. } = node;
            let place = *self.places.entry((parent, (domain, name))).or_insert(self.nodes.len());
            if place == self.nodes.len() {
                self.nodes.push(Vec::new());
            }
            if let Some(parts) = self.nodes.get_mut(place) {
                parts.push((process, totals));
            }
            left.extend(children.into_iter().map(|child| (Some(place), child)));
        }
    }

    /// The rows in the order of printing: a node before its children, siblings by first entry, then by label.
    pub(super) fn together(self, places: &[usize]) -> Vec<Merged<PhaseLabel, NodeTotals>> {
        let mut children: Vec<Vec<usize>> = vec![Vec::new(); self.nodes.len()];
        let (mut labels, mut roots) = (vec![Label::default(); self.nodes.len()], Vec::new());
        for ((parent, label), place) in self.places {
            match parent.and_then(|parent| children.get_mut(parent)) {
                Some(siblings) => siblings.push(place),
                None => roots.push(place),
            }
            if let Some(slot) = labels.get_mut(place) {
                *slot = label;
            }
        }
        let first = |place: usize| {
            let parts = self.nodes.get(place).map_or(&[][..], Vec::as_slice);
            parts.iter().map(|(_, totals)| totals.first_ns).min()
        };
        // Those pushed last are visited first.
        let backwards = |mut siblings: Vec<usize>| {
            order::by_key(&mut siblings, |&place| Reverse((first(place), labels.get(place))));
            siblings
        };
        let mut left: Vec<(usize, usize)> = backwards(roots).into_iter().map(|root| (0, root)).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some((depth, place)) = left.pop() {
            order.push((depth, place));
            let below = children.get_mut(place).map(std::mem::take).unwrap_or_default();
            left.extend(backwards(below).into_iter().map(|child| (depth + 1, child)));
        }
        let mut nodes = self.nodes;
        let row = |(depth, place): (usize, usize)| {
            let (domain, name) = labels.get_mut(place).map(std::mem::take).unwrap_or_default();
            let parts = nodes.get_mut(place).map(std::mem::take).unwrap_or_default();
            rows::together(PhaseLabel { depth, domain, name }, parts.into(), places)
        };
        order.into_iter().map(row).collect()
    }
}
