//! What the crate `range-page` shows: conclusions, cells and names as the reports have them. No part of the public
//! interface.

pub use crate::analysis::{Hot, Phase, Phases, hottest, waiting_for_ranks};
pub use crate::compare::by_self_time;
pub use crate::report::calls::{percentile, slowest_calls};
pub use crate::report::gpu_work::{bracketed, nsys_call};
pub use crate::report::replays::{Captured, WHOLE, captured, recorded_whole, replayed};
pub use crate::report::{
    Cell, Column, Explained, Table, Unit, appended_figures, change, explained, gate_verdict, notes, page_tables,
    style_name, verdicts, verdicts_on_self_time,
};
