//! Who receives calls and records.

use super::buffers::Filled;
use crate::record::{ApiCall, GpuOp};

/// Receives calls and records. CUPTI calls it, so no method may panic.
pub trait Sink: Sync {
    /// At the entry of a driver call, on the calling thread, and whether it puts work on a GPU. Calls no CUDA, takes no
    /// lock that is held while CUPTI is called.
    fn entered(&self, function: u32, correlation: u32, enqueues: bool);
    /// This process is a child that was forked off the one that started, and has begun. Allocates nothing, takes no
    /// lock.
    fn forked(&self);
    /// A buffer of records for [`Session::read`](super::Session::read), from CUPTI's thread or whoever flushes. Several
    /// threads may call this at once. CUPTI waits until it returns.
    fn filled(&self, buffer: Filled);
    /// Records were thrown away. The same holds for this call.
    fn lost(&self, records: Lost);
}

/// A record that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// An operation on a GPU.
    Op(GpuOp),
    /// A call of the API.
    Call(ApiCall),
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
