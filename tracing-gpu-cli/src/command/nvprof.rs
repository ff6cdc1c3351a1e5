//! Options of `nvprof`: for those that this command lacks, the error names a replacement.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::options::{Run, WRONG_USE};
use crate::complain;
use crate::folder::CaptureRange;

/// An option of nvprof, and its replacement.
const INSTEAD: &[(&[&str], &str)] = &[
    (
        &["--print-api-trace"],
        "single calls are in a timeline: `--api all --html run.html --open` shows them; `--api all --sqlite \
         run.sqlite`, and then `nsys stats -r cuda_api_trace run.sqlite`, lists them",
    ),
    (&["--print-gpu-summary"], "write `--report kernels+mem_time`"),
    (&["--print-api-summary"], "write `--report api`"),
    (&["--print-summary", "-s"], "write `--report nvprof`"),
    (&["--print-summary-per-gpu"], "all devices are in one summary; `--html run.html` shows each"),
    (
        &["--print-openacc-summary", "--print-openacc-trace", "--openacc-profiling", "--openacc-summary-mode"],
        "OpenACC is measured in any case",
    ),
    (&["--openmp-profiling", "--print-openmp-summary"], "OpenMP is not measured"),
    (&["--annotate-mpi"], "`nsys profile -t mpi` has the calls of MPI as ranges"),
    (&["--print-nvlink-topology", "--print-pci-topology"], "`nvidia-smi topo -m` prints it"),
    (&["--export-profile", "-x"], "write `--html run.html` for a page, or `--sqlite run.sqlite` for `nsys stats`"),
    (&["--import-profile", "-i"], "`tracing-gpu merge FOLDER` prints what `--json` wrote; pages open in a browser"),
    (
        &[
            "--metrics",
            "-m",
            "--events",
            "-e",
            "--query-metrics",
            "--query-events",
            "--analysis-metrics",
            "--source-level-analysis",
            "-a",
            "--event-collection-mode",
            "--pc-sampling-period",
            "--kernel-latency-timestamps",
        ],
        "counters of kernels are read by Nsight Compute: `ncu`",
    ),
    (
        &["--kernels", "--devices", "--aggregate-mode", "--replay-mode", "--skip-kernel-replay-save-restore"],
        "all kernels of all devices are measured",
    ),
    (&["--profile-api-trace"], "calls of CUDA are measured in any case; `--gpu off` leaves them and the GPU alone"),
    (
        &["--device-buffer-size", "--device-cdp-buffer-size", "--profiling-semaphore-pool-size"],
        "buffers need no settings",
    ),
    (&["--profile-all-processes"], "start each program with `tracing-gpu`"),
    (
        &[
            "--unified-memory-profiling",
            "--track-memory-allocations",
            "--dependency-analysis",
            "--print-dependency-analysis-trace",
        ],
        "Nsight Systems has it: `nsys profile --cuda-um-cpu-page-faults=true --cuda-um-gpu-page-faults=true`",
    ),
    (&["--cpu-profiling", "--cpu-thread-tracing"], "`perf` and `nsys profile -s process-tree` sample functions"),
    (
        &["--system-profiling", "--continuous-sampling-interval"],
        "`nvidia-smi dmon` prints power, clocks and temperatures",
    ),
    (&["--normalized-time-unit", "-u"], "tables of `--csv` are in nanoseconds"),
    (
        &["--demangling", "--trace", "--concurrent-kernels", "--context-name", "--process-name", "--stream-name"],
        "there is no such choice here",
    ),
    (&["--quiet", "-q"], "write `--output none`"),
];

/// Explains an option of nvprof that this command lacks. `None` for any other mistake.
pub(super) fn explain(error: &clap::Error) -> Option<u8> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let name = option.split('=').next().unwrap_or_default();
    let name = if name.starts_with("--cpu-profiling-") { "--cpu-profiling" } else { name };
    let (_, instead) = INSTEAD.iter().find(|(names, _)| names.contains(&name))?;
    (error.kind() == ErrorKind::UnknownArgument).then(|| {
        complain(&format!("`{name}` of nvprof is no option here: {instead}"));
        WRONG_USE
    })
}

/// The reason why options of ours cannot have nvprof's meaning, or cannot be combined.
pub(super) fn refused(run: &Run) -> Option<&'static str> {
    if run.captured() == CaptureRange::Cuda && run.gpu.as_deref() == Some("off") {
        return Some(
            "cudaProfilerStart is seen by CUPTI alone, which `--gpu off` leaves to others: choose one of the two",
        );
    }
    let kind = run.print.output.as_ref()?.extension()?;
    (kind == "nvvp" || kind == "nvprof" || kind == "nvprof-out").then_some(
        "`--output` is for the printed report, and the Visual Profiler's files are no more: write `--html run.html` for \
         a page with timeline and tables",
    )
}
