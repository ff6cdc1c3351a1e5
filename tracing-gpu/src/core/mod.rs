//! The core: from a span to a row, and from rows to a summary. It knows no capability; [`parts`](crate::parts) has
//! these.

pub(crate) mod budget;
pub(crate) mod chunked;
pub(crate) mod drain;
pub(crate) mod record;
pub(crate) mod samples;
pub(crate) mod session;
pub(crate) mod span;
pub(crate) mod thread;
pub(crate) mod thresholds;
pub(crate) mod tier;
