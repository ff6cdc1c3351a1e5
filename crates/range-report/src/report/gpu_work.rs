//! Shared parts of the reports on GPU work: names in each tool's form, sums by name, and sentences for missing data.

use range_model::stats::{Lean, Named};
use std::borrow::Cow;
use std::cmp::Reverse;

use super::kinds::TableStyle;
use super::options::RenderOptions;
use super::replays;
use crate::analysis::Phases;
use range_model::names;
use range_model::stats::order;
use range_model::{GpuActivity, MemoryKind, Summary, Times};

/// For a summary without [`GpuActivity`].
pub(crate) const NO_ACTIVITY: &str = "The GPU's work was not recorded. Build the profiler before the program starts
CUDA, with `gpu=auto` or `gpu=cupti`, on a machine with a GPU and NVIDIA's
CUPTI; what stood in the way is in the notes.
";
/// For a summary whose GPU ran no kernel.
pub(crate) const NO_KERNEL: &str = "No kernel was recorded. Check that kernels are launched while the program is
measured, and waited for before the report is printed.
";
/// For a merged summary that has kernels.
pub(crate) const NO_RANGE_KERNEL: &str = "Kernels by range are not merged: the summary of each process has its own.\n";
/// For a summary whose GPU copied and set no memory.
pub(crate) const NO_MEMORY: &str = "No copy and no set of GPU memory was recorded.\n";
/// For a summary without kernels, copies and sets.
pub(crate) const NO_OPERATION: &str = "No kernel, copy or set was recorded. Check that the GPU is given work while the
program is measured, and waited for before the report is printed.
";
/// For a summary without API calls, which are recorded only if a report of them was asked for.
pub(crate) const NO_CALL_RECORDED: &str =
    "Calls of the CUDA API were not recorded. Ask for this report when the profiler
is built, or in `TRACING_GPU`.
";
/// For a summary with recorded API calls, of a program that made none.
pub(crate) const NO_CALL: &str = "No call of the CUDA API was recorded.\n";
/// For a summary in which no range launched anything.
pub(crate) const NO_LAUNCH: &str = "No range launched work for the GPU. Enter a span on the thread that launches
it, around the launch.
";
/// For a summary without events of OpenACC.
pub(crate) const NO_OPENACC: &str = "No event of an OpenACC runtime was recorded.\n";
/// For a summary without categories.
pub(crate) const NO_CATEGORY: &str = "No range with a category was recorded. Give spans the field `nvtx.category`,
a text or a number.
";
/// For a summary without calls of futures.
pub(crate) const NO_CALL_OF_FUTURE: &str = "No span of a future has ended, so nothing was awaited.\n";
/// Sentences that several reports use in place of a table, and the command's wording of each.
pub(super) const ABSENT: &[(&str, &str)] = &[
    (
        NO_ACTIVITY,
        "The GPU's work was not recorded: the program has not started CUDA, or the notes
say what stood in the way.
",
    ),
    (NO_MEMORY, NO_MEMORY),
    (
        NO_LAUNCH,
        "No range launched work for the GPU. One that does is open around the launch, on
the thread that launches.
",
    ),
    (NO_CALL_RECORDED, "Calls of the CUDA API were not recorded: `-r api` of the run records them.\n"),
    (NO_CATEGORY, "No range with a category was recorded.\n"),
    (NO_CALL_OF_FUTURE, "No calls of futures: they are those of Rust programs that measure themselves.\n"),
];

/// All operations or calls of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) name: String,
    pub(crate) calls: u64,
    pub(crate) total_ns: u64,
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
}

impl Tally {
    pub(super) fn new(name: String, times: &Times) -> Self {
        let Times { instances, total_ns, min_ns, max_ns, .. } = *times;
        Self { name, calls: instances, total_ns, min_ns, max_ns }
    }
}

/// Kernels, copies and sets together, by total time, and replays of graphs that were recorded as a whole as one row;
/// `memory_name` names copies and sets.
pub(crate) fn operations(
    summary: &Summary,
    gpu: &GpuActivity,
    memory_name: impl Fn(MemoryKind) -> String,
    options: &RenderOptions,
) -> Vec<Tally> {
    let kernels = gpu.kernels.iter().map(|kernel| Tally::new(printable(&kernel.name, options), &kernel.times));
    let memory = gpu.memory.iter().map(|memory| Tally::new(memory_name(memory.kind), &memory.times));
    // Their shortest and longest times are not known.
    let replays = replays::recorded_whole(&Phases::of(summary), Some(gpu)).map(|[calls, total_ns]| Tally {
        name: replays::WHOLE.to_owned(),
        calls,
        total_ns,
        min_ns: 0,
        max_ns: 0,
    });
    let mut rows: Vec<Tally> = kernels.chain(memory).chain(replays).filter(|row| row.calls > 0).in_vec();
    order::by_key(&mut rows, |row| Reverse(row.total_ns));
    rows
}

/// API calls by the name without its version, in order of first appearance; empty if they were not recorded.
pub(crate) fn calls(gpu: &GpuActivity, options: &RenderOptions) -> Vec<Tally> {
    let mut rows: Vec<Tally> = Vec::new();
    let mut known: Named<Cow<'_, str>, usize> = Named::default();
    for call in gpu.calls.iter().flatten().filter(|call| call.times.instances > 0) {
        let name = unversioned(&call.name);
        let Some(row) = known.get(&name).and_then(|&index| rows.get_mut(index)) else {
            rows.push(Tally::new(printable(&name, options), &call.times));
            known.insert(name, rows.len() - 1);
            continue;
        };
        row.calls = row.calls.saturating_add(call.times.instances);
        row.total_ns = row.total_ns.saturating_add(call.times.total_ns);
        row.min_ns = row.min_ns.min(call.times.min_ns);
        row.max_ns = row.max_ns.max(call.times.max_ns);
    }
    rows
}

/// A name in printable form.
pub(crate) fn printable(name: &str, options: &RenderOptions) -> String {
    if options.raw_names { name.to_owned() } else { names::escaped(name).into_owned() }
}

/// The name of a CUDA API function as in source code, without the version of its interface: `cuMemAlloc` for
/// `cuMemAlloc_v2` and `cudaLaunchKernel` for `cudaLaunchKernel_v7000`. The mark of the variant for a per-thread
/// default stream stays: `cuMemcpyHtoD_ptds`.
pub(crate) fn unversioned(name: &str) -> Cow<'_, str> {
    for variant in ["_ptsz", "_ptds"] {
        if let Some(stem) = name.strip_suffix(variant).and_then(without_version) {
            return Cow::Owned(format!("{stem}{variant}"));
        }
    }
    Cow::Borrowed(without_version(name).unwrap_or(name))
}

/// The same in the form of Nsight Systems: only a version of exactly four digits is left out, so `cuMemAlloc_v2` stays.
#[must_use]
pub fn nsys_call(name: &str) -> &str {
    without_version(name).filter(|stem| name.len() == stem.len() + "_v7000".len()).unwrap_or(name)
}

/// `None` if there is no version.
fn without_version(name: &str) -> Option<&str> {
    let (stem, version) = name.rsplit_once("_v")?;
    let is_version = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    (is_version && !stem.is_empty()).then_some(stem)
}

/// `[CUDA memcpy HtoD]`, or as Nsight Systems writes it since 2023, `[CUDA memcpy Host-to-Device]`.
#[must_use]
pub fn bracketed(kind: MemoryKind, style: TableStyle) -> String {
    match (kind.direction().zip(long(kind)), style) {
        (None, _) => "[CUDA memset]".to_owned(),
        (Some((short, _)), TableStyle::Legacy) => format!("[CUDA memcpy {short}]"),
        (Some((_, long)), TableStyle::Current) => format!("[CUDA memcpy {long}]"),
    }
}

/// `Host-to-Device`; nothing for a set.
const fn long(kind: MemoryKind) -> Option<&'static str> {
    Some(match kind {
        MemoryKind::Unknown => "Unknown",
        MemoryKind::HtoD => "Host-to-Device",
        MemoryKind::DtoH => "Device-to-Host",
        MemoryKind::HtoA => "Host-to-Array",
        MemoryKind::AtoH => "Array-to-Host",
        MemoryKind::AtoA => "Array-to-Array",
        MemoryKind::AtoD => "Array-to-Device",
        MemoryKind::DtoA => "Device-to-Array",
        MemoryKind::DtoD => "Device-to-Device",
        MemoryKind::HtoH => "Host-to-Host",
        MemoryKind::PtoP => "Peer-to-Peer",
        MemoryKind::Set => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use range_model::{ApiCallStats, GraphWork, KernelStats, MemoryStats, Sizes};

    fn times(instances: u64, total_ns: u64, min_ns: u64, max_ns: u64) -> Times {
        Times { instances, total_ns, min_ns, max_ns, ..Times::default() }
    }

    #[test]
    fn versions_of_functions() {
        for (name, bare, nsys) in [
            ("cudaLaunchKernel_v7000", "cudaLaunchKernel", "cudaLaunchKernel"),
            ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel_ptsz", "cudaLaunchKernel_ptsz"),
            ("cudaGraphLaunch_v10000", "cudaGraphLaunch", "cudaGraphLaunch_v10000"),
            ("cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync", "cuMemcpyHtoDAsync_v2"),
            ("cuMemcpyHtoD_v2_ptds", "cuMemcpyHtoD_ptds", "cuMemcpyHtoD_v2_ptds"),
            ("cuLaunchKernel_ptsz", "cuLaunchKernel_ptsz", "cuLaunchKernel_ptsz"),
            ("cuInit", "cuInit", "cuInit"),
            ("a_v", "a_v", "a_v"),
            ("a_v2b", "a_v2b", "a_v2b"),
            ("_v7000", "_v7000", "_v7000"),
            ("", "", ""),
        ] {
            assert_eq!((&*unversioned(name), nsys_call(name)), (bare, nsys), "{name}");
        }
    }

    #[test]
    fn versions_of_one_function_are_one_row() {
        let call = |name: &str, times| ApiCallStats { name: name.to_owned(), times };
        let gpu = GpuActivity {
            calls: Some(vec![
                call("cuMemAlloc_v2", times(2, 50, 20, 30)),
                call("cuInit", times(1, 40, 40, 40)),
                call("cuMemAlloc", times(1, 9, 9, 9)),
                call("cuNever", times(0, 0, 0, 0)),
            ]),
            ..GpuActivity::default()
        };
        let row = |name: &str, calls, total_ns, min_ns, max_ns| Tally {
            name: name.to_owned(),
            calls,
            total_ns,
            min_ns,
            max_ns,
        };
        let expected = [row("cuMemAlloc", 3, 59, 9, 30), row("cuInit", 1, 40, 40, 40)];
        assert_eq!(calls(&gpu, &RenderOptions::default()), expected);
    }

    #[test]
    fn operations_are_in_one_order() {
        let kernel = |name: &str, total_ns| KernelStats { name: name.to_owned(), times: times(1, total_ns, 1, 1) };
        let memory = |kind, total_ns| MemoryStats { kind, times: times(1, total_ns, 1, 1), sizes: Sizes::default() };
        let gpu = GpuActivity {
            kernels: vec![kernel("long\n", 9), kernel("short", 2)],
            memory: vec![memory(MemoryKind::Set, 5), memory(MemoryKind::HtoD, 2)],
            outside_graphs: GraphWork { replays: 3, whole: 2, whole_ns: 6, ..GraphWork::default() },
            ..GpuActivity::default()
        };
        let summary = Summary::default();
        let rows = operations(&summary, &gpu, |kind| bracketed(kind, TableStyle::Legacy), &RenderOptions::default());
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["long\\n", "[CUDA graph replays]", "[CUDA memset]", "short", "[CUDA memcpy HtoD]"]);
        assert_eq!(bracketed(MemoryKind::PtoP, TableStyle::Current), "[CUDA memcpy Peer-to-Peer]");
        assert_eq!((MemoryKind::DtoA.direction(), MemoryKind::Set.direction()), (Some("DtoA"), None));
    }
}
