//! What one thread measures, made of parts; and the paths that lead through them, from a callback to a row.
//!
//! A path that is named by a condition handles the whole callback, or changes nothing and returns that it did not: then
//! the next one is tried. [`engine`](super::engine) says which path applies when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[cfg(feature = "openacc")]
use once_cell::sync::OnceCell;
use parking_lot::{Mutex, MutexGuard};
use tracing_core::Metadata;
use tracing_core::field::Visit;

use super::caches::{Children, Remembered};
use super::engine;
use super::gate::{Gate, RowsWindow};
use super::known::{Known, Lookup};
use super::launch_log::{Around, LaunchLog};
use super::lifetimes::OpenLifetimes;
#[cfg(feature = "cudarc")]
use super::notes::{Dropped, Taken};
use super::numbers::{Created, NewSpan, Numbers};
use super::open_pairs::OpenPairs;
#[cfg(feature = "openacc")]
use super::openacc::OpenAccLog;
use super::row::{Row, RowIdentity};
use super::rows::Rows;
use super::slab::Slab;
use super::stack::{Frame, NO_SPAN, Ranges, Stack};
use super::tape::{RangeRecord, Record, Tape};
use crate::clock::{Ticks, read_tsc};
use crate::record::{CallId, Ended, InstanceId, Place, RangeKey, RangeNumbers, StreamId};
use crate::session::calls::{Call, EndedCall, Spare};
use crate::session::catalog::ROOT;
use crate::session::{NvtxRange, Session};
use crate::span::fields::Fields;
use crate::span::site::{Site, site_key};
use crate::span::values::{Changing, SpanValues};
use crate::stream::{self, StartedPair};
#[cfg(feature = "cudarc")]
use cuda_activity::record::Note;
use range_report::RangeStyle;
use range_report::timeline::Ending;

#[cfg(all(test, target_pointer_width = "64", feature = "cudarc"))]
#[path = "state/tests.rs"]
mod tests;

/// How many exits on other threads are kept for a thread until it looks at them.
const TOLD: usize = 1024;

/// The state of one thread in one session. Only that thread writes (plain loads and stores); any thread reads for a
/// summary. When a thread ends, its state goes to the next new thread, statistics and all.
///
/// The parts do not know each other: what takes several of them is a path, below.
#[derive(Debug)]
// Two states never share a pair of cache lines, which processors fetch together; for the order see `row::WRITTEN`.
#[repr(C, align(512))]
pub(crate) struct ThreadState {
    pub(crate) gate: Gate,
    pub(crate) index: u32,
    nvtx: bool,
    pub(super) statistics: bool,
    /// Whether a timeline is written.
    pub(crate) is_taped: bool,
    pub(crate) session: &'static Session,
    pub(crate) stack: Stack,
    pub(crate) slab: Slab,
    children: Children,
    remembered: Remembered,
    pub(super) rows: Rows,
    pub(super) pairs: OpenPairs,
    pub(crate) window: RowsWindow,
    known: Mutex<Known>,
    /// Ranges that were exited on other threads, and when.
    told: Mutex<Vec<(u64, Ticks)>>,
    pub(super) launches: LaunchLog,
    pub(crate) tape: Tape,
    /// Where a timeline is written.
    numbers: Option<Box<Numbers>>,
    pub(crate) spare_calls: Spare,
    /// The name of the thread.
    pub(crate) name: Mutex<String>,
    /// When the last front end was dropped that this thread knows of.
    left: AtomicU64,
    /// From the first event on.
    #[cfg(feature = "openacc")]
    pub(crate) openacc: OnceCell<Box<OpenAccLog>>,
}

/// What came of an exit on the path `counting`.
pub(crate) enum CountingExit {
    /// All is done.
    Done,
    /// The range is closed, and its instance is still to be counted: that takes memory.
    Uncounted(Ended),
    /// Nothing has happened: calls into CUDA were made in the range, see [`exit_noted`](ThreadState::exit_noted). Or
    /// there is none.
    Noted,
    /// Nothing has happened.
    Not,
}

/// Finds the values of a span that has its own.
pub(crate) type FindValues<'a> = &'a dyn Fn(u64) -> Option<Arc<SpanValues>>;

impl ThreadState {
    pub(crate) fn new(session: &'static Session, index: u32) -> Self {
        Self {
            gate: Gate::closed(),
            index,
            nvtx: session.nvtx,
            statistics: session.statistics,
            is_taped: session.tape_room.is_some(),
            session,
            stack: Stack::new(),
            slab: Slab::new(),
            children: Children::new(),
            remembered: Remembered::new(),
            rows: Rows::new(),
            pairs: OpenPairs::new(),
            window: RowsWindow::new(session.window()),
            known: Mutex::default(),
            told: Mutex::default(),
            launches: LaunchLog::new(),
            tape: Tape::new(session.tape_room.as_ref()),
            numbers: session.tape_room.as_ref().map(|_| Box::new(Numbers::new())),
            spare_calls: Spare::default(),
            name: Mutex::default(),
            left: AtomicU64::new(session.front_end.left()),
            #[cfg(feature = "openacc")]
            openacc: OnceCell::new(),
        }
    }
}

/// New spans.
impl ThreadState {
    /// Path `counting`: place and row of a new span under the innermost open range, if they are remembered, the span
    /// has no values of its own, and no call is to follow it.
    #[inline(always)]
    pub(crate) fn child_counting(&self, metadata: &'static Metadata<'static>) -> Option<(Place, &Row)> {
        let parent = if self.stack.is_empty() { ROOT } else { self.stack.near_top()?.place().node() };
        let place = self.children.get(parent, site_key(metadata)).filter(|place| place.is_plain())?;
        let row = self.rows.get_inline(place.row()).filter(|row| row.is_plain())?;
        Some((place, row))
    }

    /// Node of the innermost open range, under which a new span without an explicit parent is.
    pub(crate) fn current_node(&self) -> u32 {
        self.stack.top().map_or(ROOT, |top| top.place().node())
    }

    /// The place of a new span of this call site under a parent; [`Place::NONE`] if it is filtered out.
    pub(crate) fn child(&self, parent: u32, metadata: &'static Metadata<'static>) -> Place {
        let site = site_key(metadata);
        self.children.get(parent, site).unwrap_or_else(|| {
            self.find_child(parent, site, || {
                let site = self.site(metadata);
                if !site.enabled {
                    return Place::NONE;
                }
                if site.own_values || site.is_sampled {
                    return Place::unnamed(parent, site.is_sampled);
                }
                let key = RangeKey { label: site.label, category: 0, style: RangeStyle::PushPop };
                self.place(self.node(parent, key), key, metadata).under_if_any(parent)
            })
        })
    }

    /// [`child`](Self::child) of a span that was created before: one that is only sampled has no values of its own.
    pub(crate) fn counted_child(&self, parent: u32, metadata: &'static Metadata<'static>) -> Place {
        let place = self.child(parent, metadata);
        if place.is_sampled() { self.sampled_child(parent, metadata) } else { place }
    }

    /// The place of a span whose call site is only sampled.
    pub(crate) fn sampled_child(&self, parent: u32, metadata: &'static Metadata<'static>) -> Place {
        let key = RangeKey { label: self.site(metadata).label, category: 0, style: RangeStyle::PushPop };
        self.place(self.node(parent, key), key, metadata).under_if_any(parent)
    }

    /// From now on spans of this call site under this parent take the fast paths.
    pub(crate) fn know_sampled(&self, parent: u32, metadata: &'static Metadata<'static>, place: Place) {
        self.known.lock().know_child(parent, site_key(metadata), place);
        self.children.insert(parent, site_key(metadata), place);
    }

    /// A place that another thread made, on this one.
    #[inline]
    pub(crate) fn place_from(&self, other: &Self, place: Place) -> Place {
        // The cache of children serves here too: the row of the other thread stands for the call site, which it never
        // equals.
        let row = (place.row() as u64) << 16 | u64::from(other.index) | 1 << 63;
        self.children.get(place.node(), row).unwrap_or_else(|| {
            self.find_child(place.node(), row, || {
                let identity = other.rows.identity(place);
                let here = identity.map(|identity| self.place(place.node(), identity.key, identity.metadata));
                here.map_or(Place::NONE, |here| here.under_if_any(place.parent()))
            })
        })
    }

    /// The place of an entry of a span with this place and call, 0 for none: below the innermost open range, unless
    /// that is the node's own or above it. Counts the use of the span there.
    #[inline]
    fn place_of_entry(&self, place: Place, call: CallId) -> Place {
        let top = self.stack.top();
        let elsewhere = top.filter(|top| top.place().node() != place.parent());
        let entered = elsewhere.map_or(place, |top| self.place_elsewhere(place, call, top));
        let call = self.session.calls.get(call).filter(|_| entered.node() == place.node());
        if call.is_some_and(|call| call.enter_at_home(top.map_or(0, Frame::start))) {
            self.add_call(entered);
        }
        entered
    }

    #[inline(never)]
    fn place_elsewhere(&self, home: Place, call: CallId, top: &Frame) -> Place {
        let innermost = top.place().node();
        // Stands for this place in the cache of children, as in `place_from`.
        let row = (home.row() as u64) << 16 | u64::from(self.index) | 1 << 63 | 1 << 62;
        let place = self.children.get(innermost, row).unwrap_or_else(|| {
            self.find_child(innermost, row, || {
                let identity = self.identity(home).filter(|_| !self.session.stays(home.node(), innermost));
                let below = identity
                    .map(|identity| self.place(self.node(innermost, identity.key), identity.key, identity.metadata));
                below.map_or(home.plain(), |below| below.under_if_any(innermost))
            })
        });
        if place.is_none() || place.node() == home.node() {
            return home;
        }
        let (is_use, is_first) = match self.session.calls.get(call) {
            Some(call) => call.enter_elsewhere(place.node(), top.start()),
            None => (true, true),
        };
        if is_use {
            self.add_call(place);
        }
        if let Some(row) = self.rows.get(home.row()).filter(|_| is_first) {
            row.change_calls(-1); // it was counted where it was created
        }
        place.flagged_as(home)
    }

    /// A place that is not in the cache, or not any more.
    #[inline(never)]
    fn find_child(&self, parent: u32, site: u64, make: impl FnOnce() -> Place) -> Place {
        let known = self.known.lock().child(parent, site);
        let place = known.unwrap_or_else(|| {
            let place = make(); // which may look up others, and run a tool's code
            self.known.lock().know_child(parent, site, place);
            place
        });
        self.children.insert(parent, site, place);
        place
    }

    /// Counts the creation of a span.
    pub(crate) fn add_call(&self, place: Place) {
        if let Some(row) = self.rows.get(place.row()) {
            row.add_call(|| self.session.clock.now());
        }
    }

    /// Follows a new span of this place by a call, created inside of another, 0 for none; 0 where that tells nothing.
    pub(crate) fn begin_call(&self, place: Place, parent: CallId, new: &NewSpan) -> CallId {
        let is_followed = self.statistics && self.rows.get(place.row()).is_some_and(|row| !row.is_plain());
        if !is_followed {
            return 0;
        }
        let calls = &self.session.calls;
        let call = calls.begin(&self.spare_calls, self.index, place, parent, self.session.clock.now());
        if let Some(call) = calls.get(call).filter(|_| self.is_taped) {
            call.set_numbers(new.numbers());
        }
        call
    }

    /// Remembers the call of a span with this registry id, whose place says that there is one.
    pub(crate) fn remember_call(&self, id: u64, call: CallId) {
        self.remembered.set_call(id, call);
    }

    /// The call of a remembered span whose place says that there is one.
    pub(crate) fn remembered_call(&self, id: u64) -> CallId {
        self.remembered.call(id)
    }

    /// Remembers where the span with this registry id is counted. Only for spans created on this thread.
    #[inline(always)]
    pub(crate) fn remember(&self, id: u64, place: Place) {
        self.remembered.insert(id, place);
    }

    /// Remembers the stream that a parent of the span with this registry id names, 0 for none: for each new span from
    /// the time on that any names one.
    pub(crate) fn inherit_stream(&self, id: u64, stream: StreamId) {
        self.remembered.inherit_stream(id, stream);
    }

    /// The stream that a parent of a remembered span names.
    pub(crate) fn inherited_stream(&self, id: u64) -> StreamId {
        self.remembered.stream(id)
    }

    /// Where the span with this registry id, created on this thread, is counted, if it is remembered.
    #[inline(always)]
    pub(crate) fn remembered(&self, id: u64) -> Option<Place> {
        self.remembered.place(id)
    }
}

/// Numbers of spans and calls, while a timeline is written.
impl ThreadState {
    /// The numbers of a span that is about to be created in the innermost open call, or elsewhere in that of `parent`.
    #[inline]
    pub(crate) fn number(&self, parent: Option<u64>, metadata: &'static Metadata<'static>) -> NewSpan {
        let Some(numbers) = &self.numbers else { return NewSpan::default() };
        let parent = parent.unwrap_or_else(|| numbers.innermost(self.stack.depth()));
        let site = if metadata.fields().is_empty() { 0 } else { site_key(metadata) };
        NewSpan { span: numbers.next(), parent, site }
    }

    /// Keeps the numbers of a new span, and records its fields, which `visit` gives to what it is given.
    #[inline]
    pub(crate) fn keep_numbers(&self, id: u64, new: NewSpan, visit: impl FnOnce(&mut dyn Visit)) {
        let Some(numbers) = &self.numbers else { return };
        numbers.keep(id, new);
        if new.site != 0 {
            let of = (new.span, new.site);
            self.gate.while_closed(|| self.tape.record_fields(self.thread_id(), of, None, visit));
        }
    }

    /// Records fields of a span of any thread that are recorded after its creation.
    pub(crate) fn record_later_fields(&self, created: &Created, visit: impl FnOnce(&mut dyn Visit)) {
        if let Some(of) = created.with_fields() {
            let at = Some(self.session.clock.now());
            self.gate.while_closed(|| self.tape.record_fields(self.thread_id(), of, at, visit));
        }
    }

    /// What is known of a live span that was created with this state. Any thread.
    #[inline]
    pub(crate) fn created(&self, id: u64) -> Option<&Created> {
        self.numbers.as_ref()?.created(id)
    }

    /// What is known of a live span that was created on this thread.
    #[inline]
    pub(crate) fn created_here(&self, id: u64) -> Option<&Created> {
        self.numbers.as_ref()?.created_by_owner(id)
    }

    /// The numbers of an open range, by its place on the stack, or of one that has just left it.
    #[inline(always)]
    fn numbers_of(&self, range: usize) -> RangeNumbers {
        self.numbers.as_ref().map_or_else(RangeNumbers::default, |numbers| numbers.of(range))
    }

    /// Numbers of a range that is of no span, in the innermost open call.
    pub(crate) fn number_alone(&self) -> RangeNumbers {
        let Some(numbers) = &self.numbers else { return RangeNumbers::default() };
        numbers.alone(numbers.innermost(self.stack.depth()))
    }
}

/// Entries. A place is of this thread.
impl ThreadState {
    /// Path `counting`. False where something is in the way, and then nothing has happened.
    #[inline(always)]
    pub(crate) fn enter_counting(&self, span: u64, place: Place) -> bool {
        nvtx_rs::is_tool_absent() && self.stack.is_under_top(place) && self.stack.push_near(span, place, read_tsc())
    }

    /// Path `recording`. False where something is in the way, and then nothing has happened.
    #[inline(always)]
    pub(crate) fn enter_recording(&self, span: u64, place: Place) -> bool {
        let start = if self.statistics { read_tsc() } else { 0 };
        if !nvtx_rs::is_tool_absent() || !self.stack.is_under_top(place) {
            return false;
        }
        let below = self.stack.depth();
        if !self.stack.push_near(span, place, start) {
            return false;
        }
        if let Some(numbers) = &self.numbers {
            let created = numbers.created(span);
            let under = if below == 0 { created.map_or(0, Created::parent) } else { numbers.innermost(below) };
            numbers.set(below, numbers.enter(created, under));
        }
        true
    }

    /// Path `on_stream`: opens a range of a span without values of its own, timed on `stream` if that is not 0.
    #[inline(never)]
    pub(crate) fn enter_on_stream(&self, span: u64, place: Place, stream: StreamId) {
        let pair = if stream == 0 { None } else { stream::begin(&self.session.streams, stream) };
        if !self.enter_counting(span, place) {
            self.enter_begun(span, self.place_of_entry(place, 0), None, pair);
            return;
        }
        if let Some(pair) = pair {
            self.keep_pair(place, pair);
        }
    }

    /// Path `general`: opens any range, timed on `stream` if that is not 0.
    #[inline(never)]
    pub(crate) fn enter_general(
        &self,
        span: u64,
        place: Place,
        call: CallId,
        values: Option<&SpanValues>,
        stream: StreamId,
        created: Option<&Created>,
    ) {
        // Outside of what the CPU's clock and the tool see: a pair of events costs more than all the rest.
        let pair = if stream == 0 { None } else { stream::begin(&self.session.streams, stream) };
        let entered_before = self.session.calls.get(call).map(Call::entered);
        let next = entered_before.is_some_and(|before| self.stack.has_just_left(call, before));
        let start = self.enter_begun(span, self.place_of_entry(place, call), values, pair);
        if let Some(numbers) = self.numbers.as_ref().filter(|_| start.is_some()) {
            let own = numbers.enter_any(&self.stack, place, created, self.session.by_creation());
            self.session.calls.get(call).inspect(|call| call.enter_numbered(own.call, own.parent));
        }
        if let Some(start) = start.filter(|_| call != 0) {
            self.stack.set_call(call);
            self.session.calls.enter(call, start, next);
        }
    }

    /// Path `general`, of a span that has values of its own.
    #[inline(never)]
    pub(crate) fn enter_with_values(
        &self,
        span: u64,
        values: &SpanValues,
        now: &Changing,
        stream: StreamId,
        created: Option<&Created>,
    ) {
        let place = self.place_now(values, now.category);
        if place.is_none() {
            return self.session.drop_span();
        }
        let flagged = if values.call == 0 { place } else { place.with_call() };
        self.enter_general(span, flagged.with_own_values(), values.call, Some(values), stream, created);
        if let Some((_, start)) = self.stack.depth().checked_sub(1).and_then(|top| self.stack.at(top)) {
            self.record_values(start, now, &Fields::default());
        }
    }

    /// Where an entry of this span is counted: `record` may have changed its category.
    fn place_now(&self, values: &SpanValues, category: u32) -> Place {
        values.place(self.index, category).unwrap_or_else(|| {
            let key = RangeKey { label: values.label, category, style: RangeStyle::PushPop };
            self.place(values.node, key, values.metadata).under_if_any(values.parent())
        })
    }

    /// After the start was recorded on a stream, if that was so. Returns when the range begins; `None` where it is not
    /// open since the stack is full.
    #[inline(never)]
    fn enter_begun(
        &self,
        span: u64,
        place: Place,
        values: Option<&SpanValues>,
        pair: Option<StartedPair>,
    ) -> Option<Ticks> {
        let range = if self.has_tool() { self.nvtx_range(place) } else { None };
        let attributes = range.map(|range| values.map_or(range.attributes, |own| own.now().apply(range.attributes)));
        // Under a tool, the start is set below.
        let start = if range.is_some() { 0 } else { self.now() };
        let Some(frame) = self.stack.push(span, place, start) else {
            pair.into_iter().for_each(stream::abandon);
            self.session.drop_span();
            return None;
        };
        if let (Some(range), Some(attributes)) = (range, attributes) {
            self.gate.while_closed(|| {
                // Next to nothing is left between the clock and the tool, which may call CUDA in this range: one store,
                // and no branch, whose other side may be a line of code that has to be fetched.
                range.domain.push_timed(&attributes, || frame.start_at(self.now_in_order()));
            });
        }
        if let Some(pair) = pair {
            self.keep_pair(place, pair);
        }
        Some(frame.start())
    }

    /// Keeps the start of the innermost range.
    #[inline(always)]
    fn keep_pair(&self, place: Place, pair: StartedPair) {
        let below = self.stack.depth().wrapping_sub(1);
        self.pairs.keep(below, place, self.window.start(), pair, || self.key(place));
    }

    #[inline(never)]
    fn key(&self, place: Place) -> Option<RangeKey> {
        self.identity(place).map(|identity| identity.key)
    }
}

/// Exits.
impl ThreadState {
    /// Path `counting`.
    #[inline(always)]
    pub(crate) fn exit_counting(&self, span: u64) -> CountingExit {
        if !nvtx_rs::is_tool_absent() {
            return CountingExit::Not;
        }
        if self.stack.is_top_noted() {
            return CountingExit::Noted;
        }
        let Some(ended) = self.stack.pop_near(span, read_tsc()) else { return CountingExit::Not };
        match self.rows.get_inline(ended.place.row_without_call()) {
            Some(row) if row.add_near(ended.duration, ended.nested) => CountingExit::Done,
            _ => CountingExit::Uncounted(ended),
        }
    }

    /// Counts an instance that [`exit_counting`](Self::exit_counting) could not.
    #[inline(never)]
    pub(crate) fn add_uncounted(&self, place: Place, entered: Ticks, duration: u64, nested: u64) {
        self.add(Ended { place, entered, duration, nested });
    }

    /// Path `counting`, of a range in which calls into CUDA were made. False where something is in the way, and then
    /// nothing has happened. Only where [`exit_counting`](Self::exit_counting) says so.
    #[inline(always)]
    pub(crate) fn exit_noted(&self, span: u64) -> bool {
        let now = read_tsc();
        // Nothing is called on this way, so that nothing is saved for it.
        let Some((below, top)) = self.stack.top_near(span) else { return false };
        let Some(row) =
            self.rows.near(top.place().row_without_call()).filter(|_| self.launches.end_near(&self.stack, below, now))
        else {
            return self.exit_noted_far(span, now);
        };
        let ended = self.stack.pop_top(below, top, now);
        row.add_near(ended.duration, ended.nested) || self.count(ended)
    }

    #[cold]
    #[inline(never)]
    fn exit_noted_far(&self, span: u64, now: Ticks) -> bool {
        let Some(ended) = self.stack.pop_near(span, now) else { return false };
        self.launches.end_gone(&self.around(), now);
        self.count(ended)
    }

    #[cold]
    #[inline(never)]
    fn count(&self, ended: Ended) -> bool {
        self.add(ended);
        true
    }

    /// Path `recording`. False where something is in the way, and then nothing has happened.
    #[inline(always)]
    pub(crate) fn exit_recording(&self, span: u64) -> bool {
        if !nvtx_rs::is_tool_absent() || self.stack.is_top_noted() {
            return false;
        }
        if !self.statistics {
            return self.stack.pop_near(span, 0).is_some();
        }
        let now = read_tsc();
        let Some(ended) = self.stack.pop_near(span, now) else { return false };
        match self.rows.get_inline(ended.place.row_without_call()) {
            Some(row) if row.add_near(ended.duration, ended.nested) => {}
            _ => self.add(ended),
        }
        self.record_ended(ended, now, self.stack.depth());
        true
    }

    /// Path `on_stream`. False where something is in the way, and then nothing has happened.
    #[inline(never)]
    pub(crate) fn exit_on_stream(&self, span: u64) -> bool {
        match self.exit_counting(span) {
            CountingExit::Done => {}
            CountingExit::Uncounted(ended) => {
                self.add_uncounted(ended.place, ended.entered, ended.duration, ended.nested)
            }
            CountingExit::Noted if self.exit_noted(span) => {}
            CountingExit::Noted | CountingExit::Not => return false,
        }
        self.end_pair();
        true
    }

    /// Path `general`: closes the range of `span` if it is the innermost one. Returns false if it is not.
    pub(crate) fn exit_general(&self, span: u64) -> bool {
        if !self.stack.is_top(span) {
            return false;
        }
        let now = if self.has_tool() { self.pop_tool() } else { self.now() };
        if let Some(ended) = self.stack.pop(now) {
            self.add(ended);
            self.record_ended(ended, now, self.stack.depth());
        }
        self.launches.end_gone(&self.around(), now);
        self.end_pair();
        true
    }

    /// Exits a span that is not the innermost open range. Returns false if it is not open on this thread at all.
    #[inline(never)]
    pub(crate) fn exit_below(&self, span: u64, values: FindValues<'_>) -> bool {
        let is_exited = |open, _| open == span;
        self.leave_below(is_exited, values)
    }

    /// Exits the uppermost range of which that is true, by its span and place.
    fn leave_below(&self, is_exited: impl Fn(u64, Place) -> bool, values: FindValues<'_>) -> bool {
        self.launches.end_left(&self.around());
        let told = std::mem::take(&mut *self.told.lock());
        let open: Vec<(u64, Place)> = self.stack.open().collect();
        let mut shell = Shell { thread: self, values: Some(values), end: None };
        match self.stack.exit_below(is_exited, &told, &mut shell) {
            Some(left) => {
                self.session.losses.split_instances.fetch_add(left.reopened, Relaxed);
                self.numbers.iter().for_each(|numbers| numbers.follow(open.len(), &left));
                self.count_misnested(open.get(left.exited..).unwrap_or_default());
                self.launches.begin_again(&self.around(), &left);
                if self.pairs.any() {
                    self.pairs.end_below(&left, &self.session.streams);
                    self.left_pair();
                }
                true
            }
            None => {
                self.told.lock().extend(told); // not for this exit
                false
            }
        }
    }

    /// Counts an exit for the call sites of the first of these ranges, which was exited, and of the one above it, which
    /// is still open: the guard of either may be held too long, and the report finds out which.
    fn count_misnested(&self, open: &[(u64, Place)]) {
        let sites = open.iter().take(2).filter_map(|(_, place)| self.identity(*place)?.metadata);
        let mut counted = None;
        for metadata in sites {
            if counted != Some(site_key(metadata)) {
                self.session.losses.misnested.count(metadata, |site| site.exits += 1);
            }
            counted = Some(site_key(metadata));
        }
    }

    /// Tells this thread that a range open on it was exited elsewhere. It looks at its next out-of-order exit.
    pub(crate) fn tell(&self, span: u64) {
        let mut told = self.told.lock();
        if told.len() < TOLD {
            told.push((span, self.now()));
        }
    }

    #[inline(never)]
    fn pop_tool(&self) -> Ticks {
        let range = self.stack.top().and_then(|top| self.nvtx_range(top.place()));
        self.gate.while_closed(|| self.pop_range(range))
    }

    /// Pops a range of a tool's, if there is one, and says when.
    fn pop_range(&self, range: Option<NvtxRange>) -> Ticks {
        range.map_or_else(|| self.now(), |range| range.domain.pop_timed(|| self.now_in_order()))
    }

    /// Records the end of the range that has just been taken off the top of the stack, if it is timed.
    #[inline(always)]
    fn end_pair(&self) {
        if self.pairs.end_top(self.stack.depth(), &self.session.streams) {
            self.left_pair();
        }
    }

    #[inline(always)]
    fn left_pair(&self) {
        if !self.pairs.any() && stream::current() == 0 {
            engine::look_again(); // the stream was left before the range
        }
    }

    /// Counts the instance that has just been taken off the top of the stack.
    pub(crate) fn add(&self, ended: Ended) {
        let call = if ended.place.is_called() { self.stack.call_of(self.stack.depth()) } else { 0 };
        self.add_of_call(ended, call);
    }

    fn add_of_call(&self, ended: Ended, call: CallId) {
        if self.statistics {
            self.rows.add(ended, &self.session.budget);
            self.session.calls.exit(call, ended.entered.saturating_add(ended.duration));
        }
    }

    /// Counts a call that has ended, whose span was created on this thread or another.
    pub(crate) fn add_call_ended(&self, home: &Self, call: CallId, ended: &EndedCall) {
        let Some((label, metadata)) =
            home.identity(ended.place).map(|identity| (identity.key.label, identity.metadata))
        else {
            return;
        };
        let add = |key: RangeKey, duration, nested, is_marked| {
            let place = self.place(ended.node, key, metadata);
            self.rows.add(Ended { place, entered: ended.created, duration, nested }, &self.session.budget);
            if let Some(row) = self.rows.get(place.row()).filter(|_| is_marked) {
                row.change_calls(1);
            }
        };
        add(RangeKey::calls(label), ended.latency, ended.busy, ended.is_cancelled);
        // A future pauses, and closes right after an exit, since it is entered to be dropped. A worker that holds its
        // span until later leaves it as well.
        let has_just_left = ended.has_paused && self.stack.has_just_left(call, ended.created);
        let is_kept = !ended.is_outlived && !has_just_left;
        add(RangeKey::waits(label), ended.idle, 0, is_kept);
    }

    /// Records a call that has ended, if a timeline is written and its one instance does not show it.
    pub(crate) fn record_call(&self, home: &Self, ended: &EndedCall) {
        let Some(label) = home.identity(ended.place).map(|identity| identity.key.label) else { return };
        let Some(numbers) = ended.numbers.filter(|_| ended.entries > 1 && self.is_taped) else { return };
        let (start, end) = (ended.created, ended.exited);
        let ending = if ended.is_cancelled { Ending::Cancelled } else { Ending::Closed };
        self.record(|| Record::Call { label, start, end, numbers, ending });
    }

    /// What its row learns of a span that was followed by a call. Any thread.
    pub(crate) fn judge(&self, ended: &EndedCall) -> bool {
        let Some(row) = self.rows.get(ended.place.row()) else { return false };
        row.judge(ended.entries);
        row.is_reentered()
    }

    /// Records a range of this thread that has ended, if a timeline is written.
    #[inline]
    fn record_ended(&self, ended: Ended, end: Ticks, depth: usize) {
        if !self.tape.is_written() {
            return;
        }
        if let Some(identity) = self.identity(ended.place) {
            let (depth, cut) = (depth as u32, !self.session.is_running());
            let numbers = self.numbers_of(depth as usize);
            let range =
                RangeRecord { key: identity.key, start: ended.entered, end, depth, began_on: None, cut, numbers };
            self.tape.record_range(self.thread_id(), &range);
        }
    }
}

/// Ranges that other code makes. They are on the stack in place of a span, have the general path alone, and are neither
/// shown to a tool nor timed on streams.
impl ThreadState {
    /// Opens a range with this label and category, which may take the place of a span in caches as `site`.
    #[inline]
    pub(crate) fn push_foreign(&self, key: RangeKey) -> Option<Ticks> {
        // Neither the address of a call site nor what stands for a place, see `place_from`.
        let site = 1 << 62 | u64::from(key.category) << 32 | u64::from(key.label);
        let parent = self.current_node();
        let place = self.children.get(parent, site).unwrap_or_else(|| {
            self.find_child(parent, site, || self.place(self.node(parent, key), key, None).under_if_any(parent))
        });
        let Some(row) = self.rows.get_inline(place.row()).filter(|_| !place.is_none()) else {
            self.session.drop_span();
            return None;
        };
        row.add_call(|| self.session.clock.now());
        let start = self.now();
        let numbers = self.numbers.as_ref().map(|numbers| (numbers, self.number_alone()));
        if self.stack.push(NO_SPAN, place, start).is_none() {
            self.session.drop_span();
            return None;
        }
        numbers.inspect(|(numbers, own)| numbers.set(self.stack.depth() - 1, *own));
        Some(start)
    }

    /// Records values that the uppermost range of that domain of other code gets at its end, if a timeline is written.
    pub(crate) fn record_values_at_pop(&self, domain: u32, fields: &Fields) {
        let open =
            |range: usize| self.stack.frame(range).filter(|range| self.is_foreign(domain, range.span(), range.place()));
        if let Some(range) = (0..self.stack.depth()).rev().find_map(open) {
            self.record_values(range.start(), &Changing::default(), fields);
        }
    }

    /// Whether an open range is one of that domain of other code.
    #[inline]
    fn is_foreign(&self, domain: u32, span: u64, place: Place) -> bool {
        span == NO_SPAN && self.identity(place).is_some_and(|identity| identity.domain == domain)
    }

    /// Closes the uppermost range of that domain of other code. False where none is open.
    #[inline]
    pub(crate) fn pop_foreign(&self, domain: u32) -> bool {
        let now = self.now();
        let is_of_domain = |span, place| self.is_foreign(domain, span, place);
        if !self.stack.top().is_some_and(|top| is_of_domain(top.span(), top.place())) {
            return self.stack.open().any(|(span, place)| is_of_domain(span, place))
                && self.leave_below(is_of_domain, &|_| None);
        }
        if let Some(ended) = self.stack.pop(now) {
            match self.rows.get_inline(ended.place.row()) {
                Some(row) if self.statistics && row.add_near(ended.duration, ended.nested) => {}
                _ => self.add(ended),
            }
            self.record_ended(ended, now, self.stack.depth());
        }
        self.launches.end_gone(&self.around(), now);
        true
    }
}

/// Calls into CUDA.
#[cfg(feature = "cudarc")]
impl ThreadState {
    /// Notes a call that is about to be made on this thread.
    #[inline(always)]
    pub(crate) fn note_call(&self, correlation: u32, graph: bool, enqueues: bool) {
        // Nothing is called on this way, so that nothing is saved for it.
        let rows = |row| self.rows.near(row);
        if self.is_taped || self.launches.note_near(&self.stack, rows, correlation, graph, enqueues).is_none() {
            self.note_call_far(correlation, graph, enqueues);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_call_far(&self, correlation: u32, graph: bool, enqueues: bool) {
        let rows = |row| self.rows.get_inline(row);
        if self.is_taped || self.launches.note_near(&self.stack, rows, correlation, graph, enqueues).is_none() {
            self.note_any_call(correlation, graph, enqueues);
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn note_any_call(&self, correlation: u32, graph: bool, enqueues: bool) {
        let at = if self.is_taped { self.session.clock.now() } else { 0 };
        let call = self.numbers.as_ref().map_or(0, |numbers| numbers.innermost(self.stack.depth()));
        self.launches.note(&self.around(), correlation, graph, enqueues, (at, call));
    }

    /// Notes a call of our own.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_own(&self, correlation: u32) {
        self.note(&Note::Own { correlation });
    }

    pub(super) fn note(&self, note: &Note) -> bool {
        self.launches.notes.push(note, &self.session.note_room)
    }

    /// Hands over what was noted since the last time. Any thread. Returns which notes were dropped since then.
    pub(crate) fn take_notes(&self, into: &mut Taken) -> Dropped {
        self.launches.notes.take(into, &self.session.note_room)
    }

    /// That was read.
    pub(crate) fn give_back(&self, taken: &mut Taken) {
        self.launches.notes.keep(taken.clear(&self.session.note_room));
    }
}

/// Lifetimes, which are around calls into CUDA.
impl ThreadState {
    /// A lifetime begins on this thread: its number, by which it ends.
    pub(crate) fn begin_lifetime(&self, label: u32, start: Ticks) -> InstanceId {
        self.launches.begin_lifetime(label, start, self.session, || self.name.lock().clone())
    }

    /// A lifetime that began on this thread has ended, at `end` if that is measured. Any thread.
    pub(crate) fn end_lifetime(&self, instance: InstanceId, end: Option<Ticks>) {
        self.launches.end_lifetime(instance, end, self.session);
    }

    /// Lifetimes that began here and have not ended. Any thread.
    pub(crate) fn open_lifetimes(&self) -> Vec<OpenLifetimes> {
        self.launches.open_lifetimes()
    }

    fn around(&self) -> Around<'_> {
        Around::new(&self.stack, &self.rows, self.session)
    }
}

/// Beginnings and ends of threads and windows.
impl ThreadState {
    /// A thread takes this state: its number in the operating system.
    pub(super) fn set_thread(&self, thread: u32) {
        self.numbers.iter().for_each(|numbers| numbers.begin_thread());
        self.launches.set_thread(thread, self.session);
    }

    /// Ends every range that is open on this thread. Returns their places, innermost first.
    pub(crate) fn unwind(&self) -> Vec<Place> {
        self.unwind_at(None)
    }

    /// The same, where that was then.
    fn unwind_at(&self, end: Option<Ticks>) -> Vec<Place> {
        self.told.lock().clear();
        let places = self.stack.unwind(&mut Shell { thread: self, values: None, end });
        self.launches.end_gone(&self.around(), end.unwrap_or_else(|| self.now()));
        self.pairs.end_all(&self.session.streams);
        places
    }

    /// Takes part in what has happened since this thread came by: its front end was dropped, a window has begun.
    pub(super) fn catch_up(&self) {
        if !self.is_up_to_date() {
            let left = self.session.front_end.left();
            self.unwind_at(Some(left));
            self.remembered.clear(); // a registry that stays gives the ids to other spans
            self.left.store(left, Relaxed);
        }
        let window = self.session.window();
        self.window.catch_up(window, || self.restart(window));
    }

    /// Whether the ranges that are open on this thread are of a front end that is alive. Any thread.
    pub(crate) fn is_up_to_date(&self) -> bool {
        self.left.load(Relaxed) == self.session.front_end.left()
    }

    /// What the open ranges come to whose front end was dropped: they have ended with it. Any thread.
    pub(crate) fn left_open(&self) -> Vec<Ended> {
        if self.is_up_to_date() { Vec::new() } else { self.stack.ended_at(self.session.front_end.left()) }
    }

    /// Forgets open ranges and remembered spans, for the next thread.
    pub(crate) fn abandon(&self) -> Vec<Place> {
        struct Nothing(&'static Session);
        impl Ranges for Nothing {
            fn close(&mut self, _: Place, _: u64) -> Ticks {
                0
            }
            fn reopen(&mut self, _: Place, _: u64) -> Ticks {
                0
            }
            fn ended(&mut self, ended: Ended, call: CallId, _: Ticks, _: usize) {
                self.0.calls.exit(call, ended.entered);
            }
            fn domain(&self, _: Place) -> u32 {
                0
            }
        }
        self.remembered.clear();
        self.left.store(self.session.front_end.left(), Relaxed);
        self.told.lock().clear();
        self.pairs.abandon(|_| true);
        let places = self.stack.unwind(&mut Nothing(self.session));
        self.launches.end_gone(&self.around(), self.now());
        self.launches.leave_lifetimes();
        #[cfg(feature = "openacc")]
        self.openacc.get().into_iter().for_each(|log| log.abandon());
        places
    }

    /// Starts over for the session's new window.
    fn restart(&self, start: Ticks) {
        for row in self.rows.iter() {
            row.clear();
        }
        for depth in 0..self.stack.depth() {
            if let Some((_, before)) = self.stack.at(depth).filter(|&(_, before)| before < start) {
                self.record(|| Record::Restarted { depth: depth as u32, before, start });
            }
        }
        self.stack.restart(start);
        #[cfg(feature = "openacc")]
        self.openacc.get().into_iter().for_each(|log| log.restart(start));
    }
}

/// What paths and others ask of it.
impl ThreadState {
    /// The operating system's number of the thread that has this state.
    pub(crate) fn thread_id(&self) -> u32 {
        self.launches.thread()
    }

    /// All rows. Any thread.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter()
    }

    #[inline]
    pub(crate) fn identity(&self, place: Place) -> Option<&RowIdentity> {
        self.rows.identity(place)
    }

    /// What this thread has met. Foreign code that runs meanwhile finds the gate closed, and so does not come here.
    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Where it looks up what it does not know.
    pub(crate) fn lookup(&self) -> Lookup<'_> {
        Lookup { session: self.session, gate: &self.gate, rows: &self.rows }
    }

    /// What is known of a call site.
    fn site(&self, metadata: &'static Metadata<'static>) -> Site {
        self.known.lock().site(&self.lookup(), metadata)
    }

    /// Node of a range under a parent.
    pub(crate) fn node(&self, parent: u32, key: RangeKey) -> u32 {
        self.known.lock().node(&self.lookup(), parent, key)
    }

    /// The place of a node and key on this thread, with a row of its own from the first time on.
    pub(crate) fn place(
        &self,
        node: u32,
        key: RangeKey,
        metadata: impl Into<Option<&'static Metadata<'static>>>,
    ) -> Place {
        self.known.lock().place(&self.lookup(), node, key, metadata.into())
    }

    /// Records something of this thread, if a timeline is written.
    pub(crate) fn record(&self, record: impl FnOnce() -> Record) {
        if self.tape.is_written() {
            self.record_with_fields(record(), &Fields::default());
        }
    }

    /// Records something that has fields, if a timeline is written.
    pub(crate) fn record_with_fields(&self, record: Record, fields: &Fields) {
        self.tape.record(self.thread_id(), record, fields);
    }

    /// Records the values of the range that starts then, if a timeline is written and there are any.
    pub(crate) fn record_values(&self, start: Ticks, values: &Changing, fields: &Fields) {
        if values.color.is_some() || values.payload.is_some() || !fields.is_empty() {
            self.tape.record_values(self.thread_id(), start, values, fields);
        }
    }

    /// Whether our ranges go to a tool.
    fn has_tool(&self) -> bool {
        self.nvtx && nvtx_rs::is_tool_attached()
    }

    fn nvtx_range(&self, place: Place) -> Option<NvtxRange> {
        self.identity(place).and_then(|identity| identity.nvtx)
    }

    /// The clock, if anything is measured or recorded.
    #[inline(always)]
    fn now(&self) -> Ticks {
        if self.statistics || self.is_taped { self.session.clock.now() } else { 0 }
    }

    /// [`now`](Self::now) for a moment that a tool takes too, right afterwards.
    fn now_in_order(&self) -> Ticks {
        if self.statistics || self.is_taped { self.session.clock.now_in_order() } else { 0 }
    }
}

/// What the stack does outside itself when it closes and re-opens.
struct Shell<'a> {
    thread: &'a ThreadState,
    values: Option<FindValues<'a>>,
    /// When ranges that are closed have ended, where that was before.
    end: Option<Ticks>,
}

impl Ranges for Shell<'_> {
    fn close(&mut self, place: Place, _span: u64) -> Ticks {
        let range = self.thread.nvtx_range(place);
        let range = range.filter(|_| self.thread.has_tool());
        let now = self.thread.gate.while_closed(|| self.thread.pop_range(range));
        self.end.unwrap_or(now)
    }

    fn reopen(&mut self, place: Place, span: u64) -> Ticks {
        if let Some(metadata) = self.thread.identity(place).and_then(|identity| identity.metadata) {
            self.thread.session.losses.misnested.count(metadata, |site| site.reopened += 1);
        }
        let range = self.thread.nvtx_range(place);
        let own = self.values.filter(|_| place.has_own_values()).and_then(|values| values(span));
        let range = range.filter(|_| self.thread.has_tool());
        let attributes =
            range.map(|range| own.as_ref().map_or(range.attributes, |own| own.now().apply(range.attributes)));
        let start = self.thread.gate.while_closed(|| match (range, attributes) {
            (Some(range), Some(attributes)) => range.domain.push_timed(&attributes, || self.thread.now_in_order()),
            _ => self.thread.now(),
        });
        if let Some(own) = own {
            self.thread.record_values(start, &own.now(), &Fields::default());
        }
        start
    }

    fn ended(&mut self, ended: Ended, call: CallId, end: Ticks, depth: usize) {
        self.thread.add_of_call(ended, call);
        self.thread.record_ended(ended, end, depth);
        self.thread.launches.end_at(&self.thread.around(), depth, end);
    }

    fn domain(&self, place: Place) -> u32 {
        // What only stands in for a range is in no domain: no tool has it, and its exit is nobody's.
        self.thread.identity(place).map_or(u32::MAX, |identity| identity.domain)
    }
}
