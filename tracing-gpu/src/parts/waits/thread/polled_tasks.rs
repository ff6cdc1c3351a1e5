//! Polls of tokio's tasks, which tell how long calls were ready: see
//! [`TaskWakes`](crate::parts::waits::session::task_wakes::TaskWakes).

use std::sync::atomic::Ordering::Relaxed;

use crate::clock::Ticks;
use crate::core::thread::state::ThreadState;
use crate::parts::calls::session::Call;
use crate::parts::waits::thread::waits::PolledTask;
use crate::parts::waits::thread::woken::BY_TASK;

impl ThreadState {
    /// Notes that a task of tokio is woken on this thread.
    pub(crate) fn wake_task(&self, task: u64) {
        self.session.parts.task_wakes.wake(task, self.session.clock.now());
    }

    /// Notes the entry of a hidden span. If a task has that span, the task is polled. A task that was not woken, as at
    /// its first poll, looks like any other hidden span; but a hidden span inside of a call is no task.
    #[cold]
    #[inline(never)]
    pub(crate) fn poll_task(&self, span: u64) {
        let woken = self.session.parts.task_wakes.poll(span);
        if woken.is_none() && self.stack.outermost_called().is_some() {
            return;
        }
        let task = PolledTask::new(span, woken, self.session.clock.now());
        self.parts.waits.followed.get_or_init(Box::default).tasks.lock().push(task);
        if self.flags.woken.load(Relaxed) == 0 {
            self.flags.woken.store(BY_TASK, Relaxed);
        }
    }

    /// Notes the exit of a span that is not open here. If a task that is polled has that span, the poll has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn leave_task(&self, span: u64) {
        let Some(followed) = self.parts.waits.followed.get() else { return };
        let tasks = &mut *followed.tasks.lock();
        if let Some(place) = tasks.iter().rposition(|task| task.span == span) {
            tasks.truncate(place);
            if tasks.is_empty() && self.flags.woken.load(Relaxed) == BY_TASK {
                self.flags.woken.store(0, Relaxed);
            }
        }
    }

    /// The value of `woken` for a future without `follow`.
    pub(crate) fn without_follow(&self) -> Ticks {
        let is_in_task = || self.parts.waits.followed.get().is_some_and(|followed| !followed.tasks.lock().is_empty());
        if self.session.parts.task_wakes.any() && is_in_task() { BY_TASK } else { 0 }
    }

    /// Notes the entry of a call in a task. If `tells`, returns how long the call was ready, as far as the wakes of its
    /// task tell: not if the task has polled other calls beside it or beside a call around it, and only for the first
    /// entry in this poll.
    #[cold]
    #[inline(never)]
    pub(crate) fn enter_in_task(&self, call: &Call, tells: bool) -> u64 {
        let (session, range) = (self.session, self.stack.depth().saturating_sub(1));
        let Some(followed) = self.parts.waits.followed.get().filter(|_| session.parts.task_wakes.any()) else {
            return 0;
        };
        let tasks = &mut *followed.tasks.lock();
        let Some(task) = tasks.last_mut() else { return 0 };
        task.enter(range, self.stack.call_of(range), &session.parts.calls);
        let woken = task.woken.filter(|_| tells && call.entries() > 1 && call.exited() < task.polled);
        let mut around = self.stack.calls().filter_map(|id| session.parts.calls.get(id));
        let woken = woken.filter(|_| !around.any(Call::is_joined));
        woken.and_then(|woken| call.was_woken(woken)).unwrap_or(0)
    }
}
