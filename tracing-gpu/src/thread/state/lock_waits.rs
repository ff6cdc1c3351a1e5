//! Waits for tokio's locks: see [`LockWaits`](crate::session::lock_waits::LockWaits).

use std::sync::atomic::Ordering::Relaxed;

use super::ThreadState;
use crate::clock::Ticks;
use crate::session::calls::Call;
use crate::session::lock_waits::Wakes;
use crate::session::owed::Creditor;
use crate::thread::engine::{self, BY_TASK};
use crate::thread::waits::WokenTask;

impl ThreadState {
    /// Here a task of tokio is woken.
    pub(crate) fn wake_task(&self, task: u64) {
        self.session.lock_waits.wake(task, self.session.clock.now(), self.label_of_waker());
    }

    /// A hidden span is entered. If it is that of a task, the task is polled.
    #[cold]
    #[inline(never)]
    pub(crate) fn poll_task(&self, span: u64) {
        if let Some(wakes) = self.session.lock_waits.poll(span) {
            let polled = self.session.clock.now();
            *self.followed.get_or_init(Box::default).task.lock() =
                Some(WokenTask { span, wakes, polled, outermost: 0 });
            if self.woken.load(Relaxed) == 0 {
                self.woken.store(BY_TASK, Relaxed);
            }
        }
    }

    /// A span is exited that is not open here. If it is that of the task that is polled, the poll has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_task(&self, span: u64) {
        if let Some(followed) = self.followed.get() {
            let left = followed.task.lock().take_if(|task| task.span == span);
            if left.is_some() && self.woken.load(Relaxed) == BY_TASK {
                self.woken.store(0, Relaxed);
            }
        }
    }

    /// The task that is polled, if it was woken.
    fn task(&self) -> Option<WokenTask> {
        *self.followed.get()?.task.lock()
    }

    fn task_and_wakes(&self) -> Option<(u64, Wakes)> {
        self.task().map(|task| (task.span, task.wakes))
    }

    /// [`woken`](Self::woken) of what no `follow` around it tells.
    pub(super) fn without_follow(&self) -> Ticks {
        if self.session.lock_waits.any() && self.task().is_some() { BY_TASK } else { 0 }
    }

    /// How long a call was ready that has just been entered, if that is the first time in this poll of its task.
    #[cold]
    #[inline(never)]
    pub(super) fn ready_by_task(&self, call: &Call) -> u64 {
        if self.stack.depth() == 1 {
            self.note_outermost(call);
        }
        let is_first = |task: &WokenTask| call.entries() > 1 && call.exited() < task.polled;
        let is_alone = |task: &WokenTask| !self.session.calls.is_beside_others(call, task.polled);
        let task = self.task().filter(is_first).filter(is_alone);
        task.and_then(|task| call.was_woken(task.wakes.first)).unwrap_or(0)
    }

    /// The outermost call of a task is entered. Of several, nobody knows which was woken.
    fn note_outermost(&self, call: &Call) {
        let Some(followed) = self.followed.get() else { return };
        let (calls, own) = (&self.session.calls, self.stack.call_of(0));
        let before = followed.task.lock().as_mut().map(|task| std::mem::replace(&mut task.outermost, own));
        let other = before.filter(|before| *before != own).and_then(|before| calls.get(before));
        if let Some(other) = other.filter(|other| !other.has_ended()) {
            [call, other].into_iter().for_each(Call::set_joined);
        }
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
        session.lock_waits.is_given(call, entry, self.task_and_wakes())
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
        let end = session.lock_waits.end(&wait, call, self.task_and_wakes());
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
            followed.values.add(waiter, (since, is_own), &given.owed, &session.values);
        }
    }
}
