//! Spans that serve calls: a batch is linked to them by `follows_from`, and its time is shared among them.

pub(crate) mod session;
pub(crate) mod tier;
