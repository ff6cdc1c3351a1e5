//! What the GPU did, as CUPTI recorded it: the plain data behind the tables of nvprof, torch.profiler and Nsight's CUDA
//! reports.

#[cfg(feature = "serde")]
use super::finite;
use super::times::{RangeStyle, Times};

/// Everything the GPU did in one window, as far as this process asked for it.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct GpuActivity {
    /// Kernels by name, by total time descending, then by name.
    pub kernels: Vec<KernelStats>,
    /// Copies and sets by kind, by total time descending, then by kind.
    pub memory: Vec<MemoryStats>,
    /// Calls of the CUDA API by name, by total time descending, then by name. `None` where no report asked for them.
    pub calls: Option<Vec<ApiCallStats>>,
    /// Ranges projected onto the GPU, by total projected time descending, then by label and style.
    pub projections: Vec<ProjectionStats>,
    /// Kernels by the ranges that they were launched in: by range, process, thread, total time descending, style,
    /// kernel.
    pub range_kernels: Vec<RangeKernelStats>,
    /// All operations.
    pub total: GpuWork,
    /// Operations launched outside of any range.
    pub outside: GpuWork,
    /// Operations whose launch is not known.
    pub unmatched: GpuWork,
}

/// What a number of GPU operations add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct GpuWork {
    /// Kernels, copies and sets.
    pub operations: u64,
    /// Sum of their durations, in nanoseconds. If operations overlap, it is more than the time that passed.
    pub sum_ns: u64,
    /// Time during which at least one of them ran, per device and then summed over devices, in nanoseconds. Not
    /// additive: the busy time of a parent is not the sum of the busy times of its children.
    pub busy_ns: u64,
    /// Copies and sets by kind, in the order of [`MemoryKind`]; kinds that did not occur are left out.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub memory: Vec<MemoryWork>,
}

impl GpuWork {
    /// This number of operations, without a list of copies and sets.
    #[must_use]
    pub fn new(operations: u64, sum_ns: u64, busy_ns: u64) -> Self {
        Self { operations, sum_ns, busy_ns, memory: Vec::new() }
    }
}

/// Copies or sets of one kind, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MemoryWork {
    /// Which way.
    pub kind: MemoryKind,
    /// Number of operations.
    pub operations: u64,
    /// Sum of their durations, in nanoseconds.
    pub sum_ns: u64,
    /// Bytes copied or set.
    pub bytes: u64,
}

impl MemoryWork {
    /// Operations of one kind.
    #[must_use]
    pub const fn new(kind: MemoryKind, operations: u64, sum_ns: u64, bytes: u64) -> Self {
        Self { kind, operations, sum_ns, bytes }
    }

    /// Bytes by time, in GB/s (10^9 bytes a second); 0 where no time passed.
    #[must_use]
    pub fn gigabytes_per_second(&self) -> f64 {
        if self.sum_ns == 0 { 0.0 } else { self.bytes as f64 / self.sum_ns as f64 }
    }
}

/// What a memory operation does: the kinds of CUPTI, and sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum MemoryKind {
    /// A copy whose direction CUPTI does not report.
    Unknown,
    /// Host to device.
    HtoD,
    /// Device to host.
    DtoH,
    /// Host to array.
    HtoA,
    /// Array to host.
    AtoH,
    /// Array to array.
    AtoA,
    /// Array to device.
    AtoD,
    /// Device to array.
    DtoA,
    /// Within a device.
    DtoD,
    /// Within the host.
    HtoH,
    /// From device to device.
    PtoP,
    /// Memory set to a value.
    Set,
}

/// One kernel.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct KernelStats {
    /// Name as a person writes it, template arguments included; the symbol if it cannot be demangled.
    pub name: String,
    /// Execution times; an instance is one execution.
    pub times: Times,
}

impl KernelStats {
    /// The row of a kernel.
    #[must_use]
    pub fn new(name: impl Into<String>, times: Times) -> Self {
        Self { name: name.into(), times }
    }
}

/// Sizes of a number of memory operations, in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Sizes {
    /// Operations.
    pub count: u64,
    /// Sum.
    pub total_bytes: u64,
    /// Smallest; 0 where there is none.
    pub min_bytes: u64,
    /// Largest.
    pub max_bytes: u64,
    /// Median: the middle size, or the mean of the two middle ones; `None` where it is not known.
    #[cfg_attr(feature = "serde", serde(serialize_with = "finite::or_none"))]
    pub median_bytes: Option<f64>,
    /// Sample standard deviation (divisor n - 1); 0 for one.
    #[cfg_attr(feature = "serde", serde(serialize_with = "finite::or_zero"))]
    pub stddev_bytes: f64,
}

impl Sizes {
    /// The row of this number of operations and bytes; nothing else is known.
    #[must_use]
    pub fn new(count: u64, total_bytes: u64) -> Self {
        Self { count, total_bytes, ..Self::default() }
    }
}

/// Memory operations of one kind.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct MemoryStats {
    /// Which way.
    pub kind: MemoryKind,
    /// Times.
    pub times: Times,
    /// Sizes.
    pub sizes: Sizes,
}

impl MemoryStats {
    /// The row of a kind of memory operation.
    #[must_use]
    pub fn new(kind: MemoryKind, times: Times, sizes: Sizes) -> Self {
        Self { kind, times, sizes }
    }
}

/// Calls of one function of the CUDA runtime or driver.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ApiCallStats {
    /// Name as CUPTI gives it, version suffix included: `cuMemAlloc_v2`, `cudaLaunchKernel_v7000`.
    pub name: String,
    /// Durations on the CPU.
    pub times: Times,
}

impl ApiCallStats {
    /// The row of a function.
    #[must_use]
    pub fn new(name: impl Into<String>, times: Times) -> Self {
        Self { name: name.into(), times }
    }
}

/// The instances of one range that launched GPU work on their own thread, projected onto the GPU: each from the start
/// of its first operation to the end of its last (the rule of Nsight Systems' `nvtx_gpu_proj_sum`). A lifetime
/// (`nvtx.lifetime`) has the operations that the thread which created the span launched until its close. A lifetime
/// that was closed on another thread is left out.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ProjectionStats {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// Push/pop or start/end.
    pub style: RangeStyle,
    /// Projected durations of the instances with GPU work.
    pub projected: Times,
    /// Sum of their durations on the CPU, in nanoseconds.
    pub range_total_ns: u64,
    /// GPU operations of all of them; those of one graph launch count once.
    pub operations: u64,
    /// Sum over these instances of the number of ranges on the thread's stack that each was nested in. A lifetime is no
    /// level.
    pub level_sum: u64,
    /// Sum over these instances of the number of ranges with GPU work directly inside, lifetimes that began there among
    /// them.
    pub children_sum: u64,
}

impl ProjectionStats {
    /// The row of a push/pop range in the default domain.
    #[must_use]
    pub fn new(name: impl Into<String>, projected: Times) -> Self {
        Self {
            domain: None,
            name: name.into(),
            style: RangeStyle::PushPop,
            projected,
            range_total_ns: 0,
            operations: 0,
            level_sum: 0,
            children_sum: 0,
        }
    }
}

/// One kernel as launched inside one range on one thread (the rule of Nsight Systems' `nvtx_kern_sum`), lifetimes as in
/// [`ProjectionStats`].
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct RangeKernelStats {
    /// The range, as domain and name; `None` for kernels launched outside any range.
    pub range: Option<(Option<String>, String)>,
    /// How the range was opened; `None` outside any range.
    pub style: Option<RangeStyle>,
    /// Process id.
    pub pid: u32,
    /// Thread id, as the operating system counts; 0 where the launching thread is not known.
    pub tid: u32,
    /// Instances of the range that launched this kernel.
    pub range_instances: u64,
    /// Executions of the kernel. Fewer than `times.instances` where a range is nested in one of the same name, or two
    /// lifetimes overlap: the kernel is in both.
    pub kernel_instances: u64,
    /// Execution times, once for each enclosing instance.
    pub times: Times,
    /// Name of the kernel.
    pub kernel: String,
}

impl RangeKernelStats {
    /// The row of a kernel outside of any range.
    #[must_use]
    pub fn new(kernel: impl Into<String>, times: Times) -> Self {
        Self {
            range: None,
            style: None,
            pid: 0,
            tid: 0,
            range_instances: 0,
            kernel_instances: 0,
            times,
            kernel: kernel.into(),
        }
    }
}

/// GPU work of a node of the phase tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct NodeWork {
    /// Launched directly in these spans.
    pub own: GpuWork,
    /// Launched in these spans and those below.
    pub total: GpuWork,
    /// Calls of the CUDA API made directly in these spans, by name; empty where no report asked for them.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
    pub calls: Vec<NodeCalls>,
}

impl NodeWork {
    /// Work launched in a node and, with that below it, in all; no calls.
    #[must_use]
    pub fn new(own: GpuWork, total: GpuWork) -> Self {
        Self { own, total, calls: Vec::new() }
    }
}

/// Calls of one function directly in the spans of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct NodeCalls {
    /// Name as in [`ApiCallStats::name`].
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Sum of their durations on the CPU, in nanoseconds.
    pub total_ns: u64,
}

impl NodeCalls {
    /// Calls of one function.
    #[must_use]
    pub fn new(name: impl Into<String>, calls: u64, total_ns: u64) -> Self {
        Self { name: name.into(), calls, total_ns }
    }
}

/// GPU records that are missing or not attributed. All zero in a clean run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ActivityLosses {
    /// Records that CUPTI dropped because it had no memory left.
    pub dropped_records: u64,
    /// Records that were dropped at the memory limit.
    pub over_budget_records: u64,
    /// Operations without a time: tracing began too late for them, or they had not finished.
    pub without_time: u64,
    /// Operations whose launch is not known: it was before the window, or was dropped at the limit on remembered
    /// launches.
    pub unmatched: u64,
    /// Operations that are missing in a projection, because the memory limit was reached: the operation came after its
    /// range had been folded, or there was no room for a note of the range or of a launch in a lifetime.
    pub late: u64,
    /// Launches whose operations had not been delivered.
    pub outstanding: u64,
    /// Launches that were dropped at the memory limit before their operations arrived.
    pub forgotten_launches: u64,
    /// API calls that were dropped at the memory limit before their records arrived. They are in the table of API
    /// calls, and count for no span. Some may be calls of the profiler itself.
    #[cfg_attr(feature = "serde", serde(default))]
    pub forgotten_calls: u64,
    /// Records with an unknown layout, which were skipped.
    pub unreadable_records: u64,
}
