//! What is concluded of a whole run, once, for every reader: text, JSON, page and gate.
//!
//! A [`Finding`] is a conclusion with its figures and a sentence. The rules that find stand in `rules.rs`, over the
//! phases of the tree (`phases.rs`) and what their calls waited for (`waits.rs`); what was not measured is found in
//! `losses.rs`. [`Gate`] judges what became slower between runs. What a reader selects on a page is answered there.

mod causes;
#[cfg(feature = "compare")]
mod figure;
mod finding;
#[cfg(feature = "compare")]
mod gate;
mod gpu;
mod hot;
#[cfg(feature = "compare")]
mod interval;
#[cfg(feature = "compare")]
mod judge;
mod late;
mod losses;
mod path;
mod phase;
mod phases;
#[cfg(feature = "compare")]
mod reason;
mod rules;
mod subject;
#[cfg(test)]
mod tests;
mod waits;

#[cfg(feature = "compare")]
pub use figure::Figure;
#[cfg(feature = "compare")]
pub(crate) use figure::device_name;
pub use finding::{Evidence, Finding, FindingKind};
#[cfg(feature = "compare")]
pub use gate::{Added, Basis, Change, Gate, Regression};
pub(crate) use gpu::on_gpu;
pub(crate) use hot::enough;
#[cfg(feature = "page")]
#[doc(hidden)] // for the crate range-page
pub use hot::{Hot, hottest};
#[cfg(feature = "compare")]
pub(crate) use interval::LEAST_PAIRS;
#[cfg(feature = "compare")]
pub(crate) use judge::{Judged, Repeats, confidence};
#[doc(hidden)] // for the crate range-page
pub use late::waiting_for_ranks;
pub(crate) use losses::{losses, nothing_enqueued};
#[doc(hidden)] // for the crate range-page
pub use phase::Phase;
pub(crate) use phase::{OnGpu, WAYS, Way, either};
#[doc(hidden)] // for the crate range-page
pub use phases::Phases;
#[cfg(feature = "compare")]
pub(crate) use reason::Facts;
#[cfg(feature = "compare")]
pub use reason::Reason;
pub(crate) use rules::{are_workers_busy, awaited_for, in_phases, lived};

use std::cmp::Reverse;

use crate::text::wording::Wording;
use range_model::Summary;
use range_model::stats::order;

/// The conclusions of a run in the words of a reader.
pub(crate) fn findings(summary: &Summary, wording: Wording) -> Vec<Finding> {
    let mut all = in_phases(summary, &Phases::of(summary), wording);
    all.extend(on_gpu(summary, wording));
    all.extend(losses(summary, wording));
    // Stable.
    order::by_key(&mut all, |finding| (finding.kind() != FindingKind::FailedCalls, Reverse(finding.at_stake_ns)));
    all
}
