//! What the tree shows and what it folds: decided here, laid out elsewhere.
//!
//! Nothing here recurses: a tree may be as deep as the program nests.

mod flat;
mod waits;

use crate::stats::order;
use crate::{Summary, TreeNode};
use flat::{Flat, MANY_CALLS, WAYS, Wait, flatten, without_small};
pub(super) use flat::{OnGpu, Way};
pub(super) use waits::Culprit;

/// Nodes that took less than one in this many parts of the whole are folded: 0.1 %.
const FOLD_BELOW: u128 = 1_000;
/// Less time than this passes between two polls without any waiting.
const WORTH_TELLING_NS: u128 = 1_000_000;
/// A shorter call is no warm-up, nor is one that took less than one in this many parts of the whole: an interruption.
const LONG_CALL_NS: u64 = 1_000_000;
const LONG_CALL_PART: u128 = 100;
/// Every node in order of printing, with what is known of its subtree.
pub(super) struct Shape<'a> {
    nodes: Vec<Flat<'a>>,
    whole: u128,
    /// Self time of calls that took more than half of their row.
    apart: u128,
    /// Self time of nodes that waited for their children for most of it.
    blocked: u128,
    /// All that calls waited themselves; `None` where no node waits.
    awaited_whole: Option<u128>,
    /// The part of it that loops waited which live as long as the run.
    looped: u128,
    /// All time on the GPU that phases launched or were timed with themselves; `None` where none is known.
    gpu_whole: [Option<u128>; WAYS],
    /// The node with the most self time.
    slowest: Option<usize>,
    /// By node, whether it is among the largest ones, as many as there are rows.
    has_row: Vec<bool>,
}

/// Whether the calls of a node are marked, and its share of the parent.
#[cfg(feature = "html")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marked {
    pub(crate) polled: bool,
    pub(crate) beside: bool,
    /// Whether its self time is.
    pub(crate) blocked: bool,
    /// What of its self time it is ranked by, where that is not all.
    pub(crate) ranked_ns: Option<u64>,
    /// What one call took, where that is more than half of the node.
    pub(crate) one_call: Option<u64>,
}

/// The figures of a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) total_ns: u64,
    pub(super) self_ns: u64,
    pub(super) awaited_ns: Option<u64>,
    on_gpu: [OnGpu; WAYS],
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
    /// Two columns; `busiest` is for the phase that kept the GPU busy longest, `waits` for the one that waited longest.
    /// One that is both is the slowest.
    pub(super) const fn text(self, busiest: bool, waits: bool) -> &'static str {
        match (self, busiest, waits) {
            (Self::None, false, false) => "  ",
            (Self::None, false, true) => "~~",
            (Self::None, true, false) => " G",
            (Self::None, true, true) => "G~",
            (Self::Way, false, false) => " >",
            (Self::Way, _, true) => "~>",
            (Self::Way, true, false) => "G>",
            (Self::Slowest, ..) => ">>",
        }
    }
}

/// One line to be printed: a node, or what was folded below a node.
pub(super) struct Entry {
    /// The node; of a folded line, its first one.
    pub(super) index: usize,
    pub(super) depth: usize,
    pub(super) figures: Figures,
    /// What `Of parent` is a share of: the parent's total; for a root, the whole.
    pub(super) base: u128,
    /// The part of it in which ranges ran directly above.
    pub(super) nested: u128,
    /// Whether its share of the parent is marked: what it and its siblings took is together more.
    pub(super) beside: bool,
    pub(super) mark: Mark,
    /// Whether no phase kept the GPU busier with what it launched itself.
    pub(super) busiest: bool,
    /// Whether no phase waited longer itself, where more time was waited than run.
    pub(super) waits: bool,
    /// How many siblings this line stands for; 0 for a node of its own.
    pub(super) folded: usize,
    /// These and all below them.
    pub(super) hidden: usize,
    /// Of a folded line, whether all are below the bound for folding, and none is left out for want of rows.
    pub(super) is_small: bool,
}

impl Entry {
    /// Whether spans were entered more than once: a future is at each poll.
    pub(super) const fn is_polled(&self) -> bool {
        self.figures.instances > self.figures.calls
    }

    /// The two columns before the line.
    pub(super) const fn margin(&self) -> &'static str {
        self.mark.text(self.busiest, self.waits)
    }
}

/// The children of one node, on the way through the tree.
struct Level {
    next: usize,
    end: usize,
    depth: usize,
    base: u128,
    nested: u128,
    folds: bool,
    folded: Option<Entry>,
}

impl<'a> Shape<'a> {
    /// Up to `rows` lines of a run.
    pub(super) fn of(summary: &'a Summary, rows: usize) -> Self {
        let roots = &summary.tree;
        let mut nodes = flatten(roots);
        for i in (0..nodes.len()).rev() {
            let (end, self_below, peak) = (nodes[i].end, nodes[i].self_below, nodes[i].peak);
            let awaited_peak = nodes[i].awaited_peak;
            let (gpu_self_below, gpu_peak) = (nodes[i].gpu_self_below, nodes[i].gpu_peak);
            if let Some(parent) = nodes[i].parent.map(|parent| &mut nodes[parent]) {
                parent.end = parent.end.max(end);
                parent.self_below += self_below;
                parent.peak = parent.peak.max(peak);
                parent.awaited_peak = parent.awaited_peak.max(awaited_peak);
                for way in 0..WAYS {
                    let below = either(parent.gpu_self_below[way], gpu_self_below[way], u128::saturating_add);
                    parent.gpu_self_below[way] = below;
                    parent.gpu_peak[way] = parent.gpu_peak[way].max(gpu_peak[way]);
                }
            }
        }
        // Self times add up to the covered time, on however many threads. Totals would count nested roots twice.
        let covered: u128 = nodes.iter().map(|flat| u128::from(flat.node.self_ns)).sum();
        let whole = match covered {
            0 => roots.iter().map(|root| u128::from(root.total_ns)).sum(),
            covered => covered,
        };
        for i in 0..nodes.len() {
            let above = nodes[i].parent.map(|parent| nodes[parent].node);
            let flat = &mut nodes[i];
            flat.one_call = one_call(flat.node, whole) && !is_recursive(flat.node, above);
            flat.own_ns = flat.own_of_the_others() - blocked(flat.node).min(flat.own_of_the_others());
        }
        let gpu_whole = std::array::from_fn(|way| {
            let known = nodes.iter().any(|flat| flat.on_gpu[way].total_ns.is_some());
            known.then(|| nodes.iter().filter_map(|flat| flat.on_gpu[way].self_ns).map(u128::from).sum())
        });
        let slowest =
            (0..nodes.len()).filter(|&i| nodes[i].own_ns > 0).max_by_key(|&i| (nodes[i].own_ns, std::cmp::Reverse(i)));
        let apart = nodes.iter().map(|flat| u128::from(flat.node.self_ns - flat.own_of_the_others())).sum();
        let blocked = nodes.iter().map(|flat| u128::from(flat.own_of_the_others() - flat.own_ns)).sum();
        let waits = nodes.iter().any(|flat| flat.node.awaited_ns.is_some());
        let awaited_whole =
            waits.then(|| nodes.iter().filter_map(|flat| flat.node.awaited_self_ns).map(u128::from).sum());
        waits::set(&mut nodes, summary);
        let loops = nodes.iter().filter(|flat| flat.wait == Wait::Loop);
        let looped = loops.filter_map(|flat| flat.node.awaited_self_ns).map(u128::from).sum();
        mark_beside(&mut nodes, whole);
        let has_row = vec![true; nodes.len()];
        let mut shape = Self { nodes, whole, apart, blocked, awaited_whole, looped, gpu_whole, slowest, has_row };
        shape.choose_rows(rows);
        shape
    }

    /// Gives rows to the largest nodes, in time, waiting or on the GPU, and to the ways to those that a mark leads to.
    /// No node is larger than its parent here, which comes first among equals: so the parent of each has one too.
    fn choose_rows(&mut self, rows: usize) {
        if self.nodes.len() <= rows {
            return;
        }
        let part = |peak: u64, whole: u128| u128::from(peak).saturating_mul(1 << 32).checked_div(whole).unwrap_or(0);
        let size = |flat: &Flat| {
            let on_gpu = flat.gpu_peak.iter().zip(self.gpu_whole).filter_map(|(&peak, whole)| Some(part(peak, whole?)));
            let on_cpu = part(flat.peak, self.whole).max(part(flat.awaited_peak, self.awaited_whole.unwrap_or(0)));
            on_gpu.fold(on_cpu, u128::max)
        };
        let mut sizes: Vec<(u128, usize)> = self.nodes.iter().map(size).zip(0..).collect();
        order::by_key(&mut sizes, |&(size, index)| (std::cmp::Reverse(size), index));
        for &(_, index) in sizes.iter().skip(rows) {
            self.has_row[index] = false;
        }
        for marked in [self.slowest, self.busiest(), self.waits()] {
            let mut at = marked;
            while let Some(index) = at {
                self.has_row[index] = true;
                at = self.nodes[index].parent;
            }
        }
    }

    /// The nodes in order of printing, and what is known of each beside its figures.
    #[cfg(feature = "html")]
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&'a TreeNode, Marked)> {
        self.nodes.iter().map(|flat| {
            let marked = Marked {
                polled: flat.node.instances > flat.node.calls,
                beside: flat.beside,
                blocked: is_blocked(flat.node),
                ranked_ns: Some(flat.own_ns).filter(|&ns| ns != flat.node.self_ns),
                one_call: flat.one_call.then_some(flat.node.max_ns),
            };
            (flat.node, marked)
        })
    }

    /// The time that shares are of: what all threads spent inside spans.
    pub(super) fn whole(&self) -> u128 {
        self.whole
    }

    /// What of it calls took that were more than half of their row: no share of what is slowest.
    pub(super) fn apart(&self) -> u128 {
        self.apart
    }

    /// What of it nodes only waited for their children that are marked for it: no share of what is slowest, either.
    pub(super) fn blocked(&self) -> u128 {
        self.blocked
    }

    /// What shares of what is slowest are of.
    pub(super) fn ranked(&self) -> u128 {
        self.whole - self.apart - self.blocked
    }

    /// All that calls waited themselves. `None` where no node is one of a future.
    pub(super) fn awaited_whole(&self) -> Option<u128> {
        self.awaited_whole
    }

    /// What shares of what is awaited are of: all, without loops that live as long as the run.
    pub(super) fn awaited_ranked(&self) -> u128 {
        self.awaited_whole.unwrap_or(0) - self.looped
    }

    /// Up to `count` nodes that are most likely what the program waits for, where more time was waited than run.
    pub(super) fn most_awaited(&self, count: usize) -> Vec<Culprit> {
        let all = self.awaited_ranked();
        match all > self.whole - self.blocked && all >= WORTH_TELLING_NS {
            true => waits::culprits(&self.nodes, count, |ns| is_below_bound(ns, all)),
            false => Vec::new(),
        }
    }

    /// The loops that live as long as the run, the longest waits first, where more time was waited than run.
    pub(super) fn loops(&self) -> Vec<&'a TreeNode> {
        let is_told = self.awaited_whole.is_some_and(|all| all > self.whole - self.blocked);
        let loops = self.nodes.iter().filter(|flat| is_told && flat.wait == Wait::Loop);
        let mut loops: Vec<&TreeNode> = loops.map(|flat| flat.node).collect();
        order::by_key(&mut loops, |node| std::cmp::Reverse(node.awaited_self_ns));
        loops
    }

    /// The node that is marked for its wait.
    fn waits(&self) -> Option<usize> {
        self.most_awaited(1).first().map(|culprit| culprit.index)
    }

    /// The quantiles that any node has, in rising order.
    pub(super) fn quantiles(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.nodes.iter().flat_map(|flat| &flat.node.quantiles).map(|one| one.q).collect();
        order::numbers(&mut all);
        all
    }

    /// The nodes in which one call took more than half the time, by the self time of that call, longest first. Leaves
    /// out nodes whose children took that time, where the children are known.
    pub(super) fn dominated(&self) -> Vec<&'a TreeNode> {
        let mut nodes: Vec<&Flat> = self.nodes.iter().filter(|flat| flat.one_call).collect();
        let once = |flat: &Flat| flat.node.self_ns - flat.own_of_the_others();
        if nodes.iter().any(|flat| once(flat) > 0) {
            nodes.retain(|flat| once(flat) > 0);
        }
        order::by_key(&mut nodes, |flat| std::cmp::Reverse((once(flat), flat.node.max_ns)));
        nodes.into_iter().map(|flat| flat.node).collect()
    }

    /// All that the spans took on the GPU themselves: what shares of it are of. `None` where nothing is known in that
    /// way.
    pub(super) fn gpu_whole(&self, way: Way) -> Option<u128> {
        self.gpu_whole[way as usize]
    }

    /// Whether one call took more than half of a node.
    pub(super) fn has_one_call(&self, index: usize) -> bool {
        self.nodes[index].one_call
    }

    pub(super) fn node(&self, index: usize) -> &'a TreeNode {
        self.nodes[index].node
    }

    pub(super) fn parent(&self, index: usize) -> Option<usize> {
        self.nodes[index].parent
    }

    pub(super) fn same_name(&self, a: usize, b: usize) -> bool {
        is_named_alike(self.node(a), self.node(b))
    }

    /// Whether another node is called the same.
    pub(super) fn repeats(&self, index: usize) -> bool {
        (0..self.nodes.len()).any(|other| other != index && self.same_name(index, other))
    }

    /// Up to `count` nodes with the most self time, none below the bound for folding, none small beside the first.
    pub(super) fn slowest(&self, count: usize) -> Vec<(usize, u64)> {
        self.most(count, self.ranked(), |flat| flat.own_ns)
    }

    /// The same for time on the GPU.
    pub(super) fn slowest_on_gpu(&self, way: Way, count: usize) -> Vec<(usize, u64)> {
        let own = |flat: &Flat| flat.on_gpu[way as usize].self_ns.unwrap_or(0);
        self.most(count, self.gpu_whole(way).unwrap_or(0), own)
    }

    fn most(&self, count: usize, whole: u128, own: impl Fn(&Flat) -> u64) -> Vec<(usize, u64)> {
        let mut nodes: Vec<(usize, u64)> = self
            .nodes
            .iter()
            .enumerate()
            .map(|(index, flat)| (index, own(flat)))
            .filter(|(_, ns)| *ns > 0 && !is_below_bound(*ns, whole))
            .collect();
        order::by_key(&mut nodes, |(_, ns)| std::cmp::Reverse(*ns));
        without_small(&mut nodes, |(_, ns)| *ns);
        nodes.truncate(count);
        nodes
    }

    /// The lines of the tree from top to bottom.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let (marks, busiest, waits) = (self.marks(), self.busiest(), self.waits());
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
            if level.folds && self.is_folded(index) {
                self.fold(index, level);
                continue;
            }
            entries.push(Entry {
                index,
                depth: level.depth,
                figures: Figures::of(flat),
                base: level.base,
                nested: level.nested,
                beside: flat.beside,
                mark: marks[index],
                busiest: busiest == Some(index),
                waits: waits == Some(index),
                folded: 0,
                hidden: 0,
                is_small: false,
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
        let (first, end, depth, base, nested) = match parent {
            Some(index) => {
                let flat = &self.nodes[index];
                let nested = flat.node.total_ns.saturating_sub(flat.node.self_ns);
                (index + 1, flat.end, flat.depth + 1, u128::from(flat.node.total_ns), u128::from(nested))
            }
            None => (0, self.nodes.len(), 0, self.whole, self.whole),
        };
        let mut level = Level { next: first, end, depth, base, nested, folds: false, folded: None };
        let (mut small, mut small_with_children) = (0, false);
        let mut child = first;
        while child < end {
            let flat = &self.nodes[child];
            if self.is_folded(child) {
                small += 1;
                small_with_children |= flat.end > child + 1;
            }
            child = flat.end;
        }
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
            nested: level.nested,
            beside: flat.beside,
            mark: Mark::None,
            busiest: false,
            waits: false,
            folded: 0,
            hidden: 0,
            is_small: true,
        });
        entry.folded += 1;
        entry.is_small &= self.is_small(index);
        entry.hidden += flat.end - index;
        let saturated = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
        let mut figures = Figures { self_ns: saturated(flat.self_below), ..Figures::of(flat) };
        for (on_gpu, below) in figures.on_gpu.iter_mut().zip(flat.gpu_self_below) {
            on_gpu.self_ns = below.map(saturated);
        }
        entry.figures.add(&figures);
    }

    fn is_folded(&self, index: usize) -> bool {
        !self.has_row[index] || self.is_small(index)
    }

    /// Small in everything: a long kernel is launched in next to no time.
    fn is_small(&self, index: usize) -> bool {
        let flat = &self.nodes[index];
        let mut on_gpu = flat.gpu_peak.iter().zip(self.gpu_whole);
        is_below_bound(flat.peak, self.whole)
            && (flat.awaited_peak == 0 || is_below_bound(flat.awaited_peak, self.awaited_whole.unwrap_or(0)))
            && on_gpu.all(|(&peak, whole)| peak == 0 || whole.is_none_or(|whole| is_below_bound(peak, whole)))
    }

    fn busiest(&self) -> Option<usize> {
        let own = |i: usize| self.nodes[i].on_gpu[Way::Busy as usize].self_ns.unwrap_or(0);
        (0..self.nodes.len()).filter(|&i| own(i) > 0).max_by_key(|&i| (own(i), std::cmp::Reverse(i)))
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

fn mark_beside(nodes: &mut [Flat], whole: u128) {
    let mut together = vec![0_u128; nodes.len()];
    for flat in nodes.iter() {
        if let Some(parent) = flat.parent {
            together[parent] += u128::from(flat.node.total_ns);
        }
    }
    for i in 0..nodes.len() {
        nodes[i].beside = match nodes[i].parent {
            Some(parent) => together[parent] > u128::from(nodes[parent].node.total_ns),
            // A root by more than rounding: it was entered inside of itself.
            None => u128::from(nodes[i].node.total_ns) > whole + whole.div_ceil(FOLD_BELOW),
        };
    }
}

/// Whether one call took more than half of many: the first mostly, in which something was made ready.
fn one_call(node: &TreeNode, whole: u128) -> bool {
    let is_call = node.instances <= node.calls; // else an instance is a poll
    let rest = node.total_ns.saturating_sub(node.max_ns);
    let is_long = node.max_ns >= LONG_CALL_NS && u128::from(node.max_ns) * LONG_CALL_PART >= whole;
    is_call && node.instances >= MANY_CALLS && is_long && node.max_ns > rest && rest > 0
}

/// Whether it calls itself: then a call takes as long as what it is given, and one may well take most of the time.
fn is_recursive(node: &TreeNode, above: Option<&TreeNode>) -> bool {
    above.into_iter().chain(&node.children).any(|other| is_named_alike(node, other))
}

fn is_named_alike(a: &TreeNode, b: &TreeNode) -> bool {
    (&a.name, &a.domain) == (&b.name, &b.domain)
}

/// Whether a node waited for its children for most of its self time.
pub(super) const fn is_blocked(node: &TreeNode) -> bool {
    node.blocked_ns >= WORTH_TELLING_NS as u64 && node.blocked_ns >= node.self_ns / 2
}

/// What is left out of the self time of a node for that.
const fn blocked(node: &TreeNode) -> u64 {
    if is_blocked(node) { node.blocked_ns } else { 0 }
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
    fn of(flat: &Flat) -> Self {
        let TreeNode { total_ns, self_ns, awaited_ns, calls, instances, .. } = *flat.node;
        Self { total_ns, self_ns, awaited_ns, on_gpu: flat.on_gpu, calls, instances }
    }

    pub(super) fn on_gpu(&self, way: Way) -> OnGpu {
        self.on_gpu[way as usize]
    }

    fn add(&mut self, other: &Self) {
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.self_ns = self.self_ns.saturating_add(other.self_ns);
        self.awaited_ns = either(self.awaited_ns, other.awaited_ns, u64::saturating_add);
        for (sum, more) in self.on_gpu.iter_mut().zip(other.on_gpu) {
            sum.total_ns = either(sum.total_ns, more.total_ns, u64::saturating_add);
            sum.self_ns = either(sum.self_ns, more.self_ns, u64::saturating_add);
        }
        self.calls = self.calls.saturating_add(other.calls);
        self.instances = self.instances.saturating_add(other.instances);
    }
}

#[cfg(test)]
mod tests;
