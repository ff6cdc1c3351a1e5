//! The handle that a program holds while it is measured, and how it starts.

mod builder;
mod ending;
mod environment;
mod explain;
#[cfg(feature = "cuda")]
mod gpu_folds;
mod identity;
#[cfg(feature = "cuda")]
mod ingest;
mod init;
#[cfg(feature = "json")]
mod machine;
#[cfg(feature = "server")]
mod metrics;
#[cfg(feature = "otlp")]
mod otlp;
mod rejected;
mod windows;

use std::io;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use range_report::report::escaped;
use range_report::stats::Lean;
use range_report::timeline::Details;
use range_report::{Fold, Process, Summary};

pub use builder::{Chosen, ProfilerBuilder};
use ending::finish_all;
#[cfg(feature = "cuda")]
pub use ingest::{ClockPair, Submission, TimedQueue};
pub use init::{Guard, InstallError, init};
#[cfg(feature = "server")]
pub use metrics::Scraped;
use windows::Periodic;
pub use windows::Windows;

use crate::clock::Ticks;
use crate::collector::Collector;
use crate::config::{Config, Gpu};
use crate::drain::{self, Cursor, End};
#[cfg(feature = "injection")]
use crate::openacc::OpenAcc;
use crate::outputs;
use crate::process;
use crate::recorder::Recorder;
use crate::row_file::RowFile;
use crate::sampler::Sampler;
use crate::session::SessionOptions;
use crate::session::catalog::Limits;
use crate::session::front_end::Stage;
use crate::session::tape_room::TapeRoom;
use crate::stream;
use crate::thread::engine::{self, Engine};
#[cfg(feature = "foreign")]
use crate::tier;
use crate::tier::layer::GpuLayer;
use crate::tier::subscriber::GpuSubscriber;
#[cfg(feature = "injection")]
use crate::tier::tool::NvtxTool;

/// Distinct tree nodes and run-time names of a process.
const LIMITS: Limits = Limits { nodes: 65_536, run_time_names: 65_536 };

/// The profiler that NVTX belongs to, by id; 0 for none. Taken (`AcqRel`) at `build`, given back at `finish`.
static NVTX_OWNER: AtomicU64 = AtomicU64::new(0);

/// Measures spans until it is finished or dropped, and then prints its reports.
///
/// Give its [`layer`](Self::layer) to a `tracing_subscriber::registry()`, or its [`subscriber`](Self::subscriber) to
/// `tracing` where nothing else listens. The handle may be sent and shared between threads.
///
/// ```
/// use tracing_gpu::{Output, Profiler, Report};
/// use tracing_subscriber::prelude::*;
///
/// let profiler = Profiler::builder().report([Report::Ranges]).output(Output::None).build()?;
/// let subscriber = tracing_subscriber::registry().with(profiler.layer());
/// tracing::subscriber::with_default(subscriber, || {
///     tracing::info_span!("Load Module").in_scope(|| std::hint::black_box(1 + 1));
/// });
/// let summary = profiler.summary();
/// assert_eq!(summary.ranges[0].name, "Load Module");
/// assert_eq!(summary.ranges[0].times.instances, 1);
/// profiler.finish()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "the report is printed when the profiler is dropped: keep it until the program ends"]
pub struct Profiler {
    inner: &'static Inner,
}

/// Lives as long as the process: a callback may be running on any thread at any time.
#[derive(Debug)]
struct Inner {
    engine: Engine,
    config: Config,
    process: u32,
    identity: Process,
    /// The files that no other profiler writes until this one ends.
    claim: outputs::Claim,
    /// Errors that were reported at the start, and are not reported again.
    reported: OnceCell<Vec<String>>,
    extra_tiers: AtomicU64,
    nvtx_taken: bool,
    /// Why foreign ranges were asked for but are not measured.
    foreign_missing: OnceCell<&'static str>,
    /// Collects the GPU's work, or holds the reason why it cannot; empty if nobody asked for it.
    collector: OnceCell<Result<&'static Collector, String>>,
    /// Collects the operations that the program times itself, if `collector` collects nothing.
    #[cfg(feature = "cuda")]
    timed: OnceCell<&'static Collector>,
    /// Locked while `collector` or `timed` starts, so that each starts once.
    #[cfg(feature = "cuda")]
    starting: Mutex<()>,
    /// Looks at threads inside of spans, where that is wanted.
    sampler: OnceCell<&'static Sampler>,
    /// Writes timelines, where any is wanted.
    recorder: OnceCell<&'static Recorder>,
    last: OnceCell<Summary>,
    /// When the measurement ended.
    ended: OnceCell<Ticks>,
    /// The cursor of [`Profiler::window`].
    cursor: Mutex<Cursor>,
    /// Writes windows at regular intervals, where the settings ask for it.
    periodic: OnceCell<Periodic>,
    /// Pushes metrics, where the settings ask for it.
    #[cfg(feature = "otlp")]
    pusher: OnceCell<otlp::Pusher>,
    ending: ending::Ending,
}

impl Profiler {
    /// Starts from the defaults: NVTX on, default domain, spans from INFO up, reports [`Tree`](crate::Report::Tree),
    /// [`Calls`](crate::Report::Calls) where futures awaited at least 1 ms and 1 % of the time in spans, and
    /// [`Ranges`](crate::Report::Ranges) to standard error.
    pub fn builder() -> ProfilerBuilder {
        ProfilerBuilder::default()
    }

    /// A layer for a `tracing_subscriber::registry()`, beside any others. A profiler measures through one layer or
    /// subscriber at a time: one that is made while another lives counts nothing, and the report says so. When a layer
    /// is dropped, its open ranges end, and the next one that is made takes over.
    pub fn layer(&self) -> GpuLayer {
        GpuLayer::new(self.take_tier())
    }

    /// A subscriber without a registry: the fastest, for programs that only profile. Events become NVTX marks and are
    /// not printed.
    #[must_use]
    pub fn subscriber(&self) -> GpuSubscriber {
        GpuSubscriber::new(self.take_tier())
    }

    /// A tool that measures the NVTX ranges of other code in the process, such as a C++ library, NCCL or Python. They
    /// appear in the same rows, tree and files as spans. The library that NVTX loads passes the calls to the tool
    /// ([`nvtx_rs::export_tool!`]). Ranges of the profiler's own spans never count twice.
    ///
    /// - A push is a call and an instance. Its parent is the innermost open range of its thread, whoever opened it. A
    ///   pop ends the uppermost range of its thread and domain. Start/end ranges may end on any thread.
    /// - A range of a named domain is shown as `domain:name`. To a filter it is a span of level INFO whose target is
    ///   the domain's name, `nvtx` for the default domain: `TRACING_GPU_FILTER=info,NCCL=off`.
    /// - Colours, payloads and marks go to timelines, names of categories and threads to reports as well.
    /// - A name may end in numbers with keys (`aten::linear, seq = 84, op_id = 315`). They are cut from the name and
    ///   become values of the range in timelines. See [`whole_names`](ProfilerBuilder::whole_names).
    ///
    /// ```
    /// use nvtx_rs::tool::{Tool, Call};
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let profiler = Profiler::builder().nvtx(false).output(Output::None).build()?;
    /// nvtx_rs::tool::attach(Box::new(profiler.nvtx_tool()))?; // or from `export_tool!`, in a library
    /// drop(nvtx_rs::range!("load"));
    /// assert_eq!(profiler.summary().ranges[0].name, "load");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "injection")]
    #[must_use]
    pub fn nvtx_tool(&self) -> NvtxTool {
        NvtxTool::new(&self.inner.engine)
    }

    /// Receives the events of the OpenACC runtime in this process, from now on, into [`Summary::openacc`]. Events of
    /// all threads count, with or without open ranges. The last profiler on which this was called receives them.
    ///
    /// Call it in a library that `ACC_PROFLIB` names and that exports `acc_register_library`.
    ///
    /// ```
    /// use std::ffi::{c_int, c_void};
    /// use std::sync::OnceLock;
    ///
    /// use tracing_gpu::{OpenAccCallback, OpenAccRegister, Output, Profiler, Report};
    ///
    /// static PROFILER: OnceLock<Option<Profiler>> = OnceLock::new();
    ///
    /// #[unsafe(no_mangle)]
    /// pub extern "C" fn acc_register_library(register: OpenAccRegister, _: OpenAccRegister, _: *const c_void) {
    ///     let build = || Profiler::builder().report([Report::Nvprof]).output(Output::None).build().ok();
    ///     if let Some(profiler) = PROFILER.get_or_init(build) {
    ///         profiler.openacc().register(register);
    ///     }
    /// }
    ///
    /// // The runtime finds the function by its name, and calls it:
    /// extern "C" fn acc_prof_register(_event: c_int, _callback: OpenAccCallback, _toggle: c_int) {}
    /// acc_register_library(Some(acc_prof_register), None, std::ptr::null());
    /// assert!(PROFILER.get().is_some());
    /// ```
    #[cfg(feature = "injection")]
    #[must_use]
    pub fn openacc(&self) -> OpenAcc {
        OpenAcc::new(&self.inner.engine)
    }

    /// Whether it measures: false after `TRACING_GPU=off`.
    pub(crate) fn is_enabled(&self) -> bool {
        self.inner.config.enabled
    }

    #[cfg(test)]
    pub(crate) fn engine(&self) -> &'static Engine {
        &self.inner.engine
    }

    fn set_alone(&self) {
        self.inner.engine.session.front_end.set_alone();
    }

    fn take_tier(&self) -> &'static Engine {
        if !self.inner.engine.session.front_end.take() {
            self.inner.extra_tiers.fetch_add(1, Relaxed);
            return Engine::inert();
        }
        &self.inner.engine
    }

    /// The measurements of the current window so far. Neither stops the measured threads nor resets. After the finish:
    /// the final figures.
    ///
    /// In the first 2 ms of a profiler's life this call waits until the 2 ms are over, to calibrate the clock. In a
    /// forked child the summary is empty, except for a note.
    #[must_use]
    #[inline] // copying a summary is much to compile: only where it is asked for
    pub fn summary(&self) -> Summary {
        if self.inner.engine.session.is_of_parent() {
            return Inner::of_parent();
        }
        self.inner.last.get().cloned().unwrap_or_else(|| self.inner.summarise(None, None))
    }

    /// Records kernels, copies and API calls from now on, where the settings ask for them. The first call counts; a
    /// profiler that was built without [`gpu_when_injected`](ProfilerBuilder::gpu_when_injected) began in `build`.
    ///
    /// Call it in `InitializeInjection`, in a library that `CUDA_INJECTION64_PATH` names: the CUDA driver calls that
    /// function inside `cuInit`. There it sets CUPTI up and starts a thread. It calls no function of the driver except
    /// `cuDriverGetVersion`. If CUPTI cannot be used, the report gives the reason.
    ///
    /// ```no_run
    /// use std::sync::OnceLock;
    /// use tracing_gpu::{Profiler, Report};
    ///
    /// static PROFILER: OnceLock<Option<Profiler>> = OnceLock::new();
    ///
    /// #[unsafe(no_mangle)]
    /// extern "C" fn InitializeInjection() -> std::ffi::c_int {
    ///     let builder = || Profiler::builder().gpu_when_injected(true).report([Report::Nvprof]);
    ///     let profiler = PROFILER.get_or_init(|| builder().build().ok());
    ///     profiler.as_ref().map_or(0, |profiler| {
    ///         profiler.collect_in_injection();
    ///         1
    ///     })
    /// }
    /// ```
    pub fn collect_in_injection(&self) {
        if self.inner.config.enabled && self.inner.config.gpu_when_injected {
            self.inner.start_collector();
        }
    }

    /// Records each kernel, copy and set of CUDA graphs from now on, with its time, where
    /// [`Graphs::Whole`](crate::Graphs::Whole) recorded replays as one operation each. There is no way back for a run:
    /// CUPTI crashes, or falls silent, if a graph that was recorded so is then recorded as a whole. Without CUPTI's
    /// records, and if nodes are recorded already, it does nothing.
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    ///
    /// let profiler = Profiler::builder().output(Output::None).build()?;
    /// profiler.record_graph_nodes(); // after the warm-up, for example
    /// # Ok::<(), tracing_gpu::ConfigError>(())
    /// ```
    pub fn record_graph_nodes(&self) {
        if let Some(collector) = self.inner.collector() {
            collector.record_graph_nodes();
        }
    }

    /// Begins to measure anew, for example after a warm-up, and discards all counts so far. Ranges that are open count
    /// from now on. The windows of all cursors begin anew, too: what none of them has read yet is in no window.
    pub fn reset(&self) {
        self.inner.engine.restart();
        if let Some(collector) = self.inner.collector() {
            collector.restart();
        }
    }
}

/// Registers the handler by which a forked child knows that it is one. Call it before taking a lock that a fork waits
/// for: older C libraries block the registration during a fork.
#[doc(hidden)]
pub fn watch_forks() {
    process::watch_forks(engine::forget_thread);
}

impl Inner {
    fn start(mut config: Config) -> &'static Self {
        watch_forks();
        let mut identity = identity::read();
        let (claim, complaints) =
            if config.enabled { outputs::claim(&mut config, &identity) } else { Default::default() };
        complaints.iter().for_each(|complaint| complain(complaint));
        let mut reported = Vec::new();
        if config.enabled {
            reported.extend(outputs::unwritable(&config, &identity).iter().map(io::Error::to_string));
            reported.iter().for_each(|error| complain(&format!("{error}; the profiler tries again at the end")));
        }
        let (mut nvtx, mut nvtx_taken) = (config.nvtx && config.enabled, false);
        if nvtx && NVTX_OWNER.compare_exchange(0, u64::MAX, AcqRel, Acquire).is_err() {
            (nvtx, nvtx_taken) = (false, true);
        }
        let engine = Engine::new(SessionOptions {
            active: config.enabled,
            nvtx,
            statistics: config.statistics,
            on_cpu: config.on_cpu,
            gpu: config.gpu != Gpu::Off,
            domain: config.domain.clone(),
            parents: config.parents,
            filter: config.filter.clone(),
            fields: config.fields.clone(),
            whole_names: config.whole_names,
            sample_budget: config.sample_budget,
            tape_room: (config.enabled && has_stream(&config))
                .then(|| TapeRoom::new(config.timeline_memory, !begins_with_gpu(&config), needs_calls(&config))),
            limits: LIMITS,
            // If the process is killed, only this snapshot is left.
            row_file: config.row_file.as_ref().and_then(|(path, missed)| RowFile::create(path, *missed).ok()),
        });
        // Where the times of its files begin.
        identity.started_unix_ns = identity::unix_ns(engine.session.clock.origin_monotonic_ns());
        engine.session.log_process(&identity);
        if nvtx {
            NVTX_OWNER.store(engine.session.id, std::sync::atomic::Ordering::Release);
        }
        let inner: &'static Self = Box::leak(Box::new(Self {
            engine,
            process: std::process::id(),
            identity,
            claim,
            reported: OnceCell::new(),
            extra_tiers: AtomicU64::new(0),
            nvtx_taken,
            foreign_missing: OnceCell::new(),
            collector: OnceCell::new(),
            #[cfg(feature = "cuda")]
            timed: OnceCell::new(),
            #[cfg(feature = "cuda")]
            starting: Mutex::default(),
            sampler: OnceCell::new(),
            recorder: OnceCell::new(),
            last: OnceCell::new(),
            ended: OnceCell::new(),
            cursor: Mutex::default(),
            periodic: OnceCell::new(),
            #[cfg(feature = "otlp")]
            pusher: OnceCell::new(),
            ending: ending::Ending::default(),
            config,
        }));
        if inner.config.enabled {
            #[cfg(feature = "foreign")]
            inner.start_foreign_ranges();
            process::set_exit_hook(finish_all);
            stream::on_scope_change(engine::look_again);
            inner.join_live();
            if begins_with_gpu(&inner.config) {
                inner.set_recording(false);
            } else {
                reported.extend(inner.start_recorder());
            }
            let _once = inner.reported.set(reported);
            if !inner.config.gpu_when_injected {
                inner.start_collector();
            }
            if inner.config.wants_off_cpu() {
                let sampler = Sampler::start(&inner.engine);
                let _once = sampler.map(|sampler| inner.sampler.set(sampler));
            }
            inner.start_periodic();
            #[cfg(feature = "otlp")]
            inner.start_pushing();
            process::at_exit();
            if inner.config.on_signal == Some(true) {
                watch_signals();
            }
        }
        inner
    }

    /// Receives the NVTX ranges of other code, if the settings ask for them.
    #[cfg(feature = "foreign")]
    fn start_foreign_ranges(&'static self) {
        if !self.config.foreign_ranges {
            return;
        }
        let tool = nvtx_rs::environment::variable(nvtx_rs::abi::INJECTION_PATH);
        let missing = if tool.is_some_and(|path| !path.is_empty()) {
            "NVTX ranges of other code go to the tool that NVTX_INJECTION64_PATH names, and are not in this report."
        } else if !tier::linked::measure(&self.engine) {
            "NVTX ranges of other code belong to another profiler of this process."
        } else {
            return;
        };
        let _once = self.foreign_missing.set(missing);
    }

    /// Starts recording kernels, copies and API calls, if the settings ask for it. Only the first call has an effect.
    fn start_collector(&'static self) {
        let Config { statistics, gpu_memory, graphs, gpu_when_injected, .. } = self.config;
        if self.config.wants_activity() && statistics {
            #[cfg(feature = "cuda")]
            let _alone = self.starting.lock();
            self.collector.get_or_init(|| {
                #[cfg(feature = "cuda")]
                if self.timed.get().is_some() {
                    return Err("the program has handed over GPU work of its own before CUDA began".to_owned());
                }
                self.begin_with_gpu();
                let details = self.recorder.get().map_or(Details::NONE, |recorder| recorder.details);
                let calls = self.config.api_records();
                let collector = Collector::start(&self.engine, calls, (details, graphs), gpu_memory, gpu_when_injected)
                    .inspect_err(|_| self.end_without_gpu())?;
                if let Some(recorder) = self.recorder.get() {
                    collector.record_to(&recorder.gpu);
                }
                Ok(collector)
            });
        }
    }

    /// Starts the stream of ranges, calls and GPU work, if a timeline or a fold asks for it. Reports and returns the
    /// errors.
    fn start_recorder(&'static self) -> Vec<String> {
        if !has_stream(&self.config) {
            return Vec::new();
        }
        let folds = folds(&self.config);
        let opened = outputs::open_timelines(&self.config, &self.identity);
        let (recorder, errors) =
            Recorder::start(&self.engine, &self.identity, opened, folds, self.config.timeline_memory);
        let _once = self.recorder.set(recorder);
        errors.iter().for_each(|error| complain(error));
        errors
    }

    /// Called when the program starts to use the GPU.
    fn begin_with_gpu(&'static self) {
        if begins_with_gpu(&self.config) {
            if self.recorder.get().is_none() {
                self.start_recorder();
            }
            self.set_recording(true);
        }
    }

    /// Nothing of the GPU will be recorded, unless the program hands over work that it timed itself.
    fn end_without_gpu(&self) {
        if begins_with_gpu(&self.config) {
            self.set_recording(false);
        }
    }

    fn set_recording(&self, is_on: bool) {
        if let Some(room) = &self.engine.session.tape_room {
            room.set_open(is_on);
        }
    }

    /// The collector of the GPU's work, if there is one.
    fn collector(&self) -> Option<&'static Collector> {
        let collector = self.collector.get().and_then(|started| started.as_ref().ok().copied());
        #[cfg(feature = "cuda")]
        return collector.or_else(|| self.timed.get().copied());
        #[cfg(not(feature = "cuda"))]
        collector
    }

    /// The summary of a forked child.
    fn of_parent() -> Summary {
        let mut summary = Summary::default();
        summary.notes.push("This process was forked from the one that is measured.".to_owned());
        summary
    }

    /// The summary so far; with a cursor, its next window.
    fn summarise(&'static self, end: Option<&End>, cursor: Option<&mut Cursor>) -> Summary {
        let is_window = cursor.is_some();
        let (sampler, quantiles) = (self.sampler.get().copied(), &self.config.quantiles);
        let mut summary = drain::summarise(&self.engine, self.collector(), sampler, end, cursor, quantiles);
        if is_window {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            summary.ended_unix_ns = u64::try_from(now.as_nanos()).ok();
        }
        if let Some(Err(reason)) = self.collector.get() {
            summary.notes.push(format!("CUPTI recorded no GPU activity: {reason}. Ranges were measured all the same."));
        }
        if let Some(collector) = self.collector() {
            summary.notes.extend(collector.describe());
            summary.notes.extend(end.and_then(|_| collector.describe_others()));
        }
        if self.config.gpu == Gpu::Events && summary.stream_ranges.is_empty() && summary.notes.is_empty() {
            summary
                .notes
                .push("GPU timing: no span was entered under a named stream (`with_stream`, `gpu.stream`).".to_owned());
        }
        summary.process = self.identity.clone();
        #[cfg(feature = "json")]
        if end.is_some() && !is_window {
            summary.machine = Some(machine::at_end(self.collector().is_some()).clone());
        }
        if self.nvtx_taken {
            summary
                .notes
                .push("NVTX belongs to another profiler of this process: no ranges were sent to a tool.".to_owned());
        }
        summary.notes.extend(self.foreign_missing.get().map(|missing| (*missing).to_owned()));
        let lost = self.recorder.get().map_or(0, |recorder| recorder.lost());
        if lost > 0 {
            summary.notes.push(format!(
                "{lost} ranges, events and GPU operations are missing in the timeline, or incomplete: its memory \
                 (`timeline_memory`) was full."
            ));
        }
        for (lost, what) in self.recorder.get().map_or_else(Vec::new, |recorder| recorder.lost_details()) {
            summary.notes.push(format!("{lost} {what} were dropped at the memory limit (`timeline_memory`)."));
        }
        let forgotten = self.collector().map_or(0, |collector| collector.forgotten_nodes());
        if forgotten > 0 {
            summary.notes.push(format!(
                "For {forgotten} nodes of graphs it is not known which span captured them: there were more than can be \
                 remembered."
            ));
        }
        let extra = self.extra_tiers.load(Relaxed);
        if extra > 0 {
            let s = if extra == 1 { "" } else { "s" };
            summary.notes.push(format!("{extra} further layer{s} or subscriber{s} of this profiler measured nothing: one measures at a time. Drop it before you \
                 make the next."));
        }
        let session = &self.engine.session;
        summary.notes.extend(session.misread.notes());
        summary.advice.extend(session.advice(&summary.ranges));
        if is_window {
            return summary; // one without a range is nothing special
        }
        let is_empty = summary.ranges.iter().all(|row| row.times.instances == 0);
        if is_empty {
            summary.empty_because = Some(explain::why_empty(session, &summary));
        }
        // The text above has it for spans.
        if !is_empty || session.front_end.stage() == Stage::NotMade {
            summary.notes.extend(explain::not_measured(session));
        }
        summary
    }
}

/// Whether single ranges are recorded: for a timeline or a fold.
fn has_stream(config: &Config) -> bool {
    outputs::has_timeline(config) || !config.folds.is_empty() || config.watch.is_some() || config.needs_stream()
}

/// Whether only reports of GPU time ask for the stream. Such reports need no values of ranges, and nothing before the
/// first use of the GPU. A process that never uses the GPU gets no thread for them.
fn begins_with_gpu(config: &Config) -> bool {
    has_stream(config) && !outputs::has_timeline(config) && config.folds.is_empty() && config.watch.is_none()
}

/// Whether ranges have numbers of their calls. Those of a program that the command measures need none: they nest on
/// their threads.
fn needs_calls(config: &Config) -> bool {
    has_stream(config) && (!begins_with_gpu(config) || config.asks_who_held() && !config.gpu_when_injected)
}

/// The folds that the reports need, and the one that passes every item to a watching test.
fn folds(config: &Config) -> Vec<Box<dyn Fold>> {
    let watch = config.watch.map(|watch| Box::new(watch) as Box<dyn Fold>);
    let all = config.folds.iter().map(|new| new()).chain(watch);
    #[cfg(feature = "cuda")]
    let all = all.chain(gpu_folds::of(config));
    all.in_vec()
}

/// Prints one line for each error on standard error, for places that cannot return an error. The signal of a failed
/// write (such as SIGPIPE) does not reach the program.
#[doc(hidden)]
pub fn complain(lines: &str) {
    let text: String = lines.lines().map(|line| format!("tracing-gpu: {}\n", escaped(line))).collect();
    if !text.is_empty() {
        let write = || io::Write::write_all(&mut io::stderr(), text.as_bytes());
        let _nowhere_left_to_say_it = process::without_write_signals(write);
    }
}

/// Finishes the profilers before a signal ends the process.
fn watch_signals() {
    #[cfg(all(unix, feature = "signals"))]
    if let Err(error) = crate::signals::finish_on_signal(finish_all) {
        complain(&format!("SIGINT and SIGTERM print no report: cannot start the thread for it: {error}"));
    }
}
