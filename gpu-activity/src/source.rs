//! What records work on GPUs: one source a vendor's library, and one for the program itself.

use std::fmt;
use std::sync::Arc;

use crate::record::{Api, ApiCall, Detail, GpuOp};

/// A record that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// An operation on a GPU.
    Op(GpuOp),
    /// A call of the API.
    Call(ApiCall),
    /// A detail, where it was asked for.
    Detail(Detail),
}

/// Records that are counted and no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// Records of unknown kinds and records that were cut off. Where the length of one is unknown, all records behind
    /// it count as one with it.
    pub unreadable: u64,
    /// Not kept for want of buffers.
    pub over_budget: u64,
}

/// A source of records, for one reader. Each source gives out numbers of launches, kernels and devices that no other
/// one gives out. Times of records are nanoseconds of [`now`](crate::cupti::now).
///
/// One round of the reader is [`flush`](Self::flush), [`hold`](Self::hold), then what threads noted of their launches,
/// then [`read`](Self::read): what launched a record that is held was noted before.
pub trait Source: fmt::Debug + Sync {
    /// Has what is complete ready for the next batch. Waits for no GPU.
    fn flush(&self);
    /// What has come by now is the next batch.
    fn hold(&self);
    /// Reads the records of the batch, once. Returns what was lost since the last time.
    fn read(&self, each: &mut dyn FnMut(Recorded)) -> Lost;
    /// Records that the vendor's library dropped so far.
    fn dropped(&self) -> u64;
    /// Name of a kernel as a person writes it, and its symbol in the module; `None` where the number is not known.
    fn kernel(&self, number: u32) -> Option<(Arc<str>, Arc<str>)>;
    /// Name of a function of an API.
    fn function(&self, api: Api, number: u32) -> Option<Arc<str>>;
    /// Name of a device. May call the vendor's library.
    fn device(&self, number: u32) -> Option<Arc<str>>;
    /// Ends the source: what comes from now on is thrown away. Waits for all that was launched, without bound in an
    /// orderly end, and for some time at the exit of the process. Whether all has come.
    fn finish(&'static self, orderly: bool) -> bool;
    /// Where the records come from, for the footer of a report.
    fn describe(&self) -> String;
    /// For the footer: who gets no records because this source takes them.
    fn describe_others(&self) -> Option<String>;
    /// Whether this is a child of the process that the source is of: nothing may be called.
    fn forked(&self) -> bool;
}
