//! The result of the join: the figures of a summary, with numbers in place of names.

mod figures;
mod intervals;
mod lineage;

pub use self::figures::{AttributionLosses, Function, NodeTotals, Projection, Range, RangeKernel, Totals};
use self::lineage::Lineage;
pub(crate) use self::lineage::UNMATCHED;
use crate::record::{GpuOp, Work};
use range_report::MemoryKind;
use range_report::stats::{Distribution, Keyed};

/// Work and calls by kind, and by node of the lineage tree.
#[derive(Debug, Default)]
pub(crate) struct WorkTotals {
    pub(crate) lineage: Lineage,
    kernels: Keyed<u32, Distribution>,
    memory: Keyed<MemoryKind, (Distribution, Distribution)>,
    calls: Keyed<Function, Distribution>,
}

impl WorkTotals {
    /// Counts a timed operation in an existing node, or as [`UNMATCHED`]. The single duration is kept if `keep` allows
    /// it.
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

    /// Counts a call of the API, and adds it to `node`, which exists.
    pub(crate) fn call(&mut self, function: Function, duration: u64, node: Option<u32>, keep: &dyn Fn(u64) -> bool) {
        self.calls.row(function).add(duration, keep);
        if let Some(node) = node {
            self.lineage.call(node, function, duration);
        }
    }

    /// The counts, except those by instances.
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
