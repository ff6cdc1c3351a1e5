//! Operations in the bodies of conditions, which wait for their launches.
//!
//! Their records may arrive before those of the other nodes of their replay (measured on an H200 with CUPTI 13.0).

use range_report::stats::Lean;

use super::graphs::GraphNodes;
use crate::record::GpuOp;

/// An operation, and the correlation id of its launch once that is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct InBody {
    pub(super) op: GpuOp,
    pub(super) of_window: bool,
    pub(super) correlation: u32,
}

/// The operations that wait.
#[derive(Debug)]
pub(super) struct Bodies {
    limit: usize,
    /// Those of this drain and of the one before.
    waiting: [Vec<InBody>; 2],
}

impl Bodies {
    /// At most `limit` operations wait.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, waiting: Default::default() }
    }

    /// Lets an operation wait. Returns whether there is room.
    pub(super) fn hold(&mut self, op: &GpuOp, of_window: bool) -> bool {
        let has_room = self.len() < self.limit;
        if has_room {
            self.waiting[0].push(InBody { op: *op, of_window, correlation: 0 });
        }
        has_room
    }

    /// Number of operations that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.iter().map(Vec::len).sum()
    }

    /// Ends a drain: returns operations whose launch is certain, and if the drain `counts`, those of the drain before.
    pub(super) fn drained(&mut self, counts: bool, graphs: &GraphNodes) -> Vec<InBody> {
        let of_certain_launch = |body: &mut InBody| {
            let (correlation, is_certain) = graphs.replay(&body.op);
            body.correlation = correlation;
            is_certain
        };
        let mut over = self.waiting.iter_mut().flat_map(|all| all.extract_if(.., of_certain_launch)).in_vec();
        if counts {
            let [of_this, of_last] = std::mem::take(&mut self.waiting);
            over.extend(of_last);
            self.waiting[1] = of_this;
        }
        over
    }

    /// Takes all that wait.
    pub(super) fn take(&mut self, graphs: &GraphNodes) -> Vec<InBody> {
        [true, true].into_iter().flat_map(|counts| self.drained(counts, graphs)).in_vec()
    }

    /// Begins a new window: those that wait belong to the old one.
    pub(super) fn clear(&mut self) {
        self.waiting.iter_mut().flatten().for_each(|body| body.of_window = false);
    }
}
