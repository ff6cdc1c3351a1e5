//! Calls: one span of a future, from its creation to its close, over all its polls.
//!
//! **A plain span pays next to nothing for calls.** The first spans of a row are followed by a `Call` until two of them
//! have been entered once; then the row is plain. A plain exit looks at no flag: a place with a call has no row there.
//! Polls of a future write its `Call` by read-modify-writes; its close finds it by id (`session/by_span.rs`).

pub(crate) mod drain;
pub(crate) mod session;
pub(crate) mod thread;
