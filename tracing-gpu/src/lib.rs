//! See where a program's time goes, from its `tracing` spans: as NVTX ranges in Nsight Systems, and as a phase tree
//! and range statistics printed at exit, which agree with Nsight's to the instance.
//!
//! | to | use |
//! |---|---|
//! | profile a program that has no log | [`init`]: one line in `main` |
//! | profile beside `fmt`, OpenTelemetry, ... | [`Profiler::layer`] |
//! | choose what is printed, and where | [`ProfilerBuilder::report`] and [`Report`], [`ProfilerBuilder::output`] |
//! | print the report | drop the [`Guard`], or call [`Profiler::finish`] |
//! | see time on the GPU | `with_stream`, the span field `gpu.stream`, [`ProfilerBuilder::gpu`] |
//! | write a timeline, a page, JSON | [`ProfilerBuilder::trace`], `html`, `json` and their neighbours |
//! | read the figures in the program | [`Profiler::summary`], then the fields of [`Summary`]; [`SummaryExt`] prints and writes it |
//! | compare or merge runs | `Comparison`, `Summary::merge` |
//!
//! **Limits first.**
//! - A duration is wall-clock time between entry and exit of a span. Blocking counts; time suspended at `.await` does
//!   not, and has columns of its own.
//! - GPU time is measured on streams that the program names, with CUDA events: *stream time*, which includes waiting
//!   and idling. Kernels and copies are listed where CUPTI records.
//! - With `panic = "abort"` and on SIGKILL nothing is printed.
//! - [`init`] is for programs that only profile. Programs that log compose [`Profiler::layer`].
//! - It is tested on Linux.
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
//!  ** Phase Tree (tree):
//!
//!       Total      Self  Of parent  Calls  Avg/Call  Instances  Phase           Self, of all
//!    --------  --------  ---------  -----  --------  ---------  --------------  ----------------------
//!    3.311 ms  3.311 ms      10.1%      1  3.311 ms          1  Load Module      10.1% ##
//! >> 29.47 ms  29.47 ms      89.9%      3  9.822 ms          3  Module running   89.9% #############
//!
//!  >> most time of its own: Module running 29.47 ms (89.9%), Load Module 3.311 ms (10.1%)
//!     100% is 32.78 ms in spans, on all threads, in 33.32 ms of wall time
//!
//!
//!  ** NVTX Push/Pop Range Summary (nvtx_pushpop_sum):
//!
//!  Time (%)  Total Time (ns)  Instances   Avg (ns)     Med (ns)    Min (ns)    Max (ns)   StdDev (ns)      Range
//!  --------  ---------------  ---------  -----------  -----------  ---------  ----------  -----------  --------------
//!      89.9       29,466,496          3  9,822,165.3  7,819,491.0  3,873,444  17,773,561  7,163,193.7  Module running
//!      10.1        3,310,795          1  3,310,795.0  3,310,795.0  3,310,795   3,310,795          0.0  Load Module
//! ```
//!
//! Under `nsys profile -t nvtx`, Nsight Systems shows the same ranges in its timeline.
//!
//! # Two front ends
//!
//! | | for | cost of a span |
//! |---|---|---|
//! | [`init`], [`Profiler::subscriber`] | programs that only profile: no registry, no other layers | about 25 ns in all |
//! | [`Profiler::layer`] | beside `fmt`, OpenTelemetry, ... on a `registry()` | 19 to 22 ns above an empty layer |
//!
//! Most of that is two readings of the clock. Without a tool attached NVTX costs nothing more. Nothing is allocated
//! for a span once its call site and thread are warm, unless it has `nvtx.` fields or a name from a field.
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
//! A filter in the stack itself (`.with(EnvFilter..)`) hides spans from all layers, from this one too. Give each
//! filter to the layer that it is for, with `with_filter`.
//!
//! # Where to go on
//!
//! The repository has a page on each subject: the span fields such as `nvtx.name` (`docs/fields.md`), all settings
//! (`options.md`), async code and servers (`async.md`), GPUs (`gpu.md`), files (`files.md`), comparing runs
//! (`compare.md`), limits (`limits.md`) and costs (`cost.md`).
//!
//! The types of a report's rows are in [`summary`], those of a comparison in `compare`.
//!
//! # Environment
//!
//! `TRACING_GPU` overrides the builder. It is a list separated by commas (`\,` is a comma in a value):
//!
//! - `off`: measure nothing;
//! - `report=ranges+tree+categories+nvprof+...`, the names of [`Report`]; `style=current|legacy`; `hot=PERCENT`;
//!   `rows=NUMBER|all`; `notes=NUMBER|all`; `percentiles=NUMBER+NUMBER`; `parents=entered|created`;
//! - `name_from=FIELD+FIELD|off`; `bare_fields=on|off`; `names=cut|whole`; `without=FINDING+FINDING`;
//! - `out=stderr|stdout|none|PATH`; `signals=on|off`; `off_cpu=on|off`;
//! - `nvtx=on|off`; `domain=default|target|NAME`; `gpu=auto|events|cupti|off`;
//!   `graphs=whole|nodes|off`;
//! - `trace=PATH`, and so each file by the name of its method of [`ProfilerBuilder`]. In a path `%h` is the host, `%p`
//!   the process id, `%r` the rank, `%t` the time, `%q{NAME}` a variable and `%%` a percent sign;
//! - `otlp=http://HOST:4318|on|off`;
//! - `every=60s`: JSON, pages and stacks whose name has `%t` are written for each minute.
//!
//! `TRACING_GPU_FILTER` holds a filter such as `info,my_crate=debug`. For each unknown key, each bad value and each key
//! that is given twice, the profiler prints one line on standard error; the other parts take effect.
//!
//! Reports on a terminal have bold and dim lines. `NO_COLOR` switches that off. `CLICOLOR_FORCE` switches it on where a
//! report goes to a pipe.
//!
//! # Features
//!
//! - `cuda` (default): time on the GPU, by CUPTI and by CUDA events. Its build needs no toolkit.
//! - `cudarc`: `AsStream` for the streams of cudarc 0.19. It works with any CUDA version and linking mode of cudarc
//!   that the application picks. Sets `cuda`.
//! - `injection`: for a library that NVTX or an OpenACC runtime loads: `Profiler::nvtx_tool`, and `Profiler::openacc`,
//!   which receives the events of that runtime. Takes `backtrace`.
//! - `foreign`: `ProfilerBuilder::foreign_ranges`, NVTX ranges of C and C++ code in the program. It defines the symbol
//!   `InitializeInjectionNvtx2_fnptr`, which NVTX's headers look for, so no other tool can be linked in. Sets
//!   `injection`.
//! - `html`: `ProfilerBuilder::html`, one page with the timeline, flame graphs and tables of a run, for a browser;
//!   `WriteHtml` for a [`Summary`] and a `Comparison`; `ProfilerBuilder::baseline`. Sets `json`. Takes `base64`.
//! - `json`: `SummaryExt::write_json` and `read_json` under a versioned JSON Schema (`SummaryExt::JSON_SCHEMA`);
//!   `Serialize` and `Deserialize` for [`Summary`]; `Comparison`, which puts runs side by side; `Summary::merge`, which
//!   joins the processes of a run. Takes `serde` and `serde_json`.
//! - `parquet`: `ProfilerBuilder::parquet`, datasets for DuckDB and Spark. Takes `parquet`, without arrow.
//! - `server`: `metrics`, figures for a `/metrics` route; `tower::FollowLayer`, [`follow()`] for each request of a
//!   server on axum, tonic or hyper. Takes `tower-layer` and `tower-service`.
//! - `otlp`: `ProfilerBuilder::otlp`, the same figures pushed to an OpenTelemetry collector. Sets `server`. Takes
//!   `opentelemetry-otlp`, `opentelemetry-proto`, `opentelemetry_sdk`, `prost`, and `ureq` without TLS.
//! - `perfetto`: `ProfilerBuilder::perfetto` and `rotate`, timelines in Perfetto's own format; timelines whose name
//!   ends in `.gz`. Sets `json`. Takes `flate2` and `prost`.
//! - `sqlite`: `ProfilerBuilder::sqlite`. SQLite is built from its sources, which takes a C compiler.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(feature = "injection"), allow(rustdoc::broken_intra_doc_links))]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]
#![warn(missing_debug_implementations, clippy::missing_errors_doc, clippy::must_use_candidate)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod clock;
mod config;
pub(crate) mod core;
mod in_place;
mod outputs;
mod own_stack;
mod page;
pub(crate) mod parts;
mod process;
mod profiler;
#[cfg(unix)]
mod signals;
mod sync;
mod watch;

/// Metrics for Prometheus and others that read OpenMetrics (feature `server`).
#[cfg(feature = "server")]
pub mod metrics {
    pub use crate::profiler::Scraped;
    pub use range_report::export::{MOST_ROWS, Metrics, openmetrics, prometheus};
}

pub use crate::core::tier::layer::GpuLayer;
pub use crate::core::tier::subscriber::GpuSubscriber;
#[cfg(feature = "injection")]
pub use crate::parts::foreign::tier::tool::NvtxTool;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"), feature = "command"))]
#[doc(hidden)]
pub use crate::parts::off_cpu::sampler::RunSampler;
#[cfg(feature = "injection")]
pub use crate::parts::openacc::runtime::{OpenAcc, OpenAccCallback, OpenAccRegister};
#[cfg(feature = "cuda")]
pub use crate::parts::streams::device::{AsStream, OnStream, RawStream, WithStream, stream_id, with_stream};
pub use crate::parts::waits::tier::follow::{Follow, follow};
pub use config::{ConfigError, Domain, Gpu, Output, Parents};
#[cfg(all(feature = "command", feature = "cuda"))]
#[doc(hidden)]
pub use gpu_analysis::Idle;
#[doc(hidden)]
pub use own_stack::on_own_stack;
#[cfg(all(target_os = "linux", feature = "command"))]
#[doc(hidden)]
pub use parts::row_file::drain::{RowFileSummary, read_row_file};
#[cfg(feature = "server")]
pub use parts::waits::tier::tower;
#[doc(hidden)]
#[cfg(unix)]
pub use process::{begin_child, without_signals};
#[doc(hidden)]
pub use process::{give_up, has_given_up, without_file_limit_signal};
#[doc(hidden)]
pub use profiler::{Chosen, complain, watch_forks};
#[cfg(feature = "cuda")]
pub use profiler::{ClockPair, Submission, TimedQueue};
pub use profiler::{Guard, InstallError, Profiler, ProfilerBuilder, Windows, init};
#[cfg(feature = "parquet")]
#[doc(hidden)]
pub use range_files::Parquet;
#[cfg(feature = "command")]
#[doc(hidden)]
pub use range_files::import;
#[cfg(feature = "command")]
#[doc(hidden)]
pub use range_files::joined;
#[cfg(feature = "command")]
#[doc(hidden)]
pub use range_model::Fold;
pub use range_model::summary;
pub use range_model::timeline;
#[doc(inline)]
pub use range_model::timeline::{ApiCalls, Graphs};
pub use range_model::{Note, RangeStyle, Summary, TreeNode, UnknownName};
#[cfg(feature = "html")]
pub use range_page::WriteHtml;
#[cfg(feature = "html")]
#[doc(hidden)]
pub use range_page::{HtmlSink, write_html_without};
#[cfg(feature = "json")]
pub use range_report::JsonError;
#[cfg(any(feature = "json", feature = "server"))]
pub use range_report::MergedTable;
pub use range_report::analysis;
pub use range_report::export::CsvFlavor;
#[cfg(any(feature = "json", feature = "server"))]
pub use range_report::{Comparison, MergedSummaryExt, compare};
pub use range_report::{FindingKinds, NoteExt, RenderOptions, Report, SummaryExt, TableStyle};
