//! Calls of futures: where their instances begin and end, and their rows.

use std::sync::atomic::Ordering::Relaxed;

use tracing_core::Metadata;

use crate::clock::Ticks;
use crate::core::record::{CallId, OnCpu, Place};
use crate::core::thread::row::Row;
use crate::core::thread::stack::Frame;
use crate::core::thread::state::ThreadState;
use crate::parts::batches::session::Served;
use crate::parts::calls::session::{Around, Call, EndedCall, Entry, Evidence, LastExit};
use crate::parts::calls::thread::call_row::{CallRow, CallSums, ServedSums};
use crate::parts::timeline::thread::numbers::NewSpan;
use crate::parts::waits::thread::woken::BY_TASK;

impl ThreadState {
    /// Paths `counting` and `recording`, for a span with a call that is entered where it was created. Returns false if
    /// they do not apply.
    #[inline]
    pub(crate) fn enter_called(&self, span: u64, place: Place, id: CallId) -> bool {
        let Some((call, room)) = self.session.parts.calls.get(id).zip(self.stack.room(place)) else { return false };
        let below = room.below;
        if !self.lacks_tool() || !call.stays_at_home(below == 0) {
            return false;
        }
        let left = if call.is_new() { LastExit::Other } else { call.left(room.just_left(id)) };
        let start = self.start_after_wait(place, call, self.start_fast());
        room.push(span, place, start, id);
        if let Some(numbers) = &self.parts.numbers {
            self.set_numbers(numbers, span, place, below, Some(call));
        }
        self.enter_call(place, call, start, left);
        true
    }

    /// Opens an instance of a call. The first call that is entered in a poll takes the time at which its future was
    /// woken.
    #[inline(always)]
    pub(crate) fn enter_call(&self, place: Place, call: &Call, start: Ticks, left: LastExit) {
        let known = self.flags.woken.load(Relaxed);
        let woken = if [0, BY_TASK].contains(&known) { 0 } else { self.count_wait(place, call, known) };
        let evidence = |exited| Evidence {
            around: self.around_entry(exited),
            done: self.parts.waits.done.load(Relaxed),
            has_tool: self.has_tool(),
        };
        let entry = Entry { now: start, left, woken, evidence };
        let mut ready = self.session.parts.calls.enter(self.index, call, entry);
        if known != 0 {
            ready = ready.max(self.enter_in_task(call, known == BY_TASK));
        }
        if ready >= self.thresholds.long_wait && self.stack.depth() == 1 {
            self.blame_worker(place, call, start, ready);
        }
    }

    /// The range around the innermost one, which is entered now, since its call was left.
    #[inline]
    fn around_entry(&self, exited: Ticks) -> Around {
        let outer = self.stack.depth().checked_sub(2);
        match outer.and_then(|outer| Some((outer, self.stack.start_of(outer)?))) {
            Some((_, start)) if start > exited => Around::Later,
            Some((outer, _)) => {
                let call = self.session.parts.calls.get(self.stack.called_of(outer));
                if call.is_some_and(Call::has_paused) { Around::SamePoll } else { Around::Unknown }
            }
            None => Around::Unknown,
        }
    }

    /// Lets a call follow the ranges of a span that are open on this thread.
    pub(crate) fn follow_open(&self, span: u64, id: CallId) {
        let Some(call) = self.session.parts.calls.get(id) else { return };
        for range in (0..self.stack.depth()).filter(|range| self.stack.follow(*range, span, id)) {
            let start = self.stack.start_of(range).unwrap_or_default();
            let _stays = call.stays_at_home(false);
            self.session.parts.calls.enter(self.index, call, Entry::at(start, LastExit::Other));
        }
    }

    /// Ends an instance of a call (0 for none), with `below` ranges below it.
    #[inline(always)]
    pub(crate) fn exit_call(&self, call: CallId, now: Ticks, cpu: OnCpu, below: usize) {
        let around = || below.checked_sub(1).map_or(0, |around| self.stack.called_of(around));
        self.session.parts.calls.exit_in(&self.parts.spare_calls, self.index, call, now, cpu, around);
    }

    /// Counts an ended call, whose span was created on this thread or another.
    pub(crate) fn add_call_ended(&self, home: &Self, call: CallId, ended: &EndedCall) {
        let Some((label, metadata)) =
            home.identity(ended.place).map(|identity| (identity.key.label, identity.metadata))
        else {
            return;
        };
        // A future pauses, and closes right after an exit, because it is entered for its drop. A worker that holds its
        // span longer has left it by then, too.
        let has_just_left = ended.has_paused && self.stack.just_left(call).is_some_and(|start| start >= ended.created);
        let is_kept = !ended.is_outlived && !has_just_left && !ended.has_finished;
        let sums = CallSums {
            busy: ended.busy,
            idle: ended.idle,
            outlived: ended.outlived,
            on_cpu: ended.cpu.on,
            off_cpu: ended.cpu.off,
            ready: ended.ready,
            ready_alone: ended.ready_alone,
            cancelled: ended.is_cancelled.into(),
            unsure: ended.is_unsure.into(),
            dropped: ended.is_dropped.into(),
            kept: is_kept.into(),
            uncounted: 0,
        };
        let row = |node| self.call_row(node, label, metadata);
        row(ended.node).into_iter().for_each(|row| row.add(ended.latency, &sums, &self.session.budget));
        if is_kept && ended.uncounted > 0 {
            let sums = CallSums { uncounted: ended.uncounted, ..CallSums::default() };
            row(ended.place.node()).into_iter().for_each(|row| row.add_sums(&sums));
        }
    }

    /// Counts the batches that served a closed call, whose span was created on this thread or another.
    pub(crate) fn add_served(&self, home: &Self, served: &Served) {
        let Some(identity) = home.identity(served.place) else { return };
        let Served { node, batches, in_batch, share, .. } = *served;
        // Not by `call_row`: with a second caller it is no longer inlined, which costs each call 23 instructions.
        let row = self.known.lock().call_row(&self.lookup(), (node, identity.key.label), identity.metadata);
        let row = row.and_then(|row| self.parts.call_rows.get(row as usize));
        row.into_iter().for_each(|row| row.add_served(ServedSums { batches, in_batch, share }));
    }

    /// The row of the calls of a node and label; `None` if there is no room.
    #[inline]
    fn call_row(
        &self,
        node: u32,
        label: u32,
        metadata: Option<&'static Metadata<'static>>,
    ) -> Option<&'static CallRow> {
        // The cache of children also serves here. Its key has the label in place of the call site; no call site has
        // such a number.
        let key = u64::from(label) | 1 << 63 | 1 << 61;
        let row = self.children.get(node, key).map(Place::row).or_else(|| {
            let row = self.known.lock().call_row(&self.lookup(), (node, label), metadata)?;
            self.children.insert(node, key, Place::new(node, row));
            Some(row as usize)
        });
        self.parts.call_rows.get(row?)
    }

    /// Updates the kind of the row of a span that was followed by a call. On any thread.
    pub(crate) fn judge(&self, ended: &EndedCall) -> bool {
        let Some(row) = self.rows.get(ended.place.row()) else { return false };
        row.judge(ended.entries);
        row.is_reentered()
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
        let calls = &self.session.parts.calls;
        let id = calls.begin(&self.parts.spare_calls, self.index, place, parent.unwrap_or(0), self.session.clock.now());
        if let Some(call) = calls.get(id) {
            if parent.is_none() {
                call.set_alone();
            }
            if self.flags.is_taped {
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
        self.session.parts.calls.begin(&self.parts.spare_calls, self.index, place, above, start)
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

    /// Start of the range in which a call is about to be entered, and the call of that range (0 for none). A future
    /// that polls others opens a range at each poll; for calls created inside it these are one range.
    #[inline]
    pub(crate) fn range_around(&self, call: &Call, top: &Frame) -> (Ticks, CallId) {
        let outer = if top.place().is_called() { self.stack.call_of(self.stack.depth().wrapping_sub(1)) } else { 0 };
        let range = self.session.parts.calls.get(outer).and_then(|above| call.range_in(above));
        range.map_or((top.start(), 0), |range| (range, outer))
    }

    #[inline(never)]
    pub(crate) fn place_elsewhere(&self, home: Place, call: CallId, top: &Frame) -> Place {
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
            if let Some(followed) = self.session.parts.calls.get(call).filter(|call| call.is_new()) {
                self.session.parts.calls.adopt(call, self.range_around(followed, top).1);
            }
            return home;
        }
        let (uses, is_first) = match self.session.parts.calls.get(call) {
            Some(followed) => {
                let (range, outer) = self.range_around(followed, top);
                let (uses, is_first) = followed.enter_elsewhere(place.node(), range);
                if is_first && outer != 0 {
                    self.session.parts.calls.adopt(call, outer);
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
}
