//! The plain data from which every report is made.
//!
//! A [`Summary`] is a value: taking one changes nothing, and rendering one needs no profiler. All times are
//! nanoseconds. With the feature `serde` (`json` of `tracing-gpu`) every type here can be serialised, and a [`Summary`]
//! read back.
//!
//! Types may get more fields. To make a value, call `new` or `default`, and set the other fields:
//!
//! ```
//! use range_model::Summary;
//! use range_model::summary::{RangeStats, Times};
//!
//! let mut summary = Summary::default();
//! summary.elapsed_ns = 5_000;
//! summary.ranges.push(RangeStats::new("Load Module", Times::new(2, 3_000)));
//! ```

mod collectives;
#[cfg(feature = "_schema")]
mod declared;
#[cfg(feature = "serde")]
mod finite;
#[cfg(feature = "serde")]
mod flat_tree;
mod gpu;
mod idle;
mod interference;
mod kernel_exec;
mod machine;
#[doc(hidden)] // for the crates of this workspace
pub mod measured;
#[cfg(feature = "merge")]
mod merge;
mod note;
mod off_cpu;
mod openacc;
#[doc(hidden)] // for the crates of this workspace
pub mod origin;
mod run;
#[doc(hidden)] // for the crates of this workspace
pub mod schema;
mod times;
mod waits;

#[doc(hidden)] // for the crates of this workspace
pub use collectives::{COLLECTIVES, GPU_WORK};
pub use collectives::{CollectiveStats, CollectiveWait, CommunicatorStats, LateRank, Lateness, RangeState, RankWait};
pub use gpu::{
    ActivityLosses, ApiCallStats, CapturedKernel, CapturedWork, GpuActivity, GpuWork, GraphWork, KernelStats,
    MemoryKind, MemoryStats, MemoryWork, NodeCalls, NodeKernel, NodeWork, ProjectionStats, RangeKernelStats, Sizes,
};
pub use idle::{CallKind, DeviceIdle, GpuIdle, IdleCause, IdleCauses, InstancesUse, RangeUse, SpanCalls, SpanIdle};
pub use interference::InterferenceStats;
pub use kernel_exec::{KernelExecStats, KernelExecution, RangeExecStats};
pub use machine::{GpuClocks, Machine};
#[cfg(feature = "merge")]
pub use merge::{
    CallLabel, Merged, MergedActivity, MergedSummary, PhaseLabel, Projected, RangeLabel, RankTotal, RankTotals,
    StreamLabel, WorkPart,
};
pub use note::{AdvisedFilter, Note, ProcessCut, RejectedCrate};
pub use off_cpu::OffCpuStats;
pub use openacc::OpenAccStats;
pub use run::{
    CallStates, CallStats, CallTotals, CategoryStats, LongestInstance, Losses, NodeTotals, OpenRange, Process,
    RangeStats, SlowestCalls, StreamLosses, StreamStats, StreamTimes, Summary, ThreadStats, TreeNode,
};
#[doc(hidden)] // for what measures
pub use schema::Join;
pub use schema::Since;
pub use times::{HISTOGRAM_SCALE, Quantile, RangeStyle, Times, histogram_bucket};
pub use waits::WaitStats;
