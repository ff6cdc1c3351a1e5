//! What the tree shows and what it folds: decided here, laid out elsewhere.
//!
//! Nothing here recurses: a tree may be as deep as the program nests.

use crate::TreeNode;

/// Nodes that took less than one in this many parts of the whole are folded: 0.1 %.
const FOLD_BELOW: u128 = 1_000;

/// Every node in order of printing, with what is known of its subtree.
pub(super) struct Shape<'a> {
    nodes: Vec<Flat<'a>>,
    whole: u128,
    /// All stream time; `None` where no node was timed on a stream.
    stream_whole: Option<u128>,
    /// The node with the most self time.
    slowest: Option<usize>,
}

struct Flat<'a> {
    node: &'a TreeNode,
    parent: Option<usize>,
    depth: usize,
    /// One past the last node of the subtree.
    end: usize,
    /// Self time of the whole subtree.
    self_below: u128,
    /// Longest total in the subtree. A child on another thread may be longer than its parent.
    peak: u64,
    /// Stream time of its own of the whole subtree; `None` where nothing in it was timed on a stream.
    stream_self_below: Option<u128>,
    /// Longest stream total in the subtree.
    stream_peak: u64,
}

/// The figures of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) total_ns: u64,
    pub(super) self_ns: u64,
    /// `None` where nothing was timed on a stream.
    pub(super) stream_total_ns: Option<u64>,
    pub(super) stream_self_ns: Option<u64>,
    pub(super) calls: u64,
    pub(super) instances: u64,
}

/// A mark in the margin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    None,
    /// On the way to the slowest phase.
    Way,
    /// The phase with the most time of its own.
    Slowest,
}

impl Mark {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::None => "  ",
            Self::Way => " >",
            Self::Slowest => ">>",
        }
    }
}

/// One line to be printed: a node, or what was folded below a node.
pub(super) struct Entry {
    /// The node; of a folded line, its first one.
    pub(super) index: usize,
    pub(super) depth: usize,
    pub(super) figures: Figures,
    /// What `% Parent` is a share of: the parent's total; for a root, the whole.
    pub(super) base: u128,
    /// Whether it and its siblings together took longer than their parent, which takes other threads.
    pub(super) beside: bool,
    pub(super) mark: Mark,
    /// How many siblings this line stands for; 0 for a node of its own.
    pub(super) folded: usize,
}

/// The children of one node, on the way through the tree.
struct Level {
    next: usize,
    end: usize,
    depth: usize,
    base: u128,
    beside: bool,
    folds: bool,
    folded: Option<Entry>,
}

impl<'a> Shape<'a> {
    pub(super) fn of(roots: &'a [TreeNode]) -> Self {
        let mut nodes = flatten(roots);
        for i in (0..nodes.len()).rev() {
            let (end, self_below, peak) = (nodes[i].end, nodes[i].self_below, nodes[i].peak);
            let (stream_self_below, stream_peak) = (nodes[i].stream_self_below, nodes[i].stream_peak);
            if let Some(parent) = nodes[i].parent.map(|parent| &mut nodes[parent]) {
                parent.end = parent.end.max(end);
                parent.self_below += self_below;
                parent.peak = parent.peak.max(peak);
                parent.stream_self_below = either(parent.stream_self_below, stream_self_below, u128::saturating_add);
                parent.stream_peak = parent.stream_peak.max(stream_peak);
            }
        }
        // Self times add up to the covered time, on however many threads. Totals would count nested roots twice.
        let covered: u128 = nodes.iter().map(|flat| u128::from(flat.node.self_ns)).sum();
        let whole = match covered {
            0 => roots.iter().map(|root| u128::from(root.total_ns)).sum(),
            covered => covered,
        };
        let on_streams = nodes.iter().any(|flat| flat.node.stream_total_ns.is_some());
        let stream_whole =
            on_streams.then(|| nodes.iter().filter_map(|flat| flat.node.stream_self_ns).map(u128::from).sum());
        let slowest = (0..nodes.len())
            .filter(|&i| nodes[i].node.self_ns > 0)
            .max_by_key(|&i| (nodes[i].node.self_ns, std::cmp::Reverse(i)));
        Self { nodes, whole, stream_whole, slowest }
    }

    /// The time that shares are of: what all threads spent inside spans.
    pub(super) fn whole(&self) -> u128 {
        self.whole
    }

    /// The time that shares of stream time are of: all that the spans took on streams themselves. `None` where none was timed.
    pub(super) fn stream_whole(&self) -> Option<u128> {
        self.stream_whole
    }

    pub(super) fn node(&self, index: usize) -> &'a TreeNode {
        self.nodes[index].node
    }

    /// Up to `count` nodes with the most self time, none below the bound for folding.
    pub(super) fn slowest(&self, count: usize) -> Vec<(&'a TreeNode, u64)> {
        self.most(count, self.whole, |node| node.self_ns)
    }

    /// The same for stream time.
    pub(super) fn slowest_on_streams(&self, count: usize) -> Vec<(&'a TreeNode, u64)> {
        self.most(count, self.stream_whole.unwrap_or(0), |node| node.stream_self_ns.unwrap_or(0))
    }

    fn most(&self, count: usize, whole: u128, own: impl Fn(&TreeNode) -> u64) -> Vec<(&'a TreeNode, u64)> {
        let mut nodes: Vec<(&TreeNode, u64)> = self
            .nodes
            .iter()
            .map(|flat| (flat.node, own(flat.node)))
            .filter(|(_, ns)| *ns > 0 && !is_below_bound(*ns, whole))
            .collect();
        nodes.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
        nodes.truncate(count);
        nodes
    }

    /// The lines of the tree from top to bottom.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let marks = self.marks();
        let mut entries = Vec::new();
        let mut levels = vec![self.level(None)];
        while let Some(level) = levels.last_mut() {
            if level.next >= level.end {
                entries.extend(level.folded.take());
                levels.pop();
                continue;
            }
            let index = level.next;
            let flat = &self.nodes[index];
            level.next = flat.end;
            if level.folds && self.is_small(index) {
                self.fold(index, level);
                continue;
            }
            entries.push(Entry {
                index,
                depth: level.depth,
                figures: Figures::of(flat.node),
                base: level.base,
                beside: level.beside,
                mark: marks[index],
                folded: 0,
            });
            levels.push(self.level(Some(index)));
        }
        if entries.iter().all(|entry| entry.mark != Mark::Slowest) {
            // It is inside a folded line: a way that leads nowhere helps nobody.
            entries.iter_mut().for_each(|entry| entry.mark = Mark::None);
        }
        entries
    }

    fn level(&self, parent: Option<usize>) -> Level {
        let (first, end, depth, base) = match parent {
            Some(index) => {
                let flat = &self.nodes[index];
                (index + 1, flat.end, flat.depth + 1, u128::from(flat.node.total_ns))
            }
            None => (0, self.nodes.len(), 0, self.whole),
        };
        let mut level = Level { next: first, end, depth, base, beside: false, folds: false, folded: None };
        let (mut sum, mut small, mut small_with_children) = (0_u128, 0, false);
        let mut child = first;
        while child < end {
            let flat = &self.nodes[child];
            sum += u128::from(flat.node.total_ns);
            if self.is_small(child) {
                small += 1;
                small_with_children |= flat.end > child + 1;
            }
            child = flat.end;
        }
        level.beside = parent.is_some() && sum > base;
        level.folds = small > 1 || small_with_children; // a single leaf takes one line in any case
        level
    }

    fn fold(&self, index: usize, level: &mut Level) {
        let flat = &self.nodes[index];
        let entry = level.folded.get_or_insert(Entry {
            index,
            depth: level.depth,
            figures: Figures::default(),
            base: level.base,
            beside: level.beside,
            mark: Mark::None,
            folded: 0,
        });
        entry.folded += 1;
        let saturated = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
        entry.figures.add(&Figures {
            self_ns: saturated(flat.self_below),
            stream_self_ns: flat.stream_self_below.map(saturated),
            ..Figures::of(flat.node)
        });
    }

    /// Small in both: a long kernel is launched in next to no time.
    fn is_small(&self, index: usize) -> bool {
        let flat = &self.nodes[index];
        let on_streams = self.stream_whole.filter(|_| flat.stream_peak > 0);
        is_below_bound(flat.peak, self.whole) && on_streams.is_none_or(|whole| is_below_bound(flat.stream_peak, whole))
    }

    fn marks(&self) -> Vec<Mark> {
        let mut marks = vec![Mark::None; self.nodes.len()];
        let mut at = self.slowest;
        let mut mark = Mark::Slowest;
        while let Some(index) = at {
            marks[index] = mark;
            mark = Mark::Way;
            at = self.nodes[index].parent;
        }
        marks
    }
}

fn is_below_bound(ns: u64, whole: u128) -> bool {
    u128::from(ns) * FOLD_BELOW < whole
}

/// The sum of those that there are.
fn either<T>(a: Option<T>, b: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(add(a, b)),
        (a, b) => a.or(b),
    }
}

impl Figures {
    fn of(node: &TreeNode) -> Self {
        Self {
            total_ns: node.total_ns,
            self_ns: node.self_ns,
            stream_total_ns: node.stream_total_ns,
            stream_self_ns: node.stream_self_ns,
            calls: node.calls,
            instances: node.instances,
        }
    }

    fn add(&mut self, other: &Self) {
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.self_ns = self.self_ns.saturating_add(other.self_ns);
        self.stream_total_ns = either(self.stream_total_ns, other.stream_total_ns, u64::saturating_add);
        self.stream_self_ns = either(self.stream_self_ns, other.stream_self_ns, u64::saturating_add);
        self.calls = self.calls.saturating_add(other.calls);
        self.instances = self.instances.saturating_add(other.instances);
    }
}

fn flatten(roots: &[TreeNode]) -> Vec<Flat<'_>> {
    let mut nodes = Vec::new();
    let mut waiting: Vec<(&TreeNode, Option<usize>, usize)> = roots.iter().rev().map(|root| (root, None, 0)).collect();
    while let Some((node, parent, depth)) = waiting.pop() {
        let index = nodes.len();
        nodes.push(Flat {
            node,
            parent,
            depth,
            end: index + 1,
            self_below: u128::from(node.self_ns),
            peak: node.total_ns,
            stream_self_below: node.stream_self_ns.map(u128::from),
            stream_peak: node.stream_total_ns.unwrap_or(0),
        });
        waiting.extend(node.children.iter().rev().map(|child| (child, Some(index), depth + 1)));
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, total_ns: u64, self_ns: u64, children: Vec<TreeNode>) -> TreeNode {
        TreeNode { name: name.to_owned(), calls: 1, instances: 1, total_ns, self_ns, children, ..TreeNode::default() }
    }

    fn leaf(name: &str, ns: u64) -> TreeNode {
        node(name, ns, ns, vec![])
    }

    /// Name, depth, mark and number of folded siblings of each line.
    fn lines(roots: &[TreeNode]) -> Vec<(String, usize, Mark, usize)> {
        let shape = Shape::of(roots);
        let line = |entry: &Entry| (shape.node(entry.index).name.clone(), entry.depth, entry.mark, entry.folded);
        shape.entries().iter().map(line).collect()
    }

    #[test]
    fn the_way_to_the_slowest_phase_is_marked() {
        let roots = [
            leaf("init", 10_000),
            node("run", 90_000, 1_000, vec![leaf("a", 29_000), node("b", 60_000, 40_000, vec![leaf("c", 20_000)])]),
        ];
        let expected = [
            ("init", 0, Mark::None),
            ("run", 0, Mark::Way),
            ("a", 1, Mark::None),
            ("b", 1, Mark::Slowest),
            ("c", 2, Mark::None),
        ];
        assert_eq!(lines(&roots), expected.map(|(name, depth, mark)| (name.to_owned(), depth, mark, 0)));
    }

    #[test]
    fn siblings_below_the_bound_share_a_line() {
        let small = |name: &str| node(name, 99, 49, vec![leaf("inner", 50)]);
        let roots = [node("run", 100_000, 99_603, vec![small("a"), leaf("big", 100), small("b"), leaf("c", 99)])];
        let shape = Shape::of(&roots);
        let entries = shape.entries();
        assert_eq!(lines(&roots)[1], ("big".to_owned(), 1, Mark::None, 0));
        assert_eq!(entries.len(), 3);
        assert_eq!(entries[2].folded, 3);
        assert_eq!(
            entries[2].figures,
            Figures { total_ns: 297, self_ns: 297, calls: 3, instances: 3, ..Figures::default() }
        );
    }

    #[test]
    fn a_single_small_leaf_keeps_its_name() {
        let roots = [leaf("load", 1_000_000), leaf("set", 10)];
        assert_eq!(lines(&roots)[1].0, "set");
        assert_eq!(lines(&roots)[1].3, 0);
    }

    #[test]
    fn stream_time_keeps_a_name_and_is_folded_with_it() {
        let on_stream = |name: &str, ns: u64, stream_ns: u64| {
            let stream_ns = Some(stream_ns);
            TreeNode { stream_total_ns: stream_ns, stream_self_ns: stream_ns, ..leaf(name, ns) }
        };
        let parent = TreeNode {
            stream_total_ns: Some(90),
            stream_self_ns: Some(40),
            ..node("parent", 10, 5, vec![on_stream("child", 5, 50)])
        };
        let launch = node("launch", 10, 5, vec![on_stream("kernel", 5, 99_600)]);
        let children =
            vec![parent, on_stream("at the bound", 10, 100), launch, on_stream("below", 10, 99), leaf("host", 10)];
        let roots = [node("run", 100_000, 99_950, children), on_stream("rest", 1_000, 111)];
        let shape = Shape::of(&roots);
        assert_eq!(shape.stream_whole(), Some(100_000));
        let names: Vec<String> = lines(&roots).into_iter().map(|line| line.0).collect();
        assert_eq!(names, ["run", "at the bound", "launch", "kernel", "parent", "rest"]);
        let entries = shape.entries();
        let stream = |index: usize| (entries[index].figures.stream_total_ns, entries[index].figures.stream_self_ns);
        assert_eq!(entries[4].folded, 3);
        assert_eq!(stream(4), (Some(189), Some(189)));
        assert_eq!(stream(0), (None, None));
        let most: Vec<&str> = shape.slowest_on_streams(3).iter().map(|(node, _)| node.name.as_str()).collect();
        assert_eq!(most, ["kernel", "rest", "at the bound"]);
    }

    /// Where every stream time is 0, or there is none, only time decides.
    #[test]
    fn no_stream_time_keeps_nothing() {
        let mut roots = [node("run", 100_000, 99_980, vec![leaf("a", 10), leaf("b", 10)])];
        assert_eq!((lines(&roots).len(), Shape::of(&roots).stream_whole()), (2, None));
        roots[0].children[0].stream_total_ns = Some(0);
        roots[0].children[0].stream_self_ns = Some(0);
        assert_eq!((lines(&roots).len(), Shape::of(&roots).stream_whole()), (2, Some(0)));
        assert!(Shape::of(&roots).slowest_on_streams(3).is_empty());
    }

    #[test]
    fn a_small_parent_of_a_long_child_is_not_folded() {
        let spawn = node("spawn", 10, 10, vec![leaf("task", 500_000)]);
        let roots = [node("main", 500_000, 499_980, vec![spawn, leaf("other", 10)])];
        let names: Vec<String> = lines(&roots).into_iter().map(|line| line.0).collect();
        assert_eq!(names, ["main", "spawn", "task", "other"]);
        let shape = Shape::of(&roots);
        assert_eq!(shape.whole(), 1_000_000);
        let beside: Vec<bool> = shape.entries().iter().map(|entry| entry.beside).collect();
        assert_eq!(beside, [false, false, true, false]);
    }

    #[test]
    fn without_the_slowest_nothing_is_marked() {
        let roots: Vec<TreeNode> = (0..2_000).map(|i| leaf(&i.to_string(), 10)).collect();
        let lines = lines(&roots);
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].2, lines[0].3), (Mark::None, 2_000));
        assert!(Shape::of(&roots).slowest(3).is_empty());
    }

    #[test]
    fn any_depth_is_walked() {
        let mut root = leaf("inner", 1);
        for _ in 0..50_000 {
            root = node("outer", 1, 0, vec![root]);
        }
        let mut roots = vec![root];
        assert_eq!(Shape::of(&roots).entries().len(), 50_001);
        while let Some(mut node) = roots.pop() {
            roots.append(&mut node.children); // dropping it whole would recurse
        }
    }
}
