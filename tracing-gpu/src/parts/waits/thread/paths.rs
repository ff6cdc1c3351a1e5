//! What a thread knows of the waits of calls: who ended each, as it was told or is inferred.

use std::sync::atomic::Ordering::Relaxed;

use crate::clock::{Moment, Ticks};
use crate::core::record::{CallId, Ended, Place};
use crate::core::thread::stack::Frame;
use crate::core::thread::state::ThreadState;
use crate::parts::calls::session::{Call, LastExit};
use crate::parts::values::span::codes::Codes;
use crate::parts::waits::session::endings::Mark;
use crate::parts::waits::session::owed::{Creditor, NOBODY, Owed};
use crate::parts::waits::thread::coincidence;
use crate::parts::waits::thread::coincidence::{PollWait, Task, Waiter};
use crate::parts::waits::thread::woken::{BY_TASK, NOT_WOKEN, is_following};

impl ThreadState {
    /// Sets when the next call that is entered was woken, and by which span; 0 if the time is not known.
    pub(crate) fn set_woken(&self, woken: Moment, by: &Owed) {
        let woken = if woken == 0 { 0 } else { self.session.clock.ticks_at(woken) };
        if woken > 0 {
            *self.parts.waits.followed.get_or_init(Box::default).woken_by.lock() = *by;
        }
        self.flags.woken.store(if woken == 0 { self.without_follow() } else { woken }, Relaxed);
    }

    /// The spans that have caused a wait which this thread ends now, by waking the waiter.
    pub(crate) fn wakes(&self, now: Ticks) -> Owed {
        let label = self.label_of_waker();
        if label == NOBODY {
            return Owed::to(NOBODY, now);
        }
        let top = self.stack.top().map(Frame::place).filter(|place| place.is_called());
        let call = top.and(self.stack.depth().checked_sub(1));
        let call = call.and_then(|top| self.session.parts.calls.get(self.stack.call_of(top)));
        let span = Creditor { label, codes: call.map_or_else(Codes::default, Call::codes) };
        // The innermost call need not be the followed one: a handler wakes inside of the request that is followed.
        let mut calls = self.stack.calls().filter_map(|call| self.session.parts.calls.get(call));
        let held_up_by = calls.find_map(Call::held_up_by);
        let mut owed = held_up_by.map_or_else(|| Owed::to(span, now), |held_up_by| held_up_by.of_waiter(span, now));
        owed.session = self.session.id;
        owed
    }

    /// The label of the innermost span that is open here; `NOBODY` for none.
    fn label_of_waker(&self) -> u32 {
        if !self.is_up_to_date() || !self.session.is_running() {
            return NOBODY;
        }
        let top = self.stack.top().and_then(|top| self.identity(top.place()));
        top.map_or(NOBODY, |own| own.key.label)
    }

    /// Before a call is entered: looks at the waits whose second look is due. Returns what the thread has left last.
    #[inline(never)]
    pub(crate) fn look_before(&self, place: Place, id: CallId, call: &Call) -> LastExit {
        let just_left = self.stack.just_left(id);
        // A future is dropped right after its last poll, so there is no time then. A new call may have the number of
        // the dropped one.
        let is_dropped = just_left.is_some_and(|start| start >= call.created());
        if self.looks_again() && !is_dropped {
            self.look_again(self.now());
        }
        self.start_after_wait(place, call, self.now());
        call.left(just_left)
    }

    /// The start of a range of a call that is entered. If the call has waited for long and the cause is not known,
    /// first looks for what ended the wait.
    #[inline(always)]
    pub(crate) fn start_after_wait(&self, place: Place, call: &Call, now: Ticks) -> Ticks {
        if !self.flags.has_endings.load(Relaxed) && self.session.parts.endings.are_asked_for() {
            self.make_endings();
        }
        let waited = call.waited(now);
        if waited < self.thresholds.long_wait || ![0, BY_TASK].contains(&self.flags.woken.load(Relaxed)) {
            return now;
        }
        self.infer(place, call, now, waited);
        self.now()
    }

    /// Makes room for the ranges that end on this thread, before a poll: after the poll the future is dropped at once,
    /// and there is no time.
    #[cold]
    #[inline(never)]
    fn make_endings(&self) {
        if self.session.parts.endings.make(self.index).is_some() {
            self.flags.has_endings.store(true, Relaxed);
        }
    }

    #[inline(never)]
    pub(crate) fn count_wait(&self, place: Place, call: &Call, woken: Ticks) -> Ticks {
        // A future inside of one that was not woken was not woken either.
        self.flags.woken.store(if woken == NOT_WOKEN { 0 } else { self.without_follow() }, Relaxed);
        if woken == NOT_WOKEN {
            call.waits_on();
            return 0;
        }
        if let (Some(followed), Some(identity)) = (self.parts.waits.followed.get(), self.identity(place)) {
            let owed = *followed.woken_by.lock();
            if ![0, self.session.id].contains(&owed.session) {
                return woken; // woken in a span of another profiler
            }
            if let Some(since) = call.owe(&owed, woken) {
                let waiter = Creditor { label: identity.key.label, codes: call.codes() };
                let mainly = followed.waits.add(waiter.label, since, &owed);
                let is_own = mainly == Some(waiter.label);
                followed.values.add(
                    waiter,
                    (since, is_own),
                    &owed,
                    (&self.session.parts.values, self.thresholds.long_wait),
                );
                self.record_wait(call, since, &owed, false);
            }
        }
        woken
    }

    /// The task of a call was ready for `ready` ticks. If another range ran on this thread for most of that time, it
    /// held the thread.
    #[cold]
    #[inline(never)]
    pub(crate) fn blame_worker(&self, place: Place, call: &Call, now: Ticks, ready: u64) {
        let (holder, [start, end]) = self.parts.waits.last_long();
        let since = now.saturating_sub(ready).max(start);
        let held = end.saturating_sub(since);
        if held < ready / 2 {
            return;
        }
        let label = |place| self.identity(place).map(|identity| identity.key.label);
        if let Some((waiter, holder)) = label(place).zip(label(holder)) {
            let owed = Owed::to(holder, end);
            self.parts.waits.held_up.get_or_init(Box::default).add(waiter, since, &owed);
            self.record_wait(call, since, &owed, true);
        }
    }

    #[cold]
    #[inline(never)]
    fn infer(&self, place: Place, call: &Call, now: Ticks, waited: u64) {
        // `follow` tells who ended the wait of the call around this one.
        if is_following() {
            return;
        }
        let Some(endings) = self.session.parts.endings.make(self.index) else { return };
        let outermost = self.stack.at(0).map_or(place, |(outermost, _)| outermost);
        let task = match self.stack.at(0) {
            Some((outermost, _)) if outermost.is_called() => self.session.parts.calls.get(self.stack.call_of(0)),
            Some(_) => None,
            None => Some(call),
        };
        let who = || {
            task.zip(self.identity(outermost)).map(|(task, identity)| Task {
                label: identity.key.label,
                codes: task.codes(),
                values: &self.session.parts.values,
            })
        };
        let is_paused =
            self.parts.waits.coincidences.get().is_some_and(|all| all.pause(false).passes_over(now, waited));
        let went_on = match is_paused {
            true => {
                self.identity(place).and_then(|identity| self.session.parts.endings.unit.mark(identity.key.label, now))
            }
            false => self.look(place, now, waited, Waiter::Call(self.held_by(now, waited), who())),
        };
        endings.begin(task.map_or(went_on, |task| task.went_on(waited, went_on)));
    }

    /// The name of the range that has held this thread for most of a wait that ends now. A range that is longer than
    /// usual does not count: on a busy machine any range is long at times, because its thread does not run.
    fn held_by(&self, now: Ticks, waited: u64) -> Option<u32> {
        let (range, [start, end]) = self.parts.waits.last_long();
        let (ran_since, length) = (self.parts.waits.ran_since_long(), end.saturating_sub(start));
        let has_held =
            coincidence::has_held(&self.session.clock, [start, end], ran_since, [now.saturating_sub(waited), now])
                && self.rows.get(range.row()).is_some_and(|row| row.is_usual(length));
        let identity = has_held.then(|| self.identity(range));
        identity.flatten().map(|identity| identity.key.label)
    }

    /// Looks for what ended a wait of `waited` ticks in a range that has just ended, with `below` ranges below it. The
    /// end of the range is noted already.
    #[cold]
    #[inline(never)]
    pub(crate) fn infer_ended(&self, ended: &Ended, waited: u64, below: usize, call: CallId) {
        let Some(endings) = self.session.parts.endings.make(self.index) else { return };
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

    /// After a wait of the thread in a poll of this call: keeps the wait, to look at it when the thread polls another
    /// call. Returns when the wait ended.
    fn look_later(&self, place: Place, call: CallId, [since, end]: [Ticks; 2]) -> Option<Mark> {
        let waiter = self.identity(place)?.key.label;
        let coincidences = self.parts.waits.coincidences.get_or_init(Box::default);
        if !coincidences.pause(true).passes_over(end, end - since) {
            let (outermost, task) = match self.stack.at(0) {
                Some((outermost, _)) => (outermost, if outermost.is_called() { self.stack.call_of(0) } else { 0 }),
                None => (place, call),
            };
            let codes = self.session.parts.calls.get(task).map(Call::codes);
            let task = self.identity(outermost).map(|identity| identity.key.label).zip(codes);
            coincidences.look_later(PollWait { waiter, time: [since, end], task });
        }
        self.session.parts.endings.unit.mark(waiter, end)
    }

    #[inline]
    pub(crate) fn looks_again(&self) -> bool {
        self.flags.looks_again.load(Relaxed)
    }

    /// Keeps short ranges off the fast paths until the second look at the last wait: those paths never look.
    fn set_looks_again(&self) {
        let looks_again = self.parts.waits.coincidences.get().is_some_and(|all| all.looks_again());
        if self.flags.looks_again.swap(looks_again, Relaxed) != looks_again {
            (self.choose_paths)();
        }
    }

    /// Looks at the ranges that ended right before a wait. Returns when the first waiter of the queue went on.
    fn look(&self, place: Place, now: Ticks, waited: u64, waiter: Waiter<'_>) -> Option<Mark> {
        let (session, label) = (self.session, self.identity(place)?.key.label);
        let coincidences = self.parts.waits.coincidences.get_or_init(Box::default);
        coincidences.look((&session.parts.endings, &session.clock), (label, waiter), [now.saturating_sub(waited), now])
    }

    /// The second look at the ranges that ended around the end of this thread's last wait, if it is due.
    #[cold]
    #[inline(never)]
    pub(crate) fn look_again(&self, now: Ticks) {
        let (endings, values) = ((&self.session.parts.endings, &self.session.clock), &self.session.parts.values);
        let due = self.parts.waits.coincidences.get().filter(|all| all.is_due(now)).zip(endings.0.of(self.index));
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

    /// Notes the end of a range, with `below` ranges below it and `off` ticks off the CPU: a wait may have been for it.
    #[inline]
    pub(crate) fn note_end(&self, ended: Ended, call: CallId, below: usize, off: u64) {
        if below == 0 && self.session.parts.endings.are_asked_for() {
            self.note_asked_end(ended, call, off);
        }
    }

    #[inline(never)]
    fn note_asked_end(&self, ended: Ended, call: CallId, off: u64) {
        let Some(label) = self.identity(ended.place).map(|identity| identity.key.label) else { return };
        let unit = self.session.parts.endings.unit;
        let endings = &self.session.parts.endings;
        let endings = if call == 0 { endings.make(self.index) } else { endings.of(self.index) };
        let Some(endings) = endings else { return };
        let call = self.session.parts.calls.get(call);
        let (begun, codes) = call.map_or((ended.entered, Codes::default()), |call| (call.created(), call.codes()));
        let end = ended.end();
        self.parts.waits.add_run(&ended);
        let mark = |at| unit.mark(label, at);
        let off_since = if off == 0 { None } else { mark(end.saturating_sub(off)) };
        endings.end(mark(end), [mark(begun), mark(ended.entered), off_since], codes);
    }

    /// Counts how much shorter an ended call would have been without the calls that held it up.
    #[cold]
    #[inline(never)]
    pub(crate) fn add_held_up(&self, label: Option<u32>, times: [u64; 2], held_up_by: &Owed) {
        let followed = self.parts.waits.followed.get_or_init(Box::default);
        label.into_iter().for_each(|label| followed.shorter.add(label, times, held_up_by));
    }
}
