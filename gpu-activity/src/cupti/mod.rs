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
pub use receive::clock as now;
pub use session::{Options, Session, before_own_calls, start};
pub use sink::Sink;
pub use strides::Strides;
pub use unavailable::Unavailable;
