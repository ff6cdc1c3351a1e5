//! The work of helper threads: what a thread launches outside of ranges, while a range of another thread waits for it.
//!
//! PyTorch launches a backward pass on a thread of its own, while `backward` waits. Such calls count below the range
//! that waits, in a row that has the helper's name. It is known who waits where one thread alone, of all those with an
//! open range,
//!
//! - has entered its innermost range before this burst of calls, and [`QUIET`] after the helper's last call before it,
//!   or sooner in a row that waited for this helper before. The range that waited last may be older;
//! - has neither entered nor left a range nor made a noted call since the look that found it;
//! - is in a row that was never left while the helper went on;
//! - sleeps in a lock or condition without a time limit. A thread that waits for Python's interpreter lock has a limit,
//!   and one in an event loop sleeps elsewhere.
//!
//! A burst begins with a thread's first call, and with one before which the thread slept for [`PAUSE`] or longer: a
//! helper sleeps until it gets work. Calls in ranges of its own begin no burst. The process's main thread is no helper.
//!
//! A thread that also works by itself is no helper: one of whose bursts more begin beside open ranges that do not wait
//! than while one waits.
//!
//! Looks are paid by the calls that make them: after a look that found nobody, a hundred times its duration passes
//! before the next one.

use std::time::Duration;

use parking_lot::Mutex;

use super::notes::Notes;
use super::stack::Stack;
use crate::clock::{Clock, Ticks};
use crate::process;
use crate::record::Place;
use crate::session::catalog::ROOT;

/// The shortest time between two calls in which the thread may have slept. It may sleep for other reasons, too: a lock,
/// a page of memory.
const PAUSE: Duration = Duration::from_micros(30);
/// The time without a call before a range that waits for the first time.
const QUIET: Duration = Duration::from_micros(100);
/// So many bursts more may begin while nobody waits: who waits may not sleep yet at the first call.
const ALONE: u64 = 3;
/// The largest number of rows that are remembered because they waited, or did not.
const ROWS: usize = 16;
/// What passes after a look in vain, in durations of that look, and at most in pauses. A look lasts long where the
/// thread is preempted in it.
const VAIN: u64 = 100;
const LONGEST: u64 = 100;

/// A thread's memory of its calls outside of ranges.
#[derive(Debug, Default)]
pub(crate) struct Helper(Mutex<Burst>);

/// The latest calls without a long pause.
#[derive(Debug, Default)]
struct Burst {
    begin: Begin,
    /// The latest call; 0 before the first.
    last: Ticks,
    /// Its number of notes before the latest call.
    notes: usize,
    /// How often the thread had gone to sleep at the last call after a pause.
    sleeps: u64,
    waiter: Option<Waiter>,
    /// The next look may come then.
    next_look: Ticks,
    /// Bursts that began while a range waited, and while none of the open ones did.
    served: u64,
    alone: u64,
    /// Labels of two ranges that both waited at the last look.
    rivals: Option<[u32; 2]>,
    undecided: Undecided,
}

/// The begin of a burst.
#[derive(Debug, Default)]
pub(super) struct Begin {
    /// The last call before it, and its first.
    before: Ticks,
    at: Ticks,
    /// Whether the burst counts as one while nobody waits.
    is_alone: bool,
    /// When the range was entered that waited last.
    last_waiter: Ticks,
    /// Rows that have waited for this helper, the latest first.
    rows: Vec<Place>,
    /// Rows that were left in the middle of a burst, the latest first.
    distrusted: Vec<Place>,
    /// [`QUIET`].
    quiet: u64,
}

impl Begin {
    /// Whether a range of this row, which was entered then, may have given the work.
    pub(super) fn may_come_of(&self, row: Place, entered: Ticks) -> bool {
        let quiet = if self.before == 0 || self.rows.contains(&row) { 0 } else { self.quiet };
        !self.distrusted.contains(&row)
            && entered < self.at
            && (entered > self.before.saturating_add(quiet) || entered == self.last_waiter)
    }

    /// Remembers who waited.
    fn remember(&mut self, standing: Standing) {
        self.last_waiter = standing.start;
        keep(&mut self.rows, standing.place);
    }

    /// A range of this row did not wait for the helper: it was left, and the helper went on.
    fn distrust(&mut self, row: Place) {
        keep(&mut self.distrusted, row);
    }
}

/// Adds a row to those that are remembered.
fn keep(rows: &mut Vec<Place>, row: Place) {
    if !rows.contains(&row) {
        rows.truncate(ROWS - 1);
        rows.insert(0, row);
    }
}

/// A range that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) thread: Watched,
    pub(super) standing: Standing,
    /// The row of the helper below that range, as a node of the tree.
    pub(super) node: u32,
}

impl Waiter {
    /// Whether its thread has not moved since.
    fn waits(&self) -> bool {
        self.thread.standing() == Some(self.standing)
    }
}

/// What is looked at of another thread.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    pub(super) stack: &'static Stack,
    pub(super) notes: &'static Notes,
}

impl Watched {
    /// Where the thread stands; `None` outside of measured ranges.
    pub(super) fn standing(&self) -> Option<Standing> {
        let (place, start) = self.stack.innermost()?;
        Some(Standing { depth: self.stack.depth(), place, start, notes: self.notes.written() })
    }
}

/// Where a thread stands: differs after an entry, an exit, or a noted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    depth: usize,
    pub(super) place: Place,
    pub(super) start: Ticks,
    notes: usize,
}

/// Calls that could belong to either of two ranges, and stayed outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Undecided {
    pub(crate) calls: u64,
    /// The name of the last helper, and the labels of the last two ranges.
    pub(crate) helper: String,
    pub(crate) between: [u32; 2],
}

impl Helper {
    /// The node of a call of this thread now, outside of ranges: see [`Burst::node`]. The thread has so many notes, and
    /// this name.
    pub(super) fn node(
        &self,
        clock: &Clock,
        notes: usize,
        name: &Mutex<String>,
        find: impl FnOnce(&Begin) -> Found,
    ) -> u32 {
        // Another call of the same thread is inside, in a signal handler.
        let Some(mut burst) = self.0.try_lock() else { return ROOT };
        burst.begin.quiet = clock.ticks(QUIET);
        let moment = (clock.now(), notes);
        let node = burst.node(moment, clock.ticks(PAUSE), process::thread_sleeps, |begin| (find(begin), clock.now()));
        if burst.undecided.calls > 0 && burst.undecided.helper.is_empty() {
            burst.undecided.helper.clone_from(&name.lock());
        }
        node
    }

    /// The node below which a range stands that this thread enters now, outside of others.
    #[cold]
    #[inline(never)]
    pub(super) fn node_of_range(&self) -> u32 {
        let burst = self.0.try_lock();
        let waiter = burst.as_ref().and_then(|burst| burst.waiter.as_ref());
        waiter.filter(|waiter| waiter.waits()).map_or(ROOT, |waiter| waiter.node)
    }

    /// Calls that stayed outside, in this window.
    pub(crate) fn undecided(&self) -> Undecided {
        self.0.lock().undecided.clone()
    }

    /// Begins a window.
    pub(super) fn restart(&self) {
        self.0.lock().undecided = Undecided::default();
    }

    /// Another thread uses this memory from now on.
    pub(super) fn begin_thread(&self) {
        let mut burst = self.0.lock();
        *burst = Burst { undecided: std::mem::take(&mut burst.undecided), ..Burst::default() };
    }
}

impl Burst {
    /// The node of a call now, before which the thread has so many notes. `sleeps` tells how often this thread has gone
    /// to sleep. `find` looks for the range that waits, and returns the time, too.
    fn node(
        &mut self,
        (now, notes): (Ticks, usize),
        pause: u64,
        sleeps: impl Fn() -> u64,
        find: impl FnOnce(&Begin) -> (Found, Ticks),
    ) -> u32 {
        let before = std::mem::replace(&mut self.last, now);
        // Calls in ranges of its own are noted, too. A page of notes begins with the one of a call.
        let is_next = notes == std::mem::replace(&mut self.notes, notes) + 1 || notes <= 1;
        let slept = now.saturating_sub(before) >= pause && self.has_slept(&sleeps);
        if let Some(waiter) = self.waiter.as_ref().filter(|waiter| waiter.waits()) {
            return waiter.node;
        }
        let gone = self.waiter.take();
        let begins = before == 0 || slept && is_next;
        if begins {
            (self.begin.before, self.begin.at, self.begin.is_alone) = (before, now, false);
        } else if let Some(gone) = gone {
            self.begin.distrust(gone.standing.place); // the burst goes on
        }
        if now >= self.next_look {
            let (found, after) = find(&self.begin);
            let found = if self.is_alone(begins, &found) { Found::Nobody } else { found };
            let _in_the_look = self.has_slept(&sleeps);
            (self.rivals, self.waiter) = match found {
                Found::One(waiter) => (None, Some(waiter)),
                Found::Two(rivals) => (Some(rivals), None),
                Found::Nobody | Found::NoRange => (None, None),
            };
            if let Some(waiter) = &self.waiter {
                self.begin.remember(waiter.standing);
            } else {
                self.next_look = after + (after.saturating_sub(now) * VAIN).min(pause * LONGEST);
            }
        }
        if let Some(between) = self.rivals {
            (self.undecided.calls, self.undecided.between) = (self.undecided.calls + 1, between);
        }
        self.waiter.as_ref().map_or(ROOT, |waiter| waiter.node)
    }

    /// Whether the thread works by itself, after this look at the begin of a burst or later in it.
    fn is_alone(&mut self, begins: bool, found: &Found) -> bool {
        let was_alone = std::mem::take(&mut self.begin.is_alone);
        match found {
            Found::Nobody if begins => (self.alone, self.begin.is_alone) = (self.alone + 1, true),
            Found::One(_) if begins || was_alone => {
                (self.served, self.alone) = (self.served + 1, self.alone - u64::from(was_alone));
            }
            _ => self.begin.is_alone = was_alone,
        }
        self.alone > self.served + ALONE
    }

    /// Whether the thread has gone to sleep since the last pause.
    fn has_slept(&mut self, sleeps: impl Fn() -> u64) -> bool {
        let now = sleeps();
        std::mem::replace(&mut self.sleeps, now) != now
    }
}

/// What a look found: no open range, none that waits, the one that waits, or the labels of two.
pub(super) enum Found {
    NoRange,
    Nobody,
    One(Waiter),
    Two([u32; 2]),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread with a range in this row since then.
    fn waiting(row: u32, since: Ticks) -> Watched {
        let watched =
            Watched { stack: Box::leak(Box::new(Stack::new())), notes: Box::leak(Box::new(Notes::default())) };
        watched.stack.push(1, Place::new(row, row), since).unwrap();
        watched
    }

    fn found(thread: Watched) -> Found {
        let standing = thread.standing().unwrap();
        Found::One(Waiter { thread, standing, node: 100 + standing.place.node() })
    }

    /// A helper with a pause of 30 and a quiet time of 100, which makes calls at given moments. Before each call it has
    /// slept or not.
    #[derive(Default)]
    struct Calls {
        burst: Burst,
        notes: usize,
        slept: u64,
        looks: u32,
    }

    impl Calls {
        fn call(&mut self, at: Ticks, slept: bool, waits: Option<Watched>) -> u32 {
            self.burst.begin.quiet = 100;
            self.slept += u64::from(slept);
            self.notes += 1;
            let (sleeps, looks) = (self.slept, &mut self.looks);
            self.burst.node(
                (at, self.notes),
                30,
                || sleeps,
                |begin| {
                    *looks += 1;
                    let found = waits.filter(|thread| {
                        let standing = thread.standing().unwrap();
                        begin.may_come_of(standing.place, standing.start)
                    });
                    (found.map_or(Found::Nobody, self::found), at + 1)
                },
            )
        }
    }

    #[test]
    fn a_burst_belongs_to_the_range_that_waits_until_it_is_left() {
        let (mut calls, waiter) = (Calls::default(), waiting(1, 900));
        assert_eq!([1_000, 1_001, 5_000].map(|at| calls.call(at, false, Some(waiter))), [101; 3]);
        assert_eq!(calls.looks, 1, "one look a burst");
        waiter.stack.pop(5_001);
        waiter.stack.push(1, Place::new(2, 2), 5_002).unwrap();
        assert_eq!(calls.call(5_010, false, Some(waiter)), ROOT, "it goes on");
        assert_eq!(calls.call(6_000, true, Some(waiter)), ROOT, "the range was entered in the middle of a burst");
        let next = waiting(2, 6_200);
        assert_eq!(calls.call(6_300, true, Some(next)), 102);
    }

    #[test]
    fn a_row_that_was_left_while_the_helper_went_on_gets_no_more() {
        let (mut calls, waiter) = (Calls::default(), waiting(1, 900));
        assert_eq!(calls.call(1_000, true, Some(waiter)), 101);
        waiter.stack.pop(1_001);
        assert_eq!(calls.call(1_002, false, None), ROOT);
        for (row, node) in [(1, ROOT), (2, 102)] {
            let at = calls.burst.last + 20_000;
            assert_eq!(calls.call(at, true, Some(waiting(row, at - 1))), node);
        }
    }

    #[test]
    fn a_new_row_waits_after_a_quiet_time_and_a_known_one_after_a_sleep() {
        let mut calls = Calls::default();
        assert_eq!(calls.call(1_000, true, Some(waiting(1, 900))), 101);
        for (row, entered, slept, node) in
            [(2, 90, true, ROOT), (2, 110, false, ROOT), (2, 110, true, 102), (1, 10, true, 101), (1, 10, false, ROOT)]
        {
            let at = calls.burst.last + 20_000;
            calls.burst.waiter = None; // it ended with the burst
            let _no_range_waits = calls.call(at, true, None);
            let waiter = waiting(row, at + entered);
            assert_eq!(calls.call(at + 20_000, slept, Some(waiter)), node, "{row} {entered} {slept}");
        }
    }

    #[test]
    fn a_range_that_waited_before_may_be_old() {
        let (mut calls, waiter) = (Calls::default(), waiting(1, 900));
        assert_eq!(calls.call(1_000, true, Some(waiter)), 101);
        calls.burst.waiter = None; // it made calls of its own
        assert_eq!(calls.call(2_000, true, Some(waiter)), 101);
    }

    #[test]
    fn a_thread_that_works_by_itself_is_no_helper() {
        let mut calls = Calls::default();
        let burst = |calls: &mut Calls, waits: bool| {
            let at = calls.burst.last + 20_000;
            calls.burst.waiter = None; // it ended with the burst
            calls.call(at, true, waits.then(|| waiting(1, at - 1)))
        };
        assert_eq!((0..3).map(|_| burst(&mut calls, false)).max(), Some(ROOT));
        assert_eq!(burst(&mut calls, true), 101, "perhaps who waited did not sleep yet");
        assert_eq!((0..3).map(|_| burst(&mut calls, false)).max(), Some(ROOT));
        assert_eq!([(); 3].map(|()| burst(&mut calls, true)), [ROOT, 101, 101]);
        for _ in 0..5 {
            assert_eq!(burst(&mut calls, false), ROOT);
            let at = calls.burst.last;
            assert_eq!(calls.call(at + 5_000, false, Some(waiting(1, at - 1))), 101, "a moment later");
        }
    }

    #[test]
    fn calls_in_ranges_of_its_own_begin_no_burst() {
        let mut calls = Calls::default();
        assert_eq!(calls.call(1_000, true, None), ROOT);
        calls.notes += 2;
        assert_eq!(calls.call(50_000, true, Some(waiting(1, 49_000))), ROOT);
        assert_eq!(calls.call(90_000, true, Some(waiting(1, 89_000))), 101);
    }
}
