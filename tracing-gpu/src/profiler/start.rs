//! The start of a profiler: its session, recorder, collector and threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use range_model::Fold;
use range_model::stats::Lean;
use range_model::timeline::Details;

use super::complaint::complain;
use super::ending::{finish_all, watch_signals};
#[cfg(feature = "cuda")]
use super::gpu_folds;
use super::handle::{Inner, NVTX_OWNER, Profiler};
use super::identity;
use super::phase::EndingPhase;
use crate::config::{Config, Gpu};
use crate::core::session::SessionOptions;
use crate::core::session::catalog::Limits;
use crate::core::thread::engine::{self, Engine};
use crate::parts::launches::collector::Collector;
use crate::parts::off_cpu::sampler::Sampler;
use crate::parts::row_file::file::RowFile;
use crate::parts::session::PartOptions;
use crate::parts::streams::device as stream;
use crate::parts::timeline::recorder::Recorder;
use crate::parts::timeline::session::TapeRoom;
use crate::{outputs, process};

/// Distinct tree nodes and run-time names of a process.
const LIMITS: Limits = Limits { nodes: 65_536, run_time_names: 65_536 };

impl Profiler {
    /// Records kernels, copies and API calls from now on, where the settings ask for them. The first call counts; a
    /// profiler that was built without [`gpu_when_injected`](crate::ProfilerBuilder::gpu_when_injected) began in
    /// `build`.
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
}

/// Registers the handler by which a forked child knows that it is one. Call it before taking a lock that a fork waits
/// for: older C libraries block the registration during a fork.
#[doc(hidden)]
pub fn watch_forks() {
    process::watch_forks(engine::forget_thread);
}

impl Inner {
    pub(super) fn start(mut config: Config) -> &'static Self {
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
            domain: config.domain.clone(),
            parents: config.parents,
            filter: config.filter.clone(),
            fields: config.fields.clone(),
            sample_budget: config.sample_budget,
            limits: LIMITS,
            parts: PartOptions {
                on_cpu: config.on_cpu,
                gpu: config.gpu != Gpu::Off,
                whole_names: config.whole_names,
                tape_room: (config.enabled && has_stream(&config))
                    .then(|| TapeRoom::new(config.timeline_memory, !begins_with_gpu(&config), needs_calls(&config))),
                // If the process is killed, only this snapshot is left.
                row_file: config
                    .row_file
                    .as_ref()
                    .and_then(|(path, missed)| RowFile::create(path, *missed).ok())
                    .map(Arc::new),
            },
        });
        // Where the times of its files begin.
        identity.started_unix_ns = identity::unix_ns(engine.session.clock.origin_monotonic_ns());
        engine.session.log_process(&identity);
        if nvtx {
            NVTX_OWNER.store(engine.session.id, Release);
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
            ending: EndingPhase::default(),
            config,
        }));
        if inner.config.enabled {
            #[cfg(feature = "foreign")]
            inner.start_foreign_ranges();
            process::set_exit_hook(finish_all);
            stream::on_scope_change(engine::choose_again);
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
            range_model::Note::ForeignRangesToTool
        } else if !crate::parts::foreign::tier::linked::measure(&self.engine) {
            range_model::Note::ForeignRangesTaken
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
    pub(super) fn begin_with_gpu(&'static self) {
        if begins_with_gpu(&self.config) {
            if self.recorder.get().is_none() {
                self.start_recorder();
            }
            self.set_recording(true);
        }
    }

    /// Nothing of the GPU will be recorded, unless the program hands over work that it timed itself.
    pub(super) fn end_without_gpu(&self) {
        if begins_with_gpu(&self.config) {
            self.set_recording(false);
        }
    }

    fn set_recording(&self, is_on: bool) {
        if let Some(room) = &self.engine.session.parts.tape_room {
            room.set_open(is_on);
        }
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
