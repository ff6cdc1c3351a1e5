//! Sources of GPU records: one for each vendor's library, and one for operations that the program has timed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use range_model::Note;

use crate::graph::GraphChange;
use crate::record::{Api, ApiCall, Detail, GpuOp};

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// An operation on a GPU.
    Op(GpuOp),
    /// A call of the API.
    Call(ApiCall),
    /// A detail, if asked for.
    Detail(Detail),
    /// A change of a graph.
    Graph(GraphChange),
}

/// Records that are only counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// Records of unknown kinds and records that were cut off. If the length of a record is unknown, it and all records
    /// behind it count as one.
    pub unreadable: u64,
    /// Records without a buffer.
    pub over_budget: u64,
}

/// How often a reader's rounds usually are.
pub const PERIOD: Duration = Duration::from_millis(100);

/// A source of records, for one reader. The numbers of launches, kernels and devices are unique over all sources. Times
/// are nanoseconds of [`now`](crate::cupti::now).
///
/// A reader's round is [`flush`](Self::flush), [`hold`](Self::hold), then the threads' notes of launches, then
/// [`read`](Self::read). So the launch of every held record has been noted.
pub trait Source: fmt::Debug + Sync {
    /// Makes complete records ready for the next batch. Waits for no GPU.
    fn flush(&self);
    /// Whether a round is worth its cost. A reader may ask every [`PERIOD`].
    fn is_due(&self) -> bool {
        true
    }
    /// Fixes the next batch: all records that have arrived.
    fn hold(&self);
    /// Reads the records of the batch, once. Returns the losses since the last call.
    fn read(&self, each: &mut dyn FnMut(Recorded)) -> Lost;
    /// Records that the vendor's library dropped so far.
    fn dropped(&self) -> u64;
    /// Readable name of a kernel, and its symbol in the module; `None` if the number is not known.
    fn kernel(&self, number: u32) -> Option<(Arc<str>, Arc<str>)>;
    /// Name of a function of an API.
    fn function(&self, api: Api, number: u32) -> Option<Arc<str>>;
    /// Name of a device. May call the vendor's library.
    fn device(&self, number: u32) -> Option<Arc<str>>;
    /// Ends the source and discards later records. An orderly end waits for all launched work without a limit; the exit
    /// of the process waits for a limited time. Returns whether all records have arrived.
    fn finish(&'static self, orderly: bool) -> bool;
    /// Where the records come from, for the footer of a report.
    fn describe(&self) -> Note;
    /// For the footer: which other profilers get no records because of this source.
    fn describe_others(&self) -> Option<Note>;
    /// Whether this process is a forked child of the source's process. Then no other method may be called.
    fn forked(&self) -> bool;
}
