//! Events of tokio about its wakers, for [`TaskWakes`](crate::parts::waits::session::task_wakes::TaskWakes).

use tracing_core::Event;
use tracing_core::field::{Field, Visit};

use crate::core::session::runtime::is_of_tokio;
use crate::core::thread::engine::Engine;

/// Whether this is an event of tokio about itself. If it wakes a task, notes it.
#[cold]
#[inline(never)]
pub(crate) fn event(engine: &'static Engine, event: &Event<'_>) -> bool {
    if !is_of_tokio(event.metadata()) {
        return false;
    }
    let mut told = Told::default();
    event.record(&mut told);
    if let (Some(thread), Told { wakes: true, task: Some(task) }) = (engine.thread(), told) {
        thread.wake_task(task);
    }
    true
}

/// What such an event tells.
#[derive(Default)]
struct Told {
    /// A waker of a task is called.
    wakes: bool,
    task: Option<u64>,
}

impl Visit for Told {
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        self.wakes |= matches!((field.name(), value), ("op", "waker.wake" | "waker.wake_by_ref"));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "task.id" {
            self.task = Some(value);
        }
    }
}

#[cfg(test)]
mod tests;
