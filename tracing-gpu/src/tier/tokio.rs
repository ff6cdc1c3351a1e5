//! Events of tokio about its wakers and locks, for [`LockWaits`](crate::session::lock_waits::LockWaits).

use tracing_core::Event;
use tracing_core::field::{Field, Visit};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::session::runtime::is_of_tokio;
use crate::thread::engine::Engine;

const OPERATION: &str = "runtime.resource.async_op";
const POLL: &str = "runtime.resource.async_op.poll";

/// Whether this is an event of tokio about itself. If it concerns a lock, notes it.
#[cold]
#[inline(never)]
pub(super) fn event<S>(engine: &'static Engine, event: &Event<'_>, context: &Context<'_, S>) -> bool
where
    S: tracing_core::Subscriber + for<'a> LookupSpan<'a>,
{
    if !is_of_tokio(event.metadata()) {
        return false;
    }
    let Some(thread) = engine.thread() else {
        engine.session.lock_waits.lose(engine.session.clock.now());
        return true;
    };
    let mut told = Told::default();
    event.record(&mut told);
    let current = |name| context.lookup_current().filter(|span| span.name() == name);
    match told {
        Told { wakes: true, task: Some(task), .. } => thread.wake_task(task),
        Told { acquires: true, is_ready: Some(is_ready), .. } => {
            let operation = current(POLL).and_then(|poll| poll.parent()).filter(|span| span.name() == OPERATION);
            operation.map(id).into_iter().for_each(|operation| thread.poll_operation(operation, is_ready));
        }
        Told { obtained: 1.., .. } => {
            current(OPERATION).map(id).into_iter().for_each(|operation| thread.give(operation));
        }
        _ => {}
    }
    true
}

fn id<'a, S: LookupSpan<'a>>(span: SpanRef<'a, S>) -> u64 {
    span.id().into_u64()
}

/// What such an event tells.
#[derive(Default)]
struct Told {
    /// A waker of a task is called.
    wakes: bool,
    task: Option<u64>,
    /// An operation is polled, which waits for permits: those of a semaphore, or of another lock.
    acquires: bool,
    is_ready: Option<bool>,
    /// An operation gets permits.
    obtained: u64,
}

impl Visit for Told {
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}

    fn record_str(&mut self, field: &Field, value: &str) {
        match (field.name(), value) {
            ("op", "waker.wake" | "waker.wake_by_ref") => self.wakes = true,
            ("op_name", "poll_acquire") => self.acquires = true,
            _ => {}
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "task.id" => self.task = Some(value),
            "permits_obtained" => self.obtained = value,
            _ => {}
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == "is_ready" {
            self.is_ready = Some(value);
        }
    }
}

#[cfg(test)]
mod tests;
