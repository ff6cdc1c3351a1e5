//! Reports: plain text made from a [`Summary`].
//!
//! Rendering is a pure function: the same summary and options give the same text. The statistics are printed in the
//! tables of Nsight Systems, nvprof and torch.profiler, character for character, except that control characters in
//! names are escaped and wide characters have the columns that they take on a terminal (see
//! [`RenderOptions::raw_names`]).
//!
//! ```
//! use range_report::{RenderOptions, Report, Summary};
//!
//! let summary = Summary::default();
//! let mut text = Vec::new();
//! summary.render(&[Report::Ranges, Report::Tree], &RenderOptions::default(), &mut text)?;
//! assert!(String::from_utf8_lossy(&text).contains("NVTX Push/Pop Range Summary"));
//! # Ok::<(), std::io::Error>(())
//! ```

pub(crate) mod calls;
mod categories;
mod comparison;
mod cuda;
mod footer;
pub(crate) mod gpu_work;
mod hot;
mod merged;
mod nsys;
mod nvprof;
mod options;
mod streams;
mod table;
mod tables;
#[cfg(test)]
mod tests;
mod torch;
mod tree;

#[cfg(feature = "csv")]
pub(crate) use comparison::comparison_table;
#[cfg(feature = "html")]
pub(crate) use comparison::{change, gate_verdict, verdicts, verdicts_on_self_time};
#[cfg(feature = "html")]
pub(crate) use footer::notes;
#[cfg(feature = "html")]
pub(crate) use gpu_work::{bracketed, nsys_call};
pub use merged::MergedTable;
#[cfg(feature = "csv")]
pub(crate) use merged::merged_table;
#[cfg(feature = "html")]
pub(crate) use nsys::style_name;
pub use options::RenderOptions;
pub(crate) use table::Table;
pub(crate) use tables::{stream_table, table};
#[cfg(feature = "html")]
pub(crate) use tree::{Explained, Marked, explained};

use std::fmt;
use std::io;
use std::str::FromStr;

use crate::Summary;
#[doc(hidden)] // for the messages of whoever measures
pub use crate::text::escaped;
pub(crate) use crate::text::label;
use crate::text::names;
use crate::text::width::wrapped;

/// For a summary without ranges. Why there are none, [`Summary::empty_because`] says where it is known.
const NO_RANGE: &str = "No range was recorded.\n";

/// What can be printed.
///
/// ```
/// use range_report::Report;
///
/// assert_eq!("tree".parse(), Ok(Report::Tree));
/// assert_eq!(Report::Ranges.name(), "ranges");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Report {
    /// Statistics of every range, by total time: the push/pop table of `nsys stats`, or, where there are start/end
    /// ranges too, the table of both. Where ranges were timed on streams, a second table has their stream time.
    Ranges,
    /// Nested phases in order of first entry, with the time that each spent itself. If CUPTI recorded, `GPU busy` is
    /// the time during which any work of a phase ran, and lines below the tree list the copies. If phases were timed on
    /// streams, `GPU total` is their stream time; beside `GPU busy` its column is called `Stream`.
    Tree,
    /// Calls of spans that are futures, those that waited longest themselves first: how many ended, how many were
    /// cancelled, and percentiles of their latency, from the creation of the span to its end. `Busy` is the part of the
    /// latency during which an instance was open, `Awaited` the rest. `Awaited self` excludes the time during which a
    /// child call was alive.
    Calls,
    /// Sums over the span field `nvtx.category`.
    Categories,
    /// GPU activities, API calls and events of OpenACC as `nvprof` printed them: columns of fixed width, times in five
    /// digits, averages rounded down. Names of functions lose the version of their interface (`cuMemAlloc` for
    /// `cuMemAlloc_v2`). The first two need CUPTI; the last are printed where [`Summary::openacc`] has any.
    Nvprof,
    /// Spans, API calls and GPU operations in the eleven columns of `torch.profiler`. A span's `Self CPU` excludes the
    /// calls made in it, which have their own rows. One exception: if no stream is timed, it includes calls that only
    /// query the driver, such as `cuCtxGetCurrent`, because the span that made such a call is not known. A span's `Self
    /// CUDA` is the sum of the operations launched directly in it. `Self CUDA %` is their share of all operations. A
    /// copy is `Memcpy HtoD`, without the `(Pageable -> Device)` that torch adds: the kinds of memory are not in the
    /// summary. Needs CUPTI.
    Torch,
    /// Ranges projected onto the GPU: `nvtx_gpu_proj_sum` of `nsys stats`. Ranges of the default domain have their bare
    /// names, as in [`Ranges`](Self::Ranges); Nsight Systems since 2023 puts a colon before them. Needs CUPTI.
    GpuProjection,
    /// Kernels: `cuda_gpu_kern_sum` of `nsys stats`. Needs CUPTI.
    Kernels,
    /// Copies and sets by time: `cuda_gpu_mem_time_sum` of `nsys stats`. Needs CUPTI.
    MemTime,
    /// Copies and sets by size: `cuda_gpu_mem_size_sum` of `nsys stats`. Needs CUPTI.
    MemSize,
    /// Calls of the CUDA API: `cuda_api_sum` of `nsys stats`, its names with the `_v2` of the driver's functions. Needs
    /// CUPTI.
    Api,
    /// Events of an OpenACC runtime by their own time, in the columns of [`Api`](Self::Api). [`Nvprof`](Self::Nvprof)
    /// has them too.
    OpenAcc,
    /// Kernels by the ranges they were launched in: `nvtx_kern_sum` of `nsys stats`. Needs CUPTI.
    RangeKernels,
    /// The kernels and copies that together take 90 % of all GPU time, and the API calls that together take 90 % of all
    /// API time; see [`RenderOptions::hot_percent`]. Needs CUPTI.
    Hot,
}

impl Report {
    /// Every report there is, in the order in which they read best.
    ///
    /// ```
    /// use range_report::Report;
    ///
    /// let names: Vec<&str> = Report::ALL.iter().map(|report| report.name()).collect();
    /// assert_eq!(names[..4], ["ranges", "tree", "calls", "categories"]);
    /// ```
    pub const ALL: &'static [Self] = &{
        let mut all = [Self::Ranges; TABLE.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = TABLE[index].report;
            assert!(all[index] as usize == index, "the rows stand in the order in which the reports are declared");
            index += 1;
        }
        all
    };

    /// The name by which configuration asks for it.
    ///
    /// ```
    /// assert_eq!(range_report::Report::Categories.name(), "categories");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Whether it is made from what CUPTI records.
    #[must_use]
    pub const fn needs_activity(self) -> bool {
        !matches!(self.row().needs, Needs::Spans)
    }

    /// Whether it is made from single calls of the CUDA API.
    #[must_use]
    pub const fn needs_calls(self) -> bool {
        matches!(self.row().needs, Needs::Calls)
    }

    /// Its row: the reports are declared in the order of the table.
    const fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

/// What makes a report.
struct Row {
    report: Report,
    /// Its name in the configuration.
    name: &'static str,
    needs: Needs,
    text: MakeText,
    /// For [`Summary::write_csv`]; `None` for a report that is not one table.
    table: Option<MakeTable>,
}

type MakeText = fn(&Summary, &RenderOptions) -> String;
type MakeTable = fn(&Summary, &RenderOptions) -> cuda::Made;

/// What a report is made from.
enum Needs {
    /// What the process itself counts.
    Spans,
    /// The GPU's work, which CUPTI records.
    Activity,
    /// Single calls of the CUDA API beside it, which CUPTI records too.
    Calls,
}

/// Every report, in the order in which they read best. To add one, write its functions, and add a variant and a row.
const TABLE: &[Row] = &[
    row(Report::Ranges, "ranges", Needs::Spans, ranges, Some(tables::ranges)),
    row(Report::Tree, "tree", Needs::Spans, tree::tree, Some(tables::tree)),
    row(Report::Calls, "calls", Needs::Spans, calls::calls, Some(tables::calls)),
    row(Report::Categories, "categories", Needs::Spans, categories::categories, Some(tables::categories)),
    row(Report::Nvprof, "nvprof", Needs::Calls, nvprof::nvprof, None),
    row(Report::Torch, "torch", Needs::Calls, torch::torch, None),
    row(Report::GpuProjection, "gpu_projection", Needs::Activity, cuda::projection, Some(cuda::make_projection)),
    row(Report::Kernels, "kernels", Needs::Activity, cuda::kernels, Some(cuda::make_kernels)),
    row(Report::MemTime, "mem_time", Needs::Activity, cuda::memory_time, Some(cuda::make_memory_time)),
    row(Report::MemSize, "mem_size", Needs::Activity, cuda::memory_size, Some(cuda::make_memory_size)),
    row(Report::Api, "api", Needs::Calls, cuda::calls, Some(cuda::make_calls)),
    row(Report::OpenAcc, "openacc", Needs::Spans, cuda::openacc, Some(cuda::make_openacc)),
    row(Report::RangeKernels, "range_kernels", Needs::Activity, cuda::range_kernels, Some(cuda::make_range_kernels)),
    row(Report::Hot, "hot", Needs::Calls, hot::hot, None),
];

const fn row(report: Report, name: &'static str, needs: Needs, text: MakeText, table: Option<MakeTable>) -> Row {
    Row { report, name, needs, text, table }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Report {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .iter()
            .copied()
            .find(|report| report.name() == name)
            .ok_or_else(|| UnknownName::new("report", name, &one_of(Self::ALL.iter().map(|report| report.name()))))
    }
}

/// Whose tables the statistics look like.
///
/// ```
/// use range_report::TableStyle;
///
/// assert_eq!("legacy".parse(), Ok(TableStyle::Legacy));
/// assert_eq!(TableStyle::default(), TableStyle::Current);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TableStyle {
    /// Nsight Systems of today: with median and standard deviation.
    #[default]
    Current,
    /// Nsight Systems up to 2021: average, minimum and maximum only.
    Legacy,
}

impl TableStyle {
    /// The name by which configuration asks for it.
    ///
    /// ```
    /// assert_eq!(range_report::TableStyle::Current.name(), "current");
    /// ```
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Legacy => "legacy",
        }
    }
}

impl fmt::Display for TableStyle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for TableStyle {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let all = [Self::Current, Self::Legacy];
        all.into_iter()
            .find(|style| style.name() == name)
            .ok_or_else(|| UnknownName::new("table style", name, &one_of(all.into_iter().map(Self::name))))
    }
}

/// A word that is no setting; its text says which are.
///
/// ```
/// let error = "old".parse::<range_report::TableStyle>().unwrap_err();
/// assert_eq!(error.to_string(), "unknown table style `old`: expected current or legacy");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    kind: &'static str,
    name: String,
    expected: String,
}

impl UnknownName {
    /// The error of a parser of `kind` that was given `name`.
    #[must_use]
    pub fn new(kind: &'static str, name: &str, expected: &str) -> Self {
        Self { kind, name: name.to_owned(), expected: expected.to_owned() }
    }

    /// What is allowed: `current or legacy`.
    #[must_use]
    pub fn expected(&self) -> &str {
        &self.expected
    }
}

/// `a, b or c`.
fn one_of(names: impl Iterator<Item = &'static str>) -> String {
    let mut names: Vec<&str> = names.collect();
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last.to_owned() } else { format!("{} or {last}", names.join(", ")) }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} `{}`: expected {}", self.kind, names::escaped(&self.name), self.expected)
    }
}

impl std::error::Error for UnknownName {}

impl Summary {
    /// Prints these reports in the given order, then a footer with losses and explanations, if there are any. If
    /// several reports are empty for one reason, the reason is printed once, under all their titles.
    ///
    /// The text is written with a single call, so that threads which write to the same place do not cut through it.
    ///
    /// ```
    /// use range_report::{RenderOptions, Report, Summary};
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
    /// Those of `out`.
    pub fn render(&self, reports: &[Report], options: &RenderOptions, mut out: impl io::Write) -> io::Result<()> {
        let because = self.empty_because.as_deref();
        let mut text = joined(reports.iter().map(|report| (report.row().text)(self, options)), because, options);
        text += &footer::footer(self, reports, options);
        out.write_all(text.as_bytes())
    }

    /// Prints one report without the footer: an empty line, the title, an empty line, the report, an empty line.
    /// (`nvprof` has its own two lines for a title, with no empty line after them.)
    ///
    /// ```
    /// use range_report::{RenderOptions, Report, Summary, TableStyle};
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
    /// Those of `out`.
    pub fn render_one(&self, report: Report, options: &RenderOptions, mut out: impl io::Write) -> io::Result<()> {
        out.write_all((report.row().text)(self, options).as_bytes())
    }
}

fn ranges(summary: &Summary, options: &RenderOptions) -> String {
    nsys::ranges(summary, options) + &streams::streams(summary, options)
}

/// One report behind the other. Why there is nothing in several is said once, under the titles of all of them;
/// `because` says why there is no range.
fn joined(reports: impl Iterator<Item = String>, because: Option<&str>, options: &RenderOptions) -> String {
    let mut parts: Vec<(String, Option<String>)> = Vec::new();
    for text in reports {
        let ends = [NO_RANGE].into_iter().chain(gpu_work::ABSENT.iter().map(|(said, _)| *said));
        let ends = ends.map(|said| format!("\n\n{said}\n"));
        let absent = ends.into_iter().find_map(|end| Some((text.strip_suffix(end.as_str())?.to_owned(), end)));
        let (text, end) = absent.map_or((text, None), |(title, end)| (title, Some(end)));
        match parts.iter_mut().find(|(_, of_another)| end.is_some() && *of_another == end) {
            Some((titles, _)) => titles.push_str(&text),
            None => parts.push((text, end)),
        }
    }
    let no_range = because.map(|because| {
        let sentence = format!("No range was recorded: {}", names::escaped(because));
        let lines = wrapped("", &sentence, options.columns());
        (format!("\n\n{NO_RANGE}\n"), format!("\n\n{}\n", lines.trim_start().replace("\n ", "\n")))
    });
    let of_command = gpu_work::ABSENT.iter().filter(|_| options.of_command);
    let told = |end: String| match &no_range {
        Some((bare, explained)) if *bare == end => explained.clone(),
        _ => match of_command.clone().find(|(said, _)| end.trim() == said.trim()) {
            Some((_, words)) => format!("\n\n{words}\n"),
            None => end,
        },
    };
    parts.into_iter().map(|(text, end)| text + &end.map(told).unwrap_or_default()).collect()
}

/// The envelope of a report. `body` ends in a line feed.
fn section(title: &str, body: &str) -> String {
    format!("\n{title}\n\n{body}\n")
}
