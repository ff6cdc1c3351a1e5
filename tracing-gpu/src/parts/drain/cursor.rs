//! What a cursor has read of the parts.

use range_model::Losses;
#[cfg(feature = "injection")]
use range_model::OpenAccStats;
use range_model::stats::Keyed;
use range_model::summary::OffCpuStats;

use crate::parts::calls::thread::call_row::CallCopy;
#[cfg(feature = "cuda")]
use crate::parts::launches::collector::ActivityTotals;
#[cfg(feature = "cuda")]
use crate::parts::streams::device::{StreamRowKey, StreamTime};
use crate::parts::waits::thread::waits::{Length, ValueSums, WaitSums};

/// Sums of the parts that were read so far, in ticks, as [`Cursor`](crate::core::drain::Cursor) has them of rows.
#[derive(Default)]
pub(crate) struct OfCursor {
    /// By the number of the thread and that of the row.
    pub(crate) calls: Keyed<(u32, u32), CallCopy<'static>>,
    #[cfg(feature = "cuda")]
    pub(crate) streams: Keyed<StreamRowKey, StreamTime>,
    pub(crate) waits: Keyed<[u32; 2], WaitSums>,
    pub(crate) held_up: Keyed<[u32; 2], WaitSums>,
    pub(crate) values: Keyed<[u32; 2], ValueSums>,
    pub(crate) shorter: Keyed<([u32; 2], Length), i64>,
    #[cfg(feature = "cuda")]
    pub(crate) activity: Option<ActivityTotals>,
    pub(crate) off_cpu: Vec<OffCpuStats>,
    #[cfg(feature = "injection")]
    pub(crate) openacc: Vec<OpenAccStats>,
}

/// What is not read yet is no loss of a window: it stays as it is.
pub(crate) fn keep_pending(since: &mut Losses, now: &Losses) {
    since.streams.pending = now.streams.pending;
}
