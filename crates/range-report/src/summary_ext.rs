//! What a summary can be asked: its findings, its reports as text, its files.
//!
//! Each method is a door to the module that answers it.

use std::io;

#[cfg(feature = "compare")]
use range_model::MergedSummary;
use range_model::Summary;

use crate::analysis::{self, Finding};
#[cfg(feature = "json")]
use crate::export::json::{self, JsonError};
use crate::export::{CsvFlavor, folded};
use crate::notes;
#[cfg(feature = "compare")]
use crate::report::MergedTable;
use crate::report::{self, RenderOptions, Report};
use crate::text::wording::Wording;

/// What a [`Summary`] can be asked.
///
/// ```
/// use range_model::Summary;
/// use range_report::{RenderOptions, Report, SummaryExt as _};
///
/// let mut text = Vec::new();
/// Summary::default().render(&[Report::Tree], &RenderOptions::default(), &mut text)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait SummaryExt: Sized {
    /// What is concluded of the run: calls that failed, then the most costly first, where the time goes and why, then
    /// what costs no time, such as what was not measured. JSON has the first of them (`write_json`); reports print all.
    #[must_use]
    fn findings(&self) -> Vec<Finding>;

    /// What is concluded of the run ([`findings`](Self::findings)), in the words, and without the kinds, that a reader
    /// has chosen.
    ///
    /// ```
    /// use range_report::{FindingKind, FindingKinds, RenderOptions, SummaryExt as _};
    /// use range_model::{Summary, TreeNode};
    ///
    /// let mut step = TreeNode::new("step");
    /// (step.calls, step.instances, step.total_ns, step.self_ns) = (10, 10, 5_000, 5_000);
    /// let mut summary = Summary::default();
    /// summary.tree = vec![step];
    /// let options = RenderOptions::default().without(FindingKinds::of([FindingKind::MostOwnTime]));
    /// assert!(summary.findings_with(&options).is_empty() && !summary.findings().is_empty());
    /// ```
    #[must_use]
    fn findings_with(&self, options: &RenderOptions) -> Vec<Finding>;

    /// Prints these reports in the given order, then a footer with losses and explanations, if there are any. If
    /// several reports are empty for the same reason, the reason is printed once, under all their titles.
    ///
    /// The text is written with a single call, so that it is not interleaved with output of other threads.
    ///
    /// ```
    /// use range_report::{RenderOptions, Report, SummaryExt as _};
    /// use range_model::Summary;
    ///
    /// let mut summary = Summary::default();
    /// summary.losses.stray_exits = 2;
    /// let mut text = Vec::new();
    /// summary.render(&[Report::Ranges], &RenderOptions::default(), &mut text)?;
    /// let text = String::from_utf8_lossy(&text);
    /// assert!(text.contains("No range was recorded."));
    /// assert!(text.contains("2 exits"));
    /// summary.render(&[Report::Tree], &RenderOptions::default(), std::io::stdout().lock())?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    fn render(&self, reports: &[Report], options: &RenderOptions, out: impl io::Write) -> io::Result<()>;

    /// Prints one report without the footer: an empty line, the title, an empty line, the report, an empty line.
    /// (`nvprof` has its own two lines for a title, without an empty line after them.)
    ///
    /// ```
    /// use range_report::{RenderOptions, Report, SummaryExt as _, TableStyle};
    /// use range_model::Summary;
    ///
    /// let mut text = Vec::new();
    /// let options = RenderOptions::default().style(TableStyle::Legacy);
    /// Summary::default().render_one(Report::Ranges, &options, &mut text)?;
    /// assert!(text.starts_with(b"\nNVTX Push-Pop Range Statistics:\n\n"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    fn render_one(&self, report: Report, options: &RenderOptions, out: impl io::Write) -> io::Result<()>;

    /// The notes of the summary, a sentence each; see [`NoteExt`](crate::NoteExt).
    ///
    /// ```
    /// use range_report::SummaryExt as _;
    /// use range_model::{Note, Summary};
    ///
    /// let mut summary = Summary::default();
    /// summary.notes.push(Note::CallsOverLimit { spans: 2 });
    /// assert!(summary.notes_as_text()[0].ends_with("the calls of 2 spans were not followed."));
    /// ```
    #[must_use]
    fn notes_as_text(&self) -> Vec<String>;

    /// Losses and changes, a sentence each, the most important one first: for formats without a footer.
    ///
    /// ```
    /// use range_report::{RenderOptions, SummaryExt as _};
    /// use range_model::Summary;
    ///
    /// let mut summary = Summary::default();
    /// assert!(summary.losses_as_text(&RenderOptions::default()).is_empty());
    /// summary.losses.stray_exits = 2;
    /// assert!(summary.losses_as_text(&RenderOptions::default())[0].starts_with("2 exits"));
    /// ```
    #[must_use]
    fn losses_as_text(&self, options: &RenderOptions) -> Vec<String>;

    /// Writes the table of a report as comma-separated values.
    ///
    /// A table that imitates one of `nsys stats` equals the output of `nsys stats --format csv --output FILE` byte for
    /// byte: headers have units, times are integers, figures with a decimal in the report have one here. A value is
    /// quoted only if it contains a comma, and nothing is doubled or escaped. So a name with a quotation mark and a
    /// comma, or with a line feed, breaks a line, as it does there. For such names use JSON, or
    /// [`CsvFlavor::Rfc4180`](crate::export::CsvFlavor::Rfc4180). An unknown value (`-` in the report) is empty.
    ///
    /// [`Report::Tree`] has a row for each node, with its depth. The stream times of [`Report::Ranges`] are a table of
    /// their own: [`write_stream_csv`](Self::write_stream_csv).
    ///
    /// ```
    /// use range_report::{Report, SummaryExt as _};
    /// use range_model::{RangeStats, Summary, Times};
    ///
    /// let mut summary = Summary::default();
    /// let mut times = Times::new(2, 9_000);
    /// (times.min_ns, times.max_ns, times.median_ns) = (4_000, 5_000, Some(4_500.0));
    /// summary.ranges = vec![RangeStats::new("load, parse", times)];
    /// let mut text = Vec::new();
    /// summary.write_csv(Report::Ranges, &mut text)?;
    /// assert_eq!(
    ///     String::from_utf8_lossy(&text),
    ///     "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Range\n\
    ///      100.0,9000,2,4500.0,4500.0,4000,5000,0.0,\"load, parse\"\n"
    /// );
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Of the kind [`Unsupported`](io::ErrorKind::Unsupported) for a report that is not one table (`Nvprof`, `Torch`,
    /// `Hot`); of the kind [`NotFound`](io::ErrorKind::NotFound) for a report of GPU work if none was recorded, because
    /// the tool writes no such file either; and errors of `out`.
    fn write_csv(&self, report: Report, out: impl io::Write) -> io::Result<()>;

    /// Writes the stream times, which [`Report::Ranges`] prints as a second table, as comma-separated values.
    ///
    /// A row without any enqueued work has empty figures: its readings are only a bound.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    fn write_stream_csv(&self, out: impl io::Write) -> io::Result<()>;

    /// Writes the phase tree as folded stacks: a line for each phase with time of its own, `phase;phase;phase
    /// NANOSECONDS`, sorted. `inferno-flamegraph`, `flamegraph.pl`, speedscope and others read it.
    ///
    /// The number is the phase's own time in nanoseconds (`self_ns`), so the numbers add up to the covered time of all
    /// threads. Characters of a name that would end or split a line are replaced: `;` becomes `,`, control characters
    /// are escaped, and blanks around the name are left out. If the last word of a name is a number, the blank before
    /// it becomes `_`, because readers would take it for a count. A phase without a name is `None`.
    ///
    /// ```
    /// use range_report::SummaryExt as _;
    /// use range_model::{Summary, TreeNode};
    ///
    /// let mut summary = Summary::default();
    /// let (mut main, mut load) = (TreeNode::new("main"), TreeNode::new("Load Module"));
    /// (main.self_ns, load.self_ns) = (40, 250);
    /// main.children = vec![load];
    /// summary.tree = vec![main];
    /// let mut text = Vec::new();
    /// summary.write_folded(&mut text)?;
    /// assert_eq!(String::from_utf8_lossy(&text), "main 40\nmain;Load Module 250\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    fn write_folded(&self, out: impl io::Write) -> io::Result<()>;

    /// The same by GPU time: for each phase, the time during which at least one operation ran that was launched
    /// directly in it.
    ///
    /// Operations launched outside of any range, and those without a known launch, have lines of their own. Phases
    /// whose work overlaps on the GPU each have their whole time, so the lines may add up to more than the GPU's busy
    /// time. Writes nothing if CUPTI recorded nothing.
    ///
    /// ```
    /// use range_report::SummaryExt as _;
    /// use range_model::{NodeWork, Summary, TreeNode};
    ///
    /// let mut work = NodeWork::default();
    /// work.own.busy_ns = 900;
    /// let mut summary = Summary::default();
    /// summary.gpu = Some(Default::default());
    /// let mut node = TreeNode::new("conv");
    /// node.gpu = Some(work);
    /// summary.tree = vec![node];
    /// let mut text = Vec::new();
    /// summary.write_folded_gpu(&mut text)?;
    /// assert_eq!(String::from_utf8_lossy(&text), "conv 900\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    fn write_folded_gpu(&self, out: impl io::Write) -> io::Result<()>;

    /// The JSON Schema (draft 2020-12) of [`write_json`](Self::write_json). Its text is also in the repository, as
    /// `crates/range-report/schema/summary.schema.json`.
    #[cfg(feature = "json")]
    const JSON_SCHEMA: &'static str = json::SCHEMA;

    /// Writes the summary as one line of JSON.
    ///
    /// Its first field is `"schema": "tracing-gpu/1"`; the others are those of [`Summary`], with times in nanoseconds
    /// and the tree as a flat list of nodes with their `depth`. The last three are `notes`, a sentence each, in the
    /// order of `note_figures`, which has their kinds and figures; `findings`, the conclusions of
    /// [`findings`](Self::findings), the most costly first, with names of at most 40 columns, in at most 2 KB; and
    /// `findings_left_out`, the number of findings that did not fit. [`JSON_SCHEMA`](Self::JSON_SCHEMA) describes
    /// everything. Fields may be added within a version; existing fields keep their meaning. Non-finite numbers are not
    /// written: a median is then `null`, a deviation 0. Integers have up to 64 bits: a reader that parses numbers as
    /// doubles loses the last digits of `started_unix_ns`.
    ///
    /// ```
    /// use range_report::SummaryExt as _;
    /// use range_model::Summary;
    ///
    /// let mut text = Vec::new();
    /// Summary::default().write_json(&mut text)?;
    /// assert!(text.starts_with(br#"{"schema":"tracing-gpu/1","process":{"pid":0,"#));
    /// assert_eq!(Summary::read_json(text.as_slice())?, Summary::default());
    /// # Ok::<(), range_report::JsonError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    #[cfg(feature = "json")]
    fn write_json(&self, out: impl io::Write) -> Result<(), JsonError>;

    /// The same, with the findings in the words, and without the kinds, that a reader has chosen.
    ///
    /// # Errors
    ///
    /// Those of `out`.
    #[cfg(feature = "json")]
    fn write_json_with(&self, options: &RenderOptions, out: impl io::Write) -> Result<(), JsonError>;

    /// Reads the output of [`write_json`](Self::write_json) of this version or an older one. Unknown fields are
    /// ignored, and so are findings: [`findings`](Self::findings) concludes again from the figures.
    ///
    /// ```
    /// use range_report::{JsonError, SummaryExt as _};
    /// use range_model::Summary;
    ///
    /// let newer = Summary::read_json(r#"{"schema": "tracing-gpu/7", "phases": {}}"#.as_bytes());
    /// let error = newer.unwrap_err();
    /// assert!(matches!(error, JsonError::Newer { found: 7, newest: 1, .. }));
    /// assert_eq!(
    ///     error.to_string(),
    ///     "written by a newer tracing-gpu, in version 7 of the format: this one reads up to version 1"
    /// );
    /// let other = Summary::read_json(r#"{"phases": {}}"#.as_bytes());
    /// assert_eq!(other.unwrap_err().to_string(), "not a summary of tracing-gpu: it has no `schema`");
    /// ```
    ///
    /// # Errors
    ///
    /// If the text is not JSON, no summary, or of a newer version; and errors of `input`.
    #[cfg(feature = "json")]
    fn read_json(input: impl io::Read) -> Result<Self, JsonError>;
}

impl SummaryExt for Summary {
    fn findings(&self) -> Vec<Finding> {
        analysis::findings(self, Wording::default())
    }

    fn findings_with(&self, options: &RenderOptions) -> Vec<Finding> {
        report::findings(self, options)
    }

    fn render(&self, reports: &[Report], options: &RenderOptions, mut out: impl io::Write) -> io::Result<()> {
        out.write_all(report::rendered(self, reports, options).as_bytes())
    }

    fn render_one(&self, report: Report, options: &RenderOptions, mut out: impl io::Write) -> io::Result<()> {
        out.write_all(report::rendered_one(self, report, options).as_bytes())
    }

    fn notes_as_text(&self) -> Vec<String> {
        notes::sentences(&self.notes)
    }

    fn losses_as_text(&self, options: &RenderOptions) -> Vec<String> {
        report::losses_as_text(self, options)
    }

    fn write_csv(&self, report: Report, out: impl io::Write) -> io::Result<()> {
        CsvFlavor::Nsight.write_report(self, report, out)
    }

    fn write_stream_csv(&self, out: impl io::Write) -> io::Result<()> {
        CsvFlavor::Nsight.write_streams(self, out)
    }

    fn write_folded(&self, mut out: impl io::Write) -> io::Result<()> {
        out.write_all(folded::of_own_time(self).as_bytes())
    }

    fn write_folded_gpu(&self, mut out: impl io::Write) -> io::Result<()> {
        out.write_all(folded::of_gpu_time(self).as_bytes())
    }

    #[cfg(feature = "json")]
    fn write_json(&self, out: impl io::Write) -> Result<(), JsonError> {
        self.write_json_with(&RenderOptions::default(), out)
    }

    #[cfg(feature = "json")]
    fn write_json_with(&self, options: &RenderOptions, out: impl io::Write) -> Result<(), JsonError> {
        json::write_summary(self, options, out)
    }

    #[cfg(feature = "json")]
    fn read_json(input: impl io::Read) -> Result<Self, JsonError> {
        json::read_summary(input)
    }
}

/// What a [`MergedSummary`] can be asked.
#[cfg(feature = "compare")]
pub trait MergedSummaryExt: Sized {
    /// Prints the non-empty tables: ranges, GPU work, kernels, stream times, times and sizes of copies, events of
    /// OpenACC, calls of futures, categories. Each has totals over all processes; the least, average and longest total
    /// of a process; and the process with the longest. Then follow the phase tree with its totals
    /// ([`write_csv`](Self::write_csv) has those of each process) and the losses.
    ///
    /// If the figures do not fit into the width, fewer are printed, in readable units.
    ///
    /// ```
    /// use range_report::{MergedSummaryExt as _, RenderOptions};
    /// use range_model::Summary;
    ///
    /// let mut text = Vec::new();
    /// Summary::merge([Summary::default(), Summary::default()]).render(&RenderOptions::default(), &mut text)?;
    /// assert!(text.starts_with(b"\n ** Ranges of 2 Processes (merged):\n"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    fn render(&self, options: &RenderOptions, out: impl io::Write) -> io::Result<()>;

    /// Prints only the listed tables of [`render`](Self::render), in its order, and the losses.
    ///
    /// ```
    /// use range_report::{MergedSummaryExt as _, MergedTable, RenderOptions};
    /// use range_model::Summary;
    ///
    /// let mut text = Vec::new();
    /// let merged = Summary::merge([Summary::default(), Summary::default()]);
    /// merged.render_tables(&[MergedTable::Kernels], &RenderOptions::default(), &mut text)?;
    /// assert!(text.is_empty(), "there is no kernel");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    fn render_tables(&self, tables: &[MergedTable], options: &RenderOptions, out: impl io::Write) -> io::Result<()>;

    /// Writes one table as comma-separated values, quoted as in [`SummaryExt::write_csv`]. Its first columns are those
    /// of the table of one process; the figures over processes follow. An empty table has only its headers.
    ///
    /// ```
    /// use range_report::{MergedSummaryExt as _, MergedTable};
    /// use range_model::Summary;
    ///
    /// let mut text = Vec::new();
    /// Summary::merge([]).write_csv(MergedTable::Kernels, &mut text)?;
    /// assert!(text.starts_with(b"Time (%),Total Time (ns),Instances,Avg (ns),"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    fn write_csv(&self, table: MergedTable, out: impl io::Write) -> io::Result<()>;

    /// Writes everything as one line of JSON: the fields of [`MergedSummary`] after `"schema":"tracing-gpu-merged/1"`.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    #[cfg(feature = "json")]
    fn write_json(&self, out: impl io::Write) -> Result<(), JsonError>;
}

#[cfg(feature = "compare")]
impl MergedSummaryExt for MergedSummary {
    fn render(&self, options: &RenderOptions, out: impl io::Write) -> io::Result<()> {
        self.render_tables(MergedTable::ALL, options, out)
    }

    fn render_tables(
        &self,
        tables: &[MergedTable],
        options: &RenderOptions,
        mut out: impl io::Write,
    ) -> io::Result<()> {
        out.write_all(report::merged(self, tables, options).as_bytes())
    }

    fn write_csv(&self, table: MergedTable, out: impl io::Write) -> io::Result<()> {
        CsvFlavor::Nsight.write_merged(self, table, out)
    }

    #[cfg(feature = "json")]
    fn write_json(&self, out: impl io::Write) -> Result<(), JsonError> {
        json::write_merged(self, out)
    }
}
