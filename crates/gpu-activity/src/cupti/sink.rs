//! The receiver of calls and records.

use super::buffers::Filled;
use crate::graph::GraphChange;
use crate::source::Lost;

/// Receives calls and records. CUPTI calls it, so no method may panic.
pub trait Sink: Sync {
    /// Called at the entry of a driver call, on the calling thread.
    /// `enqueues`: the call puts work on a GPU. Must not call CUDA nor take a lock that is held during calls of CUPTI.
    fn entered(&self, function: u32, correlation: u32, enqueues: bool);
    /// The innermost span on the calling thread, as a node of the lineage tree; 0 for none. The rules of
    /// [`entered`](Self::entered) hold here, too.
    fn span(&self) -> u32;
    /// A graph changed, for [`Session::keep_change`](super::Session::keep_change). On the thread that changes it.
    fn changed(&self, change: GraphChange);
    /// Called at the start of a forked child of the process that started the session. Must not allocate nor take a
    /// lock.
    fn forked(&self);
    /// Receives a buffer of records for [`Session::keep`](super::Session::keep) or
    /// [`Session::read_buffer`](super::Session::read_buffer), on CUPTI's thread or the flushing one. Several threads
    /// may call this at once. CUPTI waits until it returns.
    fn filled(&self, buffer: Filled);
    /// Records were discarded. The rules of [`filled`](Self::filled) hold here, too.
    fn lost(&self, records: Lost);
}
