//! Pairs of events, and the ranges that they measure.

use gpu_activity::driver::Handle;

use super::totals::StreamTotals;
use crate::core::record::RangeKey;

/// The range that a pair measures.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub(crate) totals: &'static StreamTotals,
    pub(crate) node: u32,
    pub(crate) key: RangeKey,
    /// Start of the window in which the range was entered.
    pub(crate) window: u64,
}

impl Target {
    /// Whether both are of one row and one window.
    #[inline]
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.node == other.node
            && self.key == other.key
            && self.window == other.window
            && std::ptr::eq(self.totals, other.totals)
    }
}

/// Two CUDA events, for the start and the end of one instance at a time. They stay together as long as their context
/// lives.
#[derive(Clone, Copy)]
pub(crate) struct EventPair {
    pub(crate) start: Handle,
    pub(crate) end: Handle,
}

/// A pair with both events recorded.
#[derive(Clone, Copy)]
pub(crate) struct RecordedPair {
    pub(crate) events: EventPair,
    pub(crate) target: Target,
}
