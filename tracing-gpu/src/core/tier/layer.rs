//! The front end that shares a stack with other layers.

use tracing_core::{Dispatch, Event, Interest, Metadata, Subscriber, span};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::home::Home;
use crate::core::record::Place;
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;
use crate::parts::tier::{event_of_layer, follows_from, general, registry};

/// A [`Layer`] that measures spans: see [`Profiler::layer`](crate::Profiler::layer).
///
/// It can be anywhere in the stack. It never turns a call site off for other layers: its filter only decides which
/// spans the layer itself measures.
#[derive(Debug)]
#[must_use = "a layer measures nothing until it is added to a subscriber"]
pub struct GpuLayer {
    engine: &'static Engine,
}

impl GpuLayer {
    pub(crate) fn new(engine: &'static Engine) -> Self {
        Self { engine }
    }

    /// The layer behind a filter of its own: [`Layer::with_filter`]. It replaces the profiler's default filter, INFO. A
    /// filter that [`ProfilerBuilder::filter`](crate::ProfilerBuilder::filter) or `TRACING_GPU_FILTER` sets applies as
    /// well.
    ///
    /// ```
    /// use tracing_gpu::{Output, Profiler};
    /// use tracing_subscriber::filter::LevelFilter;
    /// use tracing_subscriber::prelude::*;
    ///
    /// let profiler = Profiler::builder().output(Output::None).build()?;
    /// let subscriber = tracing_subscriber::registry().with(profiler.layer().with_filter(LevelFilter::DEBUG));
    /// tracing::subscriber::with_default(subscriber, || tracing::debug_span!("detail").in_scope(|| ()));
    /// assert_eq!(profiler.summary().ranges[0].name, "detail");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_filter<F, S>(self, filter: F) -> Filtered<Self, F, S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
        F: Filter<S>,
    {
        self.engine.session.front_end.set_own_filter(filter.max_level_hint());
        Layer::with_filter(self, filter)
    }
}

impl Drop for GpuLayer {
    fn drop(&mut self) {
        registry::leave(&self.engine.session);
        self.engine.leave();
    }
}

impl<S> Layer<S> for GpuLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_register_dispatch(&self, _: &Dispatch) {
        self.engine.session.front_end.install();
    }

    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.engine.session.meet(metadata);
        Interest::always()
    }

    #[inline]
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, ctx: Context<'_, S>) {
        let _followed = super::new_span(self.engine, &ctx, id.into_u64(), attributes);
    }

    #[inline]
    fn on_enter(&self, id: &span::Id, ctx: Context<'_, S>) {
        super::enter(self.engine, &ctx, id.into_u64());
    }

    #[inline]
    fn on_exit(&self, id: &span::Id, ctx: Context<'_, S>) {
        super::exit(self.engine, &ctx, id.into_u64());
    }

    #[inline]
    fn on_close(&self, id: span::Id, _: Context<'_, S>) {
        registry::close(self.engine, id.into_u64());
    }

    fn on_follows_from(&self, id: &span::Id, follows: &span::Id, ctx: Context<'_, S>) {
        follows_from(self.engine, &ctx, id.into_u64(), follows.into_u64());
    }

    fn on_record(&self, id: &span::Id, record: &span::Record<'_>, ctx: Context<'_, S>) {
        general::record(self.engine, &ctx, id.into_u64(), record);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        event_of_layer(self.engine, event);
    }
}

/// The thread that creates a span remembers its place. Values of its own are among the span's extensions in the
/// registry.
impl<S> Home for Context<'_, S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    type Given = u64;
    type Created = ();

    #[inline]
    fn keep_counting(thread: &ThreadState, id: u64, place: Place) -> Option<()> {
        thread.remember(id, place);
        Some(())
    }

    #[inline]
    fn id(id: u64, (): &()) -> u64 {
        id
    }

    #[inline]
    fn place_here(thread: &ThreadState, id: u64) -> Option<Place> {
        thread.remembered(id)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tracing::{info_span, subscriber};
    use tracing_subscriber::{prelude::*, reload};

    use range_model::summary::{Note, RangeStats};

    use crate::{Output, Profiler};

    fn row(profiler: &Profiler, name: &str) -> Option<RangeStats> {
        profiler.summary().ranges.into_iter().find(|row| row.name == name)
    }

    #[test]
    fn a_layer_that_is_dropped_ends_its_ranges_and_the_next_one_takes_over() {
        const NOT_MEASURED: Duration = Duration::from_millis(20);
        let profiler = Profiler::builder().output(Output::None).build().expect("a profiler");
        let (layer, handle) = reload::Layer::new(Some(profiler.layer()));
        let dispatch = tracing::Dispatch::new(tracing_subscriber::registry().with(layer));
        let (tell, told) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let there = dispatch.clone();
            let worker = scope.spawn(move || {
                let _dispatch = tracing::dispatcher::set_default(&there);
                let open = info_span!("there").entered();
                tell.send(()).unwrap();
                held.recv().unwrap(); // its layer was dropped
                drop(open);
                tell.send(()).unwrap();
                held.recv().unwrap(); // there is another layer
                info_span!("again").in_scope(|| ());
            });
            let _dispatch = tracing::dispatcher::set_default(&dispatch);
            told.recv().unwrap();
            let here = info_span!("here").entered();
            let inner = info_span!("inner").entered();
            handle.reload(None).unwrap();
            let at = profiler.summary();
            let count = |name: &str| row(&profiler, name).map(|row| row.times.instances);
            assert_eq!(["here", "inner", "there"].map(count), [Some(1); 3]);
            assert_eq!(at.losses.open, []);
            std::thread::sleep(NOT_MEASURED);
            drop((inner, here));
            release.send(()).unwrap();
            told.recv().unwrap();
            handle.reload(Some(profiler.layer())).unwrap();
            // The registry reuses the ids of closed spans: this one is not `here`.
            info_span!("after").in_scope(|| ());
            release.send(()).unwrap();
            worker.join().unwrap();
            let summary = profiler.summary();
            assert_eq!(["after", "again", "here", "inner", "there"].map(count), [Some(1); 5]);
            // Nothing was added to the three since then, but the rate of the clock is known better.
            for row in &at.ranges {
                let now = summary.ranges.iter().find(|now| now.name == row.name).expect("a row");
                let (then, now) = (row.times.total_ns, now.times.total_ns);
                assert!(now < then + then / 100 + NOT_MEASURED.as_nanos() as u64 / 2, "{row:?}, and then {now} ns");
            }
            let here = summary.tree.iter().find(|node| node.name == "here").expect("a root");
            let inner = row(&profiler, "inner").expect("a row").times.total_ns;
            assert!(here.total_ns.abs_diff(here.self_ns + inner) <= 1, "{here:?} {inner}");
            assert!(
                summary.notes.iter().all(|note| !matches!(note, Note::FurtherLayers { .. })),
                "{:?}",
                summary.notes
            );
        });
    }

    #[test]
    fn a_layer_that_is_put_into_a_dispatcher_is_installed() {
        let profiler = Profiler::builder().output(Output::None).build().expect("a profiler");
        let (layer, handle) = reload::Layer::new(None::<crate::GpuLayer>);
        subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let made = info_span!("made");
            handle.reload(Some(profiler.layer())).unwrap();
            let empty = profiler.summary().empty_because;
            assert!(empty.as_ref().is_some_and(|why| !why.contains("never installed")), "{empty:?}");
            drop(made);
        });
    }

    #[test]
    fn a_scoped_default_that_ends_makes_room_for_the_next() {
        let profiler = Profiler::builder().output(Output::None).build().expect("a profiler");
        for name in ["first", "second"] {
            let subscriber = tracing_subscriber::registry().with(profiler.layer());
            subscriber::with_default(subscriber, || info_span!("scoped", nvtx.name = name).in_scope(|| ()));
        }
        subscriber::with_default(profiler.subscriber(), || info_span!("third").in_scope(|| ()));
        assert!(["first", "second", "third"].iter().all(|name| row(&profiler, name).is_some()));
    }

    /// `with_filter` replaces the default filter; a filter that was asked for still applies.
    #[test]
    fn a_filter_of_the_layer_replaces_the_default() {
        use tracing_subscriber::filter::{LevelFilter, Targets};
        let asked = Targets::new().with_default(LevelFilter::INFO);
        for (builder, there) in [(Profiler::builder(), true), (Profiler::builder().filter(asked), false)] {
            let profiler = builder.output(Output::None).build().expect("a profiler");
            let layer = profiler.layer().with_filter(LevelFilter::DEBUG);
            subscriber::with_default(tracing_subscriber::registry().with(layer), || {
                tracing::debug_span!("debug").in_scope(|| ());
                tracing::trace_span!("trace").in_scope(|| ());
            });
            assert_eq!((row(&profiler, "debug").is_some(), row(&profiler, "trace").is_some()), (there, false));
        }
    }
}
