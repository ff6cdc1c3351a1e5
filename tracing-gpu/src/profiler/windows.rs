//! Windows: summaries of what came since a cursor's last one, and the thread that writes one at regular intervals.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use range_model::Summary;

use super::complaint::complain;
use super::handle::{Inner, Profiler};
use super::periodic::Periodic;
use crate::core::drain::{Cursor, End};
use crate::outputs;
use crate::process::{spawn, without_signals};

/// Reads a profiler window by window. Each of these has its own place, and does not disturb the others.
///
/// ```
/// use tracing_gpu::{Output, Profiler};
///
/// let profiler = Profiler::builder().output(Output::None).build()?;
/// let (often, seldom) = (profiler.windows(), profiler.windows());
/// tracing::subscriber::with_default(profiler.subscriber(), || {
///     for _ in 0..3 {
///         tracing::info_span!("step").in_scope(|| ());
///         assert_eq!(often.next().ranges[0].times.instances, 1);
///     }
///     assert_eq!(seldom.next().ranges[0].times.instances, 3);
///     assert!(seldom.next().ranges.is_empty());
/// });
/// # Ok::<(), tracing_gpu::ConfigError>(())
/// ```
///
/// - An instance, a call, and a GPU operation count in the window in which they end, with all of their time; a
///   reading of a stream in the window in which it is read. The windows of a cursor add up to the summary: each
///   instance is in exactly one.
/// - The first window begins with the measurement, or with the last [`Profiler::reset`]: a reset drops what no window
///   has read yet. After the finish, the next window has the rest, and further ones are empty.
/// - The shortest and the longest duration, the median and other quantiles are those of the window: exact while every
///   duration is kept, as in a [`Summary`], or where a duration is more extreme than all before.
/// - Not in windows: what is concluded from the whole run (idle causes, interference, kernels from launch to end, and
///   who ended waits as inferred from many); the time outside of spans.
/// - A window does not wait for the GPU, nor for measured threads. They do not wait for it either, except that a
///   thread which meets a new name waits while the names are copied.
/// - A cursor takes memory for each row of the summary, not for each window.
#[derive(Debug)]
pub struct Windows {
    inner: &'static Inner,
    cursor: Mutex<Cursor>,
}

impl Windows {
    /// What was measured since the last call, and how long ago that was. Calls of several threads exclude each other.
    #[must_use]
    pub fn next(&self) -> Summary {
        self.inner.window(&self.cursor, None)
    }
}

impl Profiler {
    /// A cursor of its own, whose first window begins with the measurement.
    #[must_use]
    pub fn windows(&self) -> Windows {
        Windows { inner: self.inner, cursor: Mutex::default() }
    }

    /// The next window of a cursor that belongs to the profiler: what was measured since the last call. Where several
    /// parts of a program ask, each needs its own [`windows`](Self::windows).
    #[must_use]
    pub fn window(&self) -> Summary {
        self.inner.window(&self.inner.cursor, None)
    }
}

impl Inner {
    /// The next window of a cursor.
    pub(super) fn window(&'static self, cursor: &Mutex<Cursor>, end: Option<&End>) -> Summary {
        if self.engine.session.is_of_parent() {
            return Self::of_parent();
        }
        let after = self.ended.get().map(|at| End { cut: None, at: *at, patience: Some(Duration::ZERO) });
        self.summarise(end.or(after.as_ref()), Some(&mut cursor.lock()))
    }

    /// Starts the thread that writes windows, if the settings ask for it.
    pub(super) fn start_periodic(&'static self) {
        let Some(every) = self.config.every.filter(|_| outputs::has_windows(&self.config)) else { return };
        let periodic = self.periodic.get_or_init(Periodic::default);
        match without_signals(|| spawn("tracing-windows", Box::new(move || self.write_every(every, periodic)))) {
            Ok(thread) => *periodic.thread.lock() = Some(thread),
            Err(error) => complain(&format!("cannot start the thread that writes windows: {error}")),
        }
    }

    fn write_every(&'static self, every: Duration, periodic: &Periodic) {
        let mut next = Instant::now() + every;
        while !periodic.stop.load(Relaxed) {
            let now = Instant::now();
            if now < next {
                std::thread::park_timeout(next - now);
                continue;
            }
            self.write_window(periodic, None);
            next += every;
            if next < Instant::now() {
                next = Instant::now() + every; // the process was stopped for longer
            }
        }
    }

    fn write_window(&'static self, periodic: &Periodic, end: Option<&End>) {
        let summary = self.window(&periodic.cursor, end);
        if let Some(recorder) = self.recorder.get() {
            recorder.window(&summary);
        }
        let errors = outputs::write_window(&self.config, &summary);
        let complaint = errors.iter().map(|error| format!("{error}\n")).collect::<String>();
        let last = &mut *periodic.complaint.lock();
        if *last != complaint {
            complain(&complaint);
            *last = complaint;
        }
    }

    /// Writes the last window, once its thread has stopped.
    pub(super) fn write_last_window(&'static self, end: &End) {
        if let Some(periodic) = self.periodic.get() {
            self.write_window(periodic, Some(end));
        }
    }
}
