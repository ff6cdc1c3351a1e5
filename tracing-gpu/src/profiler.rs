//! The handle: what a program holds while it is measured.

mod builder;
mod print;

use std::io;
use std::time::{Duration, Instant};

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use once_cell::sync::OnceCell;
use parking_lot::{Condvar, Mutex};

use crate::collect::catalog::Limits;
use crate::collect::core::{Core, CoreOptions};
use crate::collect::threads;
pub use builder::ProfilerBuilder;

use crate::collector::Collector;
use crate::config::{Config, Gpu};
use crate::drain::{self, Cut, End};
use crate::files;
use crate::identity;
use crate::layer::GpuLayer;
use crate::outputs;
use crate::process;
use crate::recorder::Recorder;
use crate::stream;
use crate::subscriber::GpuSubscriber;
use crate::summary::{Process, Summary};

/// Distinct tree nodes and run-time names of a process.
const LIMITS: Limits = Limits { nodes: 65_536, run_time_names: 65_536 };

/// The profiler that NVTX belongs to, by id; 0 for none. Taken (`AcqRel`) at `build`, given back at `finish`.
static NVTX_OWNER: AtomicU64 = AtomicU64::new(0);

/// All profilers that have not finished, for the exit hook.
static LIVE: Mutex<Vec<&'static Inner>> = Mutex::new(Vec::new());

/// The process that the last of these was started in; its copy in a forked child says so there too. Stored before the list is locked.
static LIVE_IN: AtomicU32 = AtomicU32::new(0);

/// Measures spans until it is finished or dropped, and then prints its reports.
///
/// Give its [`layer`](Self::layer) to a `tracing_subscriber::registry()`, or its [`subscriber`](Self::subscriber) to `tracing` where
/// nothing else listens. The handle may be sent and shared between threads.
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
    core: Core,
    config: Config,
    process: u32,
    identity: Process,
    /// The files that no other profiler writes until this one ends.
    outputs: outputs::Files,
    /// Errors that were told at the start: once is enough.
    told: OnceCell<Vec<String>>,
    has_tier: AtomicBool,
    extra_tiers: AtomicU64,
    nvtx_taken: bool,
    /// Collects the GPU's work, or says why not; empty where nobody asked for it.
    collector: OnceCell<Result<&'static Collector, String>>,
    /// Writes timelines, where any is wanted.
    recorder: OnceCell<&'static Recorder>,
    last: OnceCell<Summary>,
    phase: Mutex<Phase>,
    done: Condvar,
}

/// How far the end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// A thread, by its number, is at it.
    Finishing(u64),
    Done,
}

/// A finish waits no longer than this for another thread's.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How long the end of the process waits for the GPU in all.
const LAST_PATIENCE: Duration = Duration::from_millis(1_500);

impl Profiler {
    /// Starts from the defaults: NVTX on, default domain, spans from INFO up, reports [`Ranges`](crate::Report::Ranges) and
    /// [`Tree`](crate::Report::Tree) to standard error.
    pub fn builder() -> ProfilerBuilder {
        ProfilerBuilder::default()
    }

    /// A layer for a `tracing_subscriber::registry()`, beside any others. A profiler measures through one layer or subscriber: a
    /// second one counts nothing, and the report says so.
    pub fn layer(&self) -> GpuLayer {
        GpuLayer::new(self.take_tier())
    }

    /// A subscriber without a registry: the fastest, for programs that only profile. Events become NVTX marks and are not printed.
    #[must_use]
    pub fn subscriber(&self) -> GpuSubscriber {
        GpuSubscriber::new(self.take_tier())
    }

    /// Whether it measures: false after `TRACING_GPU=off`.
    pub(crate) fn is_enabled(&self) -> bool {
        self.inner.config.enabled
    }

    /// Ends it without a report.
    pub(crate) fn cancel(self) {
        self.inner.abandon();
    }

    fn take_tier(&self) -> &'static Core {
        if self.inner.has_tier.swap(true, Relaxed) {
            self.inner.extra_tiers.fetch_add(1, Relaxed);
            return Core::inert();
        }
        &self.inner.core
    }

    /// What was measured so far in the current window. Does not stop the measured threads, and does not reset. After the finish: the
    /// final figures.
    ///
    /// In the first 2 ms of a profiler's life this waits for the rest of them, to calibrate its clock.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.inner.last.get().cloned().unwrap_or_else(|| self.inner.summarise(None))
    }

    /// Begins a new window, after a warm-up for example: what was counted is forgotten. Ranges that are open count from now on.
    pub fn reset(&self) {
        self.inner.core.restart();
        if let Some(collector) = self.inner.collector() {
            collector.restart();
        }
    }

    /// Ends the measurement and prints the reports. Ranges open on this thread are ended and counted, marked as cut; those open on
    /// other threads are named in the footer. From then on spans cost next to nothing.
    ///
    /// Dropping the profiler does the same, with a line on standard error for each error that the start has not told.
    ///
    /// # Errors
    ///
    /// When the report cannot be written to its file; it is then printed to standard error. When another file cannot be written: the report is printed all the
    /// same. Each has a line that names the file. A standard output or error that nobody reads any more is no error.
    pub fn finish(self) -> io::Result<()> {
        files::together(self.inner.finish(true))
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        self.inner.finish_and_tell(true);
    }
}

impl Inner {
    fn start(mut config: Config) -> &'static Self {
        let identity = identity::read();
        let (outputs, complaints) =
            if config.enabled { outputs::take(&mut config, &identity) } else { Default::default() };
        complaints.iter().for_each(|complaint| complain(complaint));
        let mut told = Vec::new();
        if config.enabled {
            told.extend(outputs::unwritable(&config, &identity).iter().map(io::Error::to_string));
            told.iter().for_each(|error| complain(&format!("{error}; it is tried again at the end")));
        }
        let (mut nvtx, mut nvtx_taken) = (config.nvtx && config.enabled, false);
        if nvtx && NVTX_OWNER.compare_exchange(0, u64::MAX, AcqRel, Acquire).is_err() {
            (nvtx, nvtx_taken) = (false, true);
        }
        let core = Core::new(CoreOptions {
            active: config.enabled,
            nvtx,
            statistics: config.statistics,
            gpu: config.gpu != Gpu::Off,
            domain: config.domain.clone(),
            filter: config.filter.clone(),
            sample_budget: config.sample_budget,
            tape_bytes: (config.enabled && config.files.timelines.any()).then_some(config.timeline_memory),
            limits: LIMITS,
        });
        if nvtx {
            NVTX_OWNER.store(core.id, std::sync::atomic::Ordering::Release);
        }
        let inner: &'static Self = Box::leak(Box::new(Self {
            core,
            process: std::process::id(),
            identity,
            outputs,
            told: OnceCell::new(),
            has_tier: AtomicBool::new(false),
            extra_tiers: AtomicU64::new(0),
            nvtx_taken,
            collector: OnceCell::new(),
            recorder: OnceCell::new(),
            last: OnceCell::new(),
            phase: Mutex::new(Phase::Running),
            done: Condvar::new(),
            config,
        }));
        if inner.config.enabled {
            process::set_exit_hook(finish_all);
            stream::on_scope_change(threads::look_again);
            LIVE_IN.store(inner.process, Relaxed);
            LIVE.lock().push(inner);
            told.extend(inner.start_recorder());
            let _once = inner.told.set(told);
            inner.start_collector();
            process::at_exit();
            #[cfg(feature = "signals")]
            if inner.config.on_signal {
                if let Err(error) = crate::signals::finish_on_signal() {
                    complain(&format!("cannot watch for signals: {error}"));
                }
            }
        }
        inner
    }

    /// Starts recording kernels, copies and API calls, where the settings ask for it.
    fn start_collector(&'static self) {
        if self.config.wants_activity() && self.config.statistics {
            let collector = Collector::start(&self.core, self.config.wants_calls(), self.config.gpu_memory);
            if let (Ok(collector), Some(recorder)) = (&collector, self.recorder.get()) {
                collector.record_to(recorder, self.core.clock.origin_monotonic_ns());
            }
            let _once = self.collector.set(collector);
        }
    }

    /// Starts writing timelines, where the settings ask for any. Tells what is in the way, and returns it.
    fn start_recorder(&'static self) -> Vec<String> {
        let (paths, memory) = (&self.config.files.timelines, self.config.timeline_memory);
        if !paths.any() {
            return Vec::new();
        }
        let (recorder, errors) = Recorder::start(&self.core, &self.identity, paths, memory);
        let _once = self.recorder.set(recorder);
        errors.iter().for_each(|error| complain(error));
        errors
    }

    /// What collects the GPU's work, if anything does.
    fn collector(&self) -> Option<&'static Collector> {
        self.collector.get()?.as_ref().ok().copied()
    }

    fn summarise(&'static self, end: Option<&End>) -> Summary {
        let mut summary = drain::summarise(&self.core, self.collector(), end);
        match self.collector.get() {
            Some(Ok(collector)) => summary.notes.push(collector.describe()),
            Some(Err(reason)) => summary.notes.push(format!("CUPTI recorded no GPU activity: {reason}.")),
            None => {}
        }
        if self.config.gpu == Gpu::Events && summary.stream_ranges.is_empty() && summary.notes.is_empty() {
            summary
                .notes
                .push("GPU timing: no span was entered under a named stream (`with_stream`, `gpu.stream`).".to_owned());
        }
        summary.process = self.identity.clone();
        if self.nvtx_taken {
            summary
                .notes
                .push("NVTX belongs to another profiler of this process: no ranges were sent to a tool.".to_owned());
        }
        let lost = self.recorder.get().map_or(0, |recorder| recorder.lost());
        if lost > 0 {
            summary.notes.push(format!("{lost} ranges, events and GPU operations are missing in the timeline, or lack values or a part: there was no room until they could be written."));
        }
        let extra = self.extra_tiers.load(Relaxed);
        if extra > 0 {
            let s = if extra == 1 { "" } else { "s" };
            summary.notes.push(format!("{extra} further layer{s} or subscriber{s} of this profiler measured nothing."));
        }
        summary.notes.extend(self.core.misread.notes());
        summary
    }

    /// Stops measuring and takes it off the exit hook's list, so that nothing is printed.
    fn abandon(&'static self) {
        self.core.close();
        if let Some(collector) = self.collector() {
            collector.finish(false);
        }
        if let Some(recorder) = self.recorder.get() {
            recorder.abandon(); // before another profiler may have its files
        }
        self.end();
    }

    /// Gives up what a live profiler has, and wakes whoever waits for the end.
    fn end(&'static self) {
        LIVE.lock().retain(|live| live.core.id != self.core.id);
        self.outputs.give_back();
        let _not_ours = NVTX_OWNER.compare_exchange(self.core.id, 0, AcqRel, Acquire);
        *self.phase.lock() = Phase::Done;
        self.done.notify_all();
    }

    /// Whether it falls to this thread to finish. Where another one is at it, this waits until it has printed: the process may be about
    /// to end here, with the report half written there.
    fn begins_to_finish(&self) -> bool {
        let mut phase = self.phase.lock();
        match *phase {
            Phase::Running => {
                *phase = Phase::Finishing(threads::number());
                return true;
            }
            Phase::Finishing(thread) if thread != threads::number() => {
                self.done.wait_while_for(&mut phase, |phase| *phase != Phase::Done, LONGEST_WAIT);
            }
            Phase::Finishing(_) | Phase::Done => {}
        }
        false
    }

    /// Ends the measurement once; later calls do nothing. `orderly` where the program is alive and may wait for the GPU; not in an exit hook. What could not be written.
    fn finish(&'static self, orderly: bool) -> Vec<io::Error> {
        // After a fork the child has no part in what was measured: it prints nothing.
        if std::process::id() != self.process || !self.begins_to_finish() {
            return Vec::new();
        }
        let errors = if self.core.close() { self.finish_now(orderly) } else { Vec::new() };
        self.end();
        errors
    }

    /// The same, where no error can be returned: those that the start has not told are told.
    fn finish_and_tell(&'static self, orderly: bool) {
        let told = self.told.get().map_or(&[][..], Vec::as_slice);
        let errors = self.finish(orderly).into_iter().map(|error| error.to_string());
        let news: Vec<String> = errors.filter(|error| !told.contains(error)).collect();
        complain(&news.join("\n"));
    }

    fn finish_now(&'static self, orderly: bool) -> Vec<io::Error> {
        let began = Instant::now();
        let patience = || (!orderly).then(|| LAST_PATIENCE.saturating_sub(began.elapsed()));
        let cut = self.core.own_shard().map(|shard| Cut {
            labels: shard.unwind().into_iter().filter_map(|place| Some(shard.identity(place)?.key.label)).collect(),
            thread: shard.thread.lock().clone(),
        });
        if let Some(collector) = self.collector() {
            collector.finish(orderly);
        }
        if self.core.gpu {
            stream::read_all(patience());
        }
        let at = self.core.clock.now();
        let written = self.recorder.get().and_then(|recorder| {
            recorder.write(); // so that the summary knows what was lost, and what was written
            recorder.take_durations()
        });
        let summary = self.summarise(Some(&End { cut, at, written, patience: patience() }));
        let mut errors: Vec<io::Error> = self.print(&summary).err().into_iter().collect();
        errors.extend(self.config.files.write(&summary));
        if let Some(recorder) = self.recorder.get() {
            errors.extend(recorder.finish(&summary));
        }
        let _first = self.last.set(summary);
        errors
    }
}

/// Finishes every profiler that has not finished. For exits that drop no guard.
pub(crate) extern "C" fn finish_all() {
    // In a forked child nothing is to be printed, and a thread that is not there may have held the lock: unless a profiler was started there, it is let be.
    if LIVE_IN.load(Relaxed) != std::process::id() {
        return;
    }
    let Some(live) = LIVE.try_lock_for(LONGEST_WAIT).map(|live| live.clone()) else { return };
    for inner in live {
        inner.finish_and_tell(false);
    }
}

/// On standard error, from a place that can return no error: one line, or one for each of several errors.
pub(crate) fn complain(lines: &str) {
    let text: String = lines.lines().map(|line| format!("tracing-gpu: {line}\n")).collect();
    let _nowhere_left_to_say_it = io::Write::write_all(&mut io::stderr(), text.as_bytes());
}
