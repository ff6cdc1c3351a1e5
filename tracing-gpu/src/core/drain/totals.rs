//! The sums of a node of the tree over its rows.

use range_model::stats::Distribution;

use crate::clock::Ticks;
use crate::core::record::RangeKey;
use crate::core::thread::row::RowCopy;

pub(crate) type ThreadRows<'a> = &'a [(RangeKey, RowCopy)];

/// The sums over all rows of one node, in ticks.
#[derive(Clone, Default)]
pub(crate) struct NodeTotals {
    pub(crate) calls: u64,
    pub(crate) instances: u64,
    pub(crate) total: u128,
    pub(crate) longest: u64,
    pub(crate) longest_instance: Option<Longest>,
    /// All durations, if quantiles were asked for.
    pub(crate) times: Distribution,
    pub(crate) nested: u128,
    pub(crate) on_cpu: u128,
    pub(crate) off_cpu: u128,
    /// Part of the total that was spent inside the same node on the same thread.
    pub(crate) again: u128,
    /// Part of its self time in which it waited for its children.
    pub(crate) blocked: u128,
    /// First entry of such a span in the window. Before any entry has ended, its creation; the flag tells which.
    pub(crate) first: Option<(bool, u64)>,
}

impl NodeTotals {
    /// 0 if more spans were entered elsewhere than created in the window.
    pub(crate) fn calls(&self) -> u64 {
        u64::try_from(self.calls.cast_signed()).unwrap_or(0)
    }
}

/// The longest instance of a row.
#[derive(Clone, Copy)]
pub(crate) struct Longest {
    pub(crate) entered: Ticks,
    pub(crate) is_first: bool,
    pub(crate) number: Option<u64>,
    pub(crate) of: u64,
}

impl Longest {
    pub(crate) fn of(row: &RowCopy) -> Option<Self> {
        let entered = row.longest_at()?;
        Some(Self { entered, is_first: entered == row.first, number: row.longest_number(), of: row.times.count })
    }
}
