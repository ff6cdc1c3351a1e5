//! The bound on memory for durations that are kept one by one.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Memory that sample chunks and histogram pages of all threads may still take, in bytes.
#[derive(Debug)]
pub(crate) struct Budget(pub(crate) AtomicUsize);

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    /// Whether there is memory for one more of the durations that a vector keeps, `kept` of them already: taken as it doubles.
    #[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
    pub(crate) fn covers(&self, kept: u64) -> bool {
        let grows = kept == 0 || kept.is_power_of_two();
        !grows || self.take(kept.max(1) as usize * 8).is_ok()
    }

    /// Memory that is free again.
    #[cfg_attr(not(feature = "cudarc"), allow(dead_code))]
    pub(crate) fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn take(&self, bytes: usize) -> Result<(), BudgetSpent> {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).map(drop).map_err(|_| BudgetSpent)
    }
}

/// The process's sample budget is spent.
pub(crate) struct BudgetSpent;
