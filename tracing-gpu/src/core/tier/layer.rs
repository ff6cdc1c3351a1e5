//! The front end that shares a stack with other layers.

use std::sync::Arc;

use tracing_core::{Dispatch, Event, Interest, Metadata, Subscriber, span};
use tracing_subscriber::filter::Filtered;
use tracing_subscriber::layer::{Context, Filter, Layer};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use super::home::{Beside, EnteredSpan, Home};
use crate::core::record::{CallId, Child, Inherited, Place};
use crate::core::session::catalog::ROOT;
use crate::core::thread::engine::Engine;
use crate::core::thread::state::ThreadState;
use crate::parts::tier::{Call, Created, SpanValues, event_of_layer, follows_from, general, own_values};
use range_model::stats::Lean;

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
        // It does not see the end of these calls, so they are in no figure.
        let session = &self.engine.session;
        if session.is_running() {
            for call in session.parts.calls.take_of_spans() {
                let _not_ended = session.parts.calls.end(None, call, session.clock.now());
            }
        }
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
        if self.engine.session.parts.calls.may_have_span(id.into_u64()) {
            close_call_of(self.engine, id.into_u64());
        }
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

/// Data of a span that has values or a name of its own, one for each profiler that measures it; or its call, if
/// `on_close` does not find that by the span's id. There is hardly ever more than the first, so only the extension
/// itself takes memory.
///
/// The registry drops the data when the span has closed, which ends its lifetime and its call.
struct OwnValues {
    first: (&'static Engine, SpanRecord),
    others: Vec<(&'static Engine, SpanRecord)>,
}

impl OwnValues {
    fn all(&self) -> impl Iterator<Item = &(&'static Engine, SpanRecord)> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Sets the data of this profiler, in place of what it has.
    fn set(&mut self, engine: &'static Engine, kept: SpanRecord) {
        if std::ptr::eq(self.first.0, engine) {
            self.first.1 = kept;
        } else {
            self.others.retain(|(profiler, _)| !std::ptr::eq(*profiler, engine));
            self.others.push((engine, kept));
        }
    }
}

#[derive(Clone)]
enum SpanRecord {
    /// Its values, which also name the call.
    Values(Arc<SpanValues>),
    Call(CallId),
    /// Its place, which has its name, on the state with this number.
    Named(u32, Place),
}

/// Ends the call of a closed span, if it has one.
#[inline(never)]
fn close_call_of(engine: &'static Engine, span: u64) {
    if let call @ 1.. = engine.session.parts.calls.take_of_span(span) {
        own_values::close_call(engine, engine.thread(), call);
    }
}

impl Drop for OwnValues {
    fn drop(&mut self) {
        for (engine, kept) in self.all() {
            match kept {
                SpanRecord::Values(values) => own_values::close(engine, engine.thread(), values),
                SpanRecord::Call(call) => own_values::close_call(engine, engine.thread(), *call),
                SpanRecord::Named(..) => {}
            }
        }
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
    fn keep(&self, engine: &'static Engine, thread: &ThreadState, id: u64, place: Place, beside: Beside) -> Option<()> {
        thread.remember(id, place);
        let (kept, call) = match beside {
            Beside::Nothing => return Some(()),
            Beside::Named => (SpanRecord::Named(thread.index, place), 0),
            Beside::Call(call) => {
                thread.remember_call(id, call);
                if thread.is_reentered(place) && thread.session.parts.calls.keep_span(thread.index, call, id) {
                    return Some(());
                }
                (SpanRecord::Call(call), call)
            }
            Beside::Values(values) => (SpanRecord::Values(values), 0),
        };
        if let Some(span) = self.span(&span::Id::from_u64(id)) {
            thread.remember_call(id, call);
            keep_beside(engine, &span, kept);
        }
        Some(())
    }

    #[inline]
    fn id(id: u64, (): &()) -> u64 {
        id
    }

    fn keep_inherited(thread: &ThreadState, id: u64, (): &(), number: Inherited) {
        thread.inherit(id, number);
    }

    #[inline]
    fn place_here(thread: &ThreadState, id: u64) -> Option<Place> {
        thread.remembered(id)
    }

    #[inline]
    fn call_here(thread: &ThreadState, id: u64) -> CallId {
        thread.remembered_call(id)
    }

    fn inherited_here(thread: &ThreadState, id: u64) -> Inherited {
        thread.inherited(id)
    }

    #[inline]
    fn find(&self, engine: &'static Engine, thread: &'static ThreadState, id: u64) -> EnteredSpan {
        match thread.remembered(id) {
            Some(place) if place.is_none() => return EnteredSpan::Hidden(place.node()),
            Some(place) if place.is_plain() => return EnteredSpan::Counted(place, 0),
            Some(place) if !place.has_own_values() => return EnteredSpan::Counted(place, thread.remembered_call(id)),
            _ => {}
        }
        if let call @ 1.. = engine.session.parts.calls.of_span(id) {
            return called(engine, thread, call);
        }
        let Some(span) = self.span(&span::Id::from_u64(id)) else { return EnteredSpan::Nothing };
        match kept_of(engine, &span) {
            Some(SpanRecord::Values(values)) => return EnteredSpan::WithValues(values),
            Some(SpanRecord::Call(call)) => return called(engine, thread, call),
            Some(SpanRecord::Named(creator, place)) => return counted(engine, thread, (creator, place), 0),
            None => {}
        }
        let parent = span.parent().map_or(ROOT, |parent| node_of(engine, thread, parent));
        match thread.counted_child(parent, span.metadata()) {
            Child::Counted(place) if !place.is_none() => EnteredSpan::Counted(place, 0),
            Child::Counted(_) | Child::Hidden => EnteredSpan::Hidden(parent),
            Child::Unnamed(_) => EnteredSpan::Nothing,
        }
    }

    fn inherited(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> Inherited {
        if thread.remembered(id).is_some() {
            return thread.inherited(id);
        }
        let Some(span) = self.span(&span::Id::from_u64(id)) else { return 0 };
        let own = |span: SpanRef<'_, S>| own_values_of(engine, &span).map_or(0, |values| values.inherited());
        span.scope().skip(1).map(own).find(|&number| number != 0).unwrap_or(0)
    }

    fn call(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> CallId {
        match thread.remembered(id) {
            Some(place) if place.is_plain() => 0,
            Some(place) if !place.has_own_values() => thread.remembered_call(id),
            _ => match engine.session.parts.calls.of_span(id) {
                0 => match self.span(&span::Id::from_u64(id)).and_then(|span| kept_of(engine, &span)) {
                    Some(SpanRecord::Values(values)) => values.call(),
                    Some(SpanRecord::Call(call)) => call,
                    Some(SpanRecord::Named(..)) | None => 0,
                },
                call => call,
            },
        }
    }

    fn keep_call(&self, engine: &'static Engine, thread: &ThreadState, id: u64, call: CallId) -> bool {
        let Some(span) = self.span(&span::Id::from_u64(id)) else { return false };
        if let Some(SpanRecord::Values(values)) = kept_of(engine, &span) {
            return values.set_call(call);
        }
        let here = thread.remembered(id);
        if here.is_none() || !engine.session.parts.calls.keep_span(thread.index, call, id) {
            keep_beside(engine, &span, SpanRecord::Call(call));
        }
        if let Some(place) = here {
            thread.remember(id, place.with_call());
            thread.remember_call(id, call);
        }
        true
    }

    #[inline]
    fn values(&self, engine: &'static Engine, id: u64) -> Option<Arc<SpanValues>> {
        own_values_of(engine, &self.span(&span::Id::from_u64(id))?)
    }

    #[inline]
    fn created(&self, engine: &'static Engine, thread: &'static ThreadState, id: u64) -> Option<&'static Created> {
        let elsewhere = || engine.states().filter_map(|other| other.created(id)).largest_by(|created| created.owner());
        thread.created_here(id).or_else(elsewhere)
    }

    #[inline]
    fn node(&self, engine: &'static Engine, thread: &ThreadState, id: u64) -> u32 {
        match thread.remembered(id).filter(|place| !place.has_own_values()) {
            Some(place) => place.node(),
            None => self.span(&span::Id::from_u64(id)).map_or(ROOT, |span| node_of(engine, thread, span)),
        }
    }

    fn measured_site(&self, engine: &'static Engine, id: u64) -> Option<&'static Metadata<'static>> {
        let metadata = self.span(&span::Id::from_u64(id))?.metadata();
        engine.session.is_enabled(metadata).then_some(metadata)
    }
}

/// Stores data of a span beside it in the registry.
#[inline(never)]
fn keep_beside<'a, S: LookupSpan<'a>>(engine: &'static Engine, span: &SpanRef<'a, S>, kept: SpanRecord) {
    let mut extensions = span.extensions_mut();
    match extensions.get_mut::<OwnValues>() {
        Some(own) => own.set(engine, kept),
        None => extensions.insert(OwnValues { first: (engine, kept), others: Vec::new() }),
    }
}

fn kept_of<'a, S: LookupSpan<'a>>(engine: &Engine, span: &SpanRef<'a, S>) -> Option<SpanRecord> {
    let extensions = span.extensions();
    let own: &OwnValues = extensions.get()?;
    own.all().find(|(profiler, _)| std::ptr::eq(*profiler, engine)).map(|(_, kept)| kept.clone())
}

fn own_values_of<'a, S: LookupSpan<'a>>(engine: &Engine, span: &SpanRef<'a, S>) -> Option<Arc<SpanValues>> {
    match kept_of(engine, span) {
        Some(SpanRecord::Values(values)) => Some(values),
        _ => None,
    }
}

/// An entry of a span with a call, created on another thread or no longer remembered here.
fn called(engine: &'static Engine, thread: &ThreadState, call: CallId) -> EnteredSpan {
    let home = engine.session.parts.calls.get(call).map(Call::home);
    home.map_or(EnteredSpan::Nothing, |home| counted(engine, thread, home, call))
}

/// An entry of a span with this place on the state with this number, and its call, 0 for none.
fn counted(engine: &'static Engine, thread: &ThreadState, (creator, place): (u32, Place), call: CallId) -> EnteredSpan {
    let elsewhere = || engine.thread_at(creator);
    let here = if creator == thread.index { place } else { thread.place_from(creator, elsewhere, place) };
    if here.is_none() {
        thread.session.drop_span();
        return EnteredSpan::Nothing;
    }
    EnteredSpan::Counted(if call == 0 { here } else { here.with_call() }, call)
}

/// The node of a span that is not remembered here, from its nearest remembered ancestor and the call sites below that.
fn node_of<'a, S: LookupSpan<'a>>(engine: &Engine, thread: &ThreadState, span: SpanRef<'a, S>) -> u32 {
    let mut sites = Vec::new();
    let mut node = ROOT;
    for ancestor in span.scope() {
        let id = ancestor.id().into_u64();
        if let Some(place) = thread.remembered(id).filter(|place| !place.has_own_values()) {
            node = place.node();
            break;
        }
        let kept = match engine.session.parts.calls.of_span(id) {
            0 => kept_of(engine, &ancestor),
            call => Some(SpanRecord::Call(call)),
        };
        match kept {
            Some(SpanRecord::Values(values)) => {
                node = values.node;
                break;
            }
            Some(SpanRecord::Call(call)) => {
                node = engine.session.parts.calls.get(call).map_or(ROOT, |call| call.home().1.node());
                break;
            }
            Some(SpanRecord::Named(_, place)) => {
                node = place.node();
                break;
            }
            None => {}
        }
        sites.push(ancestor.metadata());
    }
    for metadata in sites.into_iter().rev() {
        match thread.counted_child(node, metadata) {
            Child::Counted(place) if !place.is_none() => node = place.node(),
            _ => {}
        }
    }
    node
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
