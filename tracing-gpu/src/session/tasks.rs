//! Tasks of tokio, where it is built to tell of them (`--cfg tokio_unstable` and its feature `tracing`): who has woken
//! each, as [`follow`](crate::follow) knows it of one future.
//!
//! tokio enters a span `runtime.spawn` around each poll of a task, and emits an event with the id of that span when a
//! waker of the task is called. These and its spans of resources are in no table and no timeline.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tracing_core::field::{Field, Visit};
use tracing_core::{Event, Metadata};

use super::owed::Owed;
use crate::clock::Moment;

const TASK: &str = "tokio::task";
const WAKER: &str = "tokio::task::waker";
const PARTS: usize = 16;
/// Tasks of one part. Of more, nobody knows who wakes them.
const MOST: usize = 1 << 14;

/// Whether this is a span or an event of tokio about itself.
pub(crate) fn is_of_runtime(metadata: &Metadata<'_>) -> bool {
    let (name, target) = (metadata.name(), metadata.target());
    name.starts_with("runtime.") && target.starts_with("tokio::")
        || target == WAKER
        || target.starts_with("runtime::resource")
}

/// Whether this is the span around a task. One around a blocking function is not polled again.
pub(crate) fn is_task(metadata: &Metadata<'_>) -> bool {
    metadata.target() == TASK && metadata.name() == "runtime.spawn"
}

/// By the id of its span.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    parts: [Mutex<FxHashMap<u64, Task>>; PARTS],
    /// A program without such spans asks no more than this.
    any: AtomicBool,
}

#[derive(Debug)]
struct Task {
    was_polled: bool,
    /// The first wake since the last poll began, and to whom the wait until then is owed.
    woken: Option<(Moment, Owed)>,
}

/// What is known of a poll that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// It is the first one.
    New,
    Woken(Moment, Owed),
    /// The span is entered for the drop of the task, or again without a wake.
    NotWoken,
}

impl Tasks {
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    fn part(&self, span: u64) -> &Mutex<FxHashMap<u64, Task>> {
        // The registry puts the number of a thread into the upper bits.
        &self.parts[(span ^ span >> 38) as usize % PARTS]
    }

    pub(crate) fn add(&self, span: u64) {
        self.any.store(true, Relaxed);
        let mut tasks = self.part(span).lock();
        if tasks.len() < MOST {
            tasks.insert(span, Task { was_polled: false, woken: None });
        }
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn remove(&self, span: u64) {
        self.part(span).lock().remove(&span);
    }

    /// The span is entered. `None` if it is not that of a task.
    pub(crate) fn poll(&self, span: u64) -> Option<Polled> {
        let mut tasks = self.part(span).lock();
        let task = tasks.get_mut(&span)?;
        let was_polled = std::mem::replace(&mut task.was_polled, true);
        Some(match task.woken.take() {
            Some((at, by)) => Polled::Woken(at, by),
            None if was_polled => Polled::NotWoken,
            None => Polled::New,
        })
    }

    pub(crate) fn has(&self, span: u64) -> bool {
        self.any() && self.part(span).lock().contains_key(&span)
    }

    /// Whether an event is about wakers of tasks. If it is a wake, notes it: `wake` tells the moment, and to whom the
    /// wait until then is owed.
    #[cold]
    #[inline(never)]
    pub(crate) fn event(&self, event: &Event<'_>, wake: impl FnOnce() -> (Moment, Owed)) -> bool {
        if event.metadata().target() != WAKER {
            return false;
        }
        let mut waker = OfWaker::default();
        event.record(&mut waker);
        if let OfWaker { wakes: true, span: Some(span) } = waker {
            let mut tasks = self.part(span).lock();
            if let Some(task) = tasks.get_mut(&span).filter(|task| task.woken.is_none()) {
                task.woken = Some(wake());
            }
        }
        true
    }
}

/// The fields of such an event.
#[derive(Default)]
struct OfWaker {
    wakes: bool,
    span: Option<u64>,
}

impl Visit for OfWaker {
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        self.wakes |= field.name() == "op" && ["waker.wake", "waker.wake_by_ref"].contains(&value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "task.id" {
            self.span = Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::{Span, info_span, trace, trace_span};
    use tracing_subscriber::prelude::*;

    use crate::{Output, Profiler};

    /// The span around a task, and the event of a wake, with tokio's names and fields.
    fn task() -> Span {
        trace_span!(target: "tokio::task", parent: None, "runtime.spawn", kind = "task", task.id = 7_u64)
    }

    fn wake(task: &Span) {
        let id = task.id().unwrap().into_u64();
        trace!(target: "tokio::task::waker", op = "waker.wake", task.id = id);
    }

    #[test]
    fn who_wakes_a_task_ended_the_wait_of_the_first_call_in_it() {
        let profiler =
            Profiler::builder().nvtx(false).output(Output::None).filter("trace".parse().unwrap()).build().unwrap();
        let ended = tracing::subscriber::with_default(tracing_subscriber::registry().with(profiler.layer()), || {
            let (holder, waiter) = (task(), task());
            let request = waiter.in_scope(|| info_span!("request"));
            // As tokio's resources are: in no table.
            let resource = trace_span!(target: "tokio::sync::mutex", "runtime.resource", kind = "Sync");
            let poll = || waiter.in_scope(|| request.in_scope(|| resource.in_scope(|| ())));
            poll();
            let began = std::time::Instant::now();
            std::thread::sleep(std::time::Duration::from_millis(2)); // the time that is measured
            let waited = began.elapsed();
            poll(); // by a timeout, say: nobody woke it
            holder.in_scope(|| info_span!("compact").in_scope(|| (0..2).for_each(|_| wake(&waiter))));
            info_span!("another").in_scope(|| wake(&waiter)); // it is awake
            poll();
            waited
        });
        let summary = profiler.summary();
        let [row] = &summary.waits[..] else { panic!("{:?}", summary.waits) };
        assert_eq!((&*row.waiter, row.by.as_deref(), row.waits, row.of_waits), ("request", Some("compact"), 1, None));
        assert!(u128::from(row.time_ns) >= ended.as_nanos(), "{row:?}, {ended:?}");
        let mut names: Vec<&str> = summary.ranges.iter().map(|row| &*row.name).collect();
        names.sort_unstable();
        assert_eq!(names, ["another", "compact", "request"]);
        profiler.finish().unwrap();
    }
}
