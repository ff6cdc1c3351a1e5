//! What a profiler has measured so far, with its notes.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use range_model::{Note, Summary};

use super::explain;
use super::handle::{Inner, Profiler};
#[cfg(feature = "json")]
use super::machine;
use crate::config::Gpu;
use crate::core::drain::{self, Cursor, End};
use crate::core::session::front_end::Stage;
use crate::parts::drain::parts;

impl Profiler {
    /// The measurements of the current window so far. Neither stops the measured threads nor resets. After the finish:
    /// the final figures.
    ///
    /// In the first 2 ms of a profiler's life this call waits until the 2 ms are over, to calibrate the clock. In a
    /// forked child the summary is empty, except for a note.
    #[must_use]
    #[inline] // copying a summary is much to compile: only where it is asked for
    pub fn summary(&self) -> Summary {
        if self.inner.engine.session.is_of_parent() {
            return Inner::of_parent();
        }
        self.inner.last.get().cloned().unwrap_or_else(|| self.inner.summarise(None, None))
    }
}

impl Inner {
    /// The summary of a forked child.
    pub(super) fn of_parent() -> Summary {
        let mut summary = Summary::default();
        summary.notes.push(Note::Forked);
        summary
    }

    /// The summary so far; with a cursor, its next window.
    pub(super) fn summarise(&'static self, end: Option<&End>, cursor: Option<&mut Cursor>) -> Summary {
        let is_window = cursor.is_some();
        let patience = if is_window { Some(Duration::ZERO) } else { end.and_then(|end| end.patience) };
        let parts = parts(&self.engine.session, self.collector(), self.sampler.get().copied(), patience);
        let mut summary = drain::summarise(&self.engine, parts, end, cursor, &self.config.quantiles);
        if is_window {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            summary.ended_unix_ns = u64::try_from(now.as_nanos()).ok();
        }
        if let Some(Err(reason)) = self.collector.get() {
            summary.notes.push(Note::CuptiUnavailable { reason: reason.clone() });
        }
        if let Some(collector) = self.collector() {
            summary.notes.extend(collector.describe());
            summary.notes.extend(end.and_then(|_| collector.describe_others()));
        }
        if self.config.gpu == Gpu::Events && summary.stream_ranges.is_empty() && summary.notes.is_empty() {
            summary.notes.push(Note::NoNamedStream);
        }
        summary.process = self.identity.clone();
        #[cfg(feature = "json")]
        if end.is_some() && !is_window {
            summary.machine = Some(machine::at_end(self.collector().is_some()).clone());
        }
        if self.nvtx_taken {
            summary.notes.push(Note::NvtxTaken);
        }
        summary.notes.extend(self.foreign_missing.get().cloned());
        let items = self.recorder.get().map_or(0, |recorder| recorder.lost());
        if items > 0 {
            summary.notes.push(Note::TimelineFull { items });
        }
        for (records, what) in self.recorder.get().map_or_else(Vec::new, |recorder| recorder.lost_details()) {
            summary.notes.push(Note::DetailsDropped { records, what: what.to_owned() });
        }
        let nodes = self.collector().map_or(0, |collector| collector.forgotten_nodes());
        if nodes > 0 {
            summary.notes.push(Note::GraphNodesOverLimit { nodes });
        }
        let layers = self.extra_tiers.load(Relaxed);
        if layers > 0 {
            summary.notes.push(Note::FurtherLayers { layers });
        }
        let session = &self.engine.session;
        summary.notes.extend(session.parts.misread.notes());
        summary.advice.extend(session.advice(&summary.ranges));
        if is_window {
            return summary; // one without a range is nothing special
        }
        let is_empty = summary.ranges.iter().all(|row| row.times.instances == 0);
        if is_empty {
            summary.empty_because = Some(explain::why_empty(session, &summary));
        }
        // The text above has it for spans.
        if !is_empty || session.front_end.stage() == Stage::NotMade {
            summary.notes.extend(explain::not_measured(session));
        }
        summary
    }
}
