//! The page: one self-contained HTML file that shows a run, with a timeline, flame graphs and tables.
//!
//! Items are kept in memory, within limits, until the run has ended; then the page is written. Before that the file has
//! only the head of the page with a notice. So a run that is killed leaves a file that opens and explains what
//! happened.
//!
//! The page is plain JavaScript on canvases (`page/`). No crate provides a timeline at build time. Crates with
//! charts draw an element for each range, or add megabytes to every file, and do not know nesting.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_debug_implementations, clippy::missing_errors_doc, clippy::must_use_candidate)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod columns;
mod comparison;
mod data;
mod details;
mod hot;
mod idle;
mod items;
mod join;
mod late;
mod lay_out;
mod page;
mod processes;
mod spreads;
mod tables;
mod texts;
mod tree;
mod waits;

use std::io::{self, BufWriter, Write};

use items::Items;
pub use items::Limits as HtmlLimits;
use range_model::summary::{Process, Summary};
use range_model::timeline::{Item, Sink};
use range_report::{Comparison, FindingKinds, RenderOptions};

const BUFFER: usize = 256 << 10;
/// The notice on an unfinished page.
const NOT_ENDED: &str =
    "This run has not ended, or was ended before this page could be written: there is nothing to show.";
const CUT_OFF: &str = "This page was not written to its end: there is nothing to show.";
/// The note on a page that was made from a summary.
const FROM_A_SUMMARY: &str = "This page was made from the summary of a run, which has no single ranges and calls: the \
                              timeline, the slowest calls and the spread of times are on the page that a run writes.";
/// The name of the page's run beside the one with which it is compared.
const THIS_RUN: &str = "this run";

/// What can be written as a page: one self-contained HTML file for a browser.
pub trait WriteHtml {
    /// Writes the page.
    ///
    /// - Of a [`Summary`]: the figures, flame graphs and tables of the run. A page that the run writes itself
    ///   (`ProfilerBuilder::html`) has more: the timeline, the slowest calls, and the distribution of each range's
    ///   times.
    /// - Of a [`Comparison`]: which ranges are slower in each run, in words and as bars, and a table of all ranges that
    ///   can be sorted and searched. The page of a run can have the same as a section: `ProfilerBuilder::baseline`.
    ///
    /// ```
    /// use range_model::Summary;
    /// use range_page::WriteHtml as _;
    /// use range_report::Comparison;
    ///
    /// let mut page = Vec::new();
    /// Comparison::of([("old", &Summary::default()), ("new", &Summary::default())]).write_html(&mut page)?;
    /// assert!(String::from_utf8_lossy(&page).starts_with("<!doctype html>"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    fn write_html(&self, out: impl Write) -> io::Result<()>;
}

impl WriteHtml for Comparison {
    fn write_html(&self, out: impl Write) -> io::Result<()> {
        let nothing = Summary::default();
        let mut out = BufWriter::with_capacity(BUFFER, out);
        page::begin(&comparison::title(self), CUT_OFF, &mut out)?;
        page::end(&data::compared_alone(self, &nothing), &mut out)?;
        out.flush()
    }
}

impl WriteHtml for Summary {
    fn write_html(&self, out: impl Write) -> io::Result<()> {
        write_html_without(self, FindingKinds::default(), out)
    }
}

/// The page of a summary without findings of these kinds.
///
/// # Errors
///
/// Errors of `out`.
pub fn write_html_without(summary: &Summary, findings: FindingKinds, out: impl Write) -> io::Result<()> {
    let mut shown = data::shown(Items::default(), summary, 0, None, findings);
    shown.notes.insert(0, FROM_A_SUMMARY.to_owned());
    let mut out = BufWriter::with_capacity(BUFFER, out);
    page::begin(&texts::title(&summary.process), CUT_OFF, &mut out)?;
    page::end(&shown, &mut out)?;
    out.flush()
}

/// Writes the page.
#[derive(Debug)]
pub struct HtmlSink<W> {
    out: W,
    items: Items,
    /// A name, and the summary of another run, or why it could not be read.
    baseline: Option<(String, io::Result<Summary>)>,
    without: FindingKinds,
}

impl<W: Write + Send> HtmlSink<W> {
    /// A page written to `out`, within the usual [`HtmlLimits`].
    pub fn new(out: W) -> Self {
        Self::with_limits(out, HtmlLimits::default())
    }

    /// A page written to `out`, within these limits.
    pub fn with_limits(out: W, limits: HtmlLimits) -> Self {
        Self { out, items: Items::new(limits), baseline: None, without: FindingKinds::default() }
    }

    /// Adds a section that compares the run with this one, or a note with the reason if there is none.
    #[must_use]
    pub fn compared_with(self, name: impl Into<String>, baseline: io::Result<Summary>) -> Self {
        Self { baseline: Some((name.into(), baseline)), ..self }
    }

    /// Joins the page that a process of the run has written, so that one page shows them all: a lane for each, on one
    /// clock, which begins at `first_unix_ns`, the earliest [`Process::started_unix_ns`]. Between `begin` and `end`,
    /// which take the [merged](Summary::merge) summary [as one](range_model::MergedSummary::as_one). One page at a time
    /// is in memory, beside the items within the limits. A page that was not written to its end is an error.
    ///
    /// # Errors
    ///
    /// Errors of `page`; what is no whole page of a run.
    pub fn join(&mut self, process: &Process, first_unix_ns: u64, mut page: impl io::Read) -> io::Result<()> {
        let mut text = Vec::new();
        page.read_to_end(&mut text)?;
        self.items.join(process, process.started_unix_ns.saturating_sub(first_unix_ns), &text)
    }

    /// Shows which kernels of NCCL wait for a rank that is late, on a page that joins those of several processes:
    /// [`Lateness::waits`](range_model::summary::Lateness::waits) of the summary that `end` takes. `merged`: the
    /// [processes of the merged one](range_model::MergedSummary::processes).
    #[must_use]
    pub fn with_late_ranks(mut self, merged: &[Process]) -> Self {
        merged.clone_into(&mut self.items.joined.merged);
        self
    }

    /// Leaves findings out that are switched off there.
    #[must_use]
    pub fn with_options(self, options: &RenderOptions) -> Self {
        self.without(options.switched_off())
    }

    /// Leaves findings of these kinds out.
    #[must_use]
    pub fn without(self, findings: FindingKinds) -> Self {
        Self { without: findings, ..self }
    }
}

impl<W: Write + Send> Sink for HtmlSink<W> {
    fn begin(&mut self, process: &Process) -> io::Result<()> {
        page::begin(&texts::title(process), NOT_ENDED, &mut self.out)?;
        self.out.flush()
    }

    fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
        self.items.add(item);
        Ok(())
    }

    /// Nothing is visible before the end.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, summary: &Summary, lost: u64) -> io::Result<()> {
        let (comparison, why_not) = match self.baseline.take() {
            Some((name, Ok(base))) => (Some(Comparison::of([(name.as_str(), &base), (THIS_RUN, summary)])), None),
            Some((_, Err(why))) => (None, Some(why)),
            None => (None, None),
        };
        let mut shown = data::shown(std::mem::take(&mut self.items), summary, lost, comparison.as_ref(), self.without);
        shown.notes.extend(why_not.map(|why| format!("This run is not compared with another: {why}.")));
        let mut out = BufWriter::with_capacity(BUFFER, &mut self.out);
        page::end(&shown, &mut out)?;
        out.flush()
    }
}

#[cfg(test)]
mod tests;
