//! The work of helper threads: what a thread launches outside of ranges, while a range of another thread waits for it.
//!
//! PyTorch launches a backward pass on a thread of its own, while `backward` waits. Such calls count below the range
//! that waits, in a row that has the helper's name.
//!
//! A helper sleeps until it gets work. So its calls come in *bursts*: one begins with the first call, and with each
//! before which the thread has slept. The process's main thread is no helper. At the begin of a burst, the innermost
//! ranges of all threads are looked at. A range waits if
//!
//! - it was entered while the helper slept, or waited for the burst before, too;
//! - its thread sleeps in a lock or condition without a time limit. A thread that waits for Python's interpreter lock
//!   has a limit, and one in an event loop sleeps elsewhere.
//!
//! A thread that Python started sleeps for the interpreter lock, too, also while it works by itself. So a range that
//! waits for such a thread must have been there before the thread ([`Burst::latest_entry`]).
//!
//! If exactly one range waits, it has the calls of the burst until its thread moves: enters or leaves a range, or makes
//! a call that is noted. Threads that launch by themselves are told by what they do besides: they go on after the range
//! ([`Row::is_trusted`]), and they begin to work while none of the open ranges waits ([`ALONE`]).
//!
//! The calls pay for the looks, so there are few: one at the begin of a burst, and more only if that one found nobody
//! ([`VAIN`], [`NEXT`]).

use std::time::Duration;

use parking_lot::Mutex;

use super::notes::Notes;
use crate::clock::{Clock, Ticks};
use crate::core::record::Place;
use crate::core::session::catalog::ROOT;
use crate::core::thread::stack::Stack;
use crate::process;

/// The shortest time between two calls in which the thread may have slept. It may also sleep for another reason: a lock
/// of a moment, a page of memory.
const PAUSE: Duration = Duration::from_micros(30);
/// The time between the helper's last call and the entry of a range that has not waited for it before. It excludes
/// ranges that are entered in such a moment.
const QUIET: Duration = Duration::from_micros(100);
/// After a look in vain, so many durations of it pass until the next one in the same burst, and until one at the begin
/// of a later burst.
const VAIN: u64 = 100;
const NEXT: u64 = 10;
/// The longest time after a look in vain. A look lasts long if the thread is preempted in it.
const LONGEST: Duration = Duration::from_millis(10);
/// A thread is no helper while this number more of its bursts have begun without a range that waits than with one. A
/// few do so for any helper, because the thread that gives the work may not sleep yet.
const ALONE: u64 = 3;
/// Calls after the range has ended that are usual for a helper: it frees memory, or records an event.
const LATE: u64 = 16;
/// The name of threads that have a Python state but never work by themselves: PyTorch's autograd starts them.
const AUTOGRAD: &str = "pt_autograd_";
/// How exactly the system tells when a thread began.
const AGE: Duration = Duration::from_millis(10);
/// The largest number of rows, and of names of contested calls, that a helper remembers.
const MOST: usize = 16;

/// A thread's memory of its calls outside of ranges. Other threads call [`contested`](Self::contested) alone. No
/// function waits for the lock, because a signal handler that ends the process may have interrupted `node`.
#[derive(Debug, Default)]
pub(crate) struct Helper(Mutex<Burst>);

/// The latest burst, and what is known from earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    /// The last call before it (0 for none), its first, and its latest.
    before: Ticks,
    at: Ticks,
    last: Ticks,
    /// A number that changes with each range of the helper's own in which it makes calls.
    own_ranges: u64,
    /// How often the thread had gone to sleep at the last call after a pause.
    sleeps: u64,
    /// [`QUIET`] in ticks.
    quiet: u64,
    /// Ranges that were entered later do not wait for this thread, if Python started it: when it began. 0: any may.
    latest_entry: Ticks,
    waiter: Option<Waiter>,
    /// Calls for the waiter in this burst.
    calls: u64,
    /// Whether the range that waited for it has ended.
    is_over: bool,
    /// Since then: the node of the range, the calls for it, and those after it.
    late: Option<(u32, u64, u64)>,
    /// When the range was entered that waited last.
    last_waiter: Ticks,
    /// The next look in this burst may come then, and the next at the begin of a burst.
    next_look: Ticks,
    next_begin: Ticks,
    /// Bursts that began while a range waited, and while none of the open ones did; and whether this is one of those.
    served: u64,
    alone: u64,
    is_alone: bool,
    /// Rows that have waited for this helper, the latest first.
    rows: Vec<Row>,
    /// Labels of two ranges that both waited at the last look.
    rivals: Option<[u32; 2]>,
    contested: Vec<ContestedCalls>,
}

/// A row of the tree whose ranges have waited for the helper.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// The node of the ranges, and that of the helper's row below it.
    range: u32,
    node: u32,
    /// Bursts for these ranges, and those that went on for long after the range had ended.
    served: u64,
    outlived: u64,
}

impl Row {
    /// False if the helper often does not stop when the range ends: then the range waits for something else.
    fn is_trusted(&self) -> bool {
        self.outlived == 0 || 2 * self.outlived < self.served
    }
}

/// A range that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) thread: ThreadView,
    pub(crate) standing: Standing,
    /// The row of the helper below that range, as a node of the tree.
    pub(crate) node: u32,
}

impl Waiter {
    /// Whether its thread has not moved since.
    fn stands(&self) -> bool {
        self.thread.standing() == Some(self.standing)
    }

    fn range(&self) -> u32 {
        self.standing.place.node()
    }
}

/// What is looked at of another thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadView {
    pub(crate) stack: &'static Stack,
    pub(crate) notes: &'static Notes,
}

impl ThreadView {
    /// Where the thread stands; `None` outside of measured ranges.
    pub(crate) fn standing(&self) -> Option<Standing> {
        let (place, start) = self.stack.innermost()?;
        Some(Standing { depth: self.stack.depth(), place, start, notes: self.notes.written() })
    }
}

/// Where a thread stands: differs after an entry, an exit, or a noted call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    depth: usize,
    pub(crate) place: Place,
    pub(crate) start: Ticks,
    notes: usize,
}

/// What a look found: no open range, none that waits, the one that waits, or the labels of two.
pub(crate) enum Found {
    NoRange,
    Nobody,
    One(Waiter),
    Two([u32; 2]),
}

/// Calls that could belong to either of two ranges, and stayed outside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ContestedCalls {
    /// The window, the helper, and how many.
    pub(crate) window: Ticks,
    pub(crate) helper: String,
    pub(crate) calls: u64,
    /// The labels of the last two ranges.
    pub(crate) between: [u32; 2],
}

/// The helper at a call.
pub(crate) struct Caller<'a> {
    pub(crate) clock: &'a Clock,
    pub(crate) window: Ticks,
    pub(crate) name: &'a Mutex<String>,
    pub(crate) thread: u32,
    /// See [`Burst`].
    pub(crate) own_ranges: u64,
}

impl Caller<'_> {
    /// See [`Burst::latest_entry`].
    fn latest_entry(&self) -> Ticks {
        if !process::thread_runs_python() || self.name.lock().starts_with(AUTOGRAD) {
            return 0;
        }
        let Some(age) = process::thread_age(self.thread) else { return 1 };
        let age = age.saturating_sub(AGE).as_nanos() as u64;
        self.clock.now().saturating_sub(self.clock.ticks_of(age)).max(1)
    }
}

impl Helper {
    /// The node of a call of this thread now, outside of ranges. `find` looks for the range that waits.
    pub(crate) fn node(&self, caller: &Caller<'_>, find: impl FnOnce(&Burst) -> Found) -> u32 {
        let Some(mut burst) = self.0.try_lock() else { return ROOT };
        let clock = caller.clock;
        burst.quiet = clock.ticks(QUIET);
        if burst.last == 0 {
            burst.latest_entry = caller.latest_entry();
        }
        let limits = [PAUSE, LONGEST].map(|limit| clock.ticks(limit));
        let node = burst
            .node((clock.now(), caller.own_ranges), limits, process::thread_sleeps, |burst| (find(burst), clock.now()));
        if let Some(between) = burst.rivals {
            burst.count_contested(caller, between);
        }
        node
    }

    /// The node of what this thread does now outside of ranges, other than a call that is noted: it enters a range, or
    /// changes a graph.
    #[cold]
    #[inline(never)]
    pub(crate) fn present_node(&self, clock: &Clock) -> u32 {
        let Some(burst) = self.0.try_lock() else { return ROOT };
        let is_soon = clock.now().saturating_sub(burst.last) < clock.ticks(PAUSE);
        let goes_on = || is_soon || process::thread_sleeps() == burst.sleeps;
        burst.waiter.as_ref().filter(|waiter| waiter.stands() && goes_on()).map_or(ROOT, |waiter| burst.node_of(waiter))
    }

    /// Calls in this window that stayed outside.
    pub(crate) fn contested(&self, window: Ticks) -> Vec<ContestedCalls> {
        let burst = self.0.try_lock();
        let all = burst.iter().flat_map(|burst| &burst.contested);
        all.filter(|contested| contested.window == window).cloned().collect()
    }

    /// Another thread uses this memory from now on.
    pub(crate) fn begin_thread(&self) {
        if let Some(mut burst) = self.0.try_lock() {
            *burst = Burst { contested: std::mem::take(&mut burst.contested), ..Burst::default() };
        }
    }
}

impl Burst {
    /// Whether a range that was entered then, of this node, may have given the work of this burst.
    pub(crate) fn may_come_of(&self, range: u32, entered: Ticks) -> bool {
        let quiet = if self.before == 0 || self.row(range).is_some() { 0 } else { self.quiet };
        let is_early = self.latest_entry == 0 || entered <= self.latest_entry;
        is_early && entered < self.at && (entered > self.before.saturating_add(quiet) || entered == self.last_waiter)
    }

    /// The row of this helper below a range, if that waited before.
    pub(crate) fn row(&self, range: u32) -> Option<u32> {
        self.rows.iter().find(|row| row.range == range).map(|row| row.node)
    }

    /// The node of a call now. The second number is as in [`own_ranges`](Self::own_ranges). `sleeps` tells how often
    /// this thread has gone to sleep. `find` looks for the range that waits, and returns the time, too.
    fn node(
        &mut self,
        (now, own_ranges): (Ticks, u64),
        [pause, longest]: [u64; 2],
        sleeps: impl Fn() -> u64,
        find: impl FnOnce(&Self) -> (Found, Ticks),
    ) -> u32 {
        let before = std::mem::replace(&mut self.last, now);
        let was_in_own = std::mem::replace(&mut self.own_ranges, own_ranges) != own_ranges;
        let slept = now.saturating_sub(before) >= pause && self.has_slept(&sleeps);
        let begins = before == 0 || slept && !was_in_own;
        if begins {
            (self.before, self.at, self.calls) = (before, now, 0);
            (self.is_alone, self.is_over, self.rivals, self.late, self.waiter) = (false, false, None, None, None);
        } else if let Some(waiter) = self.waiter.take_if(|waiter| !waiter.stands()) {
            (self.is_over, self.late) = (true, Some((waiter.range(), self.calls, 0)));
        }
        self.count_late();
        let next_look = if begins { self.next_begin } else { self.next_look };
        if self.waiter.is_none() && !self.is_over && now >= next_look {
            let (found, after) = find(self);
            let _in_the_look = self.has_slept(&sleeps);
            self.take(found, begins);
            let took = after.saturating_sub(now);
            (self.next_look, self.next_begin) = match self.waiter {
                Some(_) => (0, 0),
                None => (after + (took * VAIN).min(longest), after + (took * NEXT).min(longest)),
            };
        }
        self.calls += 1;
        self.waiter.as_ref().map_or(ROOT, |waiter| self.node_of(waiter))
    }

    /// The node of a call for this waiter.
    fn node_of(&self, waiter: &Waiter) -> u32 {
        let row = self.rows.iter().find(|row| row.range == waiter.range());
        let is_trusted = self.alone <= self.served + ALONE && row.is_some_and(Row::is_trusted);
        if is_trusted { waiter.node } else { ROOT }
    }

    /// Takes what a look found, at the begin of a burst or later in it.
    fn take(&mut self, found: Found, begins: bool) {
        let was_alone = std::mem::take(&mut self.is_alone);
        self.rivals = None;
        match found {
            Found::One(waiter) => {
                if begins || was_alone {
                    (self.served, self.alone) = (self.served + 1, self.alone - u64::from(was_alone));
                }
                self.last_waiter = waiter.standing.start;
                let (range, node) = (waiter.range(), waiter.node);
                let known = self.rows.iter().position(|row| row.range == range);
                let mut row = known.map_or(Row { range, node, served: 0, outlived: 0 }, |at| self.rows.remove(at));
                row.served += 1;
                self.rows.truncate(MOST - 1);
                self.rows.insert(0, row);
                (self.waiter, self.late) = (Some(waiter), None);
            }
            Found::Nobody => (self.alone, self.is_alone) = (self.alone + u64::from(begins), begins || was_alone),
            Found::Two(rivals) => self.rivals = Some(rivals),
            Found::NoRange => {}
        }
    }

    /// Counts a call after the range has ended, in the same burst.
    fn count_late(&mut self) {
        let Some((range, calls, late)) = &mut self.late else { return };
        *late += 1;
        if *late >= LATE.max(*calls / 4) {
            let row = self.rows.iter_mut().find(|row| row.range == *range);
            row.into_iter().for_each(|row| row.outlived += 1);
            self.late = None;
        }
    }

    fn count_contested(&mut self, caller: &Caller<'_>, between: [u32; 2]) {
        let name = caller.name.lock();
        let known = self.contested.iter().position(|row| row.window == caller.window && row.helper == *name);
        let at = known.unwrap_or_else(|| {
            self.contested.truncate(MOST - 1);
            self.contested
                .insert(0, ContestedCalls { window: caller.window, helper: name.clone(), ..Default::default() });
            0
        });
        if let Some(row) = self.contested.get_mut(at) {
            (row.calls, row.between) = (row.calls + 1, between);
        }
    }

    /// Whether the thread has gone to sleep since the last pause.
    fn has_slept(&mut self, sleeps: impl Fn() -> u64) -> bool {
        let now = sleeps();
        std::mem::replace(&mut self.sleeps, now) != now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread with a range of this node since then.
    fn waiting(node: u32, since: Ticks) -> ThreadView {
        let view =
            ThreadView { stack: Box::leak(Box::new(Stack::new())), notes: Box::leak(Box::new(Notes::default())) };
        view.stack.push(1, Place::new(node, 7), since).unwrap();
        view
    }

    /// A helper with a pause of 30 and a quiet time of 100, which makes calls at given moments. Before each call it has
    /// slept or not. A look takes one tick.
    #[derive(Default)]
    struct Calls {
        burst: Burst,
        own_ranges: u64,
        slept: u64,
        looks: u32,
    }

    impl Calls {
        fn new() -> Self {
            Self { burst: Burst { quiet: 100, ..Burst::default() }, ..Self::default() }
        }

        /// A call while this thread waits, or while it does not although a range is open.
        fn call(&mut self, at: Ticks, slept: bool, waits: Option<ThreadView>) -> u32 {
            self.slept += u64::from(slept);
            let (sleeps, looks) = (self.slept, &mut self.looks);
            self.burst.node(
                (at, self.own_ranges),
                [30, 10_000],
                || sleeps,
                |burst| {
                    *looks += 1;
                    let found = waits.and_then(|thread| {
                        let standing = thread.standing()?;
                        let node = standing.place.node();
                        burst.may_come_of(node, standing.start).then_some(Waiter { thread, standing, node: 100 + node })
                    });
                    (found.map_or(Found::Nobody, Found::One), at + 1)
                },
            )
        }

        /// The first call of a burst, long after the last, for a range that was entered just before it.
        fn burst(&mut self, node: u32, waits: bool) -> (u32, ThreadView) {
            let at = self.burst.last + 20_000;
            let waiter = waiting(node, at - 1);
            (self.call(at, true, waits.then_some(waiter)), waiter)
        }
    }

    #[test]
    fn a_burst_belongs_to_the_range_that_waits_until_it_is_left() {
        let (mut calls, waiter) = (Calls::new(), waiting(1, 900));
        assert_eq!([1_000, 1_001, 5_000].map(|at| calls.call(at, false, Some(waiter))), [101; 3]);
        assert_eq!(calls.looks, 1, "one look a burst");
        waiter.stack.pop(5_001);
        waiter.stack.push(1, Place::new(2, 7), 5_002).unwrap();
        assert_eq!(calls.call(5_010, false, Some(waiter)), ROOT, "it goes on");
        assert_eq!(calls.call(6_000, true, Some(waiter)), ROOT, "the range was entered in the middle of a burst");
        let next = waiting(2, 6_200);
        assert_eq!(calls.call(6_300, true, Some(next)), 102);
    }

    #[test]
    fn the_next_burst_belongs_to_who_waits_then() {
        let mut calls = Calls::new();
        let (node, first) = calls.burst(1, true);
        assert_eq!((node, calls.burst(2, true).0), (101, 102), "the first range is still open");
        assert!(first.standing().is_some());
        assert_eq!(calls.burst(1, false).0, ROOT);
    }

    #[test]
    fn a_row_whose_ranges_are_outlived_gets_no_more() {
        let mut calls = Calls::new();
        let mut run = |node, goes_on: u64| {
            let (found, waiter) = calls.burst(node, true);
            waiter.stack.pop(calls.burst.last);
            (0..goes_on).for_each(|_| assert_eq!(calls.call(calls.burst.last + 1, false, None), ROOT));
            found
        };
        assert_eq!([(); 20].map(|()| run(1, LATE - 1)), [101; 20], "a helper makes a few calls more");
        assert_eq!([(); 3].map(|()| run(2, LATE)), [102, ROOT, ROOT]);
        assert_eq!(run(1, 0), 101);
        assert_eq!([(); 5].map(|()| run(2, 0)), [ROOT, ROOT, ROOT, 102, 102], "it stops now");
    }

    #[test]
    fn a_new_row_waits_after_a_quiet_time_and_a_known_one_after_a_sleep() {
        let mut calls = Calls::new();
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
        let (mut calls, waiter) = (Calls::new(), waiting(1, 900));
        assert_eq!(calls.call(1_000, true, Some(waiter)), 101);
        calls.burst.waiter = None; // it made calls of its own
        assert_eq!(calls.call(2_000, true, Some(waiter)), 101);
    }

    #[test]
    fn a_range_may_have_to_be_older_than_the_helper() {
        for (entered, node) in [(950, 101), (951, ROOT)] {
            let mut calls = Calls::new();
            calls.burst.latest_entry = 950;
            let waiter = waiting(1, entered);
            assert_eq!([1_000, 50_000].map(|at| calls.call(at, true, Some(waiter))), [node; 2], "{entered}");
        }
    }

    #[test]
    fn a_thread_that_python_does_not_know_may_help_any_range() {
        let (clock, name) = (Clock::new(), Mutex::new(String::new()));
        let caller = Caller { clock: &clock, window: 1, name: &name, thread: process::thread_id(), own_ranges: 0 };
        assert_eq!(caller.latest_entry(), 0);
        let age = std::thread::spawn(|| {
            let age = || process::thread_age(process::thread_id());
            let (young, begun) = (age(), std::time::Instant::now());
            while begun.elapsed() < 3 * AGE {
                std::hint::spin_loop();
            }
            (young, age())
        });
        let (young, old) = age.join().unwrap();
        assert!(young < Some(100 * AGE) && old >= young.map(|young| young + 2 * AGE), "{young:?} {old:?}");
    }

    #[test]
    fn a_thread_that_works_by_itself_is_no_helper() {
        let mut calls = Calls::new();
        assert_eq!((0..3).map(|_| calls.burst(1, false).0).max(), Some(ROOT));
        assert_eq!(calls.burst(1, true).0, 101, "perhaps who waited did not sleep yet");
        assert_eq!((0..3).map(|_| calls.burst(1, false).0).max(), Some(ROOT));
        assert_eq!([(); 3].map(|()| calls.burst(1, true).0), [ROOT, 101, 101]);
        for _ in 0..5 {
            let (node, waiter) = calls.burst(1, false);
            assert_eq!((node, calls.call(calls.burst.last + 10_000, false, Some(waiter))), (ROOT, 101));
        }
    }

    #[test]
    fn calls_in_ranges_of_its_own_begin_no_burst() {
        let mut calls = Calls::new();
        assert_eq!(calls.burst(1, false).0, ROOT);
        calls.own_ranges += 2;
        assert_eq!([(); 2].map(|()| calls.burst(1, true).0), [ROOT, 101]);
    }

    #[test]
    fn contested_calls_are_counted_by_window_and_helper() {
        let (helper, clock) = (Helper::default(), Clock::new());
        let call = |window, name: &str| {
            let name = Mutex::new(name.to_owned());
            let caller = Caller { clock: &clock, window, name: &name, thread: process::thread_id(), own_ranges: 0 };
            assert_eq!(helper.node(&caller, |_| Found::Two([3, 4])), ROOT);
        };
        [(1, "a"), (1, "a"), (1, "b"), (2, "b")].into_iter().for_each(|(window, name)| call(window, name));
        let of =
            |window| helper.contested(window).into_iter().map(|row| (row.helper, row.calls, row.between)).collect();
        let (one, two): (Vec<_>, Vec<_>) = (of(1), of(2));
        assert_eq!(one, [("b".to_owned(), 1, [3, 4]), ("a".to_owned(), 2, [3, 4])]);
        assert_eq!(two, [("b".to_owned(), 1, [3, 4])]);
    }
}
