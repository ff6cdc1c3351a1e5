//! CUPTI: what ran on the GPU, and which call launched it.
//!
//! ```text
//! search -> library -> session -> receive -> decode -> sink
//!               |          |          |
//!            strides    context    buffers, names, calls
//! ```
//!
//! When a session starts, the library is found and loaded, the lengths of its records are measured, and callbacks are
//! subscribed. CUPTI then calls `receive` at the entry of driver calls and with buffers of records. The sink gets these
//! buffers undecoded, because threads that launch may wait for CUPTI's call; only kernels' names are replaced. The sink
//! decodes them later. A session that cannot start returns the reason in one sentence, and changes nothing.

mod buffers;
mod calls;
mod context;
pub mod decode;
mod delivery;
mod environment;
pub mod library;
mod names;
mod profiler_calls;
mod receive;
mod search;
mod session;
mod sink;
mod strides;
mod unavailable;

pub use buffers::Filled;
pub use calls::{DETAILED, ENQUEUE, is_graph_launch};
pub use profiler_calls::{PROFILER, watch_profiler};
pub use range_model::timeline::ApiRecords;
pub use receive::clock as now;
pub use session::{Options, Session, before_own_calls, start};
pub use sink::Sink;
pub use strides::Strides;
pub use unavailable::Unavailable;
