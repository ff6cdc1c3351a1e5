//! What front ends have of the parts.

pub(crate) mod general;
pub(crate) mod home;
pub(crate) mod registry;
pub(crate) mod slabs;

use tracing_core::Event;

use crate::core::thread::engine::Engine;
pub(crate) use crate::parts::batches::tier::follows_from;
pub(crate) use crate::parts::calls::session::Call;
pub(crate) use crate::parts::timeline::thread::numbers::Created;
use crate::parts::timeline::tier as marks;
pub(crate) use crate::parts::values::span::values::SpanValues;
pub(crate) use crate::parts::values::tier as own_values;
use crate::parts::waits::tier::tokio;

/// An event of a program with a layer: tokio's tell of its tasks, and others are marks.
pub(crate) fn event_of_layer(engine: &'static Engine, event: &Event<'_>) {
    if !(engine.session.parts.task_wakes.any() && tokio::event(engine, event)) {
        self::event(engine, event);
    }
}

/// An event is a mark.
#[inline]
pub(crate) fn event(engine: &'static Engine, event: &Event<'_>) {
    if let Some(thread) = engine.thread() {
        marks::mark(&engine.session, thread, event);
    }
}
