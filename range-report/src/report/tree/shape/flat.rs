//! The nodes of a tree in order of printing, in one list.

use crate::{GpuWork, TreeNode};

/// A phase with less than one in this many parts of the first one's time is not named beside it.
const NAME_FROM: u64 = 16;
/// From this number of calls on, one call that takes more than half the time of all is shown separately.
pub(super) const MANY_CALLS: u64 = 10;

/// A node.
pub(super) struct Flat<'a> {
    pub(super) node: &'a TreeNode,
    pub(super) parent: Option<usize>,
    pub(super) depth: usize,
    /// One past the last node of the subtree.
    pub(super) end: usize,
    /// Whether it and its siblings together took longer than their parent, or, at the top, it alone than all time: what
    /// a total holds twice, or of other threads.
    pub(super) beside: bool,
    /// Self time of the whole subtree.
    pub(super) self_below: u128,
    /// Whether one call took more than half of the row.
    pub(super) one_call: bool,
    /// What is left of its own time without a call that took more than half of the row, and without waiting for its
    /// children.
    pub(super) own_ns: u64,
    /// What it waits for itself.
    pub(super) wait: Wait,
    /// Longest wait in the subtree.
    pub(super) awaited_peak: u64,
    /// Longest total in the subtree. A child on another thread may be longer than its parent.
    pub(super) peak: u64,
    pub(super) on_gpu: [OnGpu; WAYS],
    /// Time on the GPU of its own of the whole subtree; `None` where none is known in it.
    pub(super) gpu_self_below: [Option<u128>; WAYS],
    /// Longest total on the GPU in the subtree.
    pub(super) gpu_peak: [u64; WAYS],
}

/// In which way time on the GPU is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report::tree) enum Way {
    /// While something that the phase launched ran, as CUPTI recorded it.
    Busy,
    /// Between two events on a stream.
    Stream,
}

pub(super) const WAYS: usize = 2;

/// Time on the GPU known in one way; `None` where it is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::report::tree) struct OnGpu {
    pub(in crate::report::tree) total_ns: Option<u64>,
    pub(in crate::report::tree) self_ns: Option<u64>,
}

impl OnGpu {
    fn of(node: &TreeNode) -> [Self; WAYS] {
        // A phase that launched nothing has no time, rather than none.
        let busy = |work: &GpuWork| (work.operations > 0).then_some(work.busy_ns);
        let work = node.gpu.as_ref();
        [
            Self { total_ns: work.and_then(|work| busy(&work.total)), self_ns: work.and_then(|work| busy(&work.own)) },
            Self { total_ns: node.stream_total_ns, self_ns: node.stream_self_ns },
        ]
    }
}

/// What a node waits for itself, as far as the figures show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wait {
    /// Nothing that is measured.
    #[default]
    Own,
    /// Perhaps this node.
    For(usize),
    /// The next work, as long as the run.
    Loop,
}

impl Flat<'_> {
    /// Self time without what is certainly that of such a call: it may have had all that ran inside of the row.
    pub(super) fn own_of_the_others(&self) -> u64 {
        let nested = self.node.total_ns.saturating_sub(self.node.self_ns);
        let once = if self.one_call { self.node.max_ns.saturating_sub(nested) } else { 0 };
        self.node.self_ns.saturating_sub(once)
    }
}

pub(super) fn flatten(roots: &[TreeNode]) -> Vec<Flat<'_>> {
    let mut nodes = Vec::new();
    let mut waiting: Vec<(&TreeNode, Option<usize>, usize)> = roots.iter().rev().map(|root| (root, None, 0)).collect();
    while let Some((node, parent, depth)) = waiting.pop() {
        let index = nodes.len();
        let on_gpu = OnGpu::of(node);
        nodes.push(Flat {
            node,
            parent,
            depth,
            end: index + 1,
            beside: false,
            self_below: u128::from(node.self_ns),
            one_call: false,
            own_ns: node.self_ns,
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

/// Leaves out what is small beside the first.
pub(super) fn without_small<T>(all: &mut Vec<T>, ns: impl Fn(&T) -> u64) {
    let first = all.first().map_or(0, &ns);
    all.retain(|one| ns(one) >= first / NAME_FROM);
}
