//! Entries: the paths by which a range opens.

use std::sync::atomic::Ordering::Relaxed;

use range_model::RangeStyle;

use super::ThreadState;
use crate::clock::{Ticks, read_counter};
use crate::record::{CallId, Ended, Place, RangeKey, StreamId};
use crate::session::calls::{Around, Call, Entry, Evidence, LastExit};
use crate::session::endings::Mark;
use crate::session::owed::{Creditor, Owed};
use crate::span::fields::Fields;
use crate::span::values::{Changing, SpanValues};
use crate::stream::{self, StartedPair};
use crate::thread::coincidence::{self, PollWait, Task, Waiter};
use crate::thread::numbers::{Created, Numbers};
use crate::thread::woken::{BY_TASK, NOT_WOKEN, is_following};

/// Entries. Places belong to this thread.
impl ThreadState {
    /// Path `counting`. Returns false, and changes nothing, if it does not apply.
    #[inline(always)]
    pub(crate) fn enter_counting(&self, span: u64, place: Place) -> bool {
        self.lacks_tool() && self.stack.is_under_top(place) && self.stack.push_near(span, place, self.start_fast())
    }

    /// Paths `counting` and `recording`, for a span with a call that is entered where it was created. Returns false if
    /// they do not apply.
    #[inline]
    pub(crate) fn enter_called(&self, span: u64, place: Place, id: CallId) -> bool {
        let Some((call, room)) = self.session.calls.get(id).zip(self.stack.room(place)) else { return false };
        let below = room.below;
        if !self.lacks_tool() || !call.stays_at_home(below == 0) {
            return false;
        }
        let left = if call.is_new() { LastExit::Other } else { call.left(room.just_left(id)) };
        let start = self.start_after_wait(place, call, self.start_fast());
        room.push(span, place, start, id);
        if let Some(numbers) = &self.numbers {
            self.set_numbers(numbers, span, place, below, Some(call));
        }
        self.enter_call(place, call, start, left);
        true
    }

    /// The start of a range on a fast path. Reads the thread's processor time, if that is paid for.
    #[inline(always)]
    fn start_fast(&self) -> Ticks {
        let now = read_counter();
        if self.credits.any() { self.start_read(now) } else { now }
    }

    /// The same on any path.
    #[inline(always)]
    pub(super) fn start(&self) -> Ticks {
        let now = self.now();
        if self.credits.any() { self.start_read(now) } else { now }
    }

    #[cold]
    #[inline(never)]
    fn start_read(&self, now: Ticks) -> Ticks {
        let is_read = self.cpu_time.read_at_start(now, &self.stack, &self.credits, &self.session.clock);
        if is_read { self.session.clock.now() } else { now }
    }

    /// Opens an instance of a call. The first that is entered takes when the future was woken that is polled.
    #[inline(always)]
    fn enter_call(&self, place: Place, call: &Call, start: Ticks, left: LastExit) {
        let known = self.woken.load(Relaxed);
        let woken = if [0, BY_TASK].contains(&known) { 0 } else { self.count_wait(place, call, known) };
        let evidence = |exited| Evidence {
            around: self.around_entry(exited),
            done: self.done.load(Relaxed),
            has_tool: self.has_tool(),
        };
        let entry = Entry { now: start, left, woken, evidence };
        let mut ready = self.session.calls.enter(self.index, call, entry);
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
                let call = self.session.calls.get(self.stack.called_of(outer));
                if call.is_some_and(Call::has_paused) { Around::SamePoll } else { Around::Unknown }
            }
            None => Around::Unknown,
        }
    }

    /// The start of a range of a call that is entered. If the call has waited for nobody knows whom, looks before it
    /// what ended that wait.
    #[inline(always)]
    fn start_after_wait(&self, place: Place, call: &Call, now: Ticks) -> Ticks {
        if !self.has_endings.load(Relaxed) && self.session.endings.are_asked_for() {
            self.make_endings();
        }
        let waited = call.waited(now);
        if waited < self.thresholds.long_wait || ![0, BY_TASK].contains(&self.woken.load(Relaxed)) {
            return now;
        }
        self.infer(place, call, now, waited);
        self.now()
    }

    /// Makes room for what ends on this thread: after a poll there is no time, because the drop of a future follows at
    /// once.
    #[cold]
    #[inline(never)]
    fn make_endings(&self) {
        if self.session.endings.make(self.index).is_some() {
            self.has_endings.store(true, Relaxed);
        }
    }

    /// The task of a call was ready for so long. If another ran on this thread for most of that, it held the thread.
    #[cold]
    #[inline(never)]
    pub(super) fn blame_worker(&self, place: Place, call: &Call, now: Ticks, ready: u64) {
        let [holder, start, end] = self.last_long.each_ref().map(|word| word.load(Relaxed));
        let since = now.saturating_sub(ready).max(start);
        let held = end.saturating_sub(since);
        if held < ready / 2 {
            return;
        }
        let label = |place| self.identity(place).map(|identity| identity.key.label);
        if let Some((waiter, holder)) = label(place).zip(label(Place::from_bits(holder))) {
            let owed = Owed::to(holder, end);
            self.held_up.get_or_init(Box::default).add(waiter, since, &owed);
            self.record_wait(call, since, &owed, true);
        }
    }

    #[cold]
    #[inline(never)]
    fn infer(&self, place: Place, call: &Call, now: Ticks, waited: u64) {
        // Who ended the wait of the call around this one is told.
        if is_following() {
            return;
        }
        let Some(endings) = self.session.endings.make(self.index) else { return };
        let outermost = self.stack.at(0).map_or(place, |(outermost, _)| outermost);
        let task = match self.stack.at(0) {
            Some((outermost, _)) if outermost.is_called() => self.session.calls.get(self.stack.call_of(0)),
            Some(_) => None,
            None => Some(call),
        };
        let who = || {
            task.zip(self.identity(outermost)).map(|(task, identity)| Task {
                label: identity.key.label,
                codes: task.codes(),
                values: &self.session.values,
            })
        };
        let is_paused = self.coincidences.get().is_some_and(|all| all.pause(false).passes_over(now, waited));
        let went_on = match is_paused {
            true => self.identity(place).and_then(|identity| self.session.endings.unit.mark(identity.key.label, now)),
            false => self.look(place, now, waited, Waiter::Call(self.held_by(now, waited), who())),
        };
        endings.begin(task.map_or(went_on, |task| task.went_on(waited, went_on)));
    }

    /// What has held this thread for most of a wait that ends now. On a machine with too much to do, any range is long
    /// at times, because its thread does not run: such a one does not count.
    fn held_by(&self, now: Ticks, waited: u64) -> Option<u32> {
        let [range, start, end] = self.last_long.each_ref().map(|word| word.load(Relaxed));
        let (range, length) = (Place::from_bits(range), end.saturating_sub(start));
        let ran_since = self.ran_since_long.load(Relaxed);
        let has_held =
            coincidence::has_held(&self.session.clock, [start, end], ran_since, [now.saturating_sub(waited), now])
                && self.rows.get(range.row()).is_some_and(|row| row.is_usual(length));
        let identity = has_held.then(|| self.identity(range));
        identity.flatten().map(|identity| identity.key.label)
    }

    /// A range has just ended in which its thread waited for so long, with `below` ranges below it. Its end is noted.
    #[cold]
    #[inline(never)]
    pub(super) fn infer_ended(&self, ended: &Ended, waited: u64, below: usize, call: CallId) {
        let Some(endings) = self.session.endings.make(self.index) else { return };
        let end = ended.end();
        let went_on = match call {
            0 => self.look(ended.place, end, waited, Waiter::Thread(endings, None)),
            _ => self.look_later(ended.place, call, [end.saturating_sub(waited), end]),
        };
        if below == 0 {
            endings.amend(went_on)
        } else {
            endings.begin(went_on)
        }
        self.set_looks_again();
    }

    /// A thread has waited in a poll of this call: looks when it polls another. Returns when the wait ended.
    fn look_later(&self, place: Place, call: CallId, [since, end]: [Ticks; 2]) -> Option<Mark> {
        let waiter = self.identity(place)?.key.label;
        let coincidences = self.coincidences.get_or_init(Box::default);
        if !coincidences.pause(true).passes_over(end, end - since) {
            let (outermost, task) = match self.stack.at(0) {
                Some((outermost, _)) => (outermost, if outermost.is_called() { self.stack.call_of(0) } else { 0 }),
                None => (place, call),
            };
            let codes = self.session.calls.get(task).map(Call::codes);
            let task = self.identity(outermost).map(|identity| identity.key.label).zip(codes);
            coincidences.look_later(PollWait { waiter, time: [since, end], task });
        }
        self.session.endings.unit.mark(waiter, end)
    }

    #[inline]
    pub(crate) fn looks_again(&self) -> bool {
        self.looks_again.load(Relaxed)
    }

    /// Until the last wait is looked at again, short ranges do not take the fast paths, which do not come by here.
    fn set_looks_again(&self) {
        let looks_again = self.coincidences.get().is_some_and(|all| all.looks_again());
        if self.looks_again.swap(looks_again, Relaxed) != looks_again {
            (self.choose_paths)();
        }
    }

    /// Looks at what ended before a wait did. Returns when the first of its queue went on.
    fn look(&self, place: Place, now: Ticks, waited: u64, waiter: Waiter<'_>) -> Option<Mark> {
        let (session, label) = (self.session, self.identity(place)?.key.label);
        let coincidences = self.coincidences.get_or_init(Box::default);
        coincidences.look((&session.endings, &session.clock), (label, waiter), [now.saturating_sub(waited), now])
    }

    /// Looks once more at what ended around the end of the last wait of this thread, when it is time.
    #[cold]
    #[inline(never)]
    pub(super) fn look_again(&self, now: Ticks) {
        let (endings, values) = ((&self.session.endings, &self.session.clock), &self.session.values);
        let due = self.coincidences.get().filter(|all| all.is_due(now)).zip(endings.0.of(self.index));
        if let Some((all, own)) = due {
            match all.take_of_poll(&self.session.clock) {
                Some(wait) => {
                    let task = wait.task.map(|(label, codes)| Task { label, codes, values });
                    all.look(endings, (wait.waiter, Waiter::Thread(own, task)), wait.time);
                }
                None => all.look_late(endings, own, now),
            }
        }
        self.set_looks_again();
    }

    #[inline(never)]
    fn count_wait(&self, place: Place, call: &Call, woken: Ticks) -> Ticks {
        // What is inside of a future that was not woken was not woken either.
        self.woken.store(if woken == NOT_WOKEN { 0 } else { self.without_follow() }, Relaxed);
        if woken == NOT_WOKEN {
            call.waits_on();
            return 0;
        }
        if let (Some(followed), Some(identity)) = (self.followed.get(), self.identity(place)) {
            let owed = *followed.woken_by.lock();
            if ![0, self.session.id].contains(&owed.session) {
                return woken; // woken in a span of another profiler
            }
            if let Some(since) = call.owe(&owed, woken) {
                let waiter = Creditor { label: identity.key.label, codes: call.codes() };
                let mainly = followed.waits.add(waiter.label, since, &owed);
                let is_own = mainly == Some(waiter.label);
                followed.values.add(waiter, (since, is_own), &owed, (&self.session.values, self.thresholds.long_wait));
                self.record_wait(call, since, &owed, false);
            }
        }
        woken
    }

    /// Numbers the range of a span that was just entered where it was created, with `below` ranges below it.
    #[inline(always)]
    fn set_numbers(&self, numbers: &Numbers, span: u64, place: Place, below: usize, call: Option<&Call>) {
        let created = numbers.created(span);
        let by_creation = below == 0 || self.session.by_creation();
        let under = if by_creation { created.map_or(0, Created::parent) } else { numbers.innermost(below) };
        let own = numbers.enter(created, under, || self.has_fields(place));
        numbers.set(below, own);
        call.into_iter().for_each(|call| call.enter_numbered(own.call, own.parent));
    }

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
        if let Some(numbers) = &self.numbers {
            self.set_numbers(numbers, span, place, below, None);
        }
        true
    }

    /// Path `on_stream`: opens a range of a span without values of its own, timed on `stream` if that is not 0.
    #[inline(never)]
    pub(crate) fn enter_on_stream(&self, span: u64, place: Place, stream: StreamId) {
        let pair = if stream == 0 { None } else { stream::begin(&self.session.streams, stream) };
        // Without a reading of the processor time, which would count as time on the stream.
        let is_open =
            self.lacks_tool() && self.stack.is_under_top(place) && self.stack.push_near(span, place, read_counter());
        if !is_open {
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
        let known = self.session.calls.get(call);
        let left = known.map_or(LastExit::Other, |known| self.look_before(place, call, known));
        // Outside of the times on the CPU's clock and in the tool: a pair of events costs more than everything else.
        let pair = if stream == 0 { None } else { stream::begin(&self.session.streams, stream) };
        let start = self.enter_begun(span, self.place_of_entry(place, call), values, pair);
        if let Some(numbers) = self.numbers.as_ref().filter(|_| start.is_some()) {
            let has_fields = || self.has_fields(place);
            // A future that is handed over stays in the call in which it was created.
            let stays = self.session.by_creation() || known.is_some_and(Call::is_visiting);
            let own = numbers.enter_any(&self.stack, place, created, stays, has_fields);
            known.inspect(|call| call.enter_numbered(own.call, own.parent));
        }
        if let Some((start, known)) = start.zip(known) {
            self.stack.set_call(call);
            self.enter_call(place, known, start, left);
        }
    }

    /// Looks at waits that are due before a call is entered. Returns what its thread has left last.
    #[inline(never)]
    fn look_before(&self, place: Place, id: CallId, call: &Call) -> LastExit {
        let just_left = self.stack.just_left(id);
        // Not at the drop of a future, which follows its last poll at once. A new call may have the number of that one.
        let is_dropped = just_left.is_some_and(|start| start >= call.created());
        if self.looks_again() && !is_dropped {
            self.look_again(self.now());
        }
        self.start_after_wait(place, call, self.now());
        call.left(just_left)
    }

    /// Path `general`, for a span with values of its own.
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
        let call = values.call();
        let flagged = if call == 0 { place } else { place.with_call() };
        self.enter_general(span, flagged.with_own_values(), call, Some(values), stream, created);
        if let Some((_, start)) = self.stack.depth().checked_sub(1).and_then(|top| self.stack.at(top)) {
            self.record_values(start, now, &Fields::default());
        }
    }

    /// Lets a call follow the ranges of a span that are open on this thread.
    pub(crate) fn follow_open(&self, span: u64, id: CallId) {
        let Some(call) = self.session.calls.get(id) else { return };
        for range in (0..self.stack.depth()).filter(|range| self.stack.follow(*range, span, id)) {
            let start = self.stack.start_of(range).unwrap_or_default();
            let _stays = call.stays_at_home(false);
            self.session.calls.enter(self.index, call, Entry::at(start, LastExit::Other));
        }
    }

    /// Whether the call site of a place has fields.
    #[cold]
    #[inline(never)]
    fn has_fields(&self, place: Place) -> bool {
        let metadata = self.identity(place).and_then(|identity| identity.metadata);
        metadata.is_some_and(|metadata| !metadata.fields().is_empty())
    }

    /// The place of an entry of this span: `record` may have changed its category.
    pub(crate) fn place_now(&self, values: &SpanValues, category: u32) -> Place {
        values.place(self.index, category).unwrap_or_else(|| {
            let key = RangeKey { label: values.label, category, style: RangeStyle::PushPop };
            self.place(values.node, key, values.metadata).under_if_any(values.parent())
        })
    }

    /// Continues after the start was recorded on a stream, if it was. Returns the start of the range; `None` if the
    /// stack was full, so that it is not open.
    #[inline(never)]
    pub(super) fn enter_begun(
        &self,
        span: u64,
        place: Place,
        values: Option<&SpanValues>,
        pair: Option<StartedPair>,
    ) -> Option<Ticks> {
        let range = if self.has_tool() { self.nvtx_range(place) } else { None };
        let attributes = range.map(|range| values.map_or(range.attributes, |own| own.now().apply(range.attributes)));
        // With a tool, the start is set below.
        let start = match (range, &pair) {
            (Some(_), _) if !self.credits.any() => 0,
            (_, None) => self.start(),
            (_, Some(_)) => self.now(), // a reading would count as time on the stream
        };
        let Some(frame) = self.stack.push(span, place, start) else {
            pair.into_iter().for_each(stream::abandon);
            self.session.drop_span();
            return None;
        };
        if let (Some(range), Some(attributes)) = (range, attributes) {
            self.gate.while_closed(|| {
                // Almost nothing stands between the clock and the tool, which may call CUDA in this range: one store,
                // and no branch, whose other side might have to be fetched.
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
