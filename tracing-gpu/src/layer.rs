//! The tier that shares a stack with other layers.

use std::sync::Arc;

use tracing_core::{Event, Interest, Metadata, Subscriber, span};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, SpanRef};

use crate::collect::catalog::ROOT;
use crate::collect::core::Core;
use crate::collect::near::NearExit;
use crate::collect::shard::{FindValues, Shard};
use crate::collect::values::SpanValues;
use crate::marks;
use crate::own_values;
use crate::record::{Place, StreamId};
use crate::stream;

/// A [`Layer`] that measures spans: see [`Profiler::layer`](crate::Profiler::layer).
///
/// It can be anywhere in the stack. It never turns a call site off for other layers: its filter only decides what it measures
/// itself.
#[derive(Debug)]
#[must_use = "a layer measures nothing until it is added to a subscriber"]
pub struct GpuLayer {
    core: &'static Core,
}

/// The values of a span, one entry for each profiler that measures it.
///
/// The registry drops them when the span has closed, and that ends its lifetime: without an `on_close` of the layer, spans that have no
/// values of their own pay nothing for it.
struct OwnValues(Vec<(&'static Core, Arc<SpanValues>)>);

impl Drop for OwnValues {
    fn drop(&mut self) {
        for (core, values) in &self.0 {
            own_values::close(core, core.shard(), values);
        }
    }
}

impl GpuLayer {
    pub(crate) fn new(core: &'static Core) -> Self {
        Self { core }
    }

    #[inline(always)]
    fn near_shard(&self) -> Option<&'static Shard> {
        self.core.near_shard()
    }

    /// A span that takes no more than counting.
    #[inline(always)]
    fn new_span_near(shard: &Shard, attributes: &span::Attributes<'_>, id: &span::Id) -> Option<()> {
        if !attributes.is_contextual() {
            return None;
        }
        let (place, row) = shard.child_near(attributes.metadata())?;
        let calls = Some(row.calls()).filter(|calls| *calls > 0)?; // the first one's moment is noted
        row.add_call_to(calls);
        shard.remember(id.into_u64(), place);
        Some(())
    }

    /// The place of a span that was made on this thread and is not special.
    #[inline(always)]
    fn near_place(shard: &Shard, id: u64) -> Option<Place> {
        shard.remembered(id).filter(|place| !place.has_own_values())
    }

    #[inline(always)]
    fn enter_near(shard: &Shard, id: u64) -> bool {
        Self::near_place(shard, id).is_some_and(|place| shard.enter_near(id, place))
    }

    #[inline(always)]
    fn enter_apart(shard: &Shard, id: u64) -> bool {
        Self::near_place(shard, id).is_some_and(|place| shard.enter_apart(id, place))
    }

    /// An entry outside of all `with_stream`s where streams are in play.
    #[inline(never)]
    fn enter_inherited(core: &Core, shard: &Shard, id: u64, place: Place) {
        shard.enter_timed(id, place, own_values::stream_of_entry(core, 0, || shard.inherited_stream(id)));
    }

    fn shard(&self) -> Option<(&'static Core, &'static Shard)> {
        Some((self.core, self.core.shard()?))
    }
}

impl<S> Layer<S> for GpuLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::always()
    }

    #[inline]
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, ctx: Context<'_, S>) {
        if self.core.near_shard_of_new().and_then(|shard| Self::new_span_near(shard, attributes, id)).is_none() {
            new_span_far(self, attributes, id, &ctx);
        }
    }

    #[inline]
    fn on_enter(&self, id: &span::Id, ctx: Context<'_, S>) {
        if !self.near_shard().is_some_and(|shard| Self::enter_near(shard, id.into_u64())) {
            enter_far(self, id, &ctx);
        }
    }

    #[inline]
    fn on_exit(&self, id: &span::Id, ctx: Context<'_, S>) {
        let Some(shard) = self.near_shard() else { return exit_far(self, id, ctx) };
        match shard.exit_near(id.into_u64()) {
            NearExit::Done => {}
            NearExit::Uncounted(ended) => shard.add_uncounted(ended.place, ended.duration, ended.nested),
            NearExit::Noted => exit_noted(self, shard, id, ctx),
            NearExit::Not => exit_far(self, id, ctx),
        }
    }

    fn on_record(&self, id: &span::Id, record: &span::Record<'_>, ctx: Context<'_, S>) {
        let Some((core, shard)) = self.shard() else { return };
        if let Some(values) = ctx.span(id).and_then(|span| own_values_of(core, &span)) {
            own_values::record(core, shard, &values, record);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if let Some((core, shard)) = self.shard() {
            marks::mark(core, shard, event);
        }
    }
}

#[inline(never)]
fn create_own_values<S>(
    core: &'static Core,
    shard: &Shard,
    parent: u32,
    attributes: &span::Attributes<'_>,
    id: &span::Id,
    ctx: &Context<'_, S>,
) where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let values = own_values::create(core, shard, parent, attributes);
    if let Some(span) = ctx.span(id) {
        let mut extensions = span.extensions_mut();
        match extensions.get_mut::<OwnValues>() {
            Some(OwnValues(all)) => all.push((core, values)),
            None => extensions.insert(OwnValues(vec![(core, values)])),
        }
    }
}

#[inline(never)]
fn new_span_far<S>(layer: &GpuLayer, attributes: &span::Attributes<'_>, id: &span::Id, ctx: &Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let Some((core, shard)) = layer.shard() else { return layer.core.count_unfollowed() };
    if core.has_streams() {
        shard.inherit_stream(id.into_u64(), parent_stream(core, shard, attributes, ctx));
    }
    if GpuLayer::new_span_near(shard, attributes, id).is_some() {
        return; // a stream in play keeps entries off the fast path, not this
    }
    let parent = match attributes.parent() {
        None if attributes.is_contextual() => shard.current_node(),
        None => ROOT,
        Some(parent) => match shard.remembered(parent.into_u64()).filter(|place| !place.has_own_values()) {
            Some(place) => place.node(),
            None => ctx.span(parent).map_or(ROOT, |span| node_of(core, shard, span)),
        },
    };
    let place = shard.child(parent, attributes.metadata());
    if place.is_none() {
        return shard.remember(id.into_u64(), Place::hidden(parent));
    }
    shard.remember(id.into_u64(), place);
    if place.has_own_values() {
        create_own_values(core, shard, parent, attributes, id, ctx);
    } else {
        shard.add_call(place);
    }
}

#[inline(never)]
fn enter_far<S>(layer: &GpuLayer, id: &span::Id, ctx: &Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if let Some(shard) = layer.core.timed_shard() {
        let id = id.into_u64();
        if let Some(place) = GpuLayer::near_place(shard, id) {
            return match stream::current() {
                0 => GpuLayer::enter_inherited(layer.core, shard, id, place),
                stream => shard.enter_timed(id, place, stream),
            };
        }
    }
    enter_any(layer, id, ctx);
}

/// Any entry, also of a span that was created on another thread, has values of its own, or is no longer remembered.
#[inline(never)]
fn enter_any<S>(layer: &GpuLayer, id: &span::Id, ctx: &Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if layer.core.shard_apart().is_some_and(|shard| GpuLayer::enter_apart(shard, id.into_u64())) {
        return;
    }
    let Some((core, shard)) = layer.shard() else { return };
    match shard.remembered(id.into_u64()) {
        Some(place) if place.is_none() => return enter_hidden(shard, id.into_u64(), place.node()),
        Some(place) if !place.has_own_values() => {
            let stream = own_values::stream_of_entry(core, 0, || shard.inherited_stream(id.into_u64()));
            return shard.enter(id.into_u64(), place, None, stream);
        }
        _ => {}
    }
    let Some(span) = ctx.span(id) else { return };
    if let Some(values) = own_values_of(core, &span) {
        let inherited = || inherited_stream(core, shard, &span);
        let now = values.now();
        let stream = own_values::stream_of_entry(core, now.stream, inherited);
        return shard.enter_with_values(id.into_u64(), &values, &now, stream);
    }
    let parent = span.parent().map_or(ROOT, |parent| node_of(core, shard, parent));
    let place = shard.child(parent, span.metadata());
    if !place.has_own_values() {
        let stream = own_values::stream_of_entry(core, 0, || inherited_stream(core, shard, &span));
        shard.enter(id.into_u64(), place, None, stream);
    } else if place.is_none() {
        enter_hidden(shard, id.into_u64(), parent);
    }
}

/// A span that is filtered out, entered where its parent is not: what is created inside belongs under that parent.
fn enter_hidden(shard: &Shard, id: u64, parent: u32) {
    if parent != ROOT && shard.stack.is_empty() {
        shard.enter(id, Place::stand_in(parent), None, 0);
    }
}

/// Apart, so that exits of ranges without calls save nothing for it.
#[inline(never)]
fn exit_noted<S>(layer: &GpuLayer, shard: &Shard, id: &span::Id, ctx: Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if !shard.exit_noted(id.into_u64()) {
        exit_far(layer, id, ctx);
    }
}

#[inline(never)]
fn exit_far<S>(layer: &GpuLayer, id: &span::Id, ctx: Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if !layer.core.timed_shard().is_some_and(|shard| shard.exit_timed(id.into_u64())) {
        exit_any(layer, id, ctx);
    }
}

#[inline(never)]
fn exit_any<S>(layer: &GpuLayer, id: &span::Id, ctx: Context<'_, S>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if layer.core.shard_apart().is_some_and(|shard| shard.exit_apart(id.into_u64())) {
        return;
    }
    let Some((core, shard)) = layer.shard() else { return };
    let values = Values { core, ctx };
    if shard.exit(id.into_u64()) || shard.exit_below(id.into_u64(), &values) {
        return;
    }
    if values.ctx.span(id).is_some_and(|span| core.is_enabled(span.metadata())) {
        core.stray_exit(id.into_u64(), shard);
    }
}

/// Values of spans found through the registry.
struct Values<'a, S> {
    core: &'static Core,
    ctx: Context<'a, S>,
}

impl<S> FindValues for Values<'_, S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn find(&self, span: u64) -> Option<Arc<SpanValues>> {
        own_values_of(self.core, &self.ctx.span(&span::Id::from_u64(span))?)
    }
}

fn own_values_of<'a, S: LookupSpan<'a>>(core: &Core, span: &SpanRef<'a, S>) -> Option<Arc<SpanValues>> {
    let extensions = span.extensions();
    let OwnValues(all) = extensions.get()?;
    all.iter().find(|(profiler, _)| profiler.id == core.id).map(|(_, values)| Arc::clone(values))
}

/// The stream that the parent of a new span names or has inherited; 0 for none.
fn parent_stream<S>(core: &Core, shard: &Shard, attributes: &span::Attributes<'_>, ctx: &Context<'_, S>) -> StreamId
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let parent = match attributes.parent() {
        Some(parent) => Some(parent.into_u64()),
        None if attributes.is_contextual() => shard.stack.top().map(|top| top.span()),
        None => None,
    };
    let Some(parent) = parent else { return 0 };
    if shard.remembered(parent).is_some_and(|place| !place.has_own_values()) {
        return shard.inherited_stream(parent); // not looked up in the registry, however deep it is
    }
    let Some(span) = ctx.span(&span::Id::from_u64(parent)) else { return 0 };
    match own_stream(core, &span) {
        0 => inherited_stream(core, shard, &span),
        own => own,
    }
}

/// The stream that a span names itself; 0 for none.
fn own_stream<'a, S: LookupSpan<'a>>(core: &Core, span: &SpanRef<'a, S>) -> StreamId {
    own_values_of(core, span).map_or(0, |values| values.now().stream)
}

/// The stream of the nearest parent that names one; 0 for none.
fn inherited_stream<'a, S: LookupSpan<'a>>(core: &Core, shard: &Shard, span: &SpanRef<'a, S>) -> StreamId {
    let id = span.id().into_u64();
    if shard.remembered(id).is_some() {
        return shard.inherited_stream(id);
    }
    let streams = span.scope().skip(1).map(|parent| own_stream(core, &parent));
    streams.into_iter().find(|&stream| stream != 0).unwrap_or(0)
}

/// The lineage of a span that is not remembered here: its nearest remembered ancestor, and the call sites from there down.
fn node_of<'a, S: LookupSpan<'a>>(core: &'static Core, shard: &Shard, span: SpanRef<'a, S>) -> u32 {
    let mut sites = Vec::new();
    let mut node = ROOT;
    for ancestor in span.scope() {
        if let Some(place) = shard.remembered(ancestor.id().into_u64()).filter(|place| !place.has_own_values()) {
            node = place.node();
            break;
        }
        if let Some(values) = own_values_of(core, &ancestor) {
            node = values.node;
            break;
        }
        sites.push(ancestor.metadata());
    }
    for metadata in sites.into_iter().rev() {
        let place = shard.child(node, metadata);
        if !place.is_none() {
            node = place.node();
        }
    }
    node
}
