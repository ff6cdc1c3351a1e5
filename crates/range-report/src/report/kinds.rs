//! The reports, their styles, and their names in the configuration.

use std::fmt;
use std::str::FromStr;

use crate::analysis::FindingKind;
use range_model::UnknownName;
use range_model::stats::Lean;

/// A report.
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
    /// Nested phases in order of first entry, with each phase's own time. If CUPTI recorded, `GPU busy` is the time
    /// during which any work of a phase ran, and lines below the tree list the copies. If phases were timed on streams,
    /// `GPU total` is their stream time; beside `GPU busy` its column is called `Stream`.
    Tree,
    /// Calls of spans that are futures, the longest own waiting first: how many ended, how many were cancelled, and
    /// percentiles of their latency, from the creation of the span to its close. `On thread` is the part of the
    /// latency during which an instance was open, `Awaited` the rest until the last poll, and `Outlived` the time after
    /// that. `Awaited self` excludes the time during which a child call was alive. `In batch` is the time during which
    /// a batch that served the call was open, `Share~` its part of their running time, and `GPU share~` that of the
    /// operations that they launched.
    Calls,
    /// Sums over the span field `nvtx.category`.
    Categories,
    /// GPU activities, API calls and events of OpenACC in the form of `nvprof`: columns of fixed width, times in five
    /// digits, averages rounded down. Names of functions lose the version of their interface (`cuMemAlloc` for
    /// `cuMemAlloc_v2`). The first two need CUPTI; the last are printed if
    /// [`Summary::openacc`](range_model::Summary::openacc) has any.
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
    /// Kernels by the ranges in which they were launched: `nvtx_kern_sum` of `nsys stats`. Needs CUPTI.
    RangeKernels,
    /// The kernels and copies that together take 90 % of all GPU time, and the API calls that together take 90 % of all
    /// API time; see [`RenderOptions::hot_percent`](crate::RenderOptions::hot_percent). Needs CUPTI.
    Hot,
    /// Why the GPU was idle. Each moment between two operations of a device has one cause and one range, taken from the
    /// thread that launched the second operation ([`IdleCause`](range_model::summary::IdleCause)). Needs CUPTI, and a
    /// record of all ranges and CUDA API calls of the run.
    Idle,
    /// The run in a few lines: how busy the GPU was and why not busier, and the most costly findings, with one advice
    /// each. With a GPU it needs the same as [`Idle`](Self::Idle); without one, it has the other findings.
    Why,
    /// Kernels from launch to end: `cuda_kern_exec_sum` of `nsys stats`, and the same by the range of the launch. A `Q`
    /// column covers kernels that had not started when the call returned (`QCount`). Needs CUPTI, and a record of all
    /// CUDA API calls of the run.
    KernelExec,
    /// What threads waited for inside of ranges: the time in which the thread of a range did not run, by system call
    /// and by what is behind its descriptor. An estimate from samples, which are taken on Linux only.
    OffCpu,
    /// Who ended the waits of followed futures (`tracing_gpu::follow`): the innermost span that was open where a call
    /// was woken, followed back to the head of a queue of waiters.
    Waits,
    /// Whose operations made operations of other requests wait in a stream of a GPU, by the spans of both. Needs CUPTI,
    /// and a record of all ranges of the run.
    Interference,
    /// Replays of CUDA graphs, by the spans that launch them and the spans that captured what runs. Needs CUPTI.
    Graphs,
    /// Kernels of CUDA graphs that were recorded by their nodes, by the spans that launched the replay and the spans
    /// that captured the kernel. Needs CUPTI.
    CapturedKernels,
}

impl Report {
    /// All reports, in the best order for reading.
    pub const ALL: &'static [Self] = &{
        let mut all = [Self::Ranges; TABLE.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = TABLE[index].0;
            assert!(all[index] as usize == index, "the rows stand in the order in which the reports are declared");
            index += 1;
        }
        all
    };

    /// Its name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Whether it needs CUPTI's records.
    #[must_use]
    pub const fn needs_activity(self) -> bool {
        !matches!(TABLE[self as usize].2, Needs::Spans)
    }

    /// Whether it needs single calls of the CUDA API.
    #[must_use]
    pub const fn needs_calls(self) -> bool {
        matches!(TABLE[self as usize].2, Needs::Calls | Needs::AllCalls | Needs::Stream)
    }

    /// Whether it needs every call of the CUDA API, also those that only query or set something.
    #[must_use]
    pub const fn needs_all_calls(self) -> bool {
        matches!(TABLE[self as usize].2, Needs::AllCalls)
    }

    /// Whether it needs all ranges, calls and operations in order.
    #[must_use]
    pub const fn needs_stream(self) -> bool {
        matches!(TABLE[self as usize].2, Needs::Stream)
    }
}

/// The data that a report needs.
enum Needs {
    /// Counts of the process itself.
    Spans,
    /// The GPU's work, which CUPTI records.
    Activity,
    /// GPU work, and those calls of the CUDA API that explain something, both from CUPTI.
    Calls,
    /// GPU work, and all calls of the CUDA API, both from CUPTI.
    AllCalls,
    /// As [`Calls`](Self::Calls), and every range in order, as in a timeline.
    Stream,
}

/// Every report, its name in the configuration, and its needs, in the best order for reading.
const TABLE: &[(Report, &str, Needs)] = &[
    (Report::Ranges, "ranges", Needs::Spans),
    (Report::Tree, "tree", Needs::Spans),
    (Report::Calls, "calls", Needs::Spans),
    (Report::Categories, "categories", Needs::Spans),
    (Report::Nvprof, "nvprof", Needs::AllCalls),
    (Report::Torch, "torch", Needs::AllCalls),
    (Report::GpuProjection, "gpu_projection", Needs::Activity),
    (Report::Kernels, "kernels", Needs::Activity),
    (Report::MemTime, "mem_time", Needs::Activity),
    (Report::MemSize, "mem_size", Needs::Activity),
    (Report::Api, "api", Needs::AllCalls),
    (Report::OpenAcc, "openacc", Needs::Spans),
    (Report::RangeKernels, "range_kernels", Needs::Activity),
    (Report::Hot, "hot", Needs::Calls),
    (Report::Idle, "idle", Needs::Stream),
    (Report::Why, "why", Needs::Stream),
    (Report::KernelExec, "kernel_exec", Needs::Stream),
    (Report::OffCpu, "off_cpu", Needs::Spans),
    (Report::Waits, "waits", Needs::Spans),
    (Report::Interference, "interference", Needs::Stream),
    (Report::Graphs, "graphs", Needs::Activity),
    (Report::CapturedKernels, "captured_kernels", Needs::Activity),
];

/// A table of a [`MergedSummary`](range_model::MergedSummary), for
/// [`write_csv`](crate::MergedSummaryExt::write_csv).
///
/// ```
/// use range_report::{MergedSummaryExt as _, MergedTable};
/// use range_model::Summary;
///
/// let merged = Summary::merge([]);
/// for table in MergedTable::ALL {
///     let mut text = Vec::new();
///     merged.write_csv(*table, &mut text)?;
///     assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 1, "{table:?} has its headers and no row");
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[cfg(feature = "compare")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MergedTable {
    /// Ranges by their time on the CPU.
    Ranges,
    /// All GPU work by busy time, and the work that counts for no span.
    Work,
    /// Kernels.
    Kernels,
    /// Ranges by stream time (CUDA events).
    StreamTimes,
    /// Copies and sets by time.
    MemTime,
    /// Copies and sets by size, in bytes.
    MemSize,
    /// Ranges by their time projected onto the GPU.
    GpuProjection,
    /// Calls of the CUDA API.
    Api,
    /// Events of OpenACC runtimes, by their own time.
    OpenAcc,
    /// Calls of futures, by their own waiting.
    Calls,
    /// Sums over `nvtx.category`.
    Categories,
    /// The phase tree: one row per node, with its depth.
    Tree,
}

#[cfg(feature = "compare")]
impl MergedTable {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Ranges,
        Self::Work,
        Self::Kernels,
        Self::StreamTimes,
        Self::MemTime,
        Self::MemSize,
        Self::GpuProjection,
        Self::Api,
        Self::OpenAcc,
        Self::Calls,
        Self::Categories,
        Self::Tree,
    ];
}

/// A setting is printed and read by its names.
macro_rules! named {
    ($Setting:ident, $what:literal, $all:expr) => {
        impl fmt::Display for $Setting {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $Setting {
            type Err = UnknownName;

            fn from_str(name: &str) -> Result<Self, UnknownName> {
                let known = $all.iter().copied().find(|one: &Self| one.name() == name);
                known.ok_or_else(|| UnknownName::new($what, name, &one_of($all.iter().map(|one| one.name()).in_vec())))
            }
        }
    };
}

named!(Report, "report", Self::ALL);
named!(TableStyle, "table style", [Self::Current, Self::Legacy]);

/// The tool whose layout the statistics imitate.
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
    /// The present Nsight Systems: with median and standard deviation.
    #[default]
    Current,
    /// Nsight Systems up to 2021: average, minimum and maximum only.
    Legacy,
}

impl TableStyle {
    /// Its name in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Legacy => "legacy",
        }
    }
}

/// Kinds of findings, such as those that are switched off. As text, their names joined by `+`.
///
/// ```
/// use range_report::{FindingKind, FindingKinds};
///
/// let kinds: FindingKinds = "small_copies+no_overlap".parse()?;
/// assert!(kinds.has(FindingKind::NoOverlap) && !kinds.has(FindingKind::SyncLoop));
/// assert_eq!(kinds, FindingKinds::of([FindingKind::NoOverlap, FindingKind::SmallCopies]));
/// let error = "small+no_overlap".parse::<FindingKinds>().unwrap_err().to_string();
/// assert!(error.starts_with("unknown finding `small`: expected most_awaited, busy_threads, "));
/// # Ok::<(), range_model::UnknownName>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FindingKinds(u64);

impl FindingKinds {
    /// These kinds.
    #[must_use]
    pub fn of(kinds: impl IntoIterator<Item = FindingKind>) -> Self {
        Self(kinds.into_iter().fold(0, |bits, kind| bits | 1 << kind as u64))
    }

    /// Whether this kind is among them.
    #[must_use]
    pub const fn has(self, kind: FindingKind) -> bool {
        self.0 & 1 << kind as u64 != 0
    }
}

impl FromStr for FindingKinds {
    type Err = UnknownName;

    fn from_str(names: &str) -> Result<Self, UnknownName> {
        let all = || FindingKind::ALL.iter().copied().filter(|kind| kind.can_be_off());
        let kind = |name: &str| {
            let known = all().find(|kind| kind.name() == name);
            known.ok_or_else(|| UnknownName::new("finding", name, &one_of(all().map(FindingKind::name).in_vec())))
        };
        let kinds: Result<Vec<FindingKind>, _> = names.split('+').map(|name| kind(name.trim())).collect();
        kinds.map(Self::of)
    }
}

/// `a, b or c`.
fn one_of(mut names: Vec<&str>) -> String {
    let last = names.pop().unwrap_or_default();
    if names.is_empty() { last.to_owned() } else { format!("{} or {last}", range_model::names::joined(names, ", ")) }
}
