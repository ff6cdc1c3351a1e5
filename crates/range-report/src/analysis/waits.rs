//! The waits that are causes. Two kinds of waits are not: a loop that lives as long as the run waits for work, and a
//! wait for another measured call of the process has its cause in that call.

use std::cmp::Reverse;
use std::ops::Range;

use super::phase::{MANY_CALLS, NAME_FROM, Phase, Wait, without_small};
use range_model::stats::{Lean, Named, order};
use range_model::{Summary, Times, TreeNode};

/// A call is as long as the run if it takes this part of the run.
const LONG_PERCENT: u128 = 80;
/// If all other waits together are less than this fraction of the run, calls as long as the run are the cause, and not
/// loops. The fraction is 1/10 for a single call, which may be the program's work, and 1/100 for several.
const BESIDE_ONE: u128 = 10;
const BESIDE_SEVERAL: u128 = 100;
/// A program has fewer loops of one name. So many calls that are as long as the run are its work, at the same time.
const MANY_LOOPS: u64 = 10;
/// A node with at most one call to this many of a child of it drives several of them: it is a loop, and no common
/// caller.
const DRIVES: u64 = 10;
/// Number of waits, the longest ones, whose cause is searched.
const LOOKED_AT: usize = 16;
/// A call that takes this part of a wait hardly falls into it by chance.
const NEARLY_ALL_PERCENT: u128 = 80;
/// This fraction (1/8) of a call may run after the call that waits for it has ended.
const TRAILING: u64 = 8;
/// A wait that is perhaps for another node counts as this many times shorter.
const EXPLAINED: u64 = 10;

/// A node that waits, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Culprit {
    pub(super) index: usize,
    pub(super) ns: u64,
    /// The node that it perhaps waits for.
    pub(super) perhaps: Option<usize>,
}

/// Sets the length and the target of each node's wait.
pub(super) fn set(nodes: &mut [Phase], summary: &Summary) {
    leave_out_ready(nodes, summary);
    let long: Vec<Option<LongCalls>> = nodes.iter().map(|phase| as_loop(phase.node, summary)).in_vec();
    let calls = nodes.iter().zip(&long).filter(|(_, long)| long.is_some()).map(|(phase, _)| phase.node.calls);
    let part = if calls.fold(0, u64::saturating_add) > 1 { BESIDE_SEVERAL } else { BESIDE_ONE };
    let run = u128::from(summary.elapsed_ns);
    let ran = |of: Range<usize>| nodes[of].iter().map(|phase| phase.own_ns).total();
    let all_ran = ran(0..nodes.len());
    let others = nodes.iter().zip(&long).filter(|(_, long)| long.is_none());
    let waited = others.map(|(phase, _)| own_wait(phase.node)).total();
    // Others ran and waited beside the loop: what it ran itself is no reason, nor what fits into the rest of the run.
    let is_beside = |&index: &usize| {
        let life = long[index].map_or(0, |long| long.life_ns.into());
        let ran = all_ran - ran(index..nodes[index].end).min(nodes[index].node.total_ns.into());
        (waited * part >= run || ran * 2 >= run) && life + ran.max(waited) > run
    };
    let loops: Vec<usize> = (0..nodes.len()).filter(|&index| long[index].is_some()).filter(is_beside).in_vec();
    loops.into_iter().for_each(|index| nodes[index].wait = Wait::Loop);
    let mut longest: Vec<usize> =
        (0..nodes.len()).filter(|&i| own_wait(nodes[i].node) > 0 && nodes[i].wait == Wait::Own).in_vec();
    order::by_key(&mut longest, |&i| Reverse(own_wait(nodes[i].node)));
    for index in longest.into_iter().take(LOOKED_AT) {
        let by = child_elsewhere(nodes, index).or_else(|| called(nodes, index, summary));
        nodes[index].wait = by.map_or(Wait::Own, Wait::For);
    }
}

/// Up to `count` waits that are no loops, the most likely causes first. Waits that `is_small` accepts are left out. If
/// there are several, the longest is always one of them.
pub(super) fn culprits(nodes: &[Phase], count: usize, is_small: impl Fn(u64) -> bool) -> Vec<Culprit> {
    let culprit = |(index, phase): (usize, &Phase)| {
        let perhaps = match phase.wait {
            Wait::Own => None,
            Wait::For(other) => Some(other),
            Wait::Loop => return None,
        };
        Some(Culprit { index, ns: phase.waited_ns, perhaps })
    };
    let mut all: Vec<Culprit> = nodes.iter().enumerate().filter_map(culprit).in_vec();
    all.retain(|culprit| culprit.ns > 0 && !is_small(culprit.ns));
    let longest = all.iter().largest_by(|culprit| (culprit.ns, Reverse(culprit.index))).copied();
    order::by_key(&mut all, |culprit| {
        Reverse(if culprit.perhaps.is_some() { culprit.ns / EXPLAINED } else { culprit.ns })
    });
    without_small(&mut all, |culprit| culprit.ns);
    all.truncate(count);
    if let (Some(longest), [_, .., last]) = (longest.filter(|longest| !all.contains(longest)), &mut all[..]) {
        *last = longest;
    }
    all
}

/// Leaves out the time in which calls were ready. It is known of all calls of a name, not of each node.
fn leave_out_ready(nodes: &mut [Phase], summary: &Summary) {
    let rows = summary.calls.iter().filter_map(|row| {
        let states = row.states.filter(|states| states.ready_ns > 0)?;
        let waited = states.otherwise_ns.saturating_add(states.gpu_work_ns);
        let ready = row.awaited_self_ns.saturating_sub(waited).min(states.ready_ns);
        Some(((&*row.name, row.domain.as_deref()), [ready, row.awaited_self_ns]))
    });
    let rows: Named<(&str, Option<&str>), [u64; 2]> = rows.collect();
    for phase in nodes {
        let row = rows.get(&(&*phase.node.name, phase.node.domain.as_deref()));
        let Some([ready, of]) = row.map(|row| row.map(u128::from)).filter(|[_, of]| *of > 0) else { continue };
        let ready = u128::from(phase.waited_ns) * ready / of;
        phase.waited_ns = phase.waited_ns.saturating_sub(u64::try_from(ready).unwrap_or(u64::MAX));
    }
}

fn own_wait(node: &TreeNode) -> u64 {
    node.awaited_self_ns.unwrap_or(0)
}

/// How long all calls of a node lived.
fn life(node: &TreeNode) -> u128 {
    u128::from(node.total_ns) + u128::from(node.awaited_ns.unwrap_or(0))
}

/// The node's calls, if they are few, live nearly as long as the run, and wait for work: for at least half of their
/// life or, if a child has many more calls, longer than they run themselves.
fn as_loop(node: &TreeNode, summary: &Summary) -> Option<LongCalls> {
    let own_wait = own_wait(node);
    let waits = own_wait > 0 && u128::from(own_wait) * 2 >= life(node);
    let drives = || node.children.iter().any(|child| child.calls / DRIVES >= node.calls);
    // The last test searches a list.
    let is_loop = waits || own_wait > node.self_ns && drives();
    is_loop.then(|| long_calls(node, summary))?.filter(|long| long.count < MANY_LOOPS)
}

/// Calls of one node that are as long as the run: their number, and their mean life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LongCalls {
    pub(super) count: u64,
    pub(super) life_ns: u64,
}

/// The calls of a node, if they live nearly as long as the run. Without short calls, such as those that start an actor,
/// if these take next to no time and are at most as many.
pub(super) fn long_calls(node: &TreeNode, summary: &Summary) -> Option<LongCalls> {
    let run = u128::from(summary.elapsed_ns);
    let is_long = |long: &LongCalls| run > 0 && u128::from(long.life_ns) * 100 >= run * LONG_PERCENT;
    let mean = life(node).checked_div(node.calls.into())?;
    let all = LongCalls { count: node.calls, life_ns: u64::try_from(mean).unwrap_or(u64::MAX) };
    Some(all).filter(is_long).or_else(|| without_short(node, summary).filter(is_long))
}

/// The longest calls of a node whose other calls take next to no time and are at most as many.
fn without_short(node: &TreeNode, summary: &Summary) -> Option<LongCalls> {
    let latency = latency(node, summary).filter(|latency| latency.instances == node.calls)?;
    let (calls, total, longest) = (latency.instances as f64, latency.total_ns as f64, latency.max_ns as f64);
    // The mean length of the calls, each weighted by its length. Near the longest, it shows that short ones are small.
    let squares = latency.stddev_ns.powi(2) * (calls - 1.0) + total * total / calls;
    let weighted = squares / total;
    let count = (total / weighted).round();
    let is_rest_small = weighted * NAME_FROM as f64 >= longest * (NAME_FROM - 1) as f64;
    let life_ns = (total / count).min(longest) as u64;
    (is_rest_small && count * 2.0 >= calls).then_some(LongCalls { count: count as u64, life_ns })
}

/// The latencies of all calls of a node's name.
fn latency<'a>(node: &TreeNode, summary: &'a Summary) -> Option<&'a Times> {
    let row = summary.calls.iter().find(|row| (&row.name, &row.domain) == (&node.name, &node.domain));
    row.map(|row| &row.latency)
}

/// The child that ran for at least half of the wait of this node, and outside of its polls, as on a blocking thread.
fn child_elsewhere(nodes: &[Phase], index: usize) -> Option<usize> {
    let node = nodes[index].node;
    let below = index + 1..nodes[index].end;
    let children = || below.clone().filter(|&i| nodes[i].parent == Some(index) && nodes[i].node.awaited_ns.is_none());
    let ran: u128 = children().map(|i| nodes[i].node.total_ns).total();
    let elsewhere = ran.saturating_sub(u128::from(node.total_ns.saturating_sub(node.self_ns)));
    let explains = elsewhere * 2 >= u128::from(own_wait(node)) && elsewhere <= life(node);
    children().filter(|_| explains).largest_by(|&i| nodes[i].node.total_ns)
}

/// The node for whose calls the calls of this one perhaps wait, as a client waits for a server in its process. Both
/// nodes have about the same number of calls. The first call of the other began during the first call of this one. The
/// calls of the other took at least half of the wait, and no longer than the waiting calls. The two have no common
/// caller. They are not rows of one function that a field has split: such rows have equal numbers by chance.
fn called(nodes: &[Phase], index: usize, summary: &Summary) -> Option<usize> {
    let node = nodes[index].node;
    let waits = latency(node, summary).filter(|_| node.calls >= MANY_CALLS)?;
    let median = waits.median_ns.map_or(0, |median| median as u64).max(waits.min_ns);
    let is_called = |other: usize| {
        let (it, took) = (nodes[other].node, life(nodes[other].node));
        // If the waiting calls follow one another, the second begins after the first, so after the shortest time or
        // later. The first calls of many clients at once may take long to arrive.
        let is_nearly_all = took * 100 >= u128::from(own_wait(node)) * NEARLY_ALL_PERCENT;
        let soon = if is_nearly_all { median } else { waits.min_ns };
        let fits = |inner: u64, outer: u64| inner - inner / TRAILING <= outer;
        let fit = || {
            latency(it, summary)
                .map_or(it.max_ns <= waits.max_ns, |it| fits(it.min_ns, waits.min_ns) && fits(it.max_ns, waits.max_ns))
        };
        it.calls.abs_diff(node.calls).saturating_mul(100) <= node.calls
            && it.first_ns.checked_sub(node.first_ns).is_some_and(|ns| ns < soon)
            && took * 2 >= u128::from(own_wait(node))
            && took <= life(node)
            && !is_related(nodes, index, other)
            && fit()
            && !are_split(nodes, index, other)
    };
    let others = (0..nodes.len()).filter(|&other| is_called(other));
    others.largest_by(|&other| (life(nodes[other].node), Reverse(other)))
}

/// Whether the nodes are equal, or one is below the other, once values of fields are cut from names (`load: user 3`).
fn are_split(nodes: &[Phase], index: usize, other: usize) -> bool {
    let path = |index: usize| {
        let above = std::iter::successors(Some(index), |&at| nodes[at].parent);
        let plain = |at: usize| nodes[at].node.name.split_once(": ").map_or(&*nodes[at].node.name, |(plain, _)| plain);
        let mut path: Vec<(Option<&str>, &str)> =
            above.map(|at| (nodes[at].node.domain.as_deref(), plain(at))).in_vec();
        path.reverse();
        path
    };
    let (of_this, of_other) = (path(index), path(other));
    of_this.starts_with(&of_other) || of_other.starts_with(&of_this)
}

/// Whether one node is below the other, or both have a common caller above them.
fn is_related(nodes: &[Phase], index: usize, other: usize) -> bool {
    let mut above = Some(index);
    while let Some(at) = above {
        let holds = (at..nodes[at].end).contains(&other);
        if holds || (other..nodes[other].end).contains(&at) {
            return at == index || nodes[at].node.calls.saturating_mul(DRIVES) > nodes[index].node.calls;
        }
        above = nodes[at].parent;
    }
    false
}
