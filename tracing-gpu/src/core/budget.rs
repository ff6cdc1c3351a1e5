//! The memory bound for single durations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use range_model::stats::histogram::BUCKETS;

use crate::sync::AtomicU64;

/// Memory for durations outside of the heap, beside the rows. The owner is the address of the samples.
pub(crate) trait SampleMemory: std::fmt::Debug + Send + Sync {
    /// Memory for the chunk of this number, with `length` durations, each [`EMPTY`](crate::core::samples::EMPTY).
    fn chunk(&self, owner: usize, number: usize, length: usize) -> Option<&'static [AtomicU64]>;

    /// Counters for the durations of an octave, all 0.
    fn page(&self, owner: usize, octave: usize) -> Option<&'static [AtomicU32; BUCKETS]>;
}

/// Memory that sample chunks and histogram pages of all threads may still take, in bytes, and the source of that memory
/// if it is not the heap.
#[derive(Debug)]
pub(crate) struct Budget {
    left: AtomicUsize,
    memory: Option<Arc<dyn SampleMemory>>,
}

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { left: AtomicUsize::new(bytes), memory: None }
    }

    /// The same budget with this memory.
    pub(crate) fn of(self, memory: Option<Arc<dyn SampleMemory>>) -> Self {
        Self { memory, ..self }
    }

    /// The memory outside of the heap, if there is any.
    pub(crate) fn memory(&self) -> Option<&dyn SampleMemory> {
        self.memory.as_deref()
    }

    /// Whether there is memory for one more duration in a vector with `kept` durations. Takes the memory when the
    /// vector doubles.
    #[cfg(feature = "cuda")]
    pub(crate) fn covers(&self, kept: u64) -> bool {
        let grows = kept == 0 || kept.is_power_of_two();
        !grows || self.take(kept.max(1) as usize * 8).is_ok()
    }

    /// Returns memory.
    #[cfg(feature = "cuda")]
    pub(crate) fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn take(&self, bytes: usize) -> Result<(), BudgetSpent> {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).map(drop).map_err(|_| BudgetSpent)
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.left.load(Relaxed)
    }
}

/// The process's sample budget is spent.
pub(crate) struct BudgetSpent;
