//! Reports: plain text made from a [`Summary`].
//!
//! Rendering is a pure function: the same summary and options give the same text. The statistics imitate the tables of
//! Nsight Systems, nvprof and torch.profiler, character for character. Two exceptions: control characters in names are
//! escaped, and wide characters count as the columns that they take on a terminal (see [`RenderOptions::raw_names`]).
//!
//! ```
//! use range_report::{RenderOptions, Report, SummaryExt as _};
//! use range_model::Summary;
//!
//! let summary = Summary::default();
//! let mut text = Vec::new();
//! summary.render(&[Report::Ranges, Report::Tree], &RenderOptions::default(), &mut text)?;
//! assert!(String::from_utf8_lossy(&text).contains("NVTX Push/Pop Range Summary"));
//! # Ok::<(), std::io::Error>(())
//! ```

pub(crate) mod calls;
mod categories;
#[cfg(feature = "compare")]
mod comparison;
mod cuda;
mod envelope;
mod fitted;
mod footer;
pub(crate) mod gpu_work;
mod graphs;
mod hot;
mod idle;
mod interference;
mod kernel_exec;
mod kinds;
#[cfg(feature = "compare")]
mod merged;
mod nodes;
mod nsys;
mod nvprof;
mod off_cpu;
mod options;
#[cfg(feature = "page")]
mod plain_calls;
pub(crate) mod replays;
mod streams;
mod table;
mod tables;
#[cfg(test)]
mod tests;
mod torch;
mod tree;
mod waits;
mod why;

#[cfg(feature = "compare")]
pub(crate) use comparison::comparison_table;
#[cfg(feature = "page")]
#[doc(hidden)] // for the crate range-page
pub use comparison::{change, gate_verdict, verdicts, verdicts_on_self_time};
use envelope::{NO_RANGE, printed};
pub(crate) use footer::losses_as_text;
#[cfg(feature = "compare")]
pub use kinds::MergedTable;
pub use kinds::{FindingKinds, Report, TableStyle};
#[cfg(feature = "compare")]
pub(crate) use merged::{merged, merged_table};
#[cfg(feature = "page")]
#[doc(hidden)] // for the crate range-page
pub use nodes::appended_figures;
#[cfg(feature = "page")]
#[doc(hidden)] // for the crate range-page
pub use nsys::style_name;
pub(crate) use nvprof::{bytes as nvprof_bytes, time as nvprof_time};
pub use options::RenderOptions;
#[doc(hidden)] // for the crate range-page
pub use table::Table;
#[cfg(feature = "page")]
#[doc(hidden)] // for the crate range-page
pub use table::{Cell, Column, Unit};
pub(crate) use tables::stream_table;
#[cfg(feature = "page")]
#[doc(hidden)] // for the crate range-page
pub use tree::{Explained, explained};
pub(crate) use why::findings;

use range_model::Summary;
use range_model::stats::Lean;

use crate::text::width::wrapped;
use range_model::names;

/// The functions and titles of a report.
struct Maker {
    report: Report,
    /// Its titles in the text, in either style.
    titles: [&'static str; 2],
    /// Its title and a sentence about its figures on the page; empty if it has no table there.
    #[cfg_attr(not(feature = "page"), expect(dead_code))]
    page: [&'static str; 2],
    /// Its table, from which text, comma-separated values and the page are made; `None` for a report without a table.
    table: Option<MakeTable>,
    /// Its text, if that is not the table in the layout of Nsight Systems.
    text: Option<MakeText>,
}

type MakeText = fn(&Summary, &RenderOptions) -> String;
type MakeTable = fn(&Summary, &RenderOptions) -> cuda::Made;

impl Maker {
    const fn table(report: Report, titles: [&'static str; 2], page: [&'static str; 2], table: MakeTable) -> Self {
        Self { report, titles, page, table: Some(table), text: None }
    }

    const fn text(report: Report, text: MakeText) -> Self {
        Self { report, titles: [""; 2], page: [""; 2], table: None, text: Some(text) }
    }

    const fn with_text(self, text: MakeText) -> Self {
        Self { text: Some(text), ..self }
    }

    fn render(&self, summary: &Summary, options: &RenderOptions) -> String {
        match (self.text, self.table) {
            (Some(text), _) => text(summary, options),
            (None, Some(table)) => printed(self.titles, table(summary, options), options),
            (None, None) => String::new(),
        }
    }
}

/// How each report is made. To add one, write a function that makes its table, and add a row here and in `kinds.rs`.
#[rustfmt::skip]
const MAKERS: &[Maker] = &[
    Maker::table(Report::Ranges, [""; 2], ["Ranges", "Wall-clock time between entry and exit."], tables::ranges)
        .with_text(ranges), // several titles
    Maker::table(Report::Tree, [""; 2], [""; 2], tables::tree).with_text(tree::tree), // the page has the tree itself
    Maker::table(Report::Calls, [""; 2], ["Calls", calls::ABOUT], tables::calls).with_text(calls::calls),
    Maker::table(Report::Categories, [" ** Category Summary (categories):", "Category Statistics:"],
        ["Categories", "Ranges by nvtx.category, nested ones counted inclusively."], categories::table),
    Maker::text(Report::Nvprof, nvprof::nvprof),
    Maker::text(Report::Torch, torch::torch),
    Maker::table(Report::GpuProjection,
        [" ** NVTX GPU Projection Summary (nvtx_gpu_proj_sum):", "NVTX Range Statistics (projected onto the GPU):"],
        ["GPU projection", cuda::PROJECTED], cuda::projection),
    Maker::table(Report::Kernels, [" ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):", "CUDA Kernel Statistics:"],
        ["Kernels", "Execution on the GPU."], cuda::kernels),
    Maker::table(Report::MemTime,
        [" ** CUDA GPU MemOps Summary (by Time) (cuda_gpu_mem_time_sum):", "CUDA Memory Operation Statistics (by time):"],
        ["GPU memory", "Copies and sets, by kind."], cuda::memory_time), // the page shows the sizes there, too
    Maker::table(Report::MemSize, [" ** CUDA GPU MemOps Summary (by Size) (cuda_gpu_mem_size_sum):",
        "CUDA Memory Operation Statistics (by size in KiB):"], [""; 2], cuda::memory_size),
    Maker::table(Report::Api, [" ** CUDA API Summary (cuda_api_sum):", "CUDA API Statistics:"],
        ["API calls", "Calls of the CUDA API, on the CPU."], cuda::calls),
    Maker::table(Report::OpenAcc, [" ** OpenACC Events, Exclusive (openacc):", "OpenACC Event Statistics (exclusive):"],
        ["OpenACC", "Events of the OpenACC runtime, without the events inside them."], cuda::openacc),
    Maker::table(Report::RangeKernels,
        [" ** NVTX Range Kernel Summary (nvtx_kern_sum):", "CUDA Kernel Statistics (by NVTX range):"],
        ["Kernels by range", "Kernels as launched inside ranges, once for each range around them."], cuda::range_kernels),
    Maker::text(Report::Hot, hot::hot),
    Maker::table(Report::Idle, [""; 2], ["Idle", idle::ABOUT], idle::table).with_text(idle::idle), // two tables
    Maker::text(Report::Why, why::why),
    Maker::table(Report::KernelExec, [""; 2], ["Launch to end", kernel_exec::ABOUT], kernel_exec::table)
        .with_text(kernel_exec::kernel_exec), // two tables
    Maker::table(Report::OffCpu, [""; 2], ["Off CPU", off_cpu::ABOUT], off_cpu::table).with_text(off_cpu::off_cpu),
    Maker::table(Report::Waits, [""; 2], ["Waits", waits::ABOUT], waits::table).with_text(waits::waits),
    Maker::table(Report::Interference, [""; 2], ["Interference", interference::ABOUT], interference::table)
        .with_text(interference::interference),
    Maker::table(Report::Graphs, [" ** CUDA Graph Summary (graphs):", "CUDA Graph Statistics:"],
        ["CUDA graphs", "Replays by the spans that launch them, and what runs by the spans that captured it."],
        graphs::table),
    Maker::table(Report::CapturedKernels,
        [" ** CUDA Graph Kernel Summary, by Capture (captured_kernels):", "CUDA Graph Kernel Statistics (by capture):"],
        ["Captured kernels", "Kernels of replays that were recorded by their nodes, by the spans that captured them."],
        graphs::kernels),
];

const _: () = {
    assert!(MAKERS.len() == Report::ALL.len());
    let mut index = 0;
    while index < MAKERS.len() {
        let report = MAKERS[index].report;
        assert!(report as usize == index, "the makers stand in the order in which the reports are declared");
        index += 1;
    }
};

const fn maker(report: Report) -> &'static Maker {
    &MAKERS[report as usize]
}

/// The table of a report; `None` for a report that is not one table, and a sentence if the table cannot be made.
pub(crate) fn table(summary: &Summary, report: Report) -> Option<cuda::Made> {
    maker(report).table.map(|table| table(summary, &tables::plain()))
}

/// The notes in the footer of these reports.
#[cfg(feature = "page")]
#[must_use]
#[doc(hidden)] // for the crate range-page
pub fn notes(summary: &Summary, reports: &[Report], options: &RenderOptions) -> Vec<String> {
    footer::notes(summary, reports, options, shows_approximate(summary, reports, options))
}

/// Whether the tables of these reports show a figure that comes from a histogram.
fn shows_approximate(summary: &Summary, reports: &[Report], options: &RenderOptions) -> bool {
    let of = |report: &Report| {
        let streams = (*report == Report::Ranges).then(|| streams::table(summary, options)).flatten();
        let table = maker(*report).table.and_then(|table| table(summary, options).ok());
        table.into_iter().chain(streams).any(|table| table.is_approximate())
    };
    reports.iter().any(of)
}

/// The tables of the page, each with its title and a description of its figures. The stream times follow the ranges.
#[cfg(feature = "page")]
#[must_use]
#[doc(hidden)] // for the crate range-page
pub fn page_tables(summary: &Summary) -> Vec<([&'static str; 2], Table)> {
    let mut tables = Vec::new();
    for maker in MAKERS.iter().filter(|maker| !maker.page[0].is_empty()) {
        let table = match maker.report {
            Report::Calls => Some(plain_calls::table(summary)),
            _ => maker.table.and_then(|table| table(summary, &tables::plain()).ok()),
        };
        tables.extend(table.map(|table| (maker.page, table)));
        if maker.report == Report::Ranges {
            tables.extend(streams::table(summary, &tables::plain()).map(|table| (streams::PAGE, table)));
        }
    }
    tables
}

/// One report without the footer.
pub(crate) fn rendered_one(summary: &Summary, report: Report, options: &RenderOptions) -> String {
    maker(report).render(summary, options)
}

fn ranges(summary: &Summary, options: &RenderOptions) -> String {
    nsys::ranges(summary, options) + &streams::streams(summary, options)
}

/// These reports in the given order, then a footer with losses and explanations, if there are any.
pub(crate) fn rendered(summary: &Summary, reports: &[Report], options: &RenderOptions) -> String {
    let because = summary.empty_because.as_deref();
    let first = if reports.contains(&Report::Why) { String::new() } else { why::first_lines(summary, options) };
    let texts = reports.iter().map(|report| maker(*report).render(summary, options)).in_vec();
    let footer = footer::footer(summary, reports, options, shows_approximate(summary, reports, options));
    first + &joined(texts, because, options) + &footer
}

/// Joins reports. A reason for several empty ones is printed once, under all their titles. `because` is the reason for
/// a run without ranges.
fn joined(reports: Vec<String>, because: Option<&str>, options: &RenderOptions) -> String {
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
