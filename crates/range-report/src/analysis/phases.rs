//! The phases of a run: their total time, the phases that stand out, and the reasons.
//!
//! Nothing here recurses: a tree may be as deep as the program nests.

use std::cmp::Reverse;

use super::phase::{MANY_CALLS, Phase, WAYS, WORTH_TELLING_NS, Wait, Way, either, flatten, without_small};
use super::waits::{self, Culprit};
use range_model::stats::{Lean, order};
use range_model::summary::LongestInstance;
use range_model::{Summary, TreeNode};

/// A phase is small if it took less than one in this many parts of the whole: 0.1 %.
const SMALL_PART: u128 = 1_000;
/// A long call that is shorter than this, or than 1/100 of the whole, is no warm-up: it may have been interrupted.
const LONG_CALL_NS: u64 = 1_000_000;
const LONG_CALL_PART: u128 = 100;

/// All phases in order of printing, with figures of their subtrees.
#[derive(Debug)]
#[doc(hidden)] // for the crate range-page
pub struct Phases<'a> {
    all: Vec<Phase<'a>>,
    whole: u128,
    /// Self time of warm-ups that took more than half of their row.
    apart: u128,
    /// Self time of phases that waited for their children for most of it.
    blocked: u128,
    /// The own waiting of all calls; `None` if no phase waits.
    awaited_whole: Option<u128>,
    /// The part of `awaited_whole` that belongs to loops that live as long as the run.
    looped: u128,
    /// The sum of the own times of all phases on the GPU, by source; `None` if none is known.
    gpu_whole: [Option<u128>; WAYS],
}

impl<'a> Phases<'a> {
    pub fn of(summary: &'a Summary) -> Self {
        let roots = &summary.tree;
        let mut all = flatten(roots);
        for i in (0..all.len()).rev() {
            let (end, self_below, peak) = (all[i].end, all[i].self_below, all[i].peak);
            let awaited_peak = all[i].awaited_peak;
            let (gpu_self_below, gpu_peak) = (all[i].gpu_self_below, all[i].gpu_peak);
            if let Some(parent) = all[i].parent.map(|parent| &mut all[parent]) {
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
        let covered: u128 = all.iter().map(|phase| phase.node.self_ns).total();
        let whole = match covered {
            0 => roots.iter().map(|root| root.total_ns).total(),
            covered => covered,
        };
        for i in 0..all.len() {
            let above = all[i].parent.map(|parent| all[parent].node);
            let phase = &mut all[i];
            phase.one_call = one_call(phase.node, whole) && !is_recursive(phase.node, above);
            phase.has_warm_up = phase.one_call && is_warm_up(phase.node);
            let blocked_ns = if phase.is_blocked() { phase.node.blocked_ns } else { 0 };
            phase.own_ns = phase.own_of_the_others().saturating_sub(blocked_ns);
        }
        let gpu_whole = std::array::from_fn(|way| {
            let known = all.iter().any(|phase| phase.on_gpu[way].total_ns.is_some());
            known.then(|| all.iter().filter_map(|phase| phase.on_gpu[way].self_ns).total())
        });
        let apart = all.iter().map(|phase| phase.node.self_ns - phase.own_of_the_others()).total();
        let blocked = all.iter().map(|phase| phase.own_of_the_others() - phase.own_ns).total();
        let waits = all.iter().any(|phase| phase.node.awaited_ns.is_some());
        waits::set(&mut all, summary);
        let awaited_whole = waits.then(|| all.iter().map(|phase| phase.waited_ns).total());
        let looped = all.iter().filter(|phase| phase.wait == Wait::Loop).map(|phase| phase.waited_ns).total();
        mark_beside(&mut all, whole);
        Self { all, whole, apart, blocked, awaited_whole, looped, gpu_whole }
    }

    /// All phases, in the order of printing.
    #[must_use]
    pub fn all(&self) -> &[Phase<'a>] {
        &self.all
    }

    /// The time in spans on all threads: 100 % in shares of the tree.
    pub(crate) const fn whole(&self) -> u128 {
        self.whole
    }

    /// The part of `whole` in warm-ups that took more than half of their row. The ranking of phases leaves it out.
    pub(crate) const fn apart(&self) -> u128 {
        self.apart
    }

    /// The part of `whole` in which marked phases only waited for their children. The ranking leaves it out, too.
    pub(crate) const fn blocked(&self) -> u128 {
        self.blocked
    }

    /// The time that the ranking of phases distributes: 100 % in its shares.
    pub(crate) const fn ranked(&self) -> u128 {
        self.whole - self.apart - self.blocked
    }

    /// The own waiting of all calls. `None` if no phase is a future.
    pub(crate) const fn awaited_whole(&self) -> Option<u128> {
        self.awaited_whole
    }

    /// The waiting without loops that live as long as the run: 100 % in shares of waiting.
    pub(crate) fn awaited_ranked(&self) -> u128 {
        self.awaited_whole.unwrap_or(0) - self.looped
    }

    /// Whether more time was awaited than run. Then the report begins with the waits.
    #[must_use]
    pub fn waits_more_than_runs(&self) -> bool {
        let all = self.awaited_ranked();
        all > self.whole - self.blocked && all >= u128::from(WORTH_TELLING_NS)
    }

    /// Up to `count` phases whose waits are the likeliest causes; none if more time was run than awaited.
    pub(super) fn most_awaited(&self, count: usize) -> Vec<Culprit> {
        let all = self.awaited_ranked();
        match self.waits_more_than_runs() {
            true => waits::culprits(&self.all, count, |ns| is_small(ns, all)),
            false => Vec::new(),
        }
    }

    /// The phase that is marked for its wait.
    pub(crate) fn longest_wait(&self) -> Option<usize> {
        self.most_awaited(1).first().map(|culprit| culprit.index)
    }

    /// The loops that live as long as the run, the longest waits first; none if more time was run than awaited.
    pub(super) fn loops(&self) -> Vec<usize> {
        let is_told = self.awaited_whole.is_some_and(|all| all > self.whole - self.blocked);
        let mut loops: Vec<usize> = (0..self.all.len()).filter(|&i| is_told && self.all[i].is_loop()).in_vec();
        order::by_key(&mut loops, |&i| Reverse(self.all[i].node.awaited_self_ns));
        loops
    }

    /// The phases in which one call took more than half the time, by the self time of that call, longest first. If any
    /// of these calls has self time, leaves out the phases whose children took the time.
    pub(super) fn dominated(&self) -> Vec<usize> {
        let once = |i: usize| self.all[i].own_of_longest();
        let mut phases: Vec<usize> = (0..self.all.len()).filter(|&i| self.all[i].one_call).in_vec();
        if phases.iter().any(|&i| once(i) > 0) {
            phases.retain(|&i| once(i) > 0);
        }
        order::by_key(&mut phases, |&i| Reverse((once(i), self.all[i].node.max_ns)));
        phases
    }

    /// The sum of the own times of all spans on the GPU: 100 % in their shares. `None` if this source has no time.
    pub(crate) const fn gpu_whole(&self, way: Way) -> Option<u128> {
        self.gpu_whole[way as usize]
    }

    pub(crate) fn same_name(&self, a: usize, b: usize) -> bool {
        is_named_alike(self.all[a].node, self.all[b].node)
    }

    /// Whether another phase has the same name.
    pub(crate) fn repeats(&self, index: usize) -> bool {
        (0..self.all.len()).any(|other| other != index && self.same_name(index, other))
    }

    /// The phase with the most self time.
    pub(crate) fn slowest(&self) -> Option<usize> {
        self.first(|phase| phase.own_ns)
    }

    /// The phase whose own launches kept the GPU busy longest.
    pub(crate) fn busiest(&self) -> Option<usize> {
        self.first(|phase| phase.on_gpu[Way::Busy as usize].self_ns.unwrap_or(0))
    }

    fn first(&self, ns: fn(&Phase) -> u64) -> Option<usize> {
        let known = (0..self.all.len()).map(|i| (ns(&self.all[i]), Reverse(i)));
        known.filter(|(ns, _)| *ns > 0).max().map(|(_, Reverse(index))| index)
    }

    /// Up to `count` phases with the most self time. Leaves out phases that are small compared with the whole or with
    /// the first phase.
    pub(super) fn most_own(&self, count: usize) -> Vec<(usize, u64)> {
        self.most(count, self.ranked(), &|phase| phase.own_ns)
    }

    /// The same for own time on the GPU.
    pub(super) fn most_on_gpu(&self, way: Way, count: usize) -> Vec<(usize, u64)> {
        let own = |phase: &Phase| phase.on_gpu[way as usize].self_ns.unwrap_or(0);
        self.most(count, self.gpu_whole(way).unwrap_or(0), &own)
    }

    fn most(&self, count: usize, whole: u128, own: &dyn Fn(&Phase) -> u64) -> Vec<(usize, u64)> {
        let phases = self.all.iter().enumerate().map(|(index, phase)| (index, own(phase)));
        let mut phases: Vec<(usize, u64)> = phases.filter(|(_, ns)| *ns > 0 && !is_small(*ns, whole)).in_vec();
        order::by_key(&mut phases, |(_, ns)| Reverse(*ns));
        without_small(&mut phases, |(_, ns)| *ns);
        phases.truncate(count);
        phases
    }

    /// Whether a phase ran outside of its parent, on another thread or later, so that its total is no part of the
    /// parent's.
    #[cfg(feature = "page")]
    #[must_use]
    pub fn ran_elsewhere(&self, index: usize) -> bool {
        let phase = &self.all[index];
        let nested =
            |parent: usize| u128::from(self.all[parent].node.total_ns.saturating_sub(self.all[parent].node.self_ns));
        phase.beside && u128::from(phase.node.total_ns) > phase.parent.map_or(self.whole, nested)
    }

    /// Whether a phase and its subtree are small in every figure. CPU time alone is not enough: launching a long kernel
    /// takes next to no time.
    pub(crate) fn is_small(&self, index: usize) -> bool {
        let phase = &self.all[index];
        let mut on_gpu = phase.gpu_peak.iter().zip(self.gpu_whole);
        is_small(phase.peak, self.whole)
            && (phase.awaited_peak == 0 || is_small(phase.awaited_peak, self.awaited_whole.unwrap_or(0)))
            && on_gpu.all(|(&peak, whole)| peak == 0 || whole.is_none_or(|whole| is_small(peak, whole)))
    }
}

fn mark_beside(all: &mut [Phase], whole: u128) {
    let mut together = vec![0_u128; all.len()];
    for phase in all.iter() {
        if let Some(parent) = phase.parent {
            together[parent] += u128::from(phase.node.total_ns);
        }
    }
    for i in 0..all.len() {
        all[i].beside = match all[i].parent {
            Some(parent) => together[parent] > u128::from(all[parent].node.total_ns),
            // A root exceeds the whole by more than rounding only if it was entered inside itself.
            None => u128::from(all[i].node.total_ns) > whole + whole.div_ceil(SMALL_PART),
        };
    }
}

/// Whether one of many calls took more than half of their time.
fn one_call(node: &TreeNode, whole: u128) -> bool {
    let is_call = node.instances <= node.calls; // else an instance is a poll
    let rest = node.total_ns.saturating_sub(node.max_ns);
    let is_long = node.max_ns >= LONG_CALL_NS && u128::from(node.max_ns) * LONG_CALL_PART >= whole;
    is_call && node.instances >= MANY_CALLS && is_long && node.max_ns > rest && rest > 0
}

/// Whether the longest call was a warm-up: the first of all, or the first of a thread that makes many. If each thread
/// makes a few, any of their first calls may be slow.
fn is_warm_up(node: &TreeNode) -> bool {
    let is_early = |it: &LongestInstance| it.start_ns <= node.first_ns || it.of >= MANY_CALLS;
    node.longest.as_ref().is_some_and(|it| it.is_first && is_early(it))
}

/// Whether the node calls itself. Then the time of a call depends on its input, and one call may well take most of it.
fn is_recursive(node: &TreeNode, above: Option<&TreeNode>) -> bool {
    above.into_iter().chain(&node.children).any(|other| is_named_alike(node, other))
}

fn is_named_alike(a: &TreeNode, b: &TreeNode) -> bool {
    (&a.name, &a.domain) == (&b.name, &b.domain)
}

fn is_small(ns: u64, whole: u128) -> bool {
    u128::from(ns) * SMALL_PART < whole
}
