//! Decides which rows the tree shows and which ones it folds; `layout` lays them out.
//!
//! Nothing here recurses, because a tree may be as deep as the program nests.

use super::layout::SLOWEST;
use crate::analysis::{OnGpu, Phase, Phases, WAYS, Way, either};
use range_model::TreeNode;
use range_model::stats::{Lean, order};

/// The rows of a tree.
pub(super) struct Shape<'a> {
    phases: &'a Phases<'a>,
    /// For each phase, whether it is among the largest ones, which get the rows.
    has_row: Vec<bool>,
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
    /// The two columns of the mark. `busiest`: the phase kept the GPU busy longest. `waits`: it waited longest. A phase
    /// with both is marked as the slowest.
    pub(super) const fn text(self, busiest: bool, waits: bool) -> &'static str {
        match (self, busiest, waits) {
            (Self::None, false, false) => "  ",
            (Self::None, false, true) => "~~",
            (Self::None, true, false) => " G",
            (Self::None, true, true) => "G~",
            (Self::Way, false, false) => " >",
            (Self::Way, _, true) => "~>",
            (Self::Way, true, false) => "G>",
            (Self::Slowest, ..) => SLOWEST,
        }
    }
}

/// One line to print: a node, or the folded nodes below one.
pub(super) struct Entry {
    /// The node; for a folded line, its first one.
    pub(super) index: usize,
    pub(super) depth: usize,
    pub(super) figures: Figures,
    /// The base of `Of parent`: the parent's total; for a root, the whole.
    pub(super) base: u128,
    /// The part of it in which child ranges ran on the same thread.
    pub(super) nested: u128,
    /// Whether its share of the parent is marked, because it and its siblings together took more than the parent.
    pub(super) beside: bool,
    pub(super) mark: Mark,
    /// Whether no phase's own launches kept the GPU busier.
    pub(super) busiest: bool,
    /// Whether no phase's own wait was longer, in a run that waited more than it ran.
    pub(super) waits: bool,
    /// How many siblings this line stands for; 0 for a node of its own.
    pub(super) folded: usize,
    /// For a folded line, whether all its nodes are below the folding threshold, and none is left out for lack of rows.
    pub(super) is_small: bool,
}

impl Entry {
    /// Whether spans were entered more than once, as a future is at each poll.
    pub(super) const fn is_polled(&self) -> bool {
        self.figures.instances > self.figures.calls
    }

    /// The first two columns of the line.
    pub(super) const fn margin(&self) -> &'static str {
        self.mark.text(self.busiest, self.waits)
    }
}

/// The children of one node, during the walk through the tree.
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
    /// Up to `rows` lines.
    pub(super) fn of(phases: &'a Phases<'a>, rows: usize) -> Self {
        let mut shape = Self { phases, has_row: vec![true; phases.all().len()] };
        shape.choose_rows(rows);
        shape
    }

    /// Gives rows to the largest phases, by time, waiting or GPU time, and to the paths to marked phases. No phase is
    /// larger than its parent here, and the parent comes first among equals, so the parent of each has a row, too.
    fn choose_rows(&mut self, rows: usize) {
        let (phases, all) = (self.phases, self.phases.all());
        if all.len() <= rows {
            return;
        }
        let part = |peak: u64, whole: u128| u128::from(peak).saturating_mul(1 << 32).checked_div(whole).unwrap_or(0);
        let size = |phase: &Phase| {
            let wholes = [Way::Busy, Way::Stream].map(|way| phases.gpu_whole(way));
            let on_gpu = phase.gpu_peak.iter().zip(wholes).filter_map(|(&peak, whole)| Some(part(peak, whole?)));
            let awaited = part(phase.awaited_peak, phases.awaited_whole().unwrap_or(0));
            on_gpu.fold(part(phase.peak, phases.whole()).max(awaited), u128::max)
        };
        let mut sizes: Vec<(u128, usize)> = all.iter().map(size).zip(0..).in_vec();
        order::by_key(&mut sizes, |&(size, index)| (std::cmp::Reverse(size), index));
        for &(_, index) in sizes.iter().skip(rows) {
            self.has_row[index] = false;
        }
        for marked in [phases.slowest(), phases.busiest(), phases.longest_wait()] {
            let mut at = marked;
            while let Some(index) = at {
                self.has_row[index] = true;
                at = all[index].parent;
            }
        }
    }

    /// The lines of the tree from top to bottom.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let (marks, busiest, waits) = (self.marks(), self.phases.busiest(), self.phases.longest_wait());
        let mut entries = Vec::new();
        let mut levels = vec![self.level(None)];
        while let Some(level) = levels.last_mut() {
            if level.next >= level.end {
                entries.extend(level.folded.take());
                levels.pop();
                continue;
            }
            let index = level.next;
            let phase = &self.phases.all()[index];
            level.next = phase.end;
            if level.folds && self.is_folded(index) {
                self.fold(index, level);
                continue;
            }
            entries.push(Entry {
                index,
                depth: level.depth,
                figures: Figures::of(phase),
                base: level.base,
                nested: level.nested,
                beside: phase.beside,
                mark: marks[index],
                busiest: busiest == Some(index),
                waits: waits == Some(index),
                folded: 0,
                is_small: false,
            });
            levels.push(self.level(Some(index)));
        }
        if entries.iter().all(|entry| entry.mark != Mark::Slowest) {
            // It is inside a folded line, and a marked path to nowhere would be useless.
            entries.iter_mut().for_each(|entry| entry.mark = Mark::None);
        }
        entries
    }

    fn level(&self, parent: Option<usize>) -> Level {
        let (first, end, depth, base, nested) = match parent {
            Some(index) => {
                let phase = &self.phases.all()[index];
                let nested = phase.node.total_ns.saturating_sub(phase.node.self_ns);
                (index + 1, phase.end, phase.depth + 1, u128::from(phase.node.total_ns), u128::from(nested))
            }
            None => (0, self.has_row.len(), 0, self.phases.whole(), self.phases.whole()),
        };
        let mut level = Level { next: first, end, depth, base, nested, folds: false, folded: None };
        let (mut small, mut small_with_children) = (0, false);
        let mut child = first;
        while child < end {
            let phase = &self.phases.all()[child];
            if self.is_folded(child) {
                small += 1;
                small_with_children |= phase.end > child + 1;
            }
            child = phase.end;
        }
        level.folds = small > 1 || small_with_children; // a single leaf takes one line in any case
        level
    }

    fn fold(&self, index: usize, level: &mut Level) {
        let phase = &self.phases.all()[index];
        let entry = level.folded.get_or_insert(Entry {
            index,
            depth: level.depth,
            figures: Figures::default(),
            base: level.base,
            nested: level.nested,
            beside: phase.beside,
            mark: Mark::None,
            busiest: false,
            waits: false,
            folded: 0,
            is_small: true,
        });
        entry.folded += 1;
        entry.is_small &= self.phases.is_small(index);
        let saturated = |ns: u128| u64::try_from(ns).unwrap_or(u64::MAX);
        let mut figures = Figures { self_ns: saturated(phase.self_below), ..Figures::of(phase) };
        if figures.instances == 0 {
            figures.total_ns = figures.total_ns.max(figures.self_ns); // it is still open: what ended in it has times
        }
        for (on_gpu, below) in figures.on_gpu.iter_mut().zip(phase.gpu_self_below) {
            on_gpu.self_ns = below.map(saturated);
        }
        entry.figures.add(&figures);
    }

    fn is_folded(&self, index: usize) -> bool {
        !self.has_row[index] || self.phases.is_small(index)
    }

    fn marks(&self) -> Vec<Mark> {
        let mut marks = vec![Mark::None; self.has_row.len()];
        let mut at = self.phases.slowest();
        let mut mark = Mark::Slowest;
        while let Some(index) = at {
            marks[index] = mark;
            mark = Mark::Way;
            at = self.phases.all()[index].parent;
        }
        marks
    }
}

impl Figures {
    fn of(phase: &Phase) -> Self {
        let TreeNode { total_ns, self_ns, awaited_ns, calls, instances, .. } = *phase.node;
        Self { total_ns, self_ns, awaited_ns, on_gpu: phase.on_gpu, calls, instances }
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
