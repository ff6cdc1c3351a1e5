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
mod envelope;
mod footer;
pub(crate) mod gpu_work;
mod hot;
mod kinds;
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
use envelope::NO_RANGE;
#[cfg(feature = "html")]
pub(crate) use footer::notes;
#[cfg(feature = "html")]
pub(crate) use gpu_work::{bracketed, nsys_call};
pub use kinds::{MergedTable, Report, TableStyle, UnknownName};
#[cfg(feature = "csv")]
pub(crate) use merged::merged_table;
#[cfg(feature = "html")]
pub(crate) use nsys::style_name;
pub use options::RenderOptions;
pub(crate) use table::Table;
pub(crate) use tables::stream_table;
#[cfg(feature = "html")]
pub(crate) use tree::{Explained, Marked, explained};

use std::io;

use crate::Summary;
#[doc(hidden)] // for the messages of whoever measures
pub use crate::text::escaped;
pub(crate) use crate::text::label;
use crate::text::names;
use crate::text::width::wrapped;

/// What makes a report: its text; and its table for [`Summary::write_csv`], `None` for a report that is not one table.
type Makers = (MakeText, Option<MakeTable>);
type MakeText = fn(&Summary, &RenderOptions) -> String;
type MakeTable = fn(&Summary, &RenderOptions) -> cuda::Made;

/// What makes each report. To add one, write its functions, and add a line here and in `kinds.rs`.
const MAKERS: &[(Report, MakeText, Option<MakeTable>)] = &[
    (Report::Ranges, ranges, Some(tables::ranges)),
    (Report::Tree, tree::tree, Some(tables::tree)),
    (Report::Calls, calls::calls, Some(tables::calls)),
    (Report::Categories, categories::categories, Some(tables::categories)),
    (Report::Nvprof, nvprof::nvprof, None),
    (Report::Torch, torch::torch, None),
    (Report::GpuProjection, cuda::projection, Some(cuda::make_projection)),
    (Report::Kernels, cuda::kernels, Some(cuda::make_kernels)),
    (Report::MemTime, cuda::memory_time, Some(cuda::make_memory_time)),
    (Report::MemSize, cuda::memory_size, Some(cuda::make_memory_size)),
    (Report::Api, cuda::calls, Some(cuda::make_calls)),
    (Report::OpenAcc, cuda::openacc, Some(cuda::make_openacc)),
    (Report::RangeKernels, cuda::range_kernels, Some(cuda::make_range_kernels)),
    (Report::Hot, hot::hot, None),
];

const _: () = {
    assert!(MAKERS.len() == Report::ALL.len());
    let mut index = 0;
    while index < MAKERS.len() {
        assert!(MAKERS[index].0 as usize == index, "the makers stand in the order in which the reports are declared");
        index += 1;
    }
};

const fn makers(report: Report) -> Makers {
    let (_, text, table) = MAKERS[report as usize];
    (text, table)
}

/// The table behind a report; `None` for a report that is not one table, and a sentence where the table cannot be made.
pub(crate) fn table(summary: &Summary, report: Report) -> Option<cuda::Made> {
    makers(report).1.map(|table| table(summary, &tables::plain()))
}

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
        let mut text = joined(reports.iter().map(|report| makers(*report).0(self, options)), because, options);
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
        out.write_all(makers(report).0(self, options).as_bytes())
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
