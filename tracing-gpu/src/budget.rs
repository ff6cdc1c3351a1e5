//! The bound on memory for durations that are kept one by one.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Memory that sample chunks and histogram pages of all threads may still take, in bytes.
#[derive(Debug)]
pub(crate) struct Budget(AtomicUsize);

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    /// Whether there is memory for one more duration in a vector that holds `kept`. Takes the memory where the vector
    /// doubles.
    #[cfg(feature = "cudarc")]
    pub(crate) fn covers(&self, kept: u64) -> bool {
        let grows = kept == 0 || kept.is_power_of_two();
        !grows || self.take(kept.max(1) as usize * 8).is_ok()
    }

    /// Memory that is free again.
    #[cfg(feature = "cudarc")]
    pub(crate) fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn take(&self, bytes: usize) -> Result<(), BudgetSpent> {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).map(drop).map_err(|_| BudgetSpent)
    }

    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// The process's sample budget is spent.
pub(crate) struct BudgetSpent;
