//! A phase: a node of the tree, with conclusions from its figures.

use range_model::stats::Lean;
use range_model::{GpuWork, TreeNode};

/// Shorter waits are not reported: even without waiting, so much time passes between two polls.
pub(super) const WORTH_TELLING_NS: u64 = 1_000_000;
/// A list names only phases with at least this fraction (1/16) of the time of its first phase.
pub(super) const NAME_FROM: u64 = 16;
/// From this number of calls on, one call that takes more than half the time of all is shown separately.
pub(super) const MANY_CALLS: u64 = 10;

/// A node of the tree.
#[derive(Debug)]
#[doc(hidden)] // for the crate range-page
pub struct Phase<'a> {
    pub node: &'a TreeNode,
    pub(crate) parent: Option<usize>,
    pub depth: usize,
    /// One past the last node of the subtree.
    pub(crate) end: usize,
    /// Whether the total may hold time of other threads, or time twice: the phase and its siblings took longer than
    /// their parent, or the phase is a root and took longer than all time in spans.
    pub beside: bool,
    /// Self time of the whole subtree.
    pub(crate) self_below: u128,
    /// Whether one call took more than half of the row.
    pub(crate) one_call: bool,
    /// Whether that call was a warm-up: the first one.
    pub has_warm_up: bool,
    /// Its own time, without a warm-up that took more than half of the row, and without waiting for its children.
    pub own_ns: u64,
    /// Its own waiting, without the time in which it was ready, as far as that is known: then only a free thread or
    /// the next poll was missing.
    pub(super) waited_ns: u64,
    /// The target of its own waiting.
    pub(super) wait: Wait,
    /// Longest wait in the subtree.
    pub(crate) awaited_peak: u64,
    /// Longest total in the subtree. A child on another thread may be longer than its parent.
    pub(crate) peak: u64,
    pub(crate) on_gpu: [OnGpu; WAYS],
    /// Sum of the own times on the GPU in the subtree; `None` if none is known.
    pub(crate) gpu_self_below: [Option<u128>; WAYS],
    /// Longest total on the GPU in the subtree.
    pub(crate) gpu_peak: [u64; WAYS],
}

/// The source of a time on the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// CUPTI's records: the time in which work of the phase ran.
    Busy,
    /// Events on a stream: the time between two of them.
    Stream,
}

pub(crate) const WAYS: usize = 2;

/// Times on the GPU from one source; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OnGpu {
    pub(crate) total_ns: Option<u64>,
    pub(crate) self_ns: Option<u64>,
}

impl OnGpu {
    fn of(node: &TreeNode) -> [Self; WAYS] {
        // Without a launch the busy time is `None`, not 0.
        let busy = |work: &GpuWork| (work.operations > 0).then_some(work.busy_ns);
        let work = node.gpu.as_ref();
        [
            Self { total_ns: work.and_then(|work| busy(&work.total)), self_ns: work.and_then(|work| busy(&work.own)) },
            Self { total_ns: node.stream_total_ns, self_ns: node.stream_self_ns },
        ]
    }
}

/// The target of a node's own waiting, as far as the figures show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wait {
    /// Something that is not measured.
    #[default]
    Own,
    /// Perhaps this node.
    For(usize),
    /// The next work: the node is a loop that lives as long as the run.
    Loop,
}

impl Phase<'_> {
    /// Self time without a warm-up that took more than half of the row.
    pub(super) fn own_of_the_others(&self) -> u64 {
        self.node.self_ns - if self.has_warm_up { self.own_of_longest() } else { 0 }
    }

    /// Self time that certainly belongs to the longest call. All ranges inside the row may have run in that call.
    pub(super) fn own_of_longest(&self) -> u64 {
        let nested = self.node.total_ns.saturating_sub(self.node.self_ns);
        self.node.max_ns.saturating_sub(nested).min(self.node.self_ns)
    }

    /// Whether it waited for its children for most of its self time.
    #[must_use]
    pub const fn is_blocked(&self) -> bool {
        self.node.blocked_ns >= WORTH_TELLING_NS && self.node.blocked_ns >= self.node.self_ns / 2
    }

    /// Whether its spans were entered more than once, as a future is: at each poll.
    #[cfg(feature = "page")]
    #[must_use]
    pub const fn is_polled(&self) -> bool {
        self.node.instances > self.node.calls
    }

    /// Whether it lives as long as the run and waits for work.
    #[must_use]
    pub fn is_loop(&self) -> bool {
        self.wait == Wait::Loop
    }

    /// Mean time of a call, without a warm-up that took more than half of the row.
    #[must_use]
    pub fn mean_ns(&self) -> Option<u64> {
        match self.has_warm_up {
            true => self.mean_of_the_others(),
            false => self.node.total_ns.checked_div(self.node.calls),
        }
    }

    /// Mean time of a call, without the longest.
    pub(super) fn mean_of_the_others(&self) -> Option<u64> {
        let TreeNode { total_ns, max_ns, calls, .. } = *self.node;
        total_ns.saturating_sub(max_ns).checked_div(calls.saturating_sub(1))
    }
}

/// The nodes of a tree in the order of printing.
pub(super) fn flatten(roots: &[TreeNode]) -> Vec<Phase<'_>> {
    let mut nodes = Vec::new();
    let mut waiting: Vec<(&TreeNode, Option<usize>, usize)> = roots.iter().rev().map(|root| (root, None, 0)).in_vec();
    while let Some((node, parent, depth)) = waiting.pop() {
        let index = nodes.len();
        let on_gpu = OnGpu::of(node);
        nodes.push(Phase {
            node,
            parent,
            depth,
            end: index + 1,
            beside: false,
            self_below: u128::from(node.self_ns),
            one_call: false,
            has_warm_up: false,
            own_ns: node.self_ns,
            waited_ns: node.awaited_self_ns.unwrap_or(0),
            wait: Wait::Own,
            awaited_peak: node.awaited_ns.unwrap_or(0),
            peak: node.total_ns,
            on_gpu,
            gpu_self_below: on_gpu.map(|on_gpu| on_gpu.self_ns.map(u128::from)),
            gpu_peak: on_gpu.map(|on_gpu| on_gpu.total_ns.unwrap_or(0)),
        });
        waiting.extend(node.children.iter().rev().map(|child| (child, Some(index), depth + 1)));
    }
    nodes
}

/// Removes items that are small compared with the first.
pub(super) fn without_small<T>(all: &mut Vec<T>, ns: impl Fn(&T) -> u64) {
    let first = all.first().map_or(0, &ns);
    all.retain(|one| ns(one) >= first / NAME_FROM);
}

/// The sum of both, or the only one that is known.
pub(crate) fn either<T>(a: Option<T>, b: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(add(a, b)),
        (a, b) => a.or(b),
    }
}
