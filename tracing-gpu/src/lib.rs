//! See where a program's time goes, from its `tracing` spans: as NVTX ranges in Nsight Systems, and as range statistics printed at
//! exit that agree with Nsight's to the instance.
//!
//! **Limits first.** Durations are wall-clock time between entry and exit: blocking counts, awaiting does not. GPU time is measured on streams that the program names, with CUDA events: *stream
//! time*, waiting and idling included. Kernels and copies are listed where CUPTI records. With `panic = "abort"` and on SIGKILL nothing is
//! printed. [`init`] is for programs that only profile: programs that log compose [`Profiler::layer`]. Linux is where it is tested.
//!
//! ```
//! use tracing::instrument;
//!
//! #[instrument(name = "Load Module")]
//! fn load() -> Vec<f32> {
//!     vec![0.5; 1 << 20]
//! }
//!
//! #[instrument(name = "Module running", skip_all)]
//! fn run(weights: &[f32]) -> f32 {
//!     weights.iter().sum()
//! }
//!
//! fn main() {
//!     let _profile = tracing_gpu::init(); // a name, not `_` alone: it prints when it is dropped
//!     let weights = load();
//!     for _ in 0..3 {
//!         run(&weights);
//!     }
//! }
//! ```
//!
//! prints to standard error
//!
//! ```text
//!  ** NVTX Push/Pop Range Summary (nvtx_pushpop_sum):
//!
//!  Time (%)  Total Time (ns)  Instances   Avg (ns)     Med (ns)    Min (ns)   Max (ns)   StdDev (ns)      Range
//!  --------  ---------------  ---------  -----------  -----------  ---------  ---------  -----------  --------------
//!      63.1        2,599,337          3    866,445.7    865,534.0    851,604    882,199     15,318.0  Module running
//!      36.9        1,519,305          1  1,519,305.0  1,519,305.0  1,519,305  1,519,305          0.0  Load Module
//!
//!
//!  ** Phase Tree (tree):
//!
//!       Total      Self  % Parent  Calls  Avg/Call  Instances  Phase           Self, of all
//!    --------  --------  --------  -----  --------  ---------  --------------  -----------------------
//!    1.519 ms  1.519 ms     36.9%      1  1.519 ms          1  Load Module      36.9% ######
//! >> 2.599 ms  2.599 ms     63.1%      3  866.4 us          3  Module running   63.1% ##########
//!
//!  >> most time of its own: Module running 2.599 ms (63.1%), Load Module 1.519 ms (36.9%)
//!     100% is 4.119 ms in spans, on all threads, in 5.386 ms of wall time
//! ```
//!
//! and, under `nsys profile -t nvtx`, shows the same ranges in the timeline.
//!
//! # Two tiers
//!
//! | | for | cost of a span |
//! |---|---|---|
//! | [`init`], [`Profiler::subscriber`] | programs that only profile: no registry, no other layers | about 25 ns in all |
//! | [`Profiler::layer`] | beside `fmt`, OpenTelemetry, ... on a `registry()` | two readings of the clock and 5 to 8 ns above an empty layer |
//!
//! Without a tool attached NVTX costs nothing more. Nothing is allocated for a span once its call site and thread are warm.
//!
//! ```
//! use tracing_gpu::{Profiler, Report};
//! use tracing_subscriber::prelude::*;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let profiler = Profiler::builder().report([Report::Ranges, Report::Tree, Report::Categories]).build()?;
//!     tracing_subscriber::registry().with(profiler.layer()).init(); // .with(fmt_layer)
//!     tracing::info_span!("the program").in_scope(|| std::hint::black_box(1 + 1));
//!     profiler.finish()?; // or drop it
//!     Ok(())
//! }
//! ```
//!
//! A filter in the stack itself (`.with(EnvFilter..)`) hides spans from all layers, this one too: give it to the layer that it is for, with `with_filter`.
//!
//! # What counts as what
//!
//! - **An instance** is one entry and exit on a thread: one NVTX push and pop. An async span polled five times is six instances
//!   (`Instrumented` enters once more when it is dropped).
//! - **A call** is a span created. The tree has both.
//! - **An exit out of order** closes the ranges of its domain above it and opens them again, in NVTX and in the table; the footer says how many.
//! - **Same name, same row**, over all threads. With [`Domain::PerTarget`] or [`Domain::Named`] the row is `domain:name`.
//! - **Self time** is a range's time without the ranges directly above it on its thread.
//! - The **tree** follows the parents that spans had when they were created, across threads.
//!
//! # Span fields
//!
//! | field | value | effect |
//! |---|---|---|
//! | `nvtx.name` | `%layer.name`, any text | the range's name, made at run time |
//! | `nvtx.color`, `color` | `"red"`, `"#ff8800"`, `0xRRGGBB`, `0xAARRGGBB` | its colour |
//! | `nvtx.category`, `category` | a text or an integer | its category, and a row of [`Report::Categories`] |
//! | `nvtx.payload`, `payload` | an integer, a float, a bool | its payload |
//! | `nvtx.lifetime` | `true` | one more range, from creation to close: a row of style `StartEnd` |
//! | `gpu.stream` | a number from `stream_id` | the stream it, and what is below it, is timed on |
//!
//! `Span::record` of these takes effect at the next entry; a name never changes. Events become marks with their message, category = level
//! (1 error to 5 trace), while a tool is attached.
//!
//! # Time on the GPU
//!
//! A span entered under a named stream (`with_stream`, `OnStream::on_stream`, or the span field `gpu.stream` with a number from `stream_id`) is timed there by
//! a pair of CUDA events; [`Report::Ranges`] gains a table and [`Report::Tree`] two columns. What is measured is the time from the moment the stream
//! reaches the entry to the moment it reaches the exit: behind queued work that is the work of the span within 3 us; on an idle stream it begins
//! before the work arrives, so it reads some 5 us more, and nothing is subtracted. The program never waits: pairs are read when they have finished, and only a
//! summary waits. The field goes before the innermost `with_stream`, and that before the stream of a parent's field; there is no default stream.
//!
//! The current context, its stored errors and all captures stay as they were. During a capture of its stream a span is not timed, and counted. Without
//! a driver or a device the report has one line that says so, and all else is the same. CUDA is neither loaded nor initialised before a stream is named.
//!
//! # Runs kept and compared
//!
//! A profiler writes its final [`Summary`] where it is told to, after the report: as JSON (`ProfilerBuilder::json`, feature `json`), as folded stacks
//! ([`ProfilerBuilder::folded`]), as a flame graph (`ProfilerBuilder::flamegraph`, feature `flamegraph`). [`export`] makes the same, and CSV, of any summary.
//! What cannot be written is one line on standard error; the report is printed and the exit status stays.
//!
//! Timelines are written while the program runs, by a thread of their own: [`ProfilerBuilder::trace`] for ui.perfetto.dev and chrome://tracing, and
//! `ProfilerBuilder::sqlite` (feature `sqlite`) for `nsys stats`. A program that is killed leaves files that open.
//!
//! [`Comparison`] puts runs side by side, and says what became slower: a gate for a build (the example `compare` is one). [`Summary::merge`] joins the
//! summaries of the processes of one run, with the slowest rank of each range. Every summary says its host, process, rank, start and run ([`Process`]), and
//! names of files may hold `%h` (host), `%p` (process id) and `%r` (rank).
//!
//! # Environment
//!
//! `TRACING_GPU` overrides the builder, as a list separated by commas (`\,` is a comma): `off`, `report=ranges+tree+categories+nvprof+...` (the names of [`Report`]),
//! `style=current|legacy`, `gpu=auto|events|cupti|off`, `hot=PERCENT`, `nvtx=on|off`, `domain=default|target|NAME`, `out=stderr|stdout|none|PATH`, `signals=on|off`, `json=PATH`,
//! `folded=PATH`, `flamegraph=PATH`, `trace=PATH`, `sqlite=PATH`, `html=PATH`, `baseline=PATH`. `TRACING_GPU_FILTER` holds a filter
//! such as `info,my_crate=debug`. A bad value, or a second one for a key, is one line on standard error; the rest counts.
//!
//! # Features
//!
//! - `cudarc` (default): time on the GPU. Needs no toolkit to build; any one CUDA version and linking mode of cudarc that the application picks goes
//!   with it.
//! - `signals` (default): `ProfilerBuilder::on_signal`.
//! - `html`: `ProfilerBuilder::html`: one page with the timeline, flame graphs and tables of a run, for a browser; `Comparison::html`; with `json`,
//!   `ProfilerBuilder::baseline`. Takes `base64`, `serde` and `serde_json`.
//! - `gzip`: timelines whose name ends in `.gz` are compressed.
//! - `serde`: `Serialize` and `Deserialize` for [`Summary`].
//! - `json`: `Summary::to_json` and `from_json` under a versioned JSON Schema (`Summary::JSON_SCHEMA`). Takes `serde` and `serde_json`.
//! - `flamegraph`: the SVG of a flame graph, drawn by the crate `inferno`. **inferno is under the CDDL-1.0**, a copyleft licence for its own files, and not
//!   under MIT or Apache-2.0 as this crate is; without the feature nothing of it is built, and [`export::folded`] writes what its programs read.
//! - `sqlite`: `ProfilerBuilder::sqlite`. SQLite is built from its sources, which takes a C compiler.

#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod budget;
mod chunked;
mod clock;
mod collect;
#[cfg(feature = "cudarc")]
mod collector;
#[cfg(not(feature = "cudarc"))]
#[path = "collector/disabled.rs"]
mod collector;
mod config;
mod drain;
mod layer;
mod marks;
mod nesting;
mod outputs;
mod own_values;
mod process;
mod profiler;
mod record;
mod recorder;
mod samples;
#[cfg(feature = "signals")]
mod signals;
#[cfg(feature = "cudarc")]
mod stream;
#[cfg(not(feature = "cudarc"))]
#[path = "stream/disabled.rs"]
mod stream;
mod subscriber;

use cuda_activity::{attribution as correlate, record as activity};
use range_report::{stats, summary, timeline};

pub use config::{ConfigError, Domain, Gpu, Output};
pub use layer::GpuLayer;
pub use profiler::{Guard, Profiler, ProfilerBuilder, init};
#[cfg(feature = "json")]
pub use range_report::JsonError;
pub use range_report::{
    ActivityLosses, Added, Basis, CallStats, CategoryStats, ComparedRange, Comparison, Gate, GpuActivity, GpuWork,
    InRun, KernelStats, Losses, MemoryKind, MemoryStats, MemoryWork, Merged, MergedActivity, MergedSummary,
    MergedTable, NodeCalls, NodeTotals, NodeWork, OpenRange, PhaseLabel, Process, Projected, ProjectionStats,
    RangeKernelStats, RangeLabel, RangeStats, RangeStyle, RankTotal, RankTotals, Regression, RenderOptions, Report,
    Sizes, StreamLabel, StreamLosses, StreamStats, StreamTimes, Summary, TableStyle, Times, TreeNode, WorkPart, export,
    report,
};
#[cfg(feature = "cudarc")]
pub use stream::{OnStream, WithStream, stream_id, stream_id_raw, with_stream};
pub use subscriber::GpuSubscriber;
