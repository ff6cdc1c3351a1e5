//! The figure of each kind of row that compares processes; and the figures of projections.

use super::rows::Part;
use crate::summary::schema::figures;
use crate::summary::{CallTotals, GpuWork, NodeTotals, Sizes, StreamTimes, Times};

/// One range projected onto the GPUs of all processes, as in [`ProjectionStats`](crate::ProjectionStats).
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(not(feature = "_literals"), non_exhaustive)]
pub struct Projected {
    /// Projected durations of the instances with GPU work.
    pub times: Times,
    /// Sum of their durations on the CPU, in nanoseconds.
    pub range_total_ns: u64,
    /// GPU operations of all of them; those of one graph launch count once.
    pub operations: u64,
    /// Sum over these instances of the number of ranges each was nested in.
    pub level_sum: u64,
    /// Sum over these instances of the number of ranges with GPU work directly inside.
    pub children_sum: u64,
}

figures!(@join Projected {
    times = joined;
    range_total_ns = sum;
    operations = sum;
    level_sum = sum;
    children_sum = sum;
});

/// Implements [`Part`] for rows: instances, total and median.
macro_rules! parts {
    ($($row:ty: $part:ident => $count:expr, $total:expr, $median:expr, $times:expr;)*) => {$(
        impl Part for $row {
            fn count(&self) -> u64 {
                let $part = self;
                $count
            }

            fn total(&self) -> u64 {
                let $part = self;
                $total
            }

            #[allow(unused_variables)] // for rows without a median
            fn median(&self) -> Option<f64> {
                let $part = self;
                $median
            }

            #[allow(unused_variables)] // for rows without durations
            fn times(&mut self) -> Option<&mut Times> {
                let $part = self;
                $times
            }
        }
    )*};
}

parts! {
    Times: part => part.instances, part.total_ns, part.median_ns, Some(part);
    Sizes: part => part.count, part.total_bytes, part.median_bytes, None;
    StreamTimes: part => part.times.instances, part.times.total_ns, part.times.median_ns, Some(&mut part.times);
    Projected: part => part.times.instances, part.times.total_ns, part.times.median_ns, Some(&mut part.times);
    // The total of calls is their own waiting time.
    CallTotals: part => part.latency.instances, part.awaited_self_ns, part.latency.median_ns, Some(&mut part.latency);
    // The total of GPU work is its busy time.
    GpuWork: part => part.operations, part.busy_ns, None, None;
    NodeTotals: part => part.instances, part.total_ns, None, None;
}
