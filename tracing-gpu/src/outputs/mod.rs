//! The files that a profiler writes: `table.rs` has a row for each.

mod claim;
mod lasting;
pub(crate) mod path;
mod replace;
mod shared;
mod table;

pub(crate) use claim::{Claim, claim, unwritable};
pub(crate) use replace::write;
pub(crate) use table::{
    How, OpenFile, REPORT, TABLE, has_timeline, has_windows, open_timelines, without_effect, write_at_end, write_window,
};
