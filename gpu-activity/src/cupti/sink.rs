//! Who receives calls and records.

use super::buffers::Filled;
use crate::record::Detail;
use crate::source::Lost;

/// Receives calls and records. CUPTI calls it, so no method may panic.
pub trait Sink: Sync {
    /// At the entry of a driver call, on the calling thread, or where part of a graph is made (function 0), and whether
    /// it puts work on a GPU. Calls no CUDA, takes no lock that is held while CUPTI is called.
    fn entered(&self, function: u32, correlation: u32, enqueues: bool);
    /// A detail without a record, for [`Session::keep_detail`](super::Session::keep_detail), right after its
    /// [`entered`](Self::entered).
    fn made(&self, detail: Detail);
    /// This process is a child that was forked off the one that started, and has begun. Allocates nothing, takes no
    /// lock.
    fn forked(&self);
    /// A buffer of records for [`Session::keep`](super::Session::keep) or
    /// [`Session::read_buffer`](super::Session::read_buffer), from CUPTI's thread or whoever flushes. Several threads
    /// may call this at once. CUPTI waits until it returns.
    fn filled(&self, buffer: Filled);
    /// Records were thrown away. The same holds for this call.
    fn lost(&self, records: Lost);
}
