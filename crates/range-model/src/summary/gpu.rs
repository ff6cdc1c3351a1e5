//! What the GPU did, as CUPTI recorded it: the plain data behind the tables of nvprof, torch.profiler and Nsight's CUDA
//! reports.

#[cfg(feature = "serde")]
use super::finite;
use super::schema::{Shown, figures, lists};
use super::times::{RangeStyle, Times};

figures! {
    /// Everything the GPU did in one window, as far as this process asked for it.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct GpuActivity {
        /// Kernels by name, by total time descending, then by name.
        kernels: Vec<KernelStats>;
        /// Copies and sets by kind, by total time descending, then by kind.
        memory: Vec<MemoryStats>;
        /// Calls of the CUDA API by name, by total time descending, then by name. `None` where no report asked for
        /// them.
        calls: Option<Vec<ApiCallStats>>;
        /// Ranges projected onto the GPU, by total projected time descending, then by label and style.
        projections: Vec<ProjectionStats>;
        /// Kernels by the ranges that they were launched in: by range, process, thread, total time descending, style,
        /// kernel.
        range_kernels: Vec<RangeKernelStats>;
        /// All operations.
        total: GpuWork;
        /// Operations launched outside of any range.
        outside: GpuWork;
        /// Operations whose launch is not known.
        unmatched: GpuWork;
        /// Replays of CUDA graphs outside of any range.
        #[serde(default, skip_serializing_if = "GraphWork::is_empty")]
        outside_graphs: GraphWork;
    }
}

figures! {
    /// Replays of CUDA graphs. Their operations count for the spans that launch the replay; the spans that captured
    /// them are told here.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GraphWork {
        /// Number of replays.
        replays: u64 = sum;
        /// Those that were recorded as one operation each: what is in them has no times.
        whole: u64 = sum;
        /// Sum of the durations of these, in nanoseconds.
        whole_ns: u64 = sum;
        /// What was replayed, by the spans that captured it.
        captured: Vec<CapturedWork> = joined;
    }
}

impl GraphWork {
    /// Whether nothing was replayed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

figures! {
    /// What one span captured of CUDA graphs, as often as it was replayed.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CapturedWork {
        /// Names of the spans that were entered after the capture began, outermost first, separated by ` > `; empty for
        /// what was captured outside of these. [`NOT_SEEN`](Self::NOT_SEEN) if the creation of the nodes was not seen.
        captured_in: String = key;
        /// Kernels.
        kernels: u64 = sum;
        /// Copies.
        copies: u64 = sum;
        /// Sets of memory.
        sets: u64 = sum;
        /// Other nodes, such as calls of host functions; known only for replays that were recorded as a whole.
        others: u64 = sum;
        /// Kernels, copies and sets with a time.
        timed: u64 = sum;
        /// Sum of their durations, in nanoseconds.
        sum_ns: u64 = sum;
        /// The kernels among these, by name.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        by_kernel: Vec<CapturedKernel> = joined;
    }
}

impl CapturedWork {
    /// Stands for the spans that captured nodes whose creation was not seen.
    pub const NOT_SEEN: &'static str = "(captured before measuring began)";

    /// What was captured in these spans, without figures.
    #[must_use]
    pub fn new(captured_in: impl Into<String>) -> Self {
        Self { captured_in: captured_in.into(), ..Self::default() }
    }
}

figures! {
    /// One kernel that a span captured, as often as it was replayed and has a time.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct CapturedKernel {
        /// Name as in [`KernelStats::name`].
        name: String = key;
        /// Number of executions.
        executions: u64 = sum;
        /// Sum of their durations, in nanoseconds.
        sum_ns: u64 = sum;
    }
}

impl CapturedKernel {
    /// So many executions of a kernel.
    #[must_use]
    pub fn new(name: impl Into<String>, executions: u64, sum_ns: u64) -> Self {
        Self { name: name.into(), executions, sum_ns }
    }
}

figures! {
    /// What a number of GPU operations add up to.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct GpuWork {
        /// Kernels, copies and sets.
        operations: u64 = sum;
        /// Sum of their durations, in nanoseconds. If operations overlap, it is more than the time that passed.
        sum_ns: u64 = sum;
        /// Time during which at least one of them ran, per device and then summed over devices, in nanoseconds. Not
        /// additive: the busy time of a parent is not the sum of the busy times of its children.
        busy_ns: u64 = sum;
        /// Copies and sets by kind, in the order of [`MemoryKind`]; kinds that did not occur are left out.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        memory: Vec<MemoryWork> = joined;
    }
}

impl GpuWork {
    /// This number of operations, without a list of copies and sets.
    #[must_use]
    pub fn new(operations: u64, sum_ns: u64, busy_ns: u64) -> Self {
        Self { operations, sum_ns, busy_ns, memory: Vec::new() }
    }
}

figures! {
    /// Copies or sets of one kind, together.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct MemoryWork {
        /// Which way.
        kind: MemoryKind = key;
        /// Number of operations.
        operations: u64 = sum;
        /// Sum of their durations, in nanoseconds.
        sum_ns: u64 = sum;
        /// Bytes copied or set.
        bytes: u64 = sum;
    }
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

/// What a memory operation does: the kinds of CUPTI, in the order of its numbers, and sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum MemoryKind {
    /// A copy whose direction CUPTI does not report.
    #[default]
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

impl MemoryKind {
    /// `HtoD`; `None` for a set.
    ///
    /// ```
    /// use range_model::MemoryKind;
    ///
    /// assert_eq!((MemoryKind::DtoA.direction(), MemoryKind::Set.direction()), (Some("DtoA"), None));
    /// ```
    #[must_use]
    pub const fn direction(self) -> Option<&'static str> {
        Some(match self {
            Self::Unknown => "Unknown",
            Self::HtoD => "HtoD",
            Self::DtoH => "DtoH",
            Self::HtoA => "HtoA",
            Self::AtoH => "AtoH",
            Self::AtoA => "AtoA",
            Self::AtoD => "AtoD",
            Self::DtoA => "DtoA",
            Self::DtoD => "DtoD",
            Self::HtoH => "HtoH",
            Self::PtoP => "PtoP",
            Self::Set => return None,
        })
    }
}

figures! {
    /// One kernel.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct KernelStats {
        /// Name as a person writes it, template arguments included; the symbol if it cannot be demangled.
        name: String;
        /// Execution times; an instance is one execution.
        times: Times;
    }
}

impl KernelStats {
    /// The row of a kernel.
    #[must_use]
    pub fn new(name: impl Into<String>, times: Times) -> Self {
        Self { name: name.into(), times }
    }
}

figures! {
    /// Sizes of a number of memory operations, in bytes.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Sizes {
        /// Operations.
        count: u64 = sum;
        /// Sum.
        total_bytes: u64 = sum;
        /// Smallest; 0 where there is none.
        min_bytes: u64 = least;
        /// Largest.
        max_bytes: u64 = most;
        /// Median: the middle size, or the mean of the two middle ones; `None` where it is not known.
        #[serde(serialize_with = "finite::or_none")]
        median_bytes: Option<f64> = apart;
        /// Sample standard deviation (divisor n - 1); 0 for one.
        #[serde(serialize_with = "finite::or_zero")]
        stddev_bytes: f64 = deviation(count, total_bytes);
    }
}

impl Sizes {
    /// The row of this number of operations and bytes; nothing else is known.
    #[must_use]
    pub fn new(count: u64, total_bytes: u64) -> Self {
        Self { count, total_bytes, ..Self::default() }
    }
}

figures! {
    /// Memory operations of one kind.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct MemoryStats {
        /// Which way.
        kind: MemoryKind;
        /// Times.
        times: Times;
        /// Sizes.
        sizes: Sizes;
    }
}

impl MemoryStats {
    /// The row of a kind of memory operation.
    #[must_use]
    pub fn new(kind: MemoryKind, times: Times, sizes: Sizes) -> Self {
        Self { kind, times, sizes }
    }
}

figures! {
    /// Calls of one function of the CUDA runtime or driver.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct ApiCallStats {
        /// Name as CUPTI gives it, version suffix included: `cuMemAlloc_v2`, `cudaLaunchKernel_v7000`.
        name: String;
        /// Durations on the CPU.
        times: Times;
    }
}

impl ApiCallStats {
    /// The row of a function.
    #[must_use]
    pub fn new(name: impl Into<String>, times: Times) -> Self {
        Self { name: name.into(), times }
    }
}

figures! {
    /// The instances of one range that launched GPU work on their own thread, projected onto the GPU: each from the
    /// start of its first operation to the end of its last (the rule of Nsight Systems' `nvtx_gpu_proj_sum`). A
    /// lifetime (`nvtx.lifetime`) has the operations that the thread which created the span launched until its close. A
    /// lifetime that was closed on another thread is left out.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct ProjectionStats {
        /// NVTX domain; `None` for the default domain.
        domain: Option<String>;
        /// Name of the range.
        name: String;
        /// Push/pop or start/end.
        style: RangeStyle;
        /// Projected durations of the instances with GPU work.
        projected: Times;
        /// Sum of their durations on the CPU, in nanoseconds.
        range_total_ns: u64;
        /// GPU operations of all of them; those of one graph launch count once.
        operations: u64;
        /// Sum over these instances of the number of ranges on the thread's stack that each was nested in. A lifetime
        /// is no level.
        level_sum: u64;
        /// Sum over these instances of the number of ranges with GPU work directly inside, lifetimes that began there
        /// among them.
        children_sum: u64;
    }
}

impl ProjectionStats {
    /// The row of a push/pop range in the default domain.
    #[must_use]
    pub fn new(name: impl Into<String>, projected: Times) -> Self {
        Self { name: name.into(), projected, ..Self::default() }
    }
}

figures! {
    /// One kernel as launched inside one range on one thread (the rule of Nsight Systems' `nvtx_kern_sum`), lifetimes
    /// as in [`ProjectionStats`].
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct RangeKernelStats {
        /// The range, as domain and name; `None` for kernels launched outside any range.
        range: Option<(Option<String>, String)>;
        /// How the range was opened; `None` outside any range.
        style: Option<RangeStyle>;
        /// Process id.
        pid: u32;
        /// Thread id, as the operating system counts; 0 where the launching thread is not known.
        tid: u32;
        /// Instances of the range that launched this kernel.
        range_instances: u64;
        /// Executions of the kernel. Fewer than `times.instances` where a range is nested in one of the same name, or
        /// two lifetimes overlap: the kernel is in both.
        kernel_instances: u64;
        /// Execution times, once for each enclosing instance.
        times: Times;
        /// Name of the kernel.
        kernel: String;
    }
}

impl RangeKernelStats {
    /// The row of a kernel outside of any range.
    #[must_use]
    pub fn new(kernel: impl Into<String>, times: Times) -> Self {
        Self { times, kernel: kernel.into(), ..Self::default() }
    }
}

figures! {
    /// GPU work of a node of the phase tree.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct NodeWork {
        /// Launched directly in these spans.
        own: GpuWork = joined;
        /// Launched in these spans and those below.
        total: GpuWork = joined;
        /// Calls of the CUDA API made directly in these spans, by name; empty where no report asked for them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<NodeCalls> = joined;
        /// Replays of CUDA graphs that were launched directly in these spans.
        #[serde(default, skip_serializing_if = "GraphWork::is_empty")]
        graphs: GraphWork = joined;
        /// In the row of a helper thread, the kernels that it launched directly there; empty in other rows, whose
        /// kernels are in [`GpuActivity::range_kernels`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kernels: Vec<NodeKernel> = joined;
    }
}

impl NodeWork {
    /// The row of a node: work launched in it, and work launched in it and below it; without calls.
    #[must_use]
    pub fn new(own: GpuWork, total: GpuWork) -> Self {
        Self { own, total, calls: Vec::new(), graphs: GraphWork::default(), kernels: Vec::new() }
    }
}

figures! {
    /// One kernel, launched directly in the spans of one node.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct NodeKernel {
        /// Name as in [`KernelStats::name`].
        name: String = key;
        /// Number of executions.
        executions: u64 = sum;
        /// Sum of their durations, in nanoseconds.
        sum_ns: u64 = sum;
    }
}

impl NodeKernel {
    /// So many executions of a kernel.
    #[must_use]
    pub fn new(name: impl Into<String>, executions: u64, sum_ns: u64) -> Self {
        Self { name: name.into(), executions, sum_ns }
    }
}

figures! {
    /// Calls of one function directly in the spans of one node.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct NodeCalls {
        /// Name as in [`ApiCallStats::name`].
        name: String = key;
        /// Number of calls.
        calls: u64 = sum;
        /// Sum of their durations on the CPU, in nanoseconds.
        total_ns: u64 = sum;
    }
}

impl NodeCalls {
    /// Calls of one function.
    #[must_use]
    pub fn new(name: impl Into<String>, calls: u64, total_ns: u64) -> Self {
        Self { name: name.into(), calls, total_ns }
    }
}

figures! {
    /// GPU records that are missing or not attributed. All zero in a clean run.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct ActivityLosses {
        /// Records that CUPTI dropped because it had no memory left.
        dropped_records: u64 = sum;
        /// Records that were dropped at the memory limit.
        over_budget_records: u64 = sum;
        /// Operations without a time: tracing began too late for them, or they had not finished.
        without_time: u64 = sum;
        /// Operations whose launch is not known: it was before the window, or was dropped at the limit on remembered
        /// launches.
        unmatched: u64 = sum;
        /// Operations that are missing in a projection, because the memory limit was reached: the operation came after
        /// its range had been folded, or there was no room for a note of the range or of a launch in a lifetime.
        late: u64 = sum;
        /// Launches whose operations had not been delivered.
        outstanding: u64 = sum;
        /// Launches that were dropped at the memory limit before their operations arrived.
        forgotten_launches: u64 = sum;
        /// API calls that were dropped at the memory limit before their records arrived. They are in the table of API
        /// calls, and count for no span. Some may be calls of the profiler itself.
        #[serde(default)]
        forgotten_calls: u64 = sum;
        /// Records with an unknown layout, which were skipped.
        unreadable_records: u64 = sum;
    }
}

lists! {
    MemoryWork: |work| work.kind;
    NodeCalls: |calls| calls.name.clone();
    NodeKernel: |kernel| kernel.name.clone();
    CapturedWork: |captured| captured.captured_in.clone();
    CapturedKernel: |kernel| kernel.name.clone();
}

/// Busy times: with the nodes below, and of the node itself.
impl Shown for Option<NodeWork> {
    fn show(&self, figures: &mut Vec<Option<u64>>) {
        let busy = |of: fn(&NodeWork) -> &GpuWork| self.as_ref().map(|work| of(work).busy_ns);
        figures.extend([busy(|work| &work.total), busy(|work| &work.own)]);
    }
}
