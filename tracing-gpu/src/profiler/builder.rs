//! How a profiler is set up.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use range_model::Process;
use range_model::stats::{Lean, order};
use range_model::timeline::{ApiCalls, Details, Graphs, Item, Sink};
use range_report::{FindingKind, FindingKinds, RenderOptions, Report, TableStyle};
use tracing_subscriber::filter::Targets;

use super::complaint::complain;
use super::handle::{Inner, Profiler};
use super::{environment, identity};
#[cfg(feature = "perfetto")]
use crate::config::LEAST_ROTATED;
use crate::config::{Config, ConfigError, Domain, Gpu, Output, OwnSink, Parents};
use crate::outputs;
use crate::watch::Watch;

/// The settings that a program needs to print measurements of other processes.
#[doc(hidden)]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Chosen {
    /// False after `off`.
    pub enabled: bool,
    /// The reports.
    pub reports: Vec<Report>,
    /// Whether threads are looked at, unless it is set otherwise.
    pub off_cpu: Option<bool>,
    /// The layout of the reports.
    pub options: RenderOptions,
    /// Where they go.
    pub output: Output,
    /// Paths of files with their placeholders, and before each the key of its output, in the order of the keys.
    pub files: Vec<(&'static str, PathBuf)>,
}

impl Chosen {
    /// The name of a file for a process, with the placeholders of host, id and rank replaced.
    #[must_use]
    pub fn expand(path: &Path, process: &Process) -> PathBuf {
        outputs::path::expand(path, process)
    }

    /// Whether the user's environment asks for colour (`true`) or for none (`false`) in reports.
    #[must_use]
    pub fn color() -> Option<bool> {
        environment::color(environment::variable)
    }

    /// This process, as its profiler would name it.
    #[must_use]
    pub fn process() -> Process {
        identity::read()
    }

    /// A variable for the processes of a run that begins now, so that they agree on when each of them began.
    #[must_use]
    pub fn run_clock() -> (&'static str, String) {
        (identity::CLOCK, identity::run_clock())
    }

    /// The reports that the process with this id has printed itself, in a run of the command with this folder.
    #[must_use]
    pub fn printed(run: &Path, process: u32) -> Vec<Report> {
        let names = std::fs::read_to_string(printed_in(run, process)).unwrap_or_default();
        names.split('+').filter_map(|name| name.parse().ok()).in_vec()
    }

    /// Writes a file whole or not at all, as a profiler does.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn write(path: &Path, text: &[u8]) -> io::Result<()> {
        outputs::write(path, text)
    }
}

/// Where a profiler leaves the names of the reports that it has printed, for the command that runs its process.
pub(super) fn printed_in(run: &Path, process: u32) -> PathBuf {
    run.join(format!("{process}.printed"))
}

/// Sets up a [`Profiler`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is measured until `build`"]
pub struct ProfilerBuilder {
    pub(super) config: Config,
}

impl Profiler {
    /// Starts from the defaults: NVTX on, default domain, spans from INFO up, reports [`Tree`](crate::Report::Tree),
    /// [`Calls`](crate::Report::Calls) where futures awaited at least 1 ms and 1 % of the time in spans, and
    /// [`Ranges`](crate::Report::Ranges) to standard error.
    pub fn builder() -> ProfilerBuilder {
        ProfilerBuilder::default()
    }
}

/// Declares methods that set the setting of their name to their argument.
macro_rules! setters {
    ($($(#[$attribute:meta])+ $setting:ident: $Type:ty;)+) => {
        impl ProfilerBuilder {
            $(
                $(#[$attribute])+
                pub fn $setting(mut self, $setting: $Type) -> Self {
                    self.config.$setting = $setting;
                    self
                }
            )+
        }
    };
}

setters! {
    /// Whether spans become NVTX ranges while a tool is attached. Default: yes.
    nvtx: bool;
    /// Whether durations are measured and counted. If not, spans only become NVTX ranges and nothing is printed.
    /// Default: yes.
    statistics: bool;
    /// Whether spans entered under a named stream are timed on the GPU. Default: [`Gpu::Auto`].
    gpu: Gpu;
    /// Whether kernels, copies and API calls are recorded only after
    /// [`collect_in_injection`](Profiler::collect_in_injection), if the settings ask for them. Before that call the
    /// profiler does not touch CUDA and starts no CUDA thread, so a program that only annotates may fork. For libraries
    /// that the CUDA driver loads (`CUDA_INJECTION64_PATH`). Default: no.
    gpu_when_injected: bool;
    /// NVTX domain of the ranges. Default: the default domain.
    domain: Domain;
    /// Which span is the parent in the tree. Default: [`Parents::Entered`].
    parents: Parents;
    /// Whether NVTX ranges of other code are measured, in the same rows, tree and files as spans: ranges of C and C++
    /// code that is linked into the program, and of NVIDIA's crate `nvtx`. [`Profiler::nvtx_tool`] describes how they
    /// count. Default: no.
    ///
    /// - Build the profiler before the first such call. Code that finds no tool at its first call never looks again.
    /// - A shared library has its own copy of NVTX, which finds no tool in the program. Only a library that
    ///   `NVTX_INJECTION64_PATH` names receives its calls.
    /// - If `NVTX_INJECTION64_PATH` is set, as under Nsight Systems, such code calls that tool and not the profiler.
    ///   The report says so.
    /// - Ranges that the program makes with `nvtx_rs` itself need
    ///   `nvtx_rs::tool::attach(Box::new(profiler.nvtx_tool()))`. Spans then take the slower path through that tool.
    /// - One profiler at a time measures such ranges. The report of a second profiler that asks for them says so.
    #[cfg(feature = "foreign")]
    foreign_ranges: bool;
    /// Whether [`nvtx_tool`](Profiler::nvtx_tool) keeps the names of ranges as they are. Otherwise it cuts numbers with
    /// keys from the end of a name and makes them values of the range in timelines: `aten::linear, seq = 84, op_id =
    /// 315` becomes `aten::linear`, so all such ranges share a row. Numbers without keys stay: `block 1` and `block 2`
    /// are two rows. Default: no.
    whole_names: bool;
    /// Layout of the statistics. Default: [`TableStyle::Current`].
    style: TableStyle;
    /// Where the reports go. Default: standard error.
    output: Output;
    /// Memory for single durations, in bytes, for all ranges and threads together. Medians are exact while there is
    /// room; when the memory is used up, further rows have no median and print `-`. Default: 64 MiB.
    sample_budget: usize;
    /// How much of a CUDA graph is recorded when it is replayed. [`Profiler::record_graph_nodes`] raises it later.
    /// Default: [`Graphs::Whole`].
    graphs: Graphs;
    /// Which calls of the CUDA API are recorded. Default: [`ApiCalls::Auto`].
    api_calls: ApiCalls;
    /// Memory for the GPU's work while it is attributed, in bytes, for all threads and devices together: CUPTI's
    /// buffers, filled buffers that wait to be read, launches and range instances with outstanding operations, other
    /// API calls until they are counted, and the launch notes of threads, which are collected ten times a second, or
    /// less often while there are few. The report counts losses. Used only if kernels, copies or API calls are
    /// recorded. Default: 256 MiB, at least 32 MiB.
    ///
    /// This limit does not cover the following memory, which does not grow with the number of launches:
    /// - rows of tables: one for each kernel, function and direction; one for each kernel by range and thread; and one
    ///   for each node of the tree, with at most 8 KiB for each device that ran its work. There are at most 65,536
    ///   nodes and 65,536 kernel names, each kept once; further ones share a row. Single durations are in
    ///   [`sample_budget`](Self::sample_budget);
    /// - the nodes of CUDA graphs, 12 bytes each, and at most 524,288; 64 kB at most for a graph with another in it;
    /// - 12 bytes for each kernel name in an instance that waits for its operations;
    /// - the ends of known instances, which always find room, and 8 KiB a thread for the last of them;
    /// - CUPTI's own memory on the host and on devices, and its 64 KiB buffers beyond the limit, whose records are
    ///   counted and discarded;
    /// - the old memory of a table while the table grows;
    /// - timelines, which have [`timeline_memory`](Self::timeline_memory).
    gpu_memory: usize;
    /// The percentage of the time that the rows of [`Report::Hot`] take together, from 0 to 100. A list has ten rows at
    /// most. Default: 90.
    hot_percent: f64;
    /// The largest number of rows of each table and of phases of the tree. One more row has the sum of the others.
    /// `usize::MAX` prints all. Files have all rows. Default: 30.
    rows: usize;
    /// Whether [`Report::Hot`] prints the full names of kernels, as the tables of Nsight and nvprof do. Otherwise C++
    /// names are shortened by meaning: `vectorized_elementwise<FillFunctor<int>>`. Default: no.
    full_kernel_names: bool;
    /// How many notes are printed at most below the reports, the most important ones; `usize::MAX` for all. Default: 5.
    notes: usize;
    /// Whether [`build`](Self::build) reads `TRACING_GPU`. It reads `TRACING_GPU_FILTER` in any case. Default: yes.
    environment: bool;
    /// Memory for ranges and events that wait to be written to a timeline, in bytes, for all threads together. If the
    /// GPU's work is recorded, it may take the same amount again, with launches and instances that are not complete.
    /// The report counts losses. The values of up to 65,536 open ranges come on top. Default: 128 MiB.
    timeline_memory: usize;
}

impl ProfilerBuilder {
    #[cfg(test)]
    pub(crate) fn with_folds(folds: Vec<fn() -> Box<dyn range_model::Fold>>) -> Self {
        let mut builder = Self::default();
        builder.config.folds = folds;
        builder
    }

    /// Whether the processor time of ranges is read, so that tables say how long they were on and off the CPU. Only
    /// ranges of at least some 50 us have one; a reading takes 0.3 to 0.9 us, and all together at most 2 % of their
    /// time. Default: yes for spans, no for NVTX ranges of other code: a tool beside this one would count it as their
    /// time. See `docs/async.md`, "What the time of a call is made of".
    pub fn on_cpu(mut self, on: bool) -> Self {
        self.config.on_cpu = Some(on);
        self
    }

    /// Keeps counts and times of ranges in a new file, which survives a crash of the process and replaces its missing
    /// [`Summary`](crate::Summary). The profiler removes the file when it finishes. `missed` is called once if a row
    /// does not fit; the caller may hold locks.
    #[cfg(feature = "command")]
    #[doc(hidden)]
    pub fn row_file(mut self, path: impl Into<PathBuf>, missed: fn()) -> Self {
        self.config.row_file = Some((path.into(), missed));
        self
    }

    /// Also gives the timeline to this sink: ranges, calls, marks, GPU work and calls of the CUDA API as they are
    /// recorded, some ten times a second. For a format or a consumer of the program's own; any number of sinks and
    /// files may be asked for. A sink that returns an error receives nothing more, and the report names the error. If
    /// the program is killed, the sink ends without [`end`](Sink::end).
    ///
    /// It is called by [`build`](Self::build), by a thread of the profiler, and by the thread that finishes the
    /// profiler. It must not panic, and must not use spans that this profiler measures. A profiler that is switched off
    /// never calls it. Of the profilers that clones of this builder build, the first one takes the sink.
    ///
    /// ```
    /// use std::io;
    /// use std::sync::mpsc::{Sender, channel};
    ///
    /// use tracing_gpu::summary::{Process, Summary};
    /// use tracing_gpu::timeline::{Item, Sink};
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// /// Sends a line for each range.
    /// struct Lines(Sender<String>);
    ///
    /// impl Sink for Lines {
    ///     fn begin(&mut self, _: &Process) -> io::Result<()> {
    ///         Ok(())
    ///     }
    ///
    ///     fn item(&mut self, item: &Item<'_>) -> io::Result<()> {
    ///         if let Item::Range(range) = item {
    ///             let line = format!("{} ran {} ns", range.name, range.end - range.start);
    ///             self.0.send(line).map_err(io::Error::other)?;
    ///         }
    ///         Ok(())
    ///     }
    ///
    ///     fn flush(&mut self) -> io::Result<()> {
    ///         Ok(())
    ///     }
    ///
    ///     fn end(&mut self, _: &Summary, _lost: u64) -> io::Result<()> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// let (sender, lines) = channel();
    /// let profiler = Profiler::builder().output(Output::None).sink(Lines(sender)).build()?;
    /// tracing::subscriber::with_default(profiler.subscriber(), || {
    ///     tracing::info_span!("outer").in_scope(|| tracing::info_span!("inner").in_scope(|| ()));
    /// });
    /// profiler.finish()?;
    /// let names: Vec<String> = lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    /// assert_eq!(names, ["inner", "outer"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sink(mut self, sink: impl Sink + 'static) -> Self {
        self.config.sinks.push(OwnSink::new(sink));
        self
    }

    /// Calls `see` with each range, call, operation and API call, and with details of these kinds, on the thread that
    /// writes timelines. For tests.
    #[doc(hidden)]
    pub fn watch(mut self, details: Details, see: fn(&Item<'_>)) -> Self {
        self.config.watch = Some(Watch { details, see });
        self
    }

    /// Which spans are measured, decided once per call site. Other layers are not affected. Default: INFO and above, or
    /// the layer's own filter ([`GpuLayer::with_filter`](crate::GpuLayer)).
    pub fn filter(mut self, filter: Targets) -> Self {
        self.config.filter = Some(filter);
        self
    }

    /// Names a range by the first of these fields that the span has when it is created; `nvtx.name` wins. For
    /// frameworks that give all spans one name and put the real name into a field.
    ///
    /// Default: `otel.name`; and `http.route` and `name`, appended to the span's own name (`system: movement`) while a
    /// call site has at most 32 values. An empty list, `.name_from([""; 0])`, switches this off.
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let profiler = Profiler::builder().name_from(["otel.name", "http.route"]).output(Output::None).build()?;
    /// tracing::subscriber::with_default(profiler.subscriber(), || {
    ///     tracing::info_span!("request", http.route = "/users/{id}").in_scope(|| ());
    /// });
    /// assert_eq!(profiler.summary().ranges[0].name, "/users/{id}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name_from(mut self, fields: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.config.fields.name_from = Some(fields.into_iter().map(Into::into).in_vec());
        self
    }

    /// Whether `color`, `category` and `payload` are read like `nvtx.color`, `nvtx.category` and `nvtx.payload`, for
    /// code that was written for NVIDIA's layer. `#[instrument]` turns a function's arguments into fields, and
    /// `category` is a common one. Default: no.
    pub fn bare_fields(mut self, on: bool) -> Self {
        self.config.fields.bare = on;
        self
    }

    /// The reports that are printed at the end, in this order. Default: tree, calls where futures awaited at least 1 ms
    /// and 1 % of the time in spans, and ranges.
    pub fn report(mut self, reports: impl IntoIterator<Item = Report>) -> Self {
        self.config.reports = reports.into_iter().in_vec();
        self
    }

    /// Whether SIGINT and SIGTERM print the reports and then end the program, as they do by default. A second signal, a
    /// second later or more, ends the program at once. Default: no; yes if [`init`](crate::init()) or
    /// [`install`](Self::install) installs the profiler.
    ///
    /// The profiler acts only on a signal that would end the program. If the program ignores or handles a signal when
    /// the first such profiler is built, nothing changes: `trap '' INT TERM` of a shell works, and background commands
    /// of a shell script survive Ctrl-C. If the program handles the signal later, the profiler leaves it to the
    /// program: with `tokio::signal::ctrl_c()` the program shuts down gracefully, and the guard prints. Unix only.
    pub fn on_signal(mut self, on: bool) -> Self {
        self.config.on_signal = Some(on);
        self
    }

    /// Whether a thread looks at the threads that are inside of spans, to know what they wait for: a system call, and
    /// the pipe, socket or file behind its descriptor ([`Report::OffCpu`](crate::Report::OffCpu)). Default: no; yes if
    /// [`init`](crate::init()) or [`install`](Self::install) installs the profiler, or if that report is asked for.
    ///
    /// It looks up to a hundred times a second, ten times while no thread is inside of a span, and takes at most 0.5 %
    /// of a core. Spans cost no more. Linux only. The process has one more thread, which a program notices that calls
    /// `unshare(CLONE_NEWUSER)` or counts its threads: so the layer of a larger program does not have it by default.
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let profiler = Profiler::builder().off_cpu(true).output(Output::None).build()?;
    /// tracing::subscriber::with_default(profiler.subscriber(), || {
    ///     tracing::info_span!("nap").in_scope(|| std::thread::sleep(std::time::Duration::from_millis(300)));
    /// });
    /// for row in profiler.summary().off_cpu {
    ///     println!("{}: {} ns in {}, {} samples", row.name, row.time_ns, row.call_of(), row.samples);
    /// }
    /// # Ok::<(), tracing_gpu::ConfigError>(())
    /// ```
    pub fn off_cpu(mut self, on: bool) -> Self {
        self.config.off_cpu = Some(on);
        self
    }

    /// Writes files of windows at this interval, and the last one at the end: JSON, pages and folded stacks whose name
    /// has `%t`, which is the time at which the window ended, as `20251120T153542.042Z`. Other files are those of the
    /// whole run, and their `%t` is its start. [`Windows`](crate::Windows) says what a window has. Default: none.
    ///
    /// A thread of the profiler writes them. The profiler does not remove old ones.
    ///
    /// [`build`](Self::build) refuses less than 10 ms.
    pub fn every(mut self, every: Duration) -> Self {
        self.config.every = Some(every);
        self
    }

    /// Pushes the metrics of [`metrics`](crate::metrics) to an OpenTelemetry collector while the program runs, and once
    /// more at the end: with OTLP, as protobuf over HTTP, to `/v1/metrics` at `address`, such as
    /// `http://localhost:4318`. `None` is the address that OpenTelemetry's variables give, for example
    /// `OTEL_EXPORTER_OTLP_ENDPOINT`, or else that one. Default: no pushes.
    ///
    /// A thread of the profiler pushes each minute, or as often as [`every`](Self::every) or
    /// `OTEL_METRIC_EXPORT_INTERVAL` say. A push that fails harms nothing: its figures are in the next one, and the
    /// report has a note. The end of the profiler waits at most 2 s for the last push.
    ///
    /// An address that begins with `https://` needs the crate `ureq` with its feature `rustls` or `native-tls` in the
    /// program.
    ///
    /// ```no_run
    /// use tracing_gpu::Profiler;
    ///
    /// let profiler = Profiler::builder().otlp(Some("http://localhost:4318")).build()?;
    /// # Ok::<(), tracing_gpu::ConfigError>(())
    /// ```
    #[cfg(feature = "otlp")]
    pub fn otlp(mut self, address: Option<&str>) -> Self {
        self.config.otlp = Some(address.unwrap_or_default().to_owned());
        self
    }

    /// Additional percentiles of durations: columns of the tree and of the calls, and quantiles that
    /// [`Times::quantile`](crate::summary::Times::quantile) finds. The 50th, 90th and 99th are always kept, and the
    /// calls always show them. Nsight's tables do not change. Default: no additional ones.
    ///
    /// Percentiles are exact while every duration is kept (see [`sample_budget`](Self::sample_budget)). Otherwise their
    /// error is below 0.2 %, and reports mark them with `~`.
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let profiler = Profiler::builder().percentiles([50.0, 99.9]).output(Output::None).build()?;
    /// tracing::subscriber::with_default(profiler.subscriber(), || tracing::info_span!("load").in_scope(|| ()));
    /// let times = &profiler.summary().ranges[0].times;
    /// assert!(times.quantile(0.999).is_some_and(|longest| longest.exact && longest.ns == times.total_ns as f64));
    /// # Ok::<(), tracing_gpu::ConfigError>(())
    /// ```
    ///
    /// [`build`](Self::build) refuses values outside of 0 to 100.
    pub fn percentiles(mut self, percentiles: impl IntoIterator<Item = f64>) -> Self {
        self.config.ask_for(&percentiles.into_iter().collect::<Vec<f64>>());
        self
    }

    /// Switches findings off, in reports and in JSON. Default: none. `docs/gpu.md` lists what each is about.
    ///
    /// ```
    /// use tracing_gpu::analysis::FindingKind;
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let builder = Profiler::builder().without([FindingKind::SmallCopies, FindingKind::NoOverlap]);
    /// builder.output(Output::None).build()?.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn without(mut self, findings: impl IntoIterator<Item = FindingKind>) -> Self {
        self.config.without = FindingKinds::of(findings);
        self
    }

    /// Writes the final summary to a file, as [`SummaryExt::write_json`](crate::SummaryExt::write_json) does, when the
    /// profiler ends, after the report. Its name may hold `%h`, `%p` and `%r`; see
    /// [`Output::File`](crate::Output::File).
    ///
    /// ```
    /// use tracing_gpu::SummaryExt as _;
    /// use tracing_gpu::{Output, Profiler, Summary};
    ///
    /// let path = std::env::temp_dir().join("tracing-gpu-example-%p.json");
    /// let profiler = Profiler::builder().output(Output::None).json(&path).build()?;
    /// profiler.finish()?;
    /// let path = std::env::temp_dir().join(format!("tracing-gpu-example-{}.json", std::process::id()));
    /// let summary = Summary::read_json(std::fs::File::open(&path)?)?;
    /// assert_eq!(summary.process.pid, std::process::id());
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "json")]
    pub fn json(self, path: impl Into<PathBuf>) -> Self {
        self.file("json", path)
    }

    /// Lists all operations on GPUs in the order of time in a file, as nvprof does with `--print-gpu-trace`: in
    /// columns, or separated by commas where its name ends in `.csv`. Its name may hold `%h`, `%p` and `%r`; see
    /// [`Output::File`](crate::Output::File). It has what CUPTI records: ask for [`Gpu::Cupti`], or for a report that
    /// needs it.
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let path = std::env::temp_dir().join(format!("tracing-gpu-example-{}.txt", std::process::id()));
    /// Profiler::builder().output(Output::None).gpu_trace(&path).build()?.finish()?;
    /// assert!(std::fs::read_to_string(&path)?.ends_with("No kernels were profiled.\n"));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn gpu_trace(self, path: impl Into<PathBuf>) -> Self {
        self.file("gpu_trace", path)
    }

    /// Writes folded stacks to a file, as [`SummaryExt::write_folded`](crate::SummaryExt::write_folded) does, when the
    /// profiler ends, after the report. Its name may hold `%h`, `%p` and `%r`; see
    /// [`Output::File`](crate::Output::File).
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let path = std::env::temp_dir().join(format!("tracing-gpu-example-{}.folded", std::process::id()));
    /// let profiler = Profiler::builder().output(Output::None).folded(&path).build()?;
    /// tracing::subscriber::with_default(profiler.subscriber(), || tracing::info_span!("Load Module").in_scope(|| ()));
    /// profiler.finish()?;
    /// assert!(std::fs::read_to_string(&path)?.starts_with("Load Module "));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn folded(self, path: impl Into<PathBuf>) -> Self {
        self.file("folded", path)
    }

    /// Writes a timeline while the program runs: Chrome trace events, which ui.perfetto.dev and chrome://tracing open.
    /// It shows threads with their ranges and events. If CUPTI records, it also shows streams with their operations,
    /// the ranges projected onto them, and arrows from launch to operation. With the feature `perfetto` a name that
    /// ends in `.gz` is compressed. A run that is killed leaves a file that opens. Its name may hold `%h`, `%p` and
    /// `%r`; see [`Output::File`](crate::Output::File).
    ///
    /// Each range costs about 30 ns more than without a timeline, and takes 32 bytes until it is written. A range of a
    /// span with fields costs about 120 ns. It takes 32 more bytes for its `nvtx.` fields, 32 for each other field, and
    /// the length of its texts. An event takes about 100 bytes, 32 for each field, and the length of its texts. The
    /// report counts losses beyond [`timeline_memory`](Self::timeline_memory).
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let path = std::env::temp_dir().join(format!("tracing-gpu-example-{}.trace.json", std::process::id()));
    /// let profiler = Profiler::builder().output(Output::None).trace(&path).build()?;
    /// tracing::subscriber::with_default(profiler.subscriber(), || tracing::info_span!("Load Module").in_scope(|| ()));
    /// profiler.finish()?;
    /// assert!(std::fs::read_to_string(&path)?.contains("Load Module"));
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace(self, path: impl Into<PathBuf>) -> Self {
        self.file("trace", path)
    }

    /// Writes a timeline while the program runs, in Perfetto's own format, which ui.perfetto.dev opens. It shows what
    /// [`trace`](Self::trace) shows, in a tenth of the bytes. A run that is killed leaves a file that opens. Its name
    /// ends in `.pftrace`, and may hold `%h`, `%p` and `%r`. A span costs as much as with [`trace`](Self::trace).
    #[cfg(feature = "perfetto")]
    pub fn perfetto(self, path: impl Into<PathBuf>) -> Self {
        self.file("perfetto", path)
    }

    /// Writes the timeline of [`perfetto`](Self::perfetto) to several files, `run.0001.pftrace` and so on for
    /// `run.pftrace`. Each has about `bytes` bytes, 100,000 at least, and is readable by itself. The latest `files` are
    /// kept, the others are removed. Files of an earlier run with the same name stay, unless they are overwritten.
    #[cfg(feature = "perfetto")]
    pub fn rotate(mut self, bytes: u64, files: u64) -> Self {
        self.config.rotate = Some((bytes.max(LEAST_ROTATED), files.max(1)));
        self
    }

    /// Writes a timeline while the program runs, as the database that `nsys export` writes: `nsys stats FILE` prints
    /// NVIDIA's own reports over it. Its name must end in `.sqlite`, and may hold `%h`, `%p` and `%r`. An existing file
    /// is overwritten. A span costs as much as with [`trace`](Self::trace).
    #[cfg(feature = "sqlite")]
    pub fn sqlite(self, path: impl Into<PathBuf>) -> Self {
        self.file("sqlite", path)
    }

    /// Writes datasets for DuckDB, Spark and other engines while the program runs: Parquet files in
    /// `run=.../host=.../rank=.../` below the folder `path`, in which those of other processes, hosts and runs may lie,
    /// too. A file is closed after 10 s or 256 MB. A program that is killed leaves the closed files. The name of the
    /// folder may hold `%h`, `%p` and `%r`. A span costs as much as with [`trace`](Self::trace).
    #[cfg(feature = "parquet")]
    pub fn parquet(self, path: impl Into<PathBuf>) -> Self {
        self.file("parquet", path)
    }

    /// Writes a page at the end: one file that needs no network, with the timeline, flame graphs and the tables of the
    /// run. Its name may hold `%h`, `%p` and `%r`. A span costs as much as with [`trace`](Self::trace). If a report or
    /// [`Gpu::Cupti`](crate::Gpu::Cupti) records the GPU's work, CUDA calls are recorded too, and the summary and the
    /// page explain why the GPU was idle ([`Report::Idle`](crate::Report::Idle)).
    #[cfg(feature = "html")]
    pub fn html(self, path: impl Into<PathBuf>) -> Self {
        self.file("html", path)
    }

    /// Compares the run with another one, in a section of its page: `path` is the summary of that run, as
    /// [`json`](Self::json) writes it. The file is read when the profiler is built, so a run can be compared with the
    /// last one and then overwrite that file with its own summary. If the file cannot be read, the profiler prints one
    /// line at the start and writes the page without the comparison. Only [`html`](Self::html) uses it. The name may
    /// hold `%h`, `%p` and `%r`.
    #[cfg(feature = "html")]
    pub fn baseline(self, path: impl Into<PathBuf>) -> Self {
        self.file("baseline", path)
    }

    /// Applies settings in the grammar of `TRACING_GPU`, on top of earlier ones. Returns a line for each part that is
    /// unknown, invalid or given twice; the other parts take effect.
    ///
    /// ```
    /// use tracing_gpu::Profiler;
    ///
    /// let (builder, complaints) = Profiler::builder().settings("report=tree,out=none,colour=red");
    /// assert!(complaints[0].starts_with("TRACING_GPU: `colour=red` is not known"));
    /// builder.build()?.finish()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settings(mut self, text: &str) -> (Self, Vec<String>) {
        let complaints = environment::apply(&mut self.config, text);
        (self, complaints)
    }

    /// Writes these files and no others. The keys are those of `TRACING_GPU`. For a program that tells other processes
    /// what to write.
    #[doc(hidden)]
    pub fn files(mut self, files: impl IntoIterator<Item = (String, PathBuf)>) -> Self {
        let row = |key: &str| outputs::TABLE.iter().find(|row| row.key == key);
        self.config.files.clear();
        for (key, path) in files {
            if let Some(row) = row(&key) {
                self.config.set_file(row.key, path);
            }
        }
        self
    }

    /// These settings as far as they concern reports, for a program that prints measurements of other processes.
    #[doc(hidden)]
    #[must_use]
    pub fn chosen(&self) -> Chosen {
        let config = &self.config;
        let mut files = config.files.clone();
        order::by_key(&mut files, |(key, _)| *key);
        Chosen {
            enabled: config.enabled,
            reports: config.reports.clone(),
            off_cpu: config.off_cpu,
            options: config.render_options(),
            output: config.output.clone(),
            files,
        }
    }

    /// The settings that these texts give as `TRACING_GPU` and `TRACING_GPU_FILTER`, and the complaints about them: for
    /// fuzzers.
    #[doc(hidden)]
    #[must_use]
    pub fn told(mut self, settings: &str, filter: &str) -> (Chosen, Vec<String>) {
        let complaints = environment::apply_both(&mut self.config, settings, filter);
        (self.chosen(), complaints)
    }

    /// Starts measuring. `TRACING_GPU` and `TRACING_GPU_FILTER` override these settings. Each part that is unknown,
    /// invalid or given twice prints one line on standard error; the other parts take effect. Each file that cannot be
    /// written prints one line, too. Files of the end are only checked here, and tried again at the end.
    ///
    /// # Errors
    ///
    /// Only for unusable settings. A missing GPU or tool is no error.
    pub fn build(mut self) -> Result<Profiler, ConfigError> {
        self.config.check()?;
        let complaints = environment::read(&mut self.config);
        complaints.into_iter().chain(outputs::without_effect(&self.config)).for_each(|complaint| complain(&complaint));
        Ok(Profiler { inner: Inner::start(self.config) })
    }

    /// Sets the path of the output with this key in the table.
    fn file(mut self, key: &'static str, path: impl Into<PathBuf>) -> Self {
        self.config.set_file(key, path.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_that_is_none_is_an_error() {
        for percent in [-1.0, 100.5, f64::NAN] {
            let error = Profiler::builder().hot_percent(percent).build().expect_err("no percentage");
            assert!(error.to_string().contains(&format!("cannot make {percent} %")), "{error}");
        }
    }
}
