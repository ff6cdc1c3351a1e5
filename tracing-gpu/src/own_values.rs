//! Spans with values of their own (`nvtx.name`, `nvtx.color`, ...): the slower path that both tiers share.

use std::sync::Arc;

use tracing_core::span;

use crate::collect::catalog::ROOT;
use crate::collect::core::Core;
use crate::collect::fields::Fields;
use crate::collect::lifetimes::Begun;
use crate::collect::shard::Shard;
use crate::collect::tape::{RangeRecord, Record};
use crate::collect::values::{Changing, FieldValues, Lifetime, Scratch, SpanValues};
use crate::record::{Ended, RangeKey, StreamId};
use crate::stream;
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
    let mut known = shard.known();
    let mut read = FieldValues::new(known.scratch(), core.tape_room.is_some());
    shard.closed(|| attributes.record(&mut read));
    let (lifetime, names_a_stream) = (read.lifetime, read.stream.is_some());
    if let Some((misread, value)) = read.misread() {
        known.misread(shard, metadata, misread, value);
    }
    let site = known.site(shard, metadata);
    let label = read.name().and_then(|name| known.run_time_label(shard, site.domain, name)).unwrap_or(site.label);
    let node = known.node(shard, parent, RangeKey { label, category: 0, style: RangeStyle::PushPop });
    let category = read.category().map_or(0, |category| known.category(shard, category));
    let place = known.place(shard, node, RangeKey { label, category, style: RangeStyle::PushPop }, metadata);
    let (changing, Scratch { texts, mut others }) = read.begin(category);
    known.keep_texts(texts);
    if others.is_empty() {
        known.keep_fields(std::mem::take(&mut others)); // a span that has none holds no memory for them
    }
    drop(known);
    if names_a_stream {
        core.announce_streams();
    }
    if !place.is_none() {
        shard.add_call(place);
    }
    let values = SpanValues::new(metadata, (node, label), (shard.index, place), changing, others);
    if lifetime {
        begin_lifetime(core, shard, &values);
    }
    Arc::new(values)
}

/// Takes over the fields of a `record`.
pub(crate) fn record(core: &Core, shard: &Shard, values: &SpanValues, record: &span::Record<'_>) {
    let mut known = shard.known();
    let mut read = FieldValues::new(known.scratch(), core.tape_room.is_some());
    shard.closed(|| record.record(&mut read));
    let names_a_stream = read.stream.is_some();
    if let Some((misread, value)) = read.misread() {
        known.misread(shard, values.metadata, misread, value);
    }
    let category = read.category().map(|category| known.category(shard, category));
    let Scratch { texts, others } = values.update(read, category);
    known.keep_texts(texts);
    known.keep_fields(others);
    drop(known);
    if names_a_stream {
        core.announce_streams();
    }
}

/// The stream that an entry is timed on, 0 for none: the span's own, else the thread's, else that of the nearest parent that names one.
pub(crate) fn stream_of_entry(core: &Core, own: StreamId, inherited: impl FnOnce() -> StreamId) -> StreamId {
    if !core.gpu || own != 0 {
        return if core.gpu { own } else { 0 };
    }
    match stream::current() {
        0 if core.has_streams() => inherited(),
        current => current,
    }
}

fn lifetime_key(values: &SpanValues, changing: &Changing) -> RangeKey {
    RangeKey { label: values.label, category: changing.category, style: RangeStyle::StartEnd }
}

fn begin_lifetime(core: &'static Core, shard: &Shard, values: &SpanValues) {
    let now = values.now();
    let range = (core.nvtx && nvtx_rs::is_tool_attached())
        .then(|| shard.closed(|| core.nvtx_range(lifetime_key(values, &now))));
    let start = core.clock.now();
    let range = range.map(|range| shard.closed(|| range.domain.start(&now.apply(range.attributes))));
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
    let (lifetime, changing, fields) = values.end();
    if let Some(lifetime) = lifetime {
        end_lifetime(core, shard, values, lifetime, &changing, &fields);
    }
    if let Some(shard) = shard.filter(|_| fields.memory() > 0) {
        shard.known().keep_fields(fields);
    }
}

fn end_lifetime(
    core: &'static Core,
    shard: Option<&Shard>,
    values: &SpanValues,
    lifetime: Lifetime,
    changing: &Changing,
    fields: &Fields,
) {
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
    let key = lifetime_key(values, changing);
    let place = shard.place(shard.node(ROOT, key), key, values.metadata);
    if place.is_none() {
        return core.drop_span();
    }
    shard.add_call(place);
    shard.add(Ended { place, duration: now.saturating_sub(lifetime.start.max(core.window())), nested: 0 });
    let start = lifetime.start; // a timeline goes on over windows
    shard.record_values(start, changing, fields);
    let began_on = (lifetime.thread != shard.thread_id()).then_some(lifetime.thread);
    shard.record(|| Record::Range(RangeRecord { key, start, end: now, depth: 0, began_on, cut: false }));
}
