//! The state of one thread: its open ranges and its rows.
//!
//! Every thread has a [`ThreadState`](state::ThreadState) that it alone writes; a thread-local only points at it. The
//! path from a span to its row takes no lock, allocates nothing once warm, and writes no cache line that another thread
//! writes.

mod caches;
pub(crate) mod durations;
pub(crate) mod engine;
pub(crate) mod gate;
mod hand_over;
pub(crate) mod known;
pub(crate) mod number;
pub(crate) mod recent;
pub(crate) mod row;
pub(crate) mod rows;
pub(crate) mod sequence;
pub(crate) mod slab;
pub(crate) mod stack;
pub(crate) mod state;
