//! The handle that a program holds while it is measured, and what belongs to it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use once_cell::sync::OnceCell;
use parking_lot::Mutex;
use range_model::{Note, Process, Summary};

use super::periodic::Periodic;
use super::phase::EndingPhase;
#[cfg(feature = "otlp")]
use super::pusher::Pusher;
use crate::clock::Ticks;
use crate::config::Config;
use crate::core::drain::Cursor;
use crate::core::thread::engine::Engine;
use crate::core::tier::layer::GpuLayer;
use crate::core::tier::subscriber::GpuSubscriber;
use crate::outputs;
#[cfg(feature = "injection")]
use crate::parts::foreign::tier::tool::NvtxTool;
use crate::parts::launches::collector::Collector;
use crate::parts::off_cpu::sampler::Sampler;
#[cfg(feature = "injection")]
use crate::parts::openacc::runtime::OpenAcc;
use crate::parts::timeline::recorder::Recorder;

/// The profiler that NVTX belongs to, by id; 0 for none. Taken (`AcqRel`) at `build`, given back at `finish`.
pub(super) static NVTX_OWNER: AtomicU64 = AtomicU64::new(0);

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
    pub(super) inner: &'static Inner,
}

/// Lives as long as the process: a callback may be running on any thread at any time.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) engine: Engine,
    pub(super) config: Config,
    pub(super) process: u32,
    pub(super) identity: Process,
    /// The files that no other profiler writes until this one ends.
    pub(super) claim: outputs::Claim,
    /// Errors that were reported at the start, and are not reported again.
    pub(super) reported: OnceCell<Vec<String>>,
    pub(super) extra_tiers: AtomicU64,
    pub(super) nvtx_taken: bool,
    /// Why foreign ranges were asked for but are not measured.
    pub(super) foreign_missing: OnceCell<Note>,
    /// Collects the GPU's work, or holds the reason why it cannot; empty if nobody asked for it.
    pub(super) collector: OnceCell<Result<&'static Collector, String>>,
    /// Collects the operations that the program times itself, if `collector` collects nothing.
    #[cfg(feature = "cuda")]
    pub(super) timed: OnceCell<&'static Collector>,
    /// Locked while `collector` or `timed` starts, so that each starts once.
    #[cfg(feature = "cuda")]
    pub(super) starting: Mutex<()>,
    /// Looks at threads inside of spans, where that is wanted.
    pub(super) sampler: OnceCell<&'static Sampler>,
    /// Writes timelines, where any is wanted.
    pub(super) recorder: OnceCell<&'static Recorder>,
    pub(super) last: OnceCell<Summary>,
    /// When the measurement ended.
    pub(super) ended: OnceCell<Ticks>,
    /// The cursor of [`Profiler::window`].
    pub(super) cursor: Mutex<Cursor>,
    /// Writes windows at regular intervals, where the settings ask for it.
    pub(super) periodic: OnceCell<Periodic>,
    /// Pushes metrics, where the settings ask for it.
    #[cfg(feature = "otlp")]
    pub(super) pusher: OnceCell<Pusher>,
    pub(super) ending: EndingPhase,
}

impl Profiler {
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
    ///   become values of the range in timelines. See [`whole_names`](crate::ProfilerBuilder::whole_names).
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

    pub(super) fn set_alone(&self) {
        self.inner.engine.session.front_end.set_alone();
    }

    fn take_tier(&self) -> &'static Engine {
        if !self.inner.engine.session.front_end.take() {
            self.inner.extra_tiers.fetch_add(1, Relaxed);
            return Engine::inert();
        }
        &self.inner.engine
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

impl Inner {
    /// The collector of the GPU's work, if there is one.
    pub(super) fn collector(&self) -> Option<&'static Collector> {
        let collector = self.collector.get().and_then(|started| started.as_ref().ok().copied());
        #[cfg(feature = "cuda")]
        return collector.or_else(|| self.timed.get().copied());
        #[cfg(not(feature = "cuda"))]
        collector
    }
}
