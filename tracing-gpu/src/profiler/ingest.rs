//! GPU work that the program has timed itself.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use gpu_activity::cupti::now;
use gpu_activity::timed::Queue;

use super::complaint::complain;
use super::handle::{Inner, Profiler};
use crate::config::Gpu;
use crate::parts::launches::collector::Collector;

/// One moment on both clocks, that of a GPU and that of the CPU.
#[derive(Clone, Copy, Debug)]
pub struct ClockPair {
    /// The reading of the GPU's clock, in nanoseconds. It may count from any moment.
    pub gpu_ns: u64,
    /// The same moment on the CPU.
    pub cpu: Instant,
}

impl ClockPair {
    /// A pair of this GPU reading and the present moment.
    #[must_use]
    pub fn now(gpu_ns: u64) -> Self {
        Self { gpu_ns, cpu: Instant::now() }
    }

    /// The offset from the GPU's clock to the monotonic clock, in nanoseconds. Always the same for the same pair.
    fn offset(self) -> i64 {
        static ANCHOR: OnceLock<(Instant, u64)> = OnceLock::new();
        let &(anchor, anchor_ns) = ANCHOR.get_or_init(|| (Instant::now(), now()));
        let ns = |passed: Duration| u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX);
        let cpu_ns = match self.cpu.checked_duration_since(anchor) {
            Some(after) => anchor_ns.saturating_add(ns(after)),
            None => anchor_ns.saturating_sub(ns(anchor.saturating_duration_since(self.cpu))),
        };
        cpu_ns.wrapping_sub(self.gpu_ns).cast_signed()
    }
}

/// A queue of a GPU whose operations the program times itself, from [`Profiler::ingest`]. Any thread.
#[derive(Debug)]
pub struct TimedQueue {
    /// `None` if nothing is measured.
    collector: Option<&'static Collector>,
    queue: Queue,
    offset: AtomicI64,
}

/// The place of a submission: the span that was entered on the thread at that moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Submission(u32);

impl Profiler {
    /// A queue of a GPU whose operations the program times itself, with the queries of another API: timestamps of wgpu,
    /// Vulkan or Metal, events of HIP. Its operations count as GPU work of the spans that submit them, like CUDA
    /// kernels: in the tree, in tables, in timelines. `device` is the name of the GPU; queues of one device have the
    /// same name.
    ///
    /// If the profiler measures nothing, or with [`Gpu::Off`](crate::Gpu::Off), operations are ignored. Do not hand
    /// over work that CUPTI records, too. If CUPTI begins later, in
    /// [`collect_in_injection`](Self::collect_in_injection), call this after it: otherwise CUPTI records nothing, and
    /// the report has a note.
    ///
    /// ```
    /// use tracing_gpu::{ClockPair, Output, Profiler};
    /// use tracing_subscriber::prelude::*;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let profiler = Profiler::builder().output(Output::None).build()?;
    /// let _subscriber = tracing_subscriber::registry().with(profiler.layer()).set_default();
    /// let queue = profiler.ingest("Radeon 780M", ClockPair::now(5_000_000));
    ///
    /// let submission = tracing::info_span!("blur").in_scope(|| queue.submit());
    /// // Later, when the timestamps have been read back: in nanoseconds of the GPU's clock.
    /// queue.ran(submission, "horizontal", 5_100_000, 5_400_000);
    /// queue.ran(submission, "vertical", 5_400_000, 5_900_000);
    ///
    /// let summary = profiler.summary();
    /// let blur = summary.tree[0].gpu.as_ref().expect("GPU work");
    /// assert_eq!((blur.own.operations, blur.own.busy_ns), (2, 800_000));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn ingest(&self, device: &str, clocks: ClockPair) -> TimedQueue {
        let inert = TimedQueue { collector: None, queue: Queue::default(), offset: AtomicI64::new(0) };
        let Some(collector) = self.inner.collector_for_timed() else { return inert };
        let queue = collector.timed().queue(device);
        TimedQueue { collector: Some(collector), queue, offset: AtomicI64::new(clocks.offset()) }
    }
}

impl TimedQueue {
    /// Records that the calling thread submits work, in the span that is entered on it. One submission may have any
    /// number of operations.
    #[must_use]
    pub fn submit(&self) -> Submission {
        Submission(self.collector().map_or(0, Collector::launch))
    }

    /// Adds an operation of this submission, with its name (for example of a pass), its begin and its end, in
    /// nanoseconds of the GPU's clock. An operation that ends before it begins counts as one without a time.
    ///
    /// Hand operations over within some seconds, and all of one submission together: the profiler remembers a
    /// submission until its operations have arrived, as far as `gpu_memory` allows.
    pub fn ran(&self, submission: Submission, name: &str, begin_ns: u64, end_ns: u64) {
        let Some(collector) = self.collector() else { return };
        let offset = self.offset.load(Relaxed);
        let [start, end] = [begin_ns, end_ns].map(|ns| ns.wrapping_add_signed(offset));
        collector.timed().ran(self.queue, submission.0, name, start, end);
    }

    fn collector(&self) -> Option<&'static Collector> {
        self.collector.filter(|collector| !collector.has_ended())
    }

    /// Updates both clocks, for operations that are handed over from now on. The clocks of GPUs drift by some
    /// microseconds a second.
    pub fn set_clocks(&self, clocks: ClockPair) {
        self.offset.store(clocks.offset(), Relaxed);
    }
}

impl Inner {
    /// The collector for operations that the program times: CUPTI's, if it runs.
    fn collector_for_timed(&'static self) -> Option<&'static Collector> {
        if !self.config.enabled || !self.config.statistics || self.config.gpu == Gpu::Off {
            return None;
        }
        if self.engine.session.is_of_parent() || self.ending.has_begun() {
            return None;
        }
        let _alone = self.starting.lock();
        if let Some(collector) = self.collector() {
            return Some(collector);
        }
        let start = || {
            self.begin_with_gpu();
            let collector =
                Collector::start_alone(&self.engine, self.config.gpu_memory).inspect_err(|_| self.end_without_gpu())?;
            if let Some(recorder) = self.recorder.get() {
                collector.record_to(&recorder.gpu);
            }
            Ok::<_, String>(collector)
        };
        let collector = *self.timed.get_or_try_init(start).inspect_err(|error| complain(error)).ok()?;
        if self.ending.has_begun() {
            collector.finish(true); // the end may have missed it
        }
        Some(collector)
    }
}

#[cfg(test)]
mod tests {
    use range_model::Note;

    use super::*;
    use crate::Output;
    use crate::profiler::ProfilerBuilder;

    fn builder() -> ProfilerBuilder {
        Profiler::builder().output(Output::None).nvtx(false)
    }

    /// It would start a thread that collects for ever, and make threads write notes that nobody reads.
    #[test]
    fn after_the_end_nothing_starts() {
        let profiler = builder().build().unwrap();
        profiler.end(true);
        let queue = profiler.ingest("Radeon", ClockPair::now(5));
        queue.ran(queue.submit(), "late", 5, 6);
        assert!(profiler.inner.timed.get().is_none());
    }

    /// Only one collector may take the threads' notes.
    #[test]
    fn cupti_does_not_begin_beside_a_collector_that_has_begun() {
        let profiler = builder().gpu(Gpu::Cupti).gpu_when_injected(true).build().unwrap();
        let queue = profiler.ingest("Radeon", ClockPair::now(5));
        profiler.collect_in_injection();
        queue.ran(queue.submit(), "pass", 5, 25);
        let summary = profiler.summary();
        assert_eq!(summary.gpu.as_ref().map(|gpu| gpu.kernels.len()), Some(1));
        let is_refused =
            |note: &Note| matches!(note, Note::CuptiUnavailable { reason } if reason.contains("before CUDA"));
        assert!(summary.notes.iter().any(is_refused), "{:?}", summary.notes);
    }
}
