//! Collection: what the callbacks write and a summary reads.
//!
//! Every thread has a [`Shard`](shard::Shard) that it alone writes; a thread-local only points at it. Nothing on the way from a span
//! to its row takes a lock, allocates once warm, or writes a cache line that another thread writes.

pub(crate) mod catalog;
pub(crate) mod core;
pub(crate) mod fields;
mod known;
#[cfg_attr(not(feature = "cudarc"), allow(dead_code))] // calls into CUDA are noted through CUPTI alone
pub(crate) mod launches;
pub(crate) mod lifetimes;
mod marks;
mod misread;
pub(crate) mod near;
mod note_line;
pub(crate) mod note_room;
pub(crate) mod notes;
mod page;
pub(crate) mod row;
pub(crate) mod shard;
pub(crate) mod site;
pub(crate) mod slab;
pub(crate) mod tape;
pub(crate) mod threads;
mod timed;
pub(crate) mod values;
