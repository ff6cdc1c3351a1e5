//! Everything with a name: domains and labels, categories, and the nodes of the lineage tree, each interned once a
//! session.
//!
//! It is behind one lock, which a thread takes only for a new name.

use std::sync::Arc;

use crate::core::record::RangeKey;
use range_model::RangeStyle;
use range_model::stats::{Keyed, Named};

/// Number of the root node.
pub(crate) const ROOT: u32 = 0;
/// Levels of the tree. Deeper recursion shares the nodes above; other deeper ranges go to `(more)`.
const DEPTH: u32 = 64;
/// Label of the node for ranges beyond a limit.
const MORE: &str = "(more)";

/// Bounds on what one process may intern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) nodes: usize,
    pub(crate) run_time_names: usize,
}

/// A name in a domain; both are numbers of the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Label {
    pub(crate) domain: u32,
    pub(crate) name: Arc<str>,
}

/// A category as the program wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CategoryName {
    Text(Arc<str>),
    Number(u32),
}

/// A place in the lineage: a label under a parent.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) parent: u32,
    pub(crate) label: u32,
    pub(crate) style: RangeStyle,
    /// `Some` if the node may be open inside itself, because it also stands for deeper levels. The value is the
    /// uppermost node to which the recursion returns, perhaps this one.
    recursion: Option<u32>,
    depth: u32,
}

/// All interned names. Numbers count up from 0 and are never reused.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    limits: Limits,
    labels: Interner<Label>,
    categories: Interner<CategoryName>,
    nodes: Vec<Node>,
    node_ids: Keyed<(u32, u32, RangeStyle), u32>,
    run_time_names: usize,
    pub(crate) names_over_limit: u64,
    pub(crate) categories_over_limit: u64,
}

#[derive(Clone, Debug)]
struct Interner<T> {
    values: Vec<T>,
    ids: Named<T, u32>,
}

impl<T: Clone + Eq + std::hash::Hash> Interner<T> {
    fn new() -> Self {
        Self { values: Vec::new(), ids: Named::default() }
    }

    fn get(&self, value: &T) -> Option<u32> {
        self.ids.get(value).copied()
    }

    fn intern(&mut self, value: T) -> u32 {
        if let Some(id) = self.get(&value) {
            return id;
        }
        let id = self.push(value.clone());
        self.ids.insert(value, id);
        id
    }

    /// Copies what is new in `with`, of which this is an earlier copy.
    fn catch_up(&mut self, with: &Self) {
        for value in with.values.get(self.values.len()..).unwrap_or_default() {
            let id = self.push(value.clone());
            if with.get(value) == Some(id) {
                self.ids.insert(value.clone(), id);
            }
        }
    }

    /// A number that `get` never returns.
    fn push(&mut self, value: T) -> u32 {
        let id = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        self.values.push(value);
        id
    }
}

impl Catalog {
    pub(crate) fn new(limits: Limits) -> Self {
        let mut labels = Interner::new();
        let label = labels.intern(Label { domain: 0, name: Arc::from("") });
        let root = Node { parent: ROOT, label, style: RangeStyle::PushPop, recursion: None, depth: 0 };
        let mut categories = Interner::new();
        categories.intern(CategoryName::Text(Arc::from(""))); // number 0: no category
        Self {
            limits,
            labels,
            categories,
            nodes: vec![root],
            node_ids: Keyed::default(),
            run_time_names: 0,
            names_over_limit: 0,
            categories_over_limit: 0,
        }
    }

    /// Copies what is new in `with`, of which this is an earlier copy: in less time than a copy of everything.
    pub(crate) fn catch_up(&mut self, with: &Self) {
        self.labels.catch_up(&with.labels);
        self.categories.catch_up(&with.categories);
        for (id, node) in (0..).zip(&with.nodes).skip(self.nodes.len()) {
            self.node_ids.insert((node.parent, node.label, node.style), id);
        }
        self.nodes.clone_from(&with.nodes); // older ones may stand inside themselves now
        let Self { limits, run_time_names, names_over_limit, categories_over_limit, .. } = *with;
        (self.limits, self.run_time_names) = (limits, run_time_names);
        (self.names_over_limit, self.categories_over_limit) = (names_over_limit, categories_over_limit);
    }

    /// Number of a name from the source code.
    pub(crate) fn label(&mut self, domain: u32, name: &str) -> u32 {
        self.labels.intern(Label { domain, name: Arc::from(name) })
    }

    /// Number of a name made at run time. If the limit on such names is reached, counts the name and returns `None`.
    pub(crate) fn run_time_label(&mut self, domain: u32, name: &str) -> Option<u32> {
        let label = Label { domain, name: Arc::from(name) };
        if let Some(id) = self.labels.get(&label) {
            return Some(id);
        }
        self.has_room_for_name().then(|| self.labels.intern(label))
    }

    /// The same, with a number that no other name shares, even one with the same text: see [`relabel`](Self::relabel).
    pub(crate) fn label_alone(&mut self, domain: u32, name: &str) -> Option<u32> {
        self.has_room_for_name().then(|| self.labels.push(Label { domain, name: Arc::from(name) }))
    }

    /// Counts a name made at run time, either as kept or as beyond the limit. Returns whether it may be kept.
    fn has_room_for_name(&mut self) -> bool {
        let has_room = self.run_time_names < self.limits.run_time_names;
        self.run_time_names += usize::from(has_room);
        self.names_over_limit += u64::from(!has_room);
        has_room
    }

    /// Number of a category, from 1 up. If the limit on run-time names is reached, counts the category and returns 0.
    pub(crate) fn category(&mut self, name: CategoryName) -> u32 {
        if self.categories.get(&name).is_none() && self.categories.values.len() > self.limits.run_time_names {
            self.categories_over_limit += 1;
            return 0;
        }
        self.categories.intern(name)
    }

    /// Resets the counts of losses, for a new window.
    pub(crate) fn forget_losses(&mut self) {
        (self.names_over_limit, self.categories_over_limit) = (0, 0);
    }

    /// The label of a number from this catalog.
    pub(crate) fn label_of(&self, label: u32) -> Option<&Label> {
        self.labels.values.get(label as usize)
    }

    /// The category of a number from this catalog; `None` for 0.
    pub(crate) fn category_of(&self, category: u32) -> Option<&CategoryName> {
        self.categories.values.get(category as usize).filter(|_| category != 0)
    }

    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of a range under a parent. Beyond 64 levels recursion shares the node of the same label above. Other
    /// ranges at that depth, or beyond the limit on nodes, go to the parent's `(more)` node.
    pub(crate) fn child(&mut self, parent: u32, key: RangeKey) -> u32 {
        if let Some(&node) = self.node_ids.get(&(parent, key.label, key.style)) {
            return node;
        }
        let depth = self.nodes.get(parent as usize).map_or(0, |node| node.depth) + 1;
        if depth > DEPTH {
            let above = self.ancestors(parent).find(|(_, node)| node.label == key.label && node.style == key.style);
            if let Some((above, _)) = above {
                self.stand_inside(parent, above);
                return above;
            }
        }
        if depth > DEPTH || self.nodes.len() >= self.limits.nodes {
            return self.more_under(parent, key.style);
        }
        self.insert(parent, key.label, key.style)
    }

    /// Whether this node stands for ranges beyond a limit.
    pub(crate) fn is_more(&self, node: &Node) -> bool {
        self.label_of(node.label).is_some_and(|label| label.domain == 0 && &*label.name == MORE)
    }

    fn more_under(&mut self, parent: u32, style: RangeStyle) -> u32 {
        let label = self.label(0, MORE);
        if self.nodes.get(parent as usize).is_some_and(|node| node.label == label) {
            self.stand_inside(parent, parent);
            return parent;
        }
        match self.node_ids.get(&(parent, label, style)) {
            Some(&node) => node,
            None => self.insert(parent, label, style),
        }
    }

    /// The uppermost node of the recursion that contains this node, if it may be open inside itself.
    pub(crate) fn recursion_of(&self, node: u32) -> Option<u32> {
        let recursion = |node: u32| self.nodes.get(node as usize).and_then(|node| node.recursion);
        let mut top = recursion(node)?;
        // Recursion to a lower node may be inside recursion to a higher one.
        while let Some(above) = recursion(top).filter(|&above| above < top) {
            top = above;
        }
        Some(top)
    }

    /// Notes that recursion returns to `above` from `below`: both nodes, and all between them, may be open inside
    /// themselves from now on.
    fn stand_inside(&mut self, below: u32, above: u32) {
        let mut at = below;
        while let Some(node) = self.nodes.get_mut(at as usize).filter(|_| at != ROOT) {
            node.recursion = Some(node.recursion.map_or(above, |top| top.min(above)));
            if at == above {
                break;
            }
            at = node.parent;
        }
    }

    fn insert(&mut self, parent: u32, label: u32, style: RangeStyle) -> u32 {
        let depth = self.nodes.get(parent as usize).map_or(0, |node| node.depth) + 1;
        let id = u32::try_from(self.nodes.len()).unwrap_or(ROOT);
        self.nodes.push(Node { parent, label, style, recursion: None, depth });
        self.node_ids.insert((parent, label, style), id);
        id
    }

    /// Labels of the nodes from below `base` down to `node`; from the root if `base` is not above it.
    #[cfg(feature = "cuda")]
    pub(crate) fn path_below(&self, node: u32, base: u32) -> Vec<u32> {
        let (mut path, mut at) = (Vec::new(), node);
        while let Some(node) = self.nodes.get(at as usize).filter(|_| at != ROOT && at != base) {
            path.push(node.label);
            at = node.parent; // has a lower number
        }
        path.reverse();
        path
    }

    /// The number of the first label with the same text.
    pub(crate) fn shared_label(&mut self, label: u32) -> u32 {
        match self.label_of(label).cloned() {
            Some(text) => self.labels.intern(text),
            None => label,
        }
    }

    /// Replaces labels by others, by number: they then have the others' text, and nodes that become equal are joined.
    /// Returns the resulting node for each node.
    pub(crate) fn relabel(&mut self, labels: &Keyed<u32, u32>) -> Vec<u32> {
        for (&label, &other) in labels.iter() {
            let text = self.label_of(other).cloned();
            if let Some((text, own)) = text.zip(self.labels.values.get_mut(label as usize)) {
                *own = text;
            }
        }
        let before = std::mem::take(&mut self.nodes);
        let mut to: Vec<u32> = Vec::with_capacity(before.len());
        self.node_ids.clear();
        for (id, mut node) in (0..).zip(before) {
            // A parent has a lower number than its children.
            let moved = |node: u32| to.get(node as usize).copied().unwrap_or(id);
            node.parent = moved(node.parent);
            node.label = labels.get(&node.label).copied().unwrap_or(node.label);
            let at = match id {
                ROOT => ROOT,
                _ => *self.node_ids.row_or((node.parent, node.label, node.style), || id),
            };
            node.recursion = node.recursion.map(|above| if above == id { at } else { moved(above) });
            if let Some(same) = self.nodes.get_mut(at as usize) {
                same.recursion = same.recursion.into_iter().chain(node.recursion).min();
            }
            to.push(at);
            self.nodes.push(node);
        }
        to
    }

    /// Whether a node is another one or below it.
    pub(crate) fn is_within(&self, node: u32, other: u32) -> bool {
        self.ancestors(node).any(|(above, _)| above == other)
    }

    /// A node and everything above it, without the root.
    fn ancestors(&self, from: u32) -> impl Iterator<Item = (u32, &Node)> {
        let mut next = from;
        std::iter::from_fn(move || {
            let current = next;
            let node = self.nodes.get(current as usize).filter(|_| current != ROOT)?;
            next = node.parent;
            Some((current, node))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(label: u32) -> RangeKey {
        RangeKey { label, category: 0, style: RangeStyle::PushPop }
    }

    #[test]
    fn the_same_name_under_the_same_parent_is_one_node() {
        let mut catalog = Catalog::new(Limits { nodes: 100, run_time_names: 10 });
        let (a, b) = (catalog.label(0, "a"), catalog.label(0, "b"));
        assert_eq!(catalog.label(0, "a"), a);
        assert_ne!(catalog.label(1, "a"), a, "another domain");
        let first = catalog.child(ROOT, key(a));
        assert_eq!(catalog.child(ROOT, key(a)), first);
        assert_ne!(catalog.child(first, key(b)), catalog.child(ROOT, key(b)));
    }

    #[test]
    fn recursion_shares_its_node_past_64_levels() {
        let mut catalog = Catalog::new(Limits { nodes: 10_000, run_time_names: 10 });
        let (a, b) = (catalog.label(0, "a"), catalog.label(0, "b"));
        let mut node = ROOT;
        for _ in 0..1_000 {
            node = catalog.child(node, key(a));
            node = catalog.child(node, key(b));
        }
        assert!(catalog.nodes().len() <= 66, "{}", catalog.nodes().len());
        let inside: Vec<_> = (0..65).filter_map(|id| Some((id, catalog.recursion_of(id)?))).collect();
        assert_eq!(inside, [(63, 63), (64, 63)], "the last a and the last b, and none above them");
    }

    #[test]
    fn a_chain_of_different_names_ends_in_more() {
        let mut catalog = Catalog::new(Limits { nodes: 10_000, run_time_names: 10 });
        let mut node = ROOT;
        for level in 0..1_000 {
            let label = catalog.label(0, &format!("level {level}"));
            node = catalog.child(node, key(label));
        }
        assert_eq!(catalog.nodes().len(), 1 + 64 + 1, "the root, 64 levels, and (more)");
        assert_eq!((catalog.recursion_of(65), catalog.recursion_of(64)), (Some(65), None));
    }

    #[test]
    fn recursion_inside_of_recursion_is_one() {
        let mut catalog = Catalog::new(Limits { nodes: 10_000, run_time_names: 10 });
        let labels: Vec<u32> = (0..64).map(|level| catalog.label(0, &format!("level {level}"))).collect();
        let nodes: Vec<u32> = labels
            .iter()
            .scan(ROOT, |node, &label| {
                *node = catalog.child(*node, key(label));
                Some(*node)
            })
            .collect();
        assert_eq!(catalog.child(nodes[63], key(labels[60])), nodes[60]);
        assert_eq!(catalog.recursion_of(nodes[63]), Some(nodes[60]));
        catalog.stand_inside(nodes[61], nodes[50]);
        assert_eq!(catalog.recursion_of(nodes[63]), Some(nodes[50]), "from 63 to 60, which is between 61 and 50");
        assert_eq!(catalog.recursion_of(nodes[49]), None);
    }

    #[test]
    fn nodes_beyond_the_bound_go_to_more() {
        let mut catalog = Catalog::new(Limits { nodes: 3, run_time_names: 10 });
        let labels: Vec<u32> = (0..5).map(|n| catalog.label(0, &format!("n{n}"))).collect();
        let nodes: Vec<u32> = labels.iter().map(|&label| catalog.child(ROOT, key(label))).collect();
        assert_eq!(nodes[2], nodes[3]);
        assert_eq!(catalog.child(nodes[3], key(labels[0])), nodes[3], "(more) holds its own children too");
        let more = catalog.nodes()[nodes[3] as usize].label;
        assert_eq!(&*catalog.label_of(more).unwrap().name, MORE);
    }

    #[test]
    fn nodes_whose_labels_become_one_are_one() {
        let mut catalog = Catalog::new(Limits { nodes: 10_000, run_time_names: 2 });
        let (plain, below) = (catalog.label(0, "plain"), catalog.label(0, "below"));
        let (a, b) = (catalog.label_alone(0, "a").unwrap(), catalog.label_alone(0, "a").unwrap());
        assert_ne!(a, b);
        assert_eq!((catalog.label_alone(0, "a"), catalog.names_over_limit), (None, 1));
        let [of_a, of_b] = [a, b].map(|label| catalog.child(ROOT, key(label)));
        let [under_a, under_b] = [of_a, of_b].map(|node| catalog.child(node, key(below)));
        // Recursion below 64 levels returns to a node above.
        let mut node = under_b;
        for _ in 0..100 {
            node = catalog.child(node, key(a));
        }
        let to = catalog.relabel(&Keyed::from_iter([(a, plain), (b, plain)]));
        assert_eq!([of_a, of_b, under_a, under_b].map(|node| to[node as usize]), [of_a, of_a, under_a, under_a]);
        assert_eq!(&*catalog.label_of(a).unwrap().name, "plain");
        let moved = &catalog.nodes()[to[under_b as usize + 1] as usize];
        assert_eq!((moved.parent, moved.label), (under_a, plain));
        assert_eq!(catalog.recursion_of(to[node as usize]), Some(to[node as usize]));
        assert_eq!(catalog.child(ROOT, key(plain)), of_a);
    }

    #[test]
    fn categories_are_bounded_and_counted_by_themselves() {
        let mut catalog = Catalog::new(Limits { nodes: 3, run_time_names: 2 });
        let numbers: Vec<u32> = (0..5).map(|number| catalog.category(CategoryName::Number(number))).collect();
        assert_eq!(numbers, [1, 2, 0, 0, 0]);
        assert_eq!((catalog.names_over_limit, catalog.categories_over_limit), (0, 3));
    }

    #[test]
    fn a_copy_that_catches_up_is_a_copy() {
        let mut catalog = Catalog::new(Limits { nodes: 150, run_time_names: 30 });
        let mut copy = Catalog::new(Limits { nodes: 0, run_time_names: 0 });
        let mut node = ROOT;
        for number in 0..200_u32 {
            let name = format!("name {}", number % 50);
            let label = match number % 3 {
                0 => Some(catalog.label(0, &name)),
                1 => catalog.run_time_label(1, &name),
                _ => catalog.label_alone(0, &name),
            };
            catalog.category(CategoryName::Number(number % 40));
            let label = label.unwrap_or(1 + number % 4);
            node = catalog.child(if number % 7 == 0 { ROOT } else { node }, key(label));
            node = catalog.child(node, key(label)); // recursion, too
            if number % 10 == 9 {
                copy.catch_up(&catalog);
                assert_eq!(format!("{copy:?}"), format!("{catalog:?}"), "{number}");
            }
        }
        assert!(catalog.names_over_limit > 0 && catalog.nodes().iter().any(|node| node.recursion.is_some()));
    }

    #[test]
    fn run_time_names_are_bounded_and_counted() {
        let mut catalog = Catalog::new(Limits { nodes: 3, run_time_names: 2 });
        let known = catalog.run_time_label(0, "x");
        assert!(catalog.run_time_label(0, "y").is_some());
        assert_eq!(catalog.run_time_label(0, "z"), None);
        assert_eq!(catalog.run_time_label(0, "x"), known);
        assert_eq!((catalog.names_over_limit, catalog.categories_over_limit), (1, 0));
    }
}
