//! The front end without a registry: the fastest, for programs that only profile.

use tracing_core::{Dispatch, Event, Interest, Metadata, Subscriber, span};

use super::slabs::{Slabs, locate};
use crate::core::thread::engine::Engine;
use crate::core::thread::slab::{Closed, SpanRef, untracked};
use crate::parts::tier::{follows_from, general, slabs};

/// A [`Subscriber`] that only measures: see [`Profiler::subscriber`](crate::Profiler::subscriber).
///
/// Events become NVTX marks and are not printed. Other layers do not work with it, because it has no registry. It is
/// the only subscriber, so it turns off rejected call sites for good.
#[derive(Debug)]
pub struct GpuSubscriber {
    engine: &'static Engine,
}

impl GpuSubscriber {
    pub(crate) fn new(engine: &'static Engine) -> Self {
        Self { engine }
    }

    #[inline(never)]
    fn try_close_general(&self, span: SpanRef) -> bool {
        let engine = self.engine;
        if engine.session.is_of_parent() {
            return false;
        }
        let thread = engine.thread();
        // Spans are still closed after the finish, so that slots become free; then nobody owns the slab.
        let (home, is_owner) = match thread {
            Some(thread) if thread.index == span.thread => {
                if thread.slab.close_near(span) {
                    return true;
                }
                (thread, true)
            }
            _ => match engine.thread_at(span.thread) {
                Some(home) => (home, false),
                None => return false,
            },
        };
        match home.slab.drop_handle(span, is_owner) {
            Closed::No => false,
            Closed::Yes { values, call } => {
                slabs::close(engine, thread, values, call);
                true
            }
        }
    }
}

impl Drop for GpuSubscriber {
    fn drop(&mut self) {
        self.engine.leave();
    }
}

impl Subscriber for GpuSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.engine.session.meet(metadata);
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.engine.session.is_running() && self.engine.session.is_enabled(metadata)
    }

    // There is no hint of the most verbose level: otherwise more verbose call sites would never be seen, and the report
    // could not name the spans that the filter has rejected.

    fn on_register_dispatch(&self, _: &Dispatch) {
        self.engine.session.front_end.install();
    }

    #[inline]
    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        super::new_span(self.engine, &Slabs, (), attributes).unwrap_or_else(untracked)
    }

    #[inline]
    fn enter(&self, id: &span::Id) {
        super::enter(self.engine, &Slabs, id.into_u64());
    }

    #[inline]
    fn exit(&self, id: &span::Id) {
        super::exit(self.engine, &Slabs, id.into_u64());
    }

    fn clone_span(&self, id: &span::Id) -> span::Id {
        let span = SpanRef::from_id(id.into_u64());
        if let Some(home) = self.engine.thread_at(span.thread) {
            home.slab.add_handle(span);
        }
        id.clone()
    }

    #[inline]
    fn try_close(&self, id: span::Id) -> bool {
        let span = SpanRef::from_id(id.into_u64());
        let thread = self.engine.creating().or_else(|| general::recording(self.engine));
        let is_closed = thread.is_some_and(|thread| thread.index == span.thread && thread.slab.close_near(span));
        is_closed || self.try_close_general(span)
    }

    fn record(&self, id: &span::Id, record: &span::Record<'_>) {
        general::record(self.engine, &Slabs, id.into_u64(), record);
    }

    fn record_follows_from(&self, id: &span::Id, follows: &span::Id) {
        follows_from(self.engine, &Slabs, id.into_u64(), follows.into_u64());
    }

    fn event(&self, event: &Event<'_>) {
        crate::parts::tier::event(self.engine, event);
    }

    fn current_span(&self) -> span::Current {
        let current = self.engine.thread().and_then(|thread| {
            let top = thread.stack.innermost_span()?;
            // Its last handle may be dropped while it is still entered.
            let (home, span, place) = locate(self.engine, top.span())?;
            let metadata = match slabs::metadata_of(home, span, place).filter(|_| place.has_own_values()) {
                Some(metadata) => metadata,
                None => thread.identity(top.place())?.metadata?,
            };
            Some(span::Current::new(span::Id::from_u64(top.span()), metadata))
        });
        current.unwrap_or_else(span::Current::none)
    }
}
