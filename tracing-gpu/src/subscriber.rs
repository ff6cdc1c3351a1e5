//! The tier without a registry: the fastest, for programs that only profile.

use std::sync::Arc;

use tracing_core::{Event, Interest, LevelFilter, Metadata, Subscriber, span};

use crate::collect::catalog::ROOT;
use crate::collect::core::Core;
use crate::collect::near::NearExit;
use crate::collect::shard::{FindValues, Shard};
use crate::collect::slab::{Closed, SpanRef, untracked};
use crate::collect::values::SpanValues;
use crate::marks;
use crate::own_values;
use crate::record::{Place, StreamId};
use crate::stream;

/// A [`Subscriber`] that only measures: see [`Profiler::subscriber`](crate::Profiler::subscriber).
///
/// Events become NVTX marks and are not printed, and other layers do not work with it: there is no registry. Being alone, it turns
/// call sites that its filter rejects off for good.
#[derive(Debug)]
pub struct GpuSubscriber {
    core: &'static Core,
}

impl GpuSubscriber {
    pub(crate) fn new(core: &'static Core) -> Self {
        Self { core }
    }

    fn shard(&self) -> Option<(&'static Core, &'static Shard)> {
        Some((self.core, self.core.shard()?))
    }

    #[inline(always)]
    fn near_shard(&self) -> Option<&'static Shard> {
        self.core.near_shard()
    }

    /// A span that takes no more than counting, where no span has named a stream.
    #[inline(always)]
    fn new_span_near(shard: &Shard, attributes: &span::Attributes<'_>) -> Option<span::Id> {
        if !attributes.is_contextual() {
            return None;
        }
        let (place, row) = shard.child_near(attributes.metadata())?;
        let calls = Some(row.calls()).filter(|calls| *calls > 0)?; // the first one's moment is noted
        let span = shard.slab.create_near(shard.index, place)?;
        row.add_call_to(calls);
        Some(span.to_id())
    }

    #[inline(never)]
    fn new_span_far(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let Some((core, shard)) = self.shard() else {
            self.core.count_unfollowed();
            return untracked();
        };
        if !core.has_streams() {
            // A stream in play keeps entries off the fast path, not this.
            if let Some(id) = Self::new_span_near(shard, attributes) {
                return id;
            }
        }
        let parent = match attributes.parent() {
            None if attributes.is_contextual() => shard.current_node(),
            None => ROOT,
            Some(parent) => node_of(core, parent),
        };
        let place = shard.child(parent, attributes.metadata());
        let span = if place.has_own_values() {
            create_special(core, shard, parent, place, attributes)
        } else {
            shard.add_call(place);
            shard.slab.create(shard.index, place, None)
        };
        if let Some(span) = span.filter(|_| core.has_streams()) {
            shard.slab.inherit_stream(span, parent_stream(core, shard, attributes));
        }
        match span {
            Some(span) => span.to_id(),
            None => {
                core.drop_span();
                untracked()
            }
        }
    }

    /// The place of a span that was made on this thread and is not special.
    #[inline(always)]
    fn near_place(shard: &Shard, id: u64) -> Option<Place> {
        let span = SpanRef::from_id(id);
        shard.slab.near_place(span).filter(|place| span.shard == shard.index && !place.has_own_values())
    }

    #[inline(always)]
    fn enter_near(shard: &Shard, id: u64) -> bool {
        Self::near_place(shard, id).is_some_and(|place| shard.enter_near(id, place))
    }

    #[inline(always)]
    fn enter_apart(shard: &Shard, id: u64) -> bool {
        Self::near_place(shard, id).is_some_and(|place| shard.enter_apart(id, place))
    }

    #[inline(never)]
    fn enter_far(&self, id: u64) {
        if let Some(shard) = self.core.timed_shard() {
            if let Some(place) = Self::near_place(shard, id) {
                return match stream::current() {
                    0 => Self::enter_inherited(self.core, shard, id, place),
                    stream => shard.enter_timed(id, place, stream),
                };
            }
        }
        self.enter_any(id);
    }

    /// An entry outside of all `with_stream`s where streams are in play.
    #[inline(never)]
    fn enter_inherited(core: &Core, shard: &Shard, id: u64, place: Place) {
        let inherited = || shard.slab.inherited_stream(SpanRef::from_id(id));
        shard.enter_timed(id, place, own_values::stream_of_entry(core, 0, inherited));
    }

    #[inline(never)]
    fn enter_any(&self, id: u64) {
        if self.core.shard_apart().is_some_and(|shard| Self::enter_apart(shard, id)) {
            return;
        }
        let Some((core, shard)) = self.shard() else { return };
        let Some((home, span, place)) = locate(core, id) else { return };
        if place.is_none() {
            return;
        }
        if place.has_own_values() {
            if let Some(values) = home.slab.values(span) {
                let now = values.now();
                let stream = own_values::stream_of_entry(core, now.stream, || home.slab.inherited_stream(span));
                shard.enter_with_values(id, &values, &now, stream);
            }
            return;
        }
        let here = if home.index == shard.index { place } else { shard.place_from(home, place) };
        if here.is_none() {
            return core.drop_span();
        }
        let stream = own_values::stream_of_entry(core, 0, || home.slab.inherited_stream(span));
        shard.enter(id, here, None, stream);
    }

    /// Apart, so that exits of ranges without calls save nothing for it.
    #[inline(never)]
    fn exit_noted(&self, shard: &Shard, id: u64) {
        if !shard.exit_noted(id) {
            self.exit_far(id);
        }
    }

    #[inline(never)]
    fn exit_far(&self, id: u64) {
        if !self.core.timed_shard().is_some_and(|shard| shard.exit_timed(id)) {
            self.exit_any(id);
        }
    }

    #[inline(never)]
    fn exit_any(&self, id: u64) {
        if self.core.shard_apart().is_some_and(|shard| shard.exit_apart(id)) {
            return;
        }
        let Some((core, shard)) = self.shard() else { return };
        if shard.exit(id) || shard.exit_below(id, &Values { core }) {
            return;
        }
        if locate(core, id).is_some_and(|(_, _, place)| !place.is_none()) {
            core.stray_exit(id, shard);
        }
    }

    #[inline(never)]
    fn try_close_far(&self, id: u64) -> bool {
        let core = self.core;
        let span = SpanRef::from_id(id);
        let shard = core.shard();
        // Closing goes on after the finish, so that slots come back; the slab is then nobody's own.
        let (home, owner) = match shard {
            Some(shard) if shard.index == span.shard => {
                if shard.slab.close_near(span) {
                    return true;
                }
                (shard, true)
            }
            _ => match core.shard_at(span.shard) {
                Some(home) => (home, false),
                None => return false,
            },
        };
        match home.slab.drop_handle(span, owner) {
            Closed::No => false,
            Closed::Yes(None) => true,
            Closed::Yes(Some(values)) => {
                own_values::close(core, shard, &values);
                true
            }
        }
    }
}

/// A live span and the shard that it was created on.
fn locate(core: &'static Core, id: u64) -> Option<(&'static Shard, SpanRef, Place)> {
    let span = SpanRef::from_id(id);
    let home = core.shard_at(span.shard)?;
    Some((home, span, home.slab.place(span)?))
}

/// The stream that the parent of a new span names or has inherited; 0 for none.
fn parent_stream(core: &'static Core, shard: &Shard, attributes: &span::Attributes<'_>) -> StreamId {
    let parent = match attributes.parent() {
        Some(parent) => Some(parent.into_u64()),
        None if attributes.is_contextual() => shard.stack.top().map(|top| top.span()),
        None => None,
    };
    let Some((home, span, place)) = parent.and_then(|parent| locate(core, parent)) else { return 0 };
    if !place.has_own_values() {
        return home.slab.inherited_stream(span);
    }
    match home.slab.values(span).map_or(0, |values| values.now().stream) {
        0 => home.slab.inherited_stream(span),
        own => own,
    }
}

fn values_of(core: &'static Core, id: u64) -> Option<Arc<SpanValues>> {
    let (home, span, place) = locate(core, id)?;
    if place.is_none() || !place.has_own_values() { None } else { home.slab.values(span) }
}

impl Subscriber for GpuSubscriber {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.core.is_running() && self.core.is_enabled(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        let filter = self.core.filter();
        let levels = filter.iter().map(|(_, level)| level).chain(filter.default_level());
        Some(levels.max().unwrap_or(LevelFilter::OFF))
    }

    #[inline]
    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        match self.core.near_shard_of_new().and_then(|shard| Self::new_span_near(shard, attributes)) {
            Some(id) => id,
            None => self.new_span_far(attributes),
        }
    }

    #[inline]
    fn enter(&self, id: &span::Id) {
        if !self.near_shard().is_some_and(|shard| Self::enter_near(shard, id.into_u64())) {
            self.enter_far(id.into_u64());
        }
    }

    #[inline]
    fn exit(&self, id: &span::Id) {
        let Some(shard) = self.near_shard() else { return self.exit_far(id.into_u64()) };
        match shard.exit_near(id.into_u64()) {
            NearExit::Done => {}
            NearExit::Uncounted(ended) => shard.add_uncounted(ended.place, ended.duration, ended.nested),
            NearExit::Noted => self.exit_noted(shard, id.into_u64()),
            NearExit::Not => self.exit_far(id.into_u64()),
        }
    }

    fn clone_span(&self, id: &span::Id) -> span::Id {
        let span = SpanRef::from_id(id.into_u64());
        if let Some(home) = self.core.shard_at(span.shard) {
            home.slab.add_handle(span);
        }
        id.clone()
    }

    #[inline]
    fn try_close(&self, id: span::Id) -> bool {
        let span = SpanRef::from_id(id.into_u64());
        let shard = self.core.near_shard_of_new();
        let near = shard.is_some_and(|shard| shard.index == span.shard && shard.slab.close_near(span));
        near || self.try_close_far(id.into_u64())
    }

    fn record(&self, id: &span::Id, record: &span::Record<'_>) {
        let Some((core, shard)) = self.shard() else { return };
        if let Some(values) = values_of(core, id.into_u64()) {
            own_values::record(core, shard, &values, record);
        }
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        if let Some((core, shard)) = self.shard() {
            marks::mark(core, shard, event);
        }
    }

    fn current_span(&self) -> span::Current {
        let current = self.shard().and_then(|(core, shard)| {
            let top = shard.stack.top()?;
            let (home, span, place) = locate(core, top.span())?; // its last handle may be gone while it is still entered
            // Call sites of one name share a row. A `record` goes by the fields of the span's own.
            let values = if place.has_own_values() { home.slab.values(span) } else { None };
            let metadata = match values {
                Some(values) => values.metadata,
                None => shard.identity(top.place())?.metadata,
            };
            Some(span::Current::new(span::Id::from_u64(top.span()), metadata))
        });
        current.unwrap_or_else(span::Current::none)
    }
}

/// A span that is filtered out, or that has values of its own.
#[inline(never)]
fn create_special(
    core: &'static Core,
    shard: &Shard,
    parent: u32,
    place: Place,
    attributes: &span::Attributes<'_>,
) -> Option<SpanRef> {
    if place.is_none() {
        return shard.slab.create(shard.index, place, None);
    }
    let values = own_values::create(core, shard, parent, attributes);
    shard.slab.create(shard.index, Place::new(values.node, 0).with_own_values(), Some(values))
}

struct Values {
    core: &'static Core,
}

impl FindValues for Values {
    fn find(&self, span: u64) -> Option<Arc<SpanValues>> {
        values_of(self.core, span)
    }
}

fn node_of(core: &'static Core, parent: &span::Id) -> u32 {
    match locate(core, parent.into_u64()) {
        Some((_, _, place)) if !place.is_none() => place.node(),
        _ => ROOT,
    }
}
