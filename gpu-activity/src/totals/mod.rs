//! What the join ends in: the figures of a summary, by numbers in place of names.

mod figures;
mod intervals;
mod lineage;

pub use self::figures::{AttributionLosses, Function, NodeTotals, Projection, Range, RangeKernel, Totals};
use self::lineage::Lineage;
pub(crate) use self::lineage::UNMATCHED;
use crate::record::{GpuOp, Work};
use range_report::MemoryKind;
use range_report::stats::{Distribution, Keyed};

/// Work and calls by what they are, and by node of the lineage tree.
#[derive(Debug, Default)]
pub(crate) struct WorkTotals {
    pub(crate) lineage: Lineage,
    kernels: Keyed<u32, Distribution>,
    memory: Keyed<MemoryKind, (Distribution, Distribution)>,
    calls: Keyed<Function, Distribution>,
}

impl WorkTotals {
    /// Counts an operation with a time in a node that is there, or as [`UNMATCHED`]. Its duration is kept by itself
    /// where `keep` allows.
    pub(crate) fn operation(&mut self, node: u32, op: &GpuOp, keep: &dyn Fn(u64) -> bool) {
        let duration = op.end - op.start;
        match op.work {
            Work::Kernel(kernel) => self.kernels.row(kernel.name).add(duration, keep),
            Work::Memory(memory) => {
                let (times, sizes) = self.memory.row(memory.kind);
                times.add(duration, keep);
                sizes.add(memory.bytes, keep);
            }
        }
        self.lineage.add(node, op, duration);
    }

    /// Counts a call of the API, and in a node that is there.
    pub(crate) fn call(&mut self, function: Function, duration: u64, node: Option<u32>, keep: &dyn Fn(u64) -> bool) {
        self.calls.row(function).add(duration, keep);
        if let Some(node) = node {
            self.lineage.call(node, function, duration);
        }
    }

    /// What was counted, without what is by instances.
    pub(crate) fn totals(&self) -> Totals {
        let (nodes, total, unmatched) = self.lineage.totals();
        Totals {
            kernels: self.kernels.clone(),
            memory: self.memory.clone(),
            calls: self.calls.clone(),
            nodes,
            total,
            unmatched,
            ..Totals::default()
        }
    }
}
