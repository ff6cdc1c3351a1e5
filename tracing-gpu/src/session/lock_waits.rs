//! Waits for tokio's locks and semaphores, where tokio is built to tell of them: who ended each.
//!
//! A waker of tokio belongs to a task, not to one of its futures, so a wake alone does not show whose wait it ends. But
//! who lets go of a lock gives it to the first operation in its queue, and emits an event inside that operation's span.
//! That has ended the wait of a call if all of this holds:
//!
//! - The call's last poll found the operation not ready, and its next poll found it ready.
//! - Between these polls, the first wake of the task came after the event, and each came from a span of the same name.
//!   Else the call may have gone on for another reason.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};
use rustc_hash::FxHashMap;

use super::calls::Call;
use super::owed::Owed;
use crate::clock::Ticks;

const PARTS: usize = 32;
/// Tasks and operations of one part.
const MOST: usize = 1 << 10;

/// Locked only on a thread with a state: in a forked child there is none, and nobody may release a lock.
#[derive(Debug, Default)]
pub(crate) struct LockWaits {
    parts: [Mutex<Part>; PARTS],
    /// A program without tokio's events asks no more than this.
    any: AtomicBool,
    /// When wakes were lost.
    lost: AtomicU64,
}

/// By the ids of their spans.
#[derive(Debug, Default)]
struct Part {
    woken: FxHashMap<u64, Wakes>,
    operations: FxHashMap<u64, Operation>,
}

/// The wakes of a task since its last poll began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wakes {
    pub(crate) first: Ticks,
    /// The label of the span that wakes; `None` for several.
    by: Option<u32>,
}

/// An operation that waits for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// The call that waits for it, by its creation, and the last entry of the call that found it not ready.
    waiter: (Ticks, u64),
    /// Whether an earlier entry of the call found it not ready, too.
    pub(crate) began_before: bool,
    given: Option<Given>,
}

/// Who has given a lock to an operation, and to whom the wait until then is owed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) at: Ticks,
    by: u32,
    pub(crate) owed: Owed,
}

impl LockWaits {
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// tokio tells of its locks.
    pub(crate) fn begin(&self) {
        self.any.store(true, Relaxed);
    }

    fn part(&self, span: u64) -> MutexGuard<'_, Part> {
        // The registry puts the number of a thread into the upper bits.
        self.parts[(span ^ span >> 38) as usize % PARTS].lock()
    }

    /// A span of this label wakes a task.
    pub(crate) fn wake(&self, task: u64, now: Ticks, by: u32) {
        let woken = &mut self.part(task).woken;
        if woken.len() >= MOST && !woken.contains_key(&task) {
            woken.clear(); // of tasks that have ended
            self.lose(now);
        }
        let wakes = woken.entry(task).or_insert(Wakes { first: now, by: Some(by) });
        wakes.by = wakes.by.filter(|known| *known == by);
    }

    /// Wakes up to now may not have been noted.
    pub(crate) fn lose(&self, now: Ticks) {
        self.lost.fetch_max(now, Relaxed);
    }

    /// A span is entered. If it is that of a task that was woken, returns by whom.
    pub(crate) fn poll(&self, span: u64) -> Option<Wakes> {
        self.part(span).woken.remove(&span)
    }

    /// A call was polled, and waits in this operation.
    pub(crate) fn wait(&self, operation: u64, call: &Call) {
        call.set_operation(operation);
        let operations = &mut self.part(operation).operations;
        if operations.len() >= MOST && !operations.contains_key(&operation) {
            operations.clear(); // of futures that were dropped
        }
        let waiter = (call.created(), call.entries());
        let before = operations.get(&operation).filter(|before| before.waiter.0 == waiter.0);
        let began_before = before.is_some_and(|before| before.began_before || before.waiter != waiter);
        operations.insert(operation, Operation { waiter, began_before, given: None });
    }

    /// An operation is given its lock now, by a span of this label.
    pub(crate) fn give(&self, operation: u64, at: Ticks, by: u32, owed: impl FnOnce() -> Owed) {
        if let Some(known) = self.part(operation).operations.get_mut(&operation) {
            known.given = Some(Given { at, by, owed: owed() });
        }
    }

    /// Whether a call was given the lock that it waits for since this entry, and nothing else can have ended its wait.
    /// `task`: in whose poll it is entered again, and its wakes.
    pub(crate) fn is_given(&self, call: &Call, entry: u64, task: Option<(u64, Wakes)>) -> bool {
        let operation = call.operation();
        let known = self.part(operation).operations.get(&operation).copied();
        known.is_some_and(|known| self.end_after(entry, &known, call, task).is_some())
    }

    /// An operation is ready. Returns it if it was not so at once.
    pub(crate) fn take(&self, operation: u64) -> Option<Operation> {
        self.part(operation).operations.remove(&operation)
    }

    /// Who has ended the wait of a call that was polled, and found this operation ready; and when the wait began.
    /// `task`: whose poll this is, and its wakes.
    pub(crate) fn end(&self, known: &Operation, call: &Call, task: Option<(u64, Wakes)>) -> Option<(Ticks, Given)> {
        self.end_after(call.entries().checked_sub(1)?, known, call, task)
    }

    /// The same, for a wait after this entry of the call.
    fn end_after(
        &self,
        entry: u64,
        known: &Operation,
        call: &Call,
        task: Option<(u64, Wakes)>,
    ) -> Option<(Ticks, Given)> {
        let (given, (task, wakes)) = (known.given?, task?);
        let since = call.exited();
        let is_last = known.waiter == (call.created(), entry);
        // An operation beside this one may have ended the wait.
        let is_told = call.held_up_until() > since;
        let again = self.part(task).woken.get(&task).copied();
        let is_woken_by_it = wakes.are_of(&given) && again.is_none_or(|again| again.by == wakes.by);
        let is_known = is_last && !is_told && is_woken_by_it && self.lost.load(Relaxed) < since;
        (is_known && since < given.at).then_some((since, given))
    }
}

impl Wakes {
    /// Whether all of them come from who has given the lock, and none before.
    fn are_of(self, given: &Given) -> bool {
        self.by == Some(given.by) && self.first >= given.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{OnCpu, Place};
    use crate::session::calls::table::{Calls, Spare};
    use crate::session::calls::{Entry, Left};

    /// A call waits in operation 5 from 20 on. Label 9 gives it the lock at 40, and wakes its task 6. It is polled.
    fn waits(disturb: impl FnOnce(&LockWaits)) -> Option<Ticks> {
        let (calls, waits) = (Calls::new(&crate::clock::Clock::new()), LockWaits::default());
        let id = calls.begin(&Spare::default(), 0, Place::new(1, 1), 0, 1);
        let call = calls.get(id).unwrap();
        calls.enter(0, call, Entry::at(10, Left::Other));
        waits.wait(5, call);
        calls.exit(0, id, 20, OnCpu::default());
        waits.give(5, 40, 9, || Owed::to(9, 40));
        waits.wake(6, 41, 9);
        disturb(&waits);
        let task = waits.poll(6).map(|wakes| (6, wakes));
        let is_given = waits.is_given(call, 1, task);
        calls.enter(0, call, Entry::at(50, Left::Other));
        assert_eq!(waits.is_given(call, 1, task), is_given, "while it is polled, too");
        assert!(!waits.is_given(call, 2, task), "it waits no more");
        let wait = waits.take(5)?;
        assert!(waits.take(5).is_none());
        let end = waits.end(&wait, call, task);
        assert_eq!(end.is_some(), is_given);
        end.map(|(since, _)| since)
    }

    #[test]
    fn lost_wakes_leave_nothing_to_tell_of_the_waits_that_were_going_on() {
        assert_eq!(waits(|_| ()), Some(20));
        assert_eq!(waits(|waits| waits.lose(19)), Some(20));
        assert_eq!(waits(|waits| waits.lose(20)), None);
        // Those of tasks that are never polled again make room.
        let wakes = |first: u64, count: usize| {
            move |waits: &LockWaits| (1..=count).for_each(|task| waits.wake(first + (task * PARTS) as u64, 42, 1))
        };
        assert_eq!(waits(wakes(6, MOST - 1)), Some(20));
        assert_eq!(waits(wakes(7, MOST)), Some(20), "in another part");
        let and_again = |waits: &LockWaits| {
            wakes(6, MOST)(waits);
            waits.wake(6, 43, 9);
        };
        assert_eq!(waits(and_again), None);
    }

    #[test]
    fn operations_of_futures_that_were_dropped_make_room() {
        let (calls, waits) = (Calls::new(&crate::clock::Clock::new()), LockWaits::default());
        let id = calls.begin(&Spare::default(), 0, Place::new(1, 1), 0, 1);
        let call = calls.get(id).unwrap();
        let span = |operation: usize| (operation * PARTS) as u64;
        (0..MOST).for_each(|operation| waits.wait(span(operation), call));
        waits.wait(span(0), call);
        assert_eq!(waits.parts[0].lock().operations.len(), MOST);
        waits.wait(span(MOST), call);
        assert_eq!(waits.parts[0].lock().operations.len(), 1);
    }
}
