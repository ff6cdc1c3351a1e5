//! CUPTI: what ran on the GPU, and which call launched it.
//!
//! ```text
//! search -> library -> session -> receive -> decode -> sink
//!               |          |          |
//!            strides    context    buffers, names, calls
//! ```
//!
//! The library is found and loaded when a session starts, asked how long its records are, and subscribed to. From then
//! on CUPTI calls `receive`: at the entry of driver calls, and with buffers of records, which the sink gets unchanged,
//! except for the names of kernels: threads that launch may wait for the end of CUPTI's call. The sink has them
//! decoded. A session that cannot start says why in one sentence, and changes nothing.

mod buffers;
mod calls;
mod context;
pub mod decode;
mod delivery;
pub mod library;
mod names;
mod profiler_calls;
mod receive;
mod search;
mod session;
mod strides;
mod unavailable;

pub use buffers::Filled;
pub use calls::{ENQUEUE, is_graph_launch};
pub use profiler_calls::{PROFILER, watch_profiler};
pub use receive::clock as now;
pub use session::{Session, before_own_calls, start};
pub use strides::Strides;
pub use unavailable::Unavailable;

use crate::source::Lost;

/// What to record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Records of the calls of the runtime and the driver too, and the entry of every driver call; else only the
    /// entries of those that put work on a GPU.
    pub api_records: bool,
    /// Host memory for buffers that are read. Those beyond are small, and their records lost and counted.
    pub buffer_bytes: usize,
    /// Whether the driver is calling us inside `cuInit` (`InitializeInjection`). Then nothing is asked of it except its
    /// version.
    pub in_init: bool,
}

/// Receives calls and records. CUPTI calls it, so no method may panic.
pub trait Sink: Sync {
    /// At the entry of a driver call, on the calling thread, and whether it puts work on a GPU. Calls no CUDA, takes no
    /// lock that is held while CUPTI is called.
    fn entered(&self, function: u32, correlation: u32, enqueues: bool);
    /// This process is a child that was forked off the one that started, and has begun. Allocates nothing, takes no
    /// lock.
    fn forked(&self);
    /// A buffer of records, from CUPTI's thread or whoever flushes, for [`Session::keep`] or [`Session::read_buffer`].
    /// May be called on several threads at once; whatever it does, CUPTI waits for.
    fn filled(&self, buffer: Filled);
    /// Records were thrown away, likewise.
    fn lost(&self, records: Lost);
}
