//! What a profiler has measured so far, with its notes.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{SystemTime, UNIX_EPOCH};

use range_model::Summary;

use super::explain;
use super::handle::{Inner, Profiler};
#[cfg(feature = "json")]
use super::machine;
use crate::config::Gpu;
use crate::drain::{self, Cursor, End};
use crate::session::front_end::Stage;

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
        summary.notes.push("This process was forked from the one that is measured.".to_owned());
        summary
    }

    /// The summary so far; with a cursor, its next window.
    pub(super) fn summarise(&'static self, end: Option<&End>, cursor: Option<&mut Cursor>) -> Summary {
        let is_window = cursor.is_some();
        let (sampler, quantiles) = (self.sampler.get().copied(), &self.config.quantiles);
        let mut summary = drain::summarise(&self.engine, self.collector(), sampler, end, cursor, quantiles);
        if is_window {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            summary.ended_unix_ns = u64::try_from(now.as_nanos()).ok();
        }
        if let Some(Err(reason)) = self.collector.get() {
            summary.notes.push(format!("CUPTI recorded no GPU activity: {reason}. Ranges were measured all the same."));
        }
        if let Some(collector) = self.collector() {
            summary.notes.extend(collector.describe());
            summary.notes.extend(end.and_then(|_| collector.describe_others()));
        }
        if self.config.gpu == Gpu::Events && summary.stream_ranges.is_empty() && summary.notes.is_empty() {
            summary
                .notes
                .push("GPU timing: no span was entered under a named stream (`with_stream`, `gpu.stream`).".to_owned());
        }
        summary.process = self.identity.clone();
        #[cfg(feature = "json")]
        if end.is_some() && !is_window {
            summary.machine = Some(machine::at_end(self.collector().is_some()).clone());
        }
        if self.nvtx_taken {
            summary
                .notes
                .push("NVTX belongs to another profiler of this process: no ranges were sent to a tool.".to_owned());
        }
        summary.notes.extend(self.foreign_missing.get().map(|missing| (*missing).to_owned()));
        let lost = self.recorder.get().map_or(0, |recorder| recorder.lost());
        if lost > 0 {
            summary.notes.push(format!(
                "{lost} ranges, events and GPU operations are missing in the timeline, or incomplete: its memory \
                 (`timeline_memory`) was full."
            ));
        }
        for (lost, what) in self.recorder.get().map_or_else(Vec::new, |recorder| recorder.lost_details()) {
            summary.notes.push(format!("{lost} {what} were dropped at the memory limit (`timeline_memory`)."));
        }
        let forgotten = self.collector().map_or(0, |collector| collector.forgotten_nodes());
        if forgotten > 0 {
            summary.notes.push(format!(
                "For {forgotten} nodes of graphs it is not known which span captured them: there were more than can be \
                 remembered."
            ));
        }
        let extra = self.extra_tiers.load(Relaxed);
        if extra > 0 {
            let s = if extra == 1 { "" } else { "s" };
            summary.notes.push(format!(
                "{extra} further layer{s} or subscriber{s} of this profiler measured nothing: one measures at a time. \
                 Drop it before you make the next."
            ));
        }
        let session = &self.engine.session;
        summary.notes.extend(session.misread.notes());
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
