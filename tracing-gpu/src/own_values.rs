//! Spans with values of their own (`nvtx.name`, `nvtx.color`, ...): the slower path that both tiers share.

use std::sync::Arc;

use tracing_core::span;

use crate::collect::catalog::ROOT;
use crate::collect::core::Core;
use crate::collect::lifetimes::Begun;
use crate::collect::shard::Shard;
use crate::collect::tape::{RangeRecord, Record};
use crate::collect::values::{FieldValues, Lifetime, SpanValues};
use crate::gpu::{self, StreamId};
use crate::record::{Ended, RangeKey};
use crate::summary::RangeStyle;

/// Reads the fields of a new span and counts its creation. `parent` is the node it is under.
#[inline(never)]
pub(crate) fn create(
    core: &'static Core,
    shard: &Shard,
    parent: u32,
    attributes: &span::Attributes<'_>,
) -> Arc<SpanValues> {
    let metadata = attributes.metadata();
    let read = shard.closed(|| FieldValues::of_new(attributes, core.tape_room.is_some()));
    let site = shard.site(metadata);
    let label = read.name.as_deref().and_then(|name| {
        let name = if name.is_empty() { "(unnamed)".into() } else { nvtx_rs::text::sanitize(name) };
        shard.run_time_label(site.domain, &name)
    });
    let label = label.unwrap_or(site.label);
    let key = RangeKey { label, category: 0, style: RangeStyle::PushPop };
    let values = SpanValues::new(metadata, shard.node(parent, key), label);
    let lifetime = read.lifetime;
    update(core, shard, &values, read);
    let place = shard.place_now(&values);
    if !place.is_none() {
        shard.add_call(place);
    }
    if lifetime {
        begin_lifetime(core, shard, &values);
    }
    Arc::new(values)
}

/// Takes over the fields of a `record`.
pub(crate) fn record(core: &Core, shard: &Shard, values: &SpanValues, record: &span::Record<'_>) {
    let read = shard.closed(|| FieldValues::of_record(record, core.tape_room.is_some()));
    update(core, shard, values, read);
}

fn update(core: &Core, shard: &Shard, values: &SpanValues, mut read: FieldValues) {
    let (category, names_a_stream) = (read.category.take(), read.stream.is_some());
    values.update(read, category.map(|category| shard.category(category)));
    if names_a_stream {
        core.announce_streams();
    }
}

/// The stream that an entry is timed on, 0 for none: the span's own, else the thread's, else that of the nearest parent that names one.
pub(crate) fn stream_of_entry(core: &Core, own: StreamId, inherited: impl FnOnce() -> StreamId) -> StreamId {
    if !core.gpu || own != 0 {
        return if core.gpu { own } else { 0 };
    }
    match gpu::current() {
        0 if core.has_streams() => inherited(),
        current => current,
    }
}

fn lifetime_key(values: &SpanValues) -> RangeKey {
    RangeKey { label: values.label, category: values.now().category, style: RangeStyle::StartEnd }
}

fn begin_lifetime(core: &'static Core, shard: &Shard, values: &SpanValues) {
    let range =
        (core.nvtx && nvtx_rs::is_tool_attached()).then(|| shard.closed(|| core.nvtx_range(lifetime_key(values))));
    let start = core.clock.now();
    let range = range.map(|range| shard.closed(|| range.domain.start(&values.now().apply(range.attributes))));
    let begun = Begun::here(values.label, shard.index);
    shard.lifetimes.begin(begun, &shard.thread);
    let instance = shard.begin_lifetime(values.label, start);
    values.begin_lifetime(Lifetime { start, range, begun, thread: shard.thread_id(), instance });
}

/// Has the launches of its thread no longer be inside, nor those that were.
fn leave(core: &Core, lifetime: &Lifetime) {
    if let Some(creator) = core.shard_at(lifetime.begun.shard()) {
        creator.end_lifetime(lifetime.instance, None);
    }
}

/// Ends the start/end range of a span that has been closed, if it has one. Without a shard it cannot be measured, and is counted so;
/// after the finish it stays as it was then.
pub(crate) fn close(core: &'static Core, shard: Option<&Shard>, values: &SpanValues) {
    if shard.is_none() && !core.is_running() {
        return;
    }
    let Some(lifetime) = values.end_lifetime() else { return };
    if let Some(creator) = core.shard_at(lifetime.begun.shard()) {
        creator.lifetimes.end(lifetime.begun);
    }
    let Some(shard) = shard else {
        leave(core, &lifetime); // what is not measured is in no table
        return core.drop_span();
    };
    let now = core.clock.now();
    if let Some(range) = lifetime.range {
        shard.closed(|| nvtx_rs::Domain::DEFAULT.end(range)); // an id is of the process, whatever the domain
    }
    match core.shard_at(lifetime.begun.shard()) {
        Some(creator) if lifetime.begun.is_of_this_thread() => creator.end_lifetime(lifetime.instance, Some(now)),
        _ => leave(core, &lifetime),
    }
    let key = lifetime_key(values);
    let place = shard.place(shard.node(ROOT, key), key, values.metadata);
    if place.is_none() {
        return core.drop_span();
    }
    shard.add_call(place);
    shard.add(Ended { place, duration: now.saturating_sub(lifetime.start.max(core.window())), nested: 0 });
    let start = lifetime.start; // a timeline goes on over windows
    shard.record(|| values.recorded(start));
    let began_on = (lifetime.thread != shard.thread_id()).then_some(lifetime.thread);
    shard.record(|| Record::Range(RangeRecord { key, start, end: now, depth: 0, began_on, cut: false }));
}
