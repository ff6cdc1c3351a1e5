//! Waits for tokio's locks: see [`LockWaits`](crate::session::lock_waits::LockWaits).

use super::ThreadState;
use crate::clock::Ticks;
use crate::session::calls::Call;
use crate::session::lock_waits::{Given, Wakes};
use crate::session::owed::Creditor;
use crate::thread::{coincidence, engine};

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
            *self.followed.get_or_init(Box::default).task.lock() = Some((span, wakes));
        }
    }

    /// A span is exited that is not open here. If it is that of the task that is polled, the poll has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_task(&self, span: u64) {
        if let Some(followed) = self.followed.get() {
            followed.task.lock().take_if(|(task, _)| *task == span);
        }
    }

    /// The task that is polled, if it was woken, and its wakes.
    fn task(&self) -> Option<(u64, Wakes)> {
        *self.followed.get()?.task.lock()
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
        let ready_since = |(since, given): (Ticks, Given)| Some((since, given, call.was_woken(given.at)?));
        let Some((since, given, ready)) = end.and_then(ready_since) else {
            return call.hold_up_unknown(session.clock.now());
        };
        if wait.began_before {
            call.hold_up_unknown(since);
        }
        call.hold_up(&given.owed, since);
        let Some((place, start)) = self.stack.at(range) else { return };
        if let Some(identity) = self.identity(place) {
            let followed = self.followed.get_or_init(Box::default);
            let waiter = Creditor { label: identity.key.label, codes: call.codes() };
            let is_own = followed.waits.add(waiter.label, since, &given.owed) == Some(waiter.label);
            followed.values.add(waiter, (since, is_own), &given.owed, &session.values);
        }
        if range == 0 && ready >= coincidence::LEAST {
            self.blame_worker(place, start, ready);
        }
    }
}
