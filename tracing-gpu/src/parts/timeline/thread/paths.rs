//! Numbers and records of a thread while a timeline is written.

use tracing_core::Metadata;
use tracing_core::field::Visit;

use crate::clock::{Ticks, read_counter};
use crate::core::record::{Ended, OnCpu, Place, RangeKey, RangeNumbers};
use crate::core::span::site::site_key;
use crate::core::thread::state::ThreadState;
use crate::parts::calls::session::{Call, EndedCall};
use crate::parts::timeline::thread::numbers::{Created, NewSpan, Numbers};
use crate::parts::timeline::thread::tape::{CallRecord, RangeRecord, Record, WaitRecord};
use crate::parts::values::span::fields::Fields;
use crate::parts::values::span::values::Changing;
use crate::parts::waits::session::owed::Owed;

impl ThreadState {
    /// Path `recording`. Returns false, and changes nothing, if it does not apply.
    #[inline(always)]
    pub(crate) fn enter_recording(&self, span: u64, place: Place) -> bool {
        if !self.lacks_tool() || !self.stack.is_under_top(place) {
            return false;
        }
        let start = if self.statistics { self.start_fast() } else { 0 };
        let below = self.stack.depth();
        if !self.stack.push_near(span, place, start) {
            return false;
        }
        if let Some(numbers) = &self.parts.numbers {
            self.set_numbers(numbers, span, place, below, None);
        }
        true
    }

    /// Numbers the range of a span that was just entered where it was created, with `below` ranges below it.
    #[inline(always)]
    pub(crate) fn set_numbers(&self, numbers: &Numbers, span: u64, place: Place, below: usize, call: Option<&Call>) {
        let created = numbers.created(span);
        let by_creation = below == 0 || self.session.by_creation();
        let under = if by_creation { created.map_or(0, Created::parent) } else { numbers.innermost(below) };
        let own = numbers.enter(created, under, || self.has_fields(place));
        numbers.set(below, own);
        call.into_iter().for_each(|call| call.enter_numbered(own.call, own.parent));
    }

    /// Whether the call site of a place has fields.
    #[cold]
    #[inline(never)]
    pub(crate) fn has_fields(&self, place: Place) -> bool {
        let metadata = self.identity(place).and_then(|identity| identity.metadata);
        metadata.is_some_and(|metadata| !metadata.fields().is_empty())
    }

    /// Path `recording`. Returns false, and changes nothing, if it does not apply.
    #[inline(always)]
    pub(crate) fn exit_recording(&self, span: u64) -> bool {
        if !self.lacks_tool() || self.stack.is_top_noted() {
            return false;
        }
        if !self.statistics {
            return self.stack.pop_near(span, 0).is_some();
        }
        let now = read_counter();
        let Some(ended) = self.stack.pop_near(span, now) else { return false };
        match self.rows.get_inline(ended.place.row_without_call()) {
            Some(row) => {
                let is_near = row.add_near(ended.duration, ended.nested, self.thresholds.long);
                let end = if is_near { now } else { self.end(ended) };
                if let Some(identity) = row.identity() {
                    self.record_range(identity.key, ended.entered, end, self.stack.depth(), false);
                }
            }
            None => self.add_unrecorded(ended),
        }
        true
    }

    /// Counts and records an instance that [`exit_recording`](Self::exit_recording) could not.
    #[inline(never)]
    fn add_unrecorded(&self, ended: Ended) {
        let (now, depth) = (ended.end(), self.stack.depth());
        let row = self.rows.get_inline(ended.place.row()).filter(|_| ended.place.is_called());
        let Some((row, identity)) = row.and_then(|row| Some((row, row.identity()?))) else {
            let end = self.end(ended);
            return self.record_ended(ended, end, depth);
        };
        let end = if row.add_near(ended.duration, ended.nested, self.thresholds.long) {
            let call = self.stack.call_of(depth);
            self.exit_call(call, now, OnCpu::default(), depth);
            self.note_end(ended, call, depth, 0);
            now
        } else {
            self.end(ended)
        };
        self.record_range(identity.key, ended.entered, end, depth, false);
    }

    /// Records an ended range of this thread, if a timeline is written.
    #[inline]
    pub(crate) fn record_ended(&self, ended: Ended, end: Ticks, depth: usize) {
        if !self.parts.tape.is_open() {
            return;
        }
        if let Some(identity) = self.identity(ended.place) {
            self.record_range(identity.key, ended.entered, end, depth, !self.session.is_running());
        }
    }

    #[inline(always)]
    pub(crate) fn record_range(&self, key: RangeKey, start: Ticks, end: Ticks, depth: usize, cut: bool) {
        let numbers = self.numbers_of(depth);
        let range = RangeRecord { key, start, end, depth: depth as u32, began_on: None, cut, numbers };
        self.parts.tape.record_range(self.thread_id(), &range);
    }

    /// Records an ended call, if a timeline is written and the call is more than its one instance.
    pub(crate) fn record_call(&self, home: &Self, ended: &EndedCall) {
        let Some(label) = home.identity(ended.place).map(|identity| identity.key.label) else { return };
        let Some(numbers) = ended.numbers.filter(|_| ended.entries > 1 && self.flags.is_taped) else { return };
        let (start, end, is_cancelled) = (ended.created, ended.closed, ended.is_cancelled);
        self.parts.tape.record_call(self.thread_id(), &CallRecord { label, start, end, is_cancelled, numbers });
    }

    /// Records something of this thread, if a timeline is written.
    pub(crate) fn record(&self, record: impl FnOnce() -> Record) {
        if self.parts.tape.is_open() {
            self.record_with_fields(record(), &Fields::default());
        }
    }

    /// Records a wait of a call since `since`, and its causes, if a timeline is written.
    pub(crate) fn record_wait(&self, call: &Call, since: Ticks, owed: &Owed, is_for_worker: bool) {
        if let Some(call) = call.number_in_timeline().filter(|_| self.parts.tape.is_open()) {
            for (by, [start, end]) in owed.spans_of_names(since) {
                self.parts.tape.record_wait(self.thread_id(), &WaitRecord { call, by, start, end, is_for_worker });
            }
        }
    }

    /// Records something with fields, if a timeline is written.
    pub(crate) fn record_with_fields(&self, record: Record, fields: &Fields) {
        self.parts.tape.record(self.thread_id(), record, fields);
    }

    /// Records the values of the range that starts then, if there are any and a timeline is written.
    pub(crate) fn record_values(&self, start: Ticks, values: &Changing, fields: &Fields) {
        if values.color.is_some() || values.payload.is_some() || !fields.is_empty() {
            self.parts.tape.record_values(self.thread_id(), start, values, fields);
        }
    }

    /// The numbers of a span that is about to be created: in the call of the span `parent` or, without a parent, in the
    /// innermost open call.
    #[inline]
    pub(crate) fn number(&self, parent: Option<u64>, metadata: &'static Metadata<'static>) -> NewSpan {
        let Some(numbers) = &self.parts.numbers else { return NewSpan::default() };
        let parent = parent.unwrap_or_else(|| numbers.innermost(self.stack.depth()));
        let has_fields = !metadata.fields().is_empty() && self.session.records_values();
        let site = if has_fields { site_key(metadata) } else { 0 };
        NewSpan { span: numbers.next(), parent, site }
    }

    /// Keeps the numbers of a new span, and records its fields, which `visit` passes to its argument.
    #[inline]
    pub(crate) fn keep_numbers(&self, id: u64, new: NewSpan, visit: impl FnOnce(&mut dyn Visit)) {
        let Some(numbers) = &self.parts.numbers else { return };
        numbers.keep(id, new);
        if new.site != 0 {
            let of = (new.span, new.site);
            self.gate.while_closed(|| self.parts.tape.record_fields(self.thread_id(), of, None, visit));
        }
    }

    /// Records fields that a span of any thread gets after its creation.
    pub(crate) fn record_later_fields(&self, created: &Created, visit: impl FnOnce(&mut dyn Visit)) {
        if let Some(of) = created.with_fields() {
            let at = Some(self.session.clock.now());
            self.gate.while_closed(|| self.parts.tape.record_fields(self.thread_id(), of, at, visit));
        }
    }

    /// The data of a live span that was created with this state. On any thread.
    #[inline]
    pub(crate) fn created(&self, id: u64) -> Option<&Created> {
        self.parts.numbers.as_ref()?.created(id)
    }

    /// The data of a live span that was created on this thread.
    #[inline]
    pub(crate) fn created_here(&self, id: u64) -> Option<&Created> {
        self.parts.numbers.as_ref()?.created_by_owner(id)
    }

    /// The numbers of an open range, by its place on the stack, or of one that has just left it.
    #[inline(always)]
    pub(crate) fn numbers_of(&self, range: usize) -> RangeNumbers {
        self.parts.numbers.as_ref().map_or_else(RangeNumbers::default, |numbers| numbers.of(range))
    }

    /// Numbers of a range without a span, in the innermost open call.
    #[cfg(feature = "injection")]
    pub(crate) fn number_alone(&self) -> RangeNumbers {
        let Some(numbers) = &self.parts.numbers else { return RangeNumbers::default() };
        numbers.alone(numbers.innermost(self.stack.depth()))
    }
}
