//! Waits for tokio's locks: see [`LockWaits`](crate::session::lock_waits::LockWaits).

use std::sync::atomic::Ordering::Relaxed;

use super::ThreadState;
use crate::clock::Ticks;
use crate::session::calls::Call;
use crate::session::lock_waits::Wakes;
use crate::session::owed::Creditor;
use crate::thread::engine::{self, BY_TASK};
use crate::thread::waits::PolledTask;

impl ThreadState {
    /// Here a task of tokio is woken.
    pub(crate) fn wake_task(&self, task: u64) {
        self.session.lock_waits.wake(task, self.session.clock.now(), self.label_of_waker());
    }

    /// A hidden span is entered. If it is that of a task, the task is polled. A task that was not woken, as at its
    /// first poll, looks like any other hidden span; but those inside of a call are none.
    #[cold]
    #[inline(never)]
    pub(crate) fn poll_task(&self, span: u64) {
        let wakes = self.session.lock_waits.poll(span);
        if wakes.is_none() && self.stack.outermost_called().is_some() {
            return;
        }
        let task = PolledTask::new(span, wakes, self.session.clock.now());
        self.followed.get_or_init(Box::default).tasks.lock().push(task);
        if self.woken.load(Relaxed) == 0 {
            self.woken.store(BY_TASK, Relaxed);
        }
    }

    /// A span is exited that is not open here. If it is that of a task that is polled, the poll has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_task(&self, span: u64) {
        let Some(followed) = self.followed.get() else { return };
        let tasks = &mut *followed.tasks.lock();
        if let Some(place) = tasks.iter().rposition(|task| task.span == span) {
            tasks.truncate(place);
            if tasks.is_empty() && self.woken.load(Relaxed) == BY_TASK {
                self.woken.store(0, Relaxed);
            }
        }
    }

    /// The task that is polled, if it was woken, and its wakes.
    fn task(&self) -> Option<(u64, Wakes)> {
        let tasks = self.followed.get()?.tasks.lock();
        tasks.last().and_then(|task| Some((task.span, task.wakes?)))
    }

    /// [`woken`](Self::woken) of what no `follow` around it tells.
    pub(super) fn without_follow(&self) -> Ticks {
        let is_in_task = || self.followed.get().is_some_and(|followed| !followed.tasks.lock().is_empty());
        if self.session.lock_waits.any() && is_in_task() { BY_TASK } else { 0 }
    }

    /// A call has just been entered. If `tells`, returns how long it was ready, as far as the wakes of its task tell
    /// that: not if the task has polled others beside it or beside a call around it, and only for the first entry in
    /// this poll.
    #[cold]
    #[inline(never)]
    pub(super) fn enter_in_task(&self, call: &Call, tells: bool) -> u64 {
        let (session, range) = (self.session, self.stack.depth().saturating_sub(1));
        let Some(followed) = self.followed.get().filter(|_| session.lock_waits.any()) else { return 0 };
        let tasks = &mut *followed.tasks.lock();
        let Some(task) = tasks.last_mut() else { return 0 };
        task.enter(range, self.stack.call_of(range), &session.calls);
        let wakes = task.wakes.filter(|_| tells && call.entries() > 1 && call.exited() < task.polled);
        let mut around = self.stack.calls().filter_map(|id| session.calls.get(id));
        let wakes = wakes.filter(|_| !around.any(Call::is_joined));
        wakes.and_then(|wakes| call.was_woken(wakes.first)).unwrap_or(0)
    }

    /// Here an operation is given a lock, inside its span.
    pub(crate) fn give(&self, operation: u64) {
        let now = self.session.clock.now();
        self.session.lock_waits.give(operation, now, self.label_of_waker(), || self.wakes(now));
    }

    /// Whether the wait of a call that is about to be entered, or that of the outermost call around it, has ended with
    /// a lock that it was given.
    pub(super) fn is_given_lock(&self, call: &Call) -> bool {
        let session = self.session;
        if !session.lock_waits.any() {
            return false;
        }
        let around = self.stack.outermost_called().and_then(|range| session.calls.get(self.stack.call_of(range)));
        let (call, entry) =
            around.map_or((call, call.entries()), |around| (around, around.entries().saturating_sub(1)));
        session.lock_waits.is_given(call, entry, self.task())
    }

    /// In the outermost call, an operation is polled that waits for a lock.
    pub(crate) fn poll_operation(&self, operation: u64, is_ready: bool) {
        let session = self.session;
        let Some(range) = self.stack.outermost_called() else { return };
        let Some(call) = session.calls.get(self.stack.call_of(range)) else { return };
        if !is_ready {
            return session.lock_waits.wait(operation, call);
        }
        let Some(wait) = session.lock_waits.take(operation).filter(|_| !engine::is_following()) else { return };
        let end = session.lock_waits.end(&wait, call, self.task());
        let Some((since, given)) = end.filter(|_| call.is_open_once()) else {
            return call.hold_up_unknown(session.clock.now());
        };
        if wait.began_before {
            call.hold_up_unknown(since);
        }
        call.hold_up(&given.owed, since);
        let place = self.stack.at(range).map(|(place, _)| place);
        if let Some(identity) = place.and_then(|place| self.identity(place)) {
            let followed = self.followed.get_or_init(Box::default);
            let waiter = Creditor { label: identity.key.label, codes: call.codes() };
            let is_own = followed.waits.add(waiter.label, since, &given.owed) == Some(waiter.label);
            followed.values.add(waiter, (since, is_own), &given.owed, (&session.values, self.thresholds.long_wait));
            self.record_wait(call, since, &given.owed, false);
        }
    }
}
