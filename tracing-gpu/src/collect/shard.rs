//! What one thread measures: its open ranges, its rows, and the caches that lead from a callback to a row.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use parking_lot::Mutex;
use tracing_core::Metadata;

use super::core::Core;
use super::known::Known;
use super::launches::Launches;
use super::lifetimes::Lifetimes;
use super::marks::Marks;
use super::near::{CachedSpan, Child, PAIRS, SPANS};
use super::row::{NvtxRange, Row, RowIdentity};
use super::site::site_key;
use super::slab::Slab;
use super::tape::{Record, Tape};
use super::values::{Changing, SpanValues};
use crate::chunked::Chunked;
use crate::clock::Ticks;
use crate::nesting::{Ranges, Stack};
use crate::record::{Ended, Place, RangeKey, StreamId};
use crate::stream::{self, StartedPair};

#[cfg(all(test, target_pointer_width = "64"))]
#[path = "shard/tests.rs"]
mod tests;

/// Exits elsewhere that a thread is told of before it looks.
const TOLD: usize = 1024;

/// The state of one thread in one profiler. Only that thread writes (plain loads and stores); any thread reads for a summary. When a
/// thread ends, its shard goes to the next new thread, statistics and all.
#[derive(Debug)]
#[repr(C, align(512))] // two shards never share a pair of cache lines, which processors fetch together; for the order see `row::WRITTEN`
pub(crate) struct Shard {
    /// Equal to the profiler's window while callbacks may go straight on; something else while they must stop and look.
    pub(crate) gate: AtomicU64,
    pub(crate) index: u32,
    nvtx: bool,
    pub(super) statistics: bool,
    /// Whether a timeline is written.
    pub(super) is_taped: bool,
    pub(super) core: &'static Core,
    pub(crate) stack: Stack,
    pub(crate) slab: Slab,
    pub(super) children: [[Child; 2]; PAIRS],
    pub(super) spans: [CachedSpan; SPANS],
    pub(super) rows: Chunked<Row, 64>,
    pub(super) marks: Marks,
    pub(super) row_count: AtomicU32,
    /// Profiler this belongs to.
    pub(crate) profiler: u64,
    /// Start of the window that the rows are of.
    pub(crate) window: AtomicU64,
    pub(super) known: Mutex<Known>,
    told: Mutex<Vec<(u64, Ticks)>>,
    pub(super) launches: Launches,
    pub(super) tape: Tape,
    /// For each of `spans`, the stream that a parent names: read only where any span names one.
    pub(super) streams: [AtomicU32; SPANS],
    pub(crate) thread: Mutex<String>,
    pub(crate) lifetimes: Lifetimes,
}

/// Finds the values of a span that has its own.
pub(crate) trait FindValues {
    fn find(&self, span: u64) -> Option<std::sync::Arc<SpanValues>>;
}

impl Shard {
    pub(crate) fn new(core: &'static Core, index: u32) -> Self {
        Self {
            gate: AtomicU64::new(super::core::CLOSED),
            index,
            nvtx: core.nvtx,
            statistics: core.statistics,
            is_taped: core.tape_room.is_some(),
            core,
            slab: Slab::new(),
            stack: Stack::new(),
            children: std::array::from_fn(|_| Default::default()),
            spans: std::array::from_fn(|_| CachedSpan::default()),
            streams: std::array::from_fn(|_| AtomicU32::new(0)),
            rows: Chunked::new(),
            row_count: AtomicU32::new(0),
            profiler: core.id,
            window: AtomicU64::new(core.window()),
            known: Mutex::default(),
            told: Mutex::default(),
            marks: Marks::new(),
            launches: Launches::new(),
            tape: Tape::new(core.tape_room.is_some()),
            thread: Mutex::default(),
            lifetimes: Lifetimes::default(),
        }
    }

    /// Node of the innermost open range, under which a new span without an explicit parent is.
    pub(crate) fn current_node(&self) -> u32 {
        self.stack.top().map_or(super::catalog::ROOT, |top| top.place().node())
    }

    /// The place of a new span of this call site under a parent; [`Place::NONE`] if it is filtered out.
    pub(crate) fn child(&self, parent: u32, metadata: &'static Metadata<'static>) -> Place {
        let site = site_key(metadata);
        self.cached_child(parent, site).unwrap_or_else(|| {
            self.find_child(parent, site, || {
                let site = self.site(metadata);
                if !site.enabled {
                    return Place::NONE;
                }
                if site.own_values {
                    return Place::new(parent, 0).with_own_values(); // its name, and so its node, is known only when it is created
                }
                let key = RangeKey { label: site.label, category: 0, style: crate::summary::RangeStyle::PushPop };
                self.place(self.node(parent, key), key, metadata)
            })
        })
    }

    /// A place that another thread made, on this one.
    #[inline]
    pub(crate) fn place_from(&self, other: &Shard, place: Place) -> Place {
        // The cache of children serves here too: the row of the other thread stands for the call site, which it never equals.
        let row = (place.row() as u64) << 16 | u64::from(other.index) | 1 << 63;
        self.cached_child(place.node(), row).unwrap_or_else(|| {
            self.find_child(place.node(), row, || {
                let identity = other.rows.get(place.row()).and_then(Row::identity);
                identity.map_or(Place::NONE, |identity| self.place(place.node(), identity.key, identity.metadata))
            })
        })
    }

    /// A place that is not in the cache, or not any more.
    #[inline(never)]
    fn find_child(&self, parent: u32, site: u64, make: impl FnOnce() -> Place) -> Place {
        let place = self.known_place(parent, site).unwrap_or_else(|| {
            let place = make(); // which may look up others, and run a tool's code
            self.know_place(parent, site, place);
            place
        });
        self.cache_child(parent, site, place);
        place
    }

    /// Counts the creation of a span.
    pub(crate) fn add_call(&self, place: Place) {
        if let Some(row) = self.rows.get(place.row()) {
            row.add_call(&self.core.clock);
        }
    }

    /// Opens a range of a span that has values of its own.
    #[inline(never)]
    pub(crate) fn enter_with_values(&self, span: u64, values: &SpanValues, now: &Changing, stream: StreamId) {
        let place = self.place_now(values, now.category);
        if place.is_none() {
            return self.core.drop_span();
        }
        self.enter(span, place.with_own_values(), Some(values), stream);
        if let Some((_, start)) = self.stack.depth().checked_sub(1).and_then(|top| self.stack.at(top)) {
            values.with_fields(|now, fields| self.record_values(start, now, fields));
        }
    }

    /// Where an entry of this span is counted: `record` may have changed its category.
    fn place_now(&self, values: &SpanValues, category: u32) -> Place {
        values.place(self.index, category).unwrap_or_else(|| {
            let style = crate::summary::RangeStyle::PushPop;
            let key = RangeKey { label: values.label, category, style };
            self.place(values.node, key, values.metadata)
        })
    }

    /// [`enter`](Self::enter) after the start was recorded on a stream, if that was so.
    #[inline(never)]
    pub(super) fn enter_begun(&self, span: u64, place: Place, values: Option<&SpanValues>, mark: Option<StartedPair>) {
        let range = if self.has_tool() { self.nvtx_range(place) } else { None };
        let attributes = range.map(|range| values.map_or(range.attributes, |own| own.now().apply(range.attributes)));
        // Under a tool, the start is set below.
        let start = if range.is_some() { 0 } else { self.now() };
        let Some(frame) = self.stack.push(span, place, start) else {
            mark.into_iter().for_each(stream::abandon);
            return self.core.drop_span();
        };
        if let (Some(range), Some(attributes)) = (range, attributes) {
            self.closed(|| {
                // Next to nothing is left between the clock and the tool, which may call CUDA in this range: one store, and no
                // branch, whose other side may be a line of code that has to be fetched.
                range.domain.push_timed(&attributes, || frame.start_at(self.now_in_order()));
            });
        }
        if let Some(mark) = mark {
            self.keep_mark(place, mark);
        }
    }

    /// Whether our ranges go to a tool.
    fn has_tool(&self) -> bool {
        self.nvtx && nvtx_rs::is_tool_attached()
    }

    /// Closes the range of `span` if it is the innermost one. Returns false if it is not.
    pub(crate) fn exit(&self, span: u64) -> bool {
        if !self.stack.is_top(span) {
            return false;
        }
        let now = if self.has_tool() { self.pop_tool() } else { self.now() };
        if let Some(ended) = self.stack.pop(now) {
            self.add(ended);
            self.record_ended(ended, now, self.stack.depth());
        }
        self.end_instances(now);
        self.end_mark();
        true
    }

    #[inline(never)]
    fn pop_tool(&self) -> Ticks {
        let range = self.stack.top().and_then(|top| self.nvtx_range(top.place()));
        self.closed(|| self.pop_range(range))
    }

    /// Pops a range of a tool's, if there is one, and says when.
    fn pop_range(&self, range: Option<NvtxRange>) -> Ticks {
        range.map_or_else(|| self.now(), |range| range.domain.pop_timed(|| self.now_in_order()))
    }

    /// Exits a span that is not the innermost open range. Returns false if it is not open on this thread at all.
    #[inline(never)]
    pub(crate) fn exit_below(&self, span: u64, values: &dyn FindValues) -> bool {
        self.end_left();
        let told = std::mem::take(&mut *self.told.lock());
        let mut shell = Shell { shard: self, values: Some(values) };
        match self.stack.exit_below(span, &told, &mut shell) {
            Some(left) => {
                self.core.losses.split_instances.fetch_add(left.reopened, Relaxed);
                self.move_instances(&left);
                if self.has_marks() {
                    self.end_marks_below(&left);
                }
                true
            }
            None => {
                self.told.lock().extend(told); // not for this exit
                false
            }
        }
    }

    /// Ends every range that is open on this thread. Returns their places, innermost first.
    pub(crate) fn unwind(&self) -> Vec<Place> {
        self.told.lock().clear();
        let places = self.stack.unwind(&mut Shell { shard: self, values: None });
        self.end_instances(self.now());
        self.end_all_marks();
        places
    }

    /// Back to the profiler: the thread has ended.
    pub(crate) fn release(&'static self) {
        self.core.release(self);
    }

    /// Forgets open ranges and remembered spans, for the next thread.
    pub(crate) fn abandon(&self) -> Vec<Place> {
        struct Nothing;
        impl Ranges for Nothing {
            fn close(&mut self, _: Place, _: u64) -> Ticks {
                0
            }
            fn reopen(&mut self, _: Place, _: u64) -> Ticks {
                0
            }
            fn ended(&mut self, _: Ended, _: Ticks, _: usize) {}
            fn domain(&self, _: Place) -> u32 {
                0
            }
        }
        for entry in &self.spans {
            entry.id.store(0, Relaxed);
        }
        self.told.lock().clear();
        self.abandon_marks(|_| true);
        let places = self.stack.unwind(&mut Nothing);
        self.end_instances(self.now());
        self.forget_lifetimes();
        places
    }

    /// Tells this thread that a range open on it was exited elsewhere. It looks at its next out-of-order exit.
    pub(crate) fn tell(&self, span: u64) {
        let mut told = self.told.lock();
        if told.len() < TOLD {
            told.push((span, self.now()));
        }
    }

    /// Starts over for the profiler's new window.
    pub(crate) fn restart(&self, start: Ticks) {
        for row in self.rows() {
            row.clear();
        }
        for depth in 0..self.stack.depth() {
            if let Some((_, before)) = self.stack.at(depth).filter(|&(_, before)| before < start) {
                self.record(|| Record::Restarted { depth: depth as u32, before, start });
            }
        }
        self.stack.restart(start);
        self.window.store(start, Release); // pairs with the reader in `drain`: rows are of this window once it is seen
    }

    /// All rows. Any thread.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        (0..self.row_count.load(Acquire) as usize).filter_map(|index| self.rows.get(index))
    }

    /// The clock, if anything is measured or recorded.
    #[inline(always)]
    fn now(&self) -> Ticks {
        if self.statistics || self.is_taped { self.core.clock.now() } else { 0 }
    }

    /// [`now`](Self::now) for a moment that a tool takes too, right afterwards.
    fn now_in_order(&self) -> Ticks {
        if self.statistics || self.is_taped { self.core.clock.now_in_order() } else { 0 }
    }

    pub(crate) fn add(&self, ended: Ended) {
        let row = if self.statistics { self.rows.get(ended.place.row()) } else { None };
        let Some(row) = row.filter(|row| !row.add_near(ended.duration, ended.nested)) else { return };
        if row.is_unused() {
            row.enter_first(self.core.clock.now().saturating_sub(ended.duration));
        }
        row.add(ended.duration, ended.nested, &self.core.budget);
    }

    fn nvtx_range(&self, place: Place) -> Option<NvtxRange> {
        self.identity(place).map(|identity| identity.nvtx)
    }

    pub(crate) fn identity(&self, place: Place) -> Option<&RowIdentity> {
        self.rows.get(place.row()).and_then(Row::identity)
    }

    /// Runs foreign code (a tool, a value's `Debug`), during which callbacks on this thread do nothing.
    #[inline]
    pub(crate) fn closed<T>(&self, foreign: impl FnOnce() -> T) -> T {
        struct Reopen<'a>(&'a AtomicU64, u64);
        impl Drop for Reopen<'_> {
            fn drop(&mut self) {
                self.0.store(self.1, Relaxed);
            }
        }
        let _reopen = Reopen(&self.gate, self.gate.load(Relaxed));
        self.gate.store(super::core::CLOSED, Relaxed);
        foreign()
    }
}

/// What the stack does outside itself when it closes and re-opens.
struct Shell<'a> {
    shard: &'a Shard,
    values: Option<&'a dyn FindValues>,
}

impl Ranges for Shell<'_> {
    fn close(&mut self, place: Place, _span: u64) -> Ticks {
        let range = self.shard.nvtx_range(place);
        let range = range.filter(|_| self.shard.has_tool());
        self.shard.closed(|| self.shard.pop_range(range))
    }

    fn reopen(&mut self, place: Place, span: u64) -> Ticks {
        let range = self.shard.nvtx_range(place);
        let own = self.values.filter(|_| place.has_own_values()).and_then(|values| values.find(span));
        let range = range.filter(|_| self.shard.has_tool());
        let attributes =
            range.map(|range| own.as_ref().map_or(range.attributes, |own| own.now().apply(range.attributes)));
        let start = self.shard.closed(|| match (range, attributes) {
            (Some(range), Some(attributes)) => range.domain.push_timed(&attributes, || self.shard.now_in_order()),
            _ => self.shard.now(),
        });
        if let Some(own) = own {
            own.with_fields(|now, fields| self.shard.record_values(start, now, fields));
        }
        start
    }

    fn ended(&mut self, ended: Ended, end: Ticks, depth: usize) {
        self.shard.add(ended);
        self.shard.record_ended(ended, end, depth);
        self.shard.end_instance_at(depth, end);
    }

    fn domain(&self, place: Place) -> u32 {
        // What only stands in for a range is in no domain: no tool has it, and its exit is nobody's.
        self.shard.identity(place).map_or(u32::MAX, |identity| self.shard.core.domain_of_label(identity.key.label))
    }
}
