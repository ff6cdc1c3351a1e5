//! New spans, and their numbers while a timeline is written.

use range_model::RangeStyle;
use tracing_core::Metadata;
use tracing_core::field::Visit;

use super::ThreadState;
use crate::clock::Ticks;
use crate::record::{CallId, Place, RangeKey, RangeNumbers, StreamId, Unnamed};
use crate::session::calls::Call;
use crate::session::catalog::ROOT;
use crate::span::site::site_key;
use crate::thread::numbers::{Created, NewSpan};
use crate::thread::row::Row;
use crate::thread::stack::Frame;

/// New spans.
impl ThreadState {
    /// Path `counting`: place and row of a new span under the innermost open range, if they are cached, and the span
    /// has no values of its own.
    #[inline(always)]
    pub(crate) fn child_counting(&self, metadata: &'static Metadata<'static>) -> Option<(Place, &Row)> {
        let parent = if self.stack.is_empty() { ROOT } else { self.stack.near_top()?.place().node() };
        let place = self.children.get(parent, site_key(metadata)).filter(|place| place.is_plain())?;
        Some((place, self.rows.get_inline(place.row())?))
    }

    /// Node of the innermost open range, which is the parent of a new span without an explicit parent.
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
                let unnamed = [(site.own_values, Unnamed::WithValues), (site.is_split, Unnamed::Split)];
                if let Some((_, kind)) = unnamed.into_iter().find(|(applies, _)| *applies) {
                    return Place::unnamed(parent, kind);
                }
                let key = RangeKey { label: site.label, category: 0, style: RangeStyle::PushPop };
                self.place(self.node(parent, key), key, metadata).under_if_any(parent)
            })
        })
    }

    /// [`child`](Self::child), for a span that was created before and has no values of its own.
    pub(crate) fn counted_child(&self, parent: u32, metadata: &'static Metadata<'static>) -> Place {
        let place = self.child(parent, metadata);
        if place.is_unnamed(Unnamed::Split) { self.plain_child(parent, metadata) } else { place }
    }

    /// The place of a span with the name of its call site and without values of its own.
    pub(crate) fn plain_child(&self, parent: u32, metadata: &'static Metadata<'static>) -> Place {
        let key = RangeKey { label: self.site(metadata).label, category: 0, style: RangeStyle::PushPop };
        self.place(self.node(parent, key), key, metadata).under_if_any(parent)
    }

    /// Lets spans of this call site under this parent take the fast paths from now on.
    pub(crate) fn know_plain(&self, parent: u32, metadata: &'static Metadata<'static>, place: Place) {
        self.known.lock().know_child(parent, site_key(metadata), place);
        self.children.insert(parent, site_key(metadata), place);
    }

    /// The place on this thread for a place that the thread with this state has made.
    #[inline]
    pub(crate) fn place_from(&self, index: u32, other: impl FnOnce() -> Option<&'static Self>, place: Place) -> Place {
        // The cache of children also serves here. Its key has a number for the other thread's row in place of the call
        // site; no call site has such a number.
        let row = (place.row() as u64) << 16 | u64::from(index) | 1 << 63;
        self.children.get(place.node(), row).unwrap_or_else(|| {
            self.find_child(place.node(), row, || {
                let identity = other().and_then(|other| other.rows.identity(place));
                let here = identity.map(|identity| self.place(place.node(), identity.key, identity.metadata));
                here.map_or(Place::NONE, |here| here.under_if_any(place.parent()))
            })
        })
    }

    /// The place for an entry of a span with this place and call (0 for none): below the innermost open range, unless
    /// that range's node is the same or a descendant. Counts the use of the span there.
    #[inline]
    pub(super) fn place_of_entry(&self, place: Place, call: CallId) -> Place {
        let top = self.stack.top();
        let elsewhere = top.filter(|top| top.place().node() != place.parent());
        let entered = elsewhere.map_or(place, |top| self.place_elsewhere(place, call, top));
        if entered.node() == place.node()
            && let Some(call) = self.session.calls.get(call)
            && call.enter_at_home(top.map(|top| || self.range_around(call, top).0))
        {
            self.add_call(entered);
        }
        entered
    }

    /// Start of the range in which a call is about to be entered, and the call of that range (0 for none). A future
    /// that polls others opens a range at each poll; for calls created inside it these are one range.
    #[inline]
    fn range_around(&self, call: &Call, top: &Frame) -> (Ticks, CallId) {
        let outer = if top.place().is_called() { self.stack.call_of(self.stack.depth().wrapping_sub(1)) } else { 0 };
        let range = self.session.calls.get(outer).and_then(|above| call.range_in(above));
        range.map_or((top.start(), 0), |range| (range, outer))
    }

    #[inline(never)]
    pub(super) fn place_elsewhere(&self, home: Place, call: CallId, top: &Frame) -> Place {
        let innermost = top.place().node();
        // The key has a number for this place in place of the call site, as in `place_from`.
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
            // Its parent by creation may be a plain span without a call, inside of the call that polls it.
            if let Some(followed) = self.session.calls.get(call).filter(|call| call.is_new()) {
                self.session.calls.adopt(call, self.range_around(followed, top).1);
            }
            return home;
        }
        let (uses, is_first) = match self.session.calls.get(call) {
            Some(followed) => {
                let (range, outer) = self.range_around(followed, top);
                let (uses, is_first) = followed.enter_elsewhere(place.node(), range);
                if is_first && outer != 0 {
                    self.session.calls.adopt(call, outer);
                }
                (uses, is_first)
            }
            None => (1, true),
        };
        for _ in 0..uses {
            self.add_call(place);
        }
        if let Some(row) = self.rows.get(home.row()).filter(|_| is_first) {
            row.change_calls(-1); // it was counted where it was created
        }
        place.flagged_as(home)
    }

    /// A place that is not cached.
    #[inline(never)]
    pub(super) fn find_child(&self, parent: u32, site: u64, make: impl FnOnce() -> Place) -> Place {
        let known = self.known.lock().child(parent, site);
        let place = known.unwrap_or_else(|| {
            let place = make(); // may look up other places, and run a tool's code
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

    /// Lets a call follow a new span of this place. `parent` is the call in which the span was created (0 for none), or
    /// `None` for `parent: None`. Returns 0 if a call would add no information.
    pub(crate) fn begin_call(&self, place: Place, parent: Option<CallId>, new: &NewSpan) -> CallId {
        let is_followed = self.statistics && self.rows.get(place.row()).is_some_and(|row| !row.is_plain());
        if !is_followed {
            return 0;
        }
        let calls = &self.session.calls;
        let id = calls.begin(&self.spare_calls, self.index, place, parent.unwrap_or(0), self.session.clock.now());
        if let Some(call) = calls.get(id) {
            if parent.is_none() {
                call.set_alone();
            }
            if self.is_taped {
                call.set_numbers(new.numbers());
            }
        }
        id
    }

    /// Lets a call follow a live span of this place, in the call `above` (0 for none), even if its row is plain. It
    /// begins now or, if the span is open on this thread, with its outermost range. Returns 0 if there is no room.
    pub(crate) fn begin_linked(&self, span: u64, place: Place, above: CallId) -> CallId {
        let mut open = (0..self.stack.depth()).filter_map(|range| self.stack.frame(range));
        let start = open.find(|frame| frame.span() == span).map_or_else(|| self.session.clock.now(), Frame::start);
        self.session.calls.begin(&self.spare_calls, self.index, place, above, start)
    }

    /// Whether spans of this place are entered repeatedly, as far as is known.
    #[inline]
    pub(crate) fn is_reentered(&self, place: Place) -> bool {
        self.rows.get_inline(place.row()).is_some_and(Row::is_reentered)
    }

    /// Remembers the call of the span with this registry id. Only for spans whose place has the flag for a call.
    pub(crate) fn remember_call(&self, id: u64, call: CallId) {
        self.remembered.set_call(id, call);
    }

    /// The call of a remembered span. Only for spans whose place has the flag for a call.
    pub(crate) fn remembered_call(&self, id: u64) -> CallId {
        self.remembered.call(id)
    }

    /// Remembers the place of the span with this registry id. Only for spans created on this thread.
    #[inline(always)]
    pub(crate) fn remember(&self, id: u64, place: Place) {
        self.remembered.insert(id, place);
    }

    /// Remembers the stream that a parent of the span with this registry id names (0 for none). Called for each new
    /// span once any span names a stream.
    pub(crate) fn inherit_stream(&self, id: u64, stream: StreamId) {
        self.remembered.inherit_stream(id, stream);
    }

    /// The stream that a parent of a remembered span names.
    pub(crate) fn inherited_stream(&self, id: u64) -> StreamId {
        self.remembered.stream(id)
    }

    /// The place of the span with this registry id, created on this thread, if it is remembered.
    #[inline(always)]
    pub(crate) fn remembered(&self, id: u64) -> Option<Place> {
        self.remembered.place(id)
    }
}

/// Numbers of spans and calls, while a timeline is written.
impl ThreadState {
    /// The numbers of a span that is about to be created: in the call of the span `parent` or, without a parent, in the
    /// innermost open call.
    #[inline]
    pub(crate) fn number(&self, parent: Option<u64>, metadata: &'static Metadata<'static>) -> NewSpan {
        let Some(numbers) = &self.numbers else { return NewSpan::default() };
        let parent = parent.unwrap_or_else(|| numbers.innermost(self.stack.depth()));
        let has_fields = !metadata.fields().is_empty() && self.session.records_values();
        let site = if has_fields { site_key(metadata) } else { 0 };
        NewSpan { span: numbers.next(), parent, site }
    }

    /// Keeps the numbers of a new span, and records its fields, which `visit` passes to its argument.
    #[inline]
    pub(crate) fn keep_numbers(&self, id: u64, new: NewSpan, visit: impl FnOnce(&mut dyn Visit)) {
        let Some(numbers) = &self.numbers else { return };
        numbers.keep(id, new);
        if new.site != 0 {
            let of = (new.span, new.site);
            self.gate.while_closed(|| self.tape.record_fields(self.thread_id(), of, None, visit));
        }
    }

    /// Records fields that a span of any thread gets after its creation.
    pub(crate) fn record_later_fields(&self, created: &Created, visit: impl FnOnce(&mut dyn Visit)) {
        if let Some(of) = created.with_fields() {
            let at = Some(self.session.clock.now());
            self.gate.while_closed(|| self.tape.record_fields(self.thread_id(), of, at, visit));
        }
    }

    /// The data of a live span that was created with this state. On any thread.
    #[inline]
    pub(crate) fn created(&self, id: u64) -> Option<&Created> {
        self.numbers.as_ref()?.created(id)
    }

    /// The data of a live span that was created on this thread.
    #[inline]
    pub(crate) fn created_here(&self, id: u64) -> Option<&Created> {
        self.numbers.as_ref()?.created_by_owner(id)
    }

    /// The numbers of an open range, by its place on the stack, or of one that has just left it.
    #[inline(always)]
    pub(super) fn numbers_of(&self, range: usize) -> RangeNumbers {
        self.numbers.as_ref().map_or_else(RangeNumbers::default, |numbers| numbers.of(range))
    }

    /// Numbers of a range without a span, in the innermost open call.
    #[cfg(feature = "injection")]
    pub(crate) fn number_alone(&self) -> RangeNumbers {
        let Some(numbers) = &self.numbers else { return RangeNumbers::default() };
        numbers.alone(numbers.innermost(self.stack.depth()))
    }
}
