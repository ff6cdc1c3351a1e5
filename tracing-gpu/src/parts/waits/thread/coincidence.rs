//! What has just ended each time when a wait ends: who ended the waits of futures that nobody follows, inferred.
//!
//! If a wait ends right after a range of some name does, that may be chance. So each look asks two questions of
//! the names that ended meanwhile: did one end right before the wait did? And of the moments during the wait, how many
//! come as close after such an end? That part is how often chance would say yes. One wait proves nothing; `drain`
//! judges many.
//!
//! Who has what a call waits for has it before the call waits. So only ranges and calls count that had begun by then:
//! what goes on after a pause of the whole process does so together, but in no order. What has just run for most of the
//! wait on the thread that polls the call counts, too: it held the worker, or worked at what the call waits for.
//!
//! Waiters in a queue go on one after the other, each after a poll of the one before it. So such a poll passes on when
//! the first of its queue went on: that moment is asked about. What a task waits for while it has its turn is shorter
//! than its wait in the queue, or the queue would not be what costs the time: the longest wait of a task counts.

use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use range_model::stats::{Keyed, Lean, order};

use crate::clock::{Clock, Ticks};
use crate::parts::values::span::codes::Codes;
use crate::parts::waits::session::asked_values::AskedValues;
use crate::parts::waits::session::endings::{AllEndings, Endings, Last, Mark, Unit};

/// How soon a wait ends after what ended it: 0.2 ms; 1.6 ms, on a machine that is too busy to go on at once; and
/// 6.4 ms, where what was let go has a way to go, as a connection that its pool asks whether it is alive. From [`LATE`]
/// on, half of the window is before the end of the wait, and half after it.
pub(crate) const WINDOWS: [Duration; 5] = [
    Duration::from_micros(200),
    Duration::from_micros(1_600),
    Duration::from_micros(6_400),
    Duration::from_micros(400),
    Duration::from_micros(3_200),
];
pub(crate) const LATE: u8 = 3;
/// A time that is long past.
const LONG_PAST: Ticks = 1;
/// How long after a wait the second look is.
const DELAY: Duration = Duration::from_micros(1_600);
/// A thread that runs nothing for so long waits for something to do.
const FREE: Duration = Duration::from_micros(50);
/// Nor is a thread free that runs nothing for so small a part of what it ran before, and 0.2 ms at most.
const RUNTIME_PART: u64 = 64;
/// Chance of one.
pub(crate) const CERTAIN: u64 = 1 << 16;
/// Stands for any range, in place of a label.
const ANY: u32 = u32::MAX;
/// Rows that one thread keeps.
const MOST: usize = 4_096;
/// Rows of values, which are many where each call has its own.
const MOST_VALUES: usize = 1_024;
/// A look asks for so many times its own time without another one: looks take at most 0.4 % of a thread's time, and
/// once there were many, 0.1 %; those at waits in polls take as much again.
const PAUSE_PER_COST: u64 = 250;
const PAUSE_PER_LATER_COST: u64 = 1_000;
/// Looks of one thread that know its waits well.
const MANY: u64 = 4_096;
/// The same for reading values, for at most 2 % of the time: each call pays for its own. What was not used for so long
/// is lost.
const PAUSE_PER_VALUES: u64 = 50;
const UNUSED: Duration = Duration::from_millis(10);
/// Values that take longer to format are costly.
const COSTLY: Duration = Duration::from_micros(200);

/// Waits of one name and of about one length (a power of two, in nanoseconds) that ended within a window after a range
/// of one name; or all that were looked at ([`ANY`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) waiter: u32,
    pub(crate) by: By,
    pub(crate) window: u8,
    pub(crate) octave: u8,
}

/// Ranges of one name, or those of its calls with one value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct By {
    pub(crate) label: u32,
    /// The code of the value; 0 for any, also for a call whose values are not known.
    pub(crate) code: u32,
}

impl By {
    pub(crate) const ANY: Self = Self::label(ANY);

    /// Stands for all waits of tasks of this name whose values are known.
    pub(crate) const fn any_value(label: u32) -> Self {
        Self { label, code: ANY }
    }

    pub(crate) const fn label(label: u32) -> Self {
        Self { label, code: 0 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) waits: u64,
    /// How many of them chance would explain, in parts of [`CERTAIN`].
    pub(crate) by_chance: u64,
    /// The time until the first of a queue went on, and the longest, in ticks.
    pub(crate) time: u64,
    pub(crate) longest: u64,
    /// The moments at which they ended. Several waits that one event ends prove no more than one.
    pub(crate) moments: u64,
    /// How many of the waits began right after the range did, or its thread went off the CPU.
    pub(crate) began_with: u64,
    /// In how many of the waits the range had only held the thread, and not begun before.
    pub(crate) held: u64,
    /// In how many of the waits of calls the thread was held by an instance that began after the wait: without it, the
    /// wait may have ended some time earlier, as where a timer was late.
    pub(crate) filled: u64,
    /// Of a value: how many waits tasks had that have it. They do not count as waits for it.
    pub(crate) own: u64,
}

impl Sums {
    pub(crate) fn add(&mut self, more: &Self) {
        self.waits += more.waits;
        self.by_chance += more.by_chance;
        self.time = self.time.saturating_add(more.time);
        self.longest = self.longest.max(more.longest);
        self.moments += more.moments;
        self.began_with += more.began_with;
        self.held += more.held;
        self.filled += more.filled;
        self.own += more.own;
    }
}

#[derive(Debug, Default)]
struct State {
    rows: Keyed<Key, Sums>,
    values: Keyed<Key, Sums>,
    /// The last wait of a thread, for one more look.
    late: Option<Wait>,
    /// The last wait in a poll.
    of_poll: Option<PollWait>,
    /// Memory for one look.
    seen: Vec<Seen>,
    ended: Vec<EndedBefore>,
}

/// What ended, its age, and two marks. Where a thread waited: that it began with the wait. Where a call did: that it
/// only held the thread; and that its last instance did, and began after the wait.
type EndedBefore = (By, u64, [bool; 2]);

/// A wait that is looked at.
#[derive(Clone, Copy, Debug)]
struct Wait {
    waiter: u32,
    since: Ticks,
    /// When the first of its queue went on.
    until: Ticks,
    octave: u8,
    is_new_moment: bool,
    is_of_thread: bool,
    is_in_poll: bool,
}

/// A wait of a thread in a poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollWait {
    pub(crate) waiter: u32,
    /// Its begin and end.
    pub(crate) time: [Ticks; 2],
    /// The name of the task that was polled, and its values.
    pub(crate) task: Option<(u32, Codes)>,
}

/// The task of a call that has waited. Of calls of its name the values count as well.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) label: u32,
    pub(crate) codes: Codes,
    pub(crate) values: &'a AskedValues,
}

/// Who has waited.
#[derive(Clone, Copy)]
pub(crate) enum Waiter<'a> {
    /// A call, which is about to be polled; the label of what has held this thread for most of the wait, until now; and
    /// the task of the call.
    Call(Option<u32>, Option<Task<'a>>),
    /// A thread off the CPU, which keeps its ends here; and the task that it has polled.
    Thread(&'a Endings, Option<Task<'a>>),
}

/// What one thread has found. Written by it, read by any.
#[derive(Debug, Default)]
pub(crate) struct Coincidences {
    state: Mutex<State>,
    pause: Pause,
    /// Waits in polls leave the looks at waits of calls their time.
    pause_in_polls: Pause,
    /// When there is one more look at a wait; 0 for none.
    late_at: AtomicU64,
    /// When the pauses are over that the values asked for which were read.
    unread_until: AtomicU64,
    /// Looks without room for their row.
    lost: AtomicU64,
}

/// Keeps the cost of looks small.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// When the pauses are over that the looks so far have asked for.
    until: AtomicU64,
    looks: AtomicU64,
}

impl Pause {
    /// Whether a wait of this length that ends now is passed over. One that is longer than what is left of the pauses
    /// is looked at all the same: else short waits, which are many, would leave no time for long ones.
    #[inline]
    pub(crate) fn passes_over(&self, now: Ticks, waited: u64) -> bool {
        self.until.load(Relaxed).saturating_sub(now) >= waited
    }

    fn lengthen(&self, now: Ticks, cost: u64) {
        let looks = self.looks.load(Relaxed);
        self.looks.store(looks + 1, Relaxed);
        let per_cost = if looks < MANY { PAUSE_PER_COST } else { PAUSE_PER_LATER_COST };
        self.until.store(self.until.load(Relaxed).max(now) + cost * per_cost, Relaxed);
    }
}

impl Coincidences {
    pub(crate) fn pause(&self, is_in_poll: bool) -> &Pause {
        if is_in_poll { &self.pause_in_polls } else { &self.pause }
    }

    /// A wait has ended. Returns when the first of its queue went on.
    pub(crate) fn look(
        &self,
        (endings, clock): (&AllEndings, &Clock),
        (waiter, kind): (u32, Waiter<'_>),
        [since, now]: [Ticks; 2],
    ) -> Option<Mark> {
        let is_in_poll = matches!(kind, Waiter::Thread(_, Some(_)));
        if self.pause(is_in_poll).passes_over(now, now - since) {
            return endings.unit.mark(waiter, now);
        }
        if let Waiter::Thread(own, _) = kind {
            self.look_late((endings, clock), own, now);
        }
        let (began, unit) = (clock.now(), endings.unit);
        let units = |ticks| unit.units(ticks);
        let close = clock.ticks(WINDOWS[0]);
        let state = &mut *self.state.lock();
        state.see((endings.iter(), unit), ([since, now], close), matches!(kind, Waiter::Thread(..)));
        // A range that was off the CPU is among them, since it ends with its wait.
        state.seen.retain(|seen| (seen.label, seen.age) != (waiter, 0));
        let known = known(endings, now);
        if known == 0 && is_in_poll {
            return unit.mark(waiter, now); // the worker has polled nothing for so long that nothing is known any more
        }
        let (is_thread, held_by, task) = match kind {
            Waiter::Thread(_, task) => (true, None, task),
            Waiter::Call(held_by, task) => (false, held_by, task),
        };
        let mut wait =
            Wait { waiter, since, until: now, octave: 0, is_new_moment: false, is_of_thread: is_thread, is_in_poll };
        for (window, ticks) in (0..LATE).zip(WINDOWS.map(|window| clock.ticks(window))) {
            let before = head_of_queue(&state.seen, waiter, units(now - since), units(ticks));
            // The last window is the longest, which finds the most of a queue.
            wait.end(now - unit.ticks(before), clock);
            let number = waiter * u32::from(LATE) + u32::from(window);
            wait.is_new_moment = endings.is_new_moment(number, wait.until, ticks);
            let span = units(wait.length()).min(known.saturating_sub(before));
            let ended =
                state.seen.iter().filter(|seen| seen.had_begun || held_by == Some(seen.label)).filter_map(|seen| {
                    let marks =
                        if is_thread { [seen.began_with, false] } else { [!seen.had_begun, seen.fills(held_by)] };
                    Some((By::label(seen.label), seen.age.checked_sub(before)?, marks))
                });
            // Not what the call itself did when it began to wait.
            state.ended.clear();
            state.ended.extend(ended.filter(|(_, age, _)| age + 1 < span));
            self.add(state, &wait, window, (units(ticks), span));
            let of_values = [units(ticks), units(now - since).min(known), units(now)];
            task.into_iter().for_each(|task| state.add_values(&wait, (task, held_by), window, of_values));
        }
        if is_thread {
            state.late = Some(wait);
            self.late_at.store(wait.until + clock.ticks(DELAY), Relaxed);
        }
        self.pause(is_in_poll).lengthen(now, clock.now().saturating_sub(began));
        unit.mark(waiter, wait.until)
    }

    /// A thread has waited in a poll. The first look is at its next poll of another call, or at the end of a range: the
    /// drop of a future follows its poll at once.
    pub(crate) fn look_later(&self, wait: PollWait) {
        self.state.lock().of_poll = Some(wait);
        self.late_at.store(LONG_PAST, Relaxed);
    }

    /// The wait in a poll that is to be looked at now.
    pub(crate) fn take_of_poll(&self, clock: &Clock) -> Option<PollWait> {
        let state = &mut *self.state.lock();
        let wait = state.of_poll.take()?;
        self.late_at.store(state.late.map_or(0, |late| late.until + clock.ticks(DELAY)), Relaxed);
        Some(wait)
    }

    /// Another thread has this from now on, which has waited for nothing yet.
    pub(crate) fn forget_waits(&self) {
        let state = &mut *self.state.lock();
        (state.late, state.of_poll) = (None, None);
        self.late_at.store(0, Relaxed);
    }

    /// Whether it is time for one more look.
    #[inline]
    pub(crate) fn is_due(&self, now: Ticks) -> bool {
        (1..=now).contains(&self.late_at.load(Relaxed))
    }

    /// Whether there is one more look to come.
    pub(crate) fn looks_again(&self) -> bool {
        self.late_at.load(Relaxed) > 0
    }

    /// Looks once more at the last wait of this thread: who let go of a lock may end later than who got it. That this
    /// thread itself ends more proves nothing, nor that others of its queue do.
    pub(crate) fn look_late(&self, (endings, clock): (&AllEndings, &Clock), own: &Endings, now: Ticks) {
        self.late_at.store(0, Relaxed);
        let (began, unit) = (clock.now(), endings.unit);
        let close = clock.ticks(WINDOWS[0]);
        let state = &mut *self.state.lock();
        let Some(wait) = state.late.take() else { return };
        for (window, ticks) in (0..).zip(WINDOWS.map(|window| clock.ticks(window))).skip(LATE.into()) {
            // The thread may wait again already: no later than that.
            let at = now.min(wait.until + ticks / 2);
            let (ticks, known) = (unit.units(at - wait.until + ticks / 2), known(endings, at));
            if known <= ticks {
                continue;
            }
            let others = endings.iter().filter(|other| !std::ptr::eq(*other, own));
            state.see((others, unit), ([wait.since, at], close), true);
            let span = unit.units(at - wait.since).min(known);
            let of_queue = |seen: &&Seen| seen.woken.is_some_and(|(label, _)| label == wait.waiter);
            let ended = state.seen.iter().filter(|seen| seen.had_begun && !of_queue(seen));
            let ended = ended.map(|seen| (By::label(seen.label), seen.age, [seen.began_with, false]));
            state.ended.clear();
            state.ended.extend(ended.filter(|(_, age, _)| age + 1 < span));
            self.add(state, &wait, window, (ticks, span));
        }
        self.pause(wait.is_in_poll).lengthen(now, clock.now().saturating_sub(began));
    }

    /// Adds a look at a wait to the rows of what ended within the window, and to that of all. In units.
    fn add(&self, state: &mut State, wait: &Wait, window: u8, (within, span): (u64, u64)) {
        let State { rows, ended, .. } = state;
        let mut add = |&(by, _, [is_marked, fills]): &EndedBefore, by_chance| {
            let key = wait.key(by, window);
            if rows.len() < MOST || rows.get(&key).is_some() {
                let marked = u64::from(is_marked);
                let (began_with, held) = if wait.is_of_thread { (marked, 0) } else { (0, marked) };
                rows.row(key).add(&Sums { by_chance, began_with, held, filled: fills.into(), ..wait.sums() });
            } else {
                self.lost.store(self.lost.load(Relaxed) + 1, Relaxed);
            }
        };
        add(&(By::ANY, 0, [false; 2]), 0);
        in_window(ended, within, span, add);
    }

    pub(crate) fn clear(&self) {
        let state = &mut *self.state.lock();
        (state.rows, state.values, state.late, state.of_poll) = (Keyed::default(), Keyed::default(), None, None);
        [&self.late_at, &self.pause.looks, &self.pause_in_polls.looks, &self.lost]
            .into_iter()
            .for_each(|word| word.store(0, Relaxed));
    }

    #[cfg(test)]
    pub(crate) fn clear_pause(&self) {
        self.pause.until.store(0, Relaxed);
    }

    pub(crate) fn copy(&self) -> Vec<(Key, Sums)> {
        let state = self.state.lock();
        state.rows.iter().chain(state.values.iter()).map(|(key, sums)| (*key, *sums)).in_vec()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// The values of a new call, unless those of others took long enough.
    pub(crate) fn read_values(&self, clock: &Clock, read: impl FnOnce() -> Option<Codes>) -> Read {
        let now = clock.now();
        let unread_until = self.unread_until.load(Relaxed).max(now.saturating_sub(clock.ticks(UNUSED)));
        if unread_until > now {
            return Read::Nothing;
        }
        let codes = read();
        let cost = clock.now().saturating_sub(now);
        self.unread_until.store(unread_until + cost * PAUSE_PER_VALUES, Relaxed);
        match codes {
            Some(codes) if cost < clock.ticks(COSTLY) => Read::Values(codes),
            _ => Read::Costly,
        }
    }
}

/// What was read of a call's values.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    Nothing,
    Values(Codes),
    /// It took too long, or failed.
    Costly,
}

/// The row of a value. Where each call has a value of its own, the rarer half of the rows makes room.
fn value_row(rows: &mut Keyed<Key, Sums>, key: Key) -> &mut Sums {
    if rows.len() >= MOST_VALUES && rows.get(&key).is_none() {
        let how_often = |(key, sums): &(Key, Sums)| if key.by.code == ANY { u64::MAX } else { sums.waits + sums.own };
        keep_frequent(rows, how_often);
    }
    rows.row(key)
}

/// Keeps the half of the rows that came most often.
pub(crate) fn keep_frequent<K: Ord + Hash, V>(rows: &mut Keyed<K, V>, how_often: impl Fn(&(K, V)) -> u64) {
    let mut all: Vec<(K, V)> = std::mem::take(rows).into_iter().in_vec();
    order::by_most(&mut all, how_often);
    all.truncate(all.len() / 2);
    all.into_iter().for_each(|(key, row)| _ = rows.insert(key, row));
}

impl Wait {
    fn length(&self) -> u64 {
        self.until.saturating_sub(self.since)
    }

    fn end(&mut self, until: Ticks, clock: &Clock) {
        self.until = until;
        self.octave = clock.about_ns(self.length()).max(1).ilog2() as u8;
    }

    fn key(&self, by: By, window: u8) -> Key {
        Key { waiter: self.waiter, by, window, octave: self.octave }
    }

    fn sums(&self) -> Sums {
        let time = self.length();
        Sums { waits: 1, time, longest: time, moments: self.is_new_moment.into(), ..Sums::default() }
    }
}

impl State {
    /// Collects what ended in a wait.
    fn see<'a>(
        &mut self,
        (endings, unit): (impl Iterator<Item = &'a Endings>, Unit),
        wait: ([Ticks; 2], u64),
        is_of_thread: bool,
    ) {
        let seen = |ending| Seen::of(&ending, unit, wait, is_of_thread);
        self.seen.clear();
        self.seen.extend(endings.flat_map(Endings::all).filter_map(seen));
    }

    /// Adds a wait to the rows of the values of calls that ended within the window before its end. Calls of one name
    /// may wait in one queue, but which of them do is not known: one that waited for something else seems to be the
    /// head of the queue. So the queue is not followed.
    fn add_values(
        &mut self,
        wait: &Wait,
        (task, held_by): (Task<'_>, Option<u32>),
        window: u8,
        [within, span, now]: [u64; 3],
    ) {
        let Self { values, seen, ended, .. } = self;
        let own = || seen.iter().filter(|seen| seen.had_begun && seen.label == task.label && seen.age + 1 < span);
        if own().any(|seen| seen.age <= within) {
            task.values.ask(task.label);
        }
        if task.codes == Codes::default() {
            return;
        }
        let codes = own().flat_map(|seen| {
            let began_with = wait.is_of_thread && seen.began_with;
            let marks = [began_with, seen.fills(held_by)];
            seen.codes.map(|code| (By { label: task.label, code }, seen.age, marks))
        });
        ended.clear();
        ended.extend(codes.filter(|(by, ..)| by.code != 0 && !task.codes.contains(&by.code)));
        in_window(ended, within, span, |&(by, age, [began_with, fills]), by_chance| {
            let row = value_row(values, wait.key(by, window));
            // Of a value that comes once, no moment is kept.
            let is_new = row.waits > 0 && task.values.is_new_moment([wait.waiter, by.code, window.into()], now - age);
            let [moments, began_with, filled] = [is_new, began_with, fills].map(u64::from);
            row.add(&Sums { by_chance, moments, began_with, filled, ..wait.sums() });
            task.values.want(by.code, row.waits);
        });
        value_row(values, wait.key(By::any_value(task.label), window)).add(&wait.sums());
        for code in task.codes.into_iter().filter(|code| *code != 0) {
            value_row(values, wait.key(By { label: task.label, code }, window)).own += 1;
        }
    }
}

/// Whether a thread ran this range for most of the wait of a call that it polls now, and has run others ever since, for
/// so long: else it was free to poll the call. Between polls a runtime works for some time, too.
pub(crate) fn has_held(clock: &Clock, [start, end]: [Ticks; 2], ran_since: u64, [since, now]: [Ticks; 2]) -> bool {
    let (held, gap) = (end.saturating_sub(start.max(since)), now.saturating_sub(end));
    let of_runtime = (held / RUNTIME_PART).min(clock.ticks(WINDOWS[0]));
    let was_free = gap.saturating_sub(ran_since) > (gap / 4).max(of_runtime).max(clock.ticks(FREE));
    gap <= clock.ticks(WINDOWS[1]) && !was_free && held >= (now - since) / 4 * 3
}

/// Before the oldest ending that a thread has kept nothing is known: how many units that is before `now`.
fn known(endings: &AllEndings, now: Ticks) -> u64 {
    let oldest = endings.iter().filter_map(Endings::oldest);
    oldest.map(|oldest| endings.unit.age(oldest, now).unwrap_or(0)).min().unwrap_or(u64::MAX)
}

/// What had ended when a wait did. Times are units before its end.
#[derive(Clone, Copy, Debug)]
struct Seen {
    label: u32,
    age: u64,
    /// Whether it had begun before the wait, and whether its last instance had.
    had_begun: bool,
    was_entered: bool,
    /// Whether the wait began when the range did, or when its thread went off the CPU: it may wait for the waiter.
    began_with: bool,
    /// If it began with the end of a wait: who waited, and when the first of that queue went on.
    woken: Option<(u32, u64)>,
    codes: Codes,
}

impl Seen {
    /// `None` for what ended before the wait began, or after its end.
    fn of(ending: &Last, unit: Unit, ([since, now], close): ([Ticks; 2], u64), is_of_thread: bool) -> Option<Self> {
        let age = unit.age(ending.range, now).filter(|age| *age < unit.units(now - since))?;
        let (label, at_latest, close) = (ending.range.label(), since.saturating_add(close), unit.units(close));
        // A poll has a lock of threads only while it runs.
        let begun = if is_of_thread { ending.entered } else { ending.begun };
        let begun = begun.and_then(|begun| unit.age(begun, since));
        // At the latest a bit after the waiter, and for a new thread to begin takes a while.
        let off_since = ending.off_since.and_then(|off| unit.age(off, at_latest));
        let began_with = begun.is_some_and(|age| age < close) || off_since.is_some_and(|age| age < 3 * close);
        let woken = ending.woken.and_then(|woken| Some((woken.label(), unit.age(woken, now)?)));
        let was_entered = ending.entered.is_some_and(|entered| unit.age(entered, since).is_some());
        let had_begun = begun.is_some();
        Some(Self { label, age, had_begun, was_entered, began_with, woken, codes: ending.codes })
    }

    /// Whether an instance of it that began after the wait has held the thread for most of the wait.
    fn fills(&self, held_by: Option<u32>) -> bool {
        held_by == Some(self.label) && !self.was_entered
    }
}

/// How long before the end of a wait the first of its queue went on; 0 where there is no queue.
fn head_of_queue(seen: &[Seen], waiter: u32, waited: u64, window: u64) -> u64 {
    let queue = seen.iter().filter(|seen| seen.age <= window);
    let queue = queue.filter_map(|seen| Some((seen.age, seen.woken.filter(|(label, _)| *label == waiter)?.1)));
    queue.min().map(|(_, before)| before).filter(|before| *before < waited).unwrap_or(0)
}

/// Calls `found` with the last end of each name or value that ended within the window, and with the part of the time
/// before it that comes as close after such an end. `span`: how far back they are known. All times are in units.
fn in_window(ended: &mut [EndedBefore], window: u64, span: u64, mut found: impl FnMut(&EndedBefore, u64)) {
    order::by(ended, Ord::cmp);
    for of_label in ended.chunk_by(|one, next| one.0 == next.0) {
        let Some(first) = of_label.first().filter(|(_, age, _)| *age <= window) else { continue };
        let (mut close, mut until) = (0, window);
        // An end of this age has the moments after it, whose ages are smaller.
        for &(_, age, _) in of_label {
            let (from, to) = (age.saturating_sub(window).max(until), age.min(span));
            close += to.saturating_sub(from);
            until = until.max(to);
        }
        let asked = span.saturating_sub(window);
        // A span that is hardly longer than the window says nothing.
        found(first, if asked < window { CERTAIN } else { close * CERTAIN / asked });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first window at the rate of these tests, at which all windows are powers of two.
    const WINDOW: u64 = 1 << 19;

    fn clock() -> Clock {
        Clock::of_rate((WINDOW * 1_000_000_000).div_ceil(WINDOWS[0].as_nanos() as u64))
    }

    fn mark_at(label: u32, at: Ticks) -> Option<Mark> {
        Unit::of(&clock()).mark(label, at)
    }

    fn units(ticks: u64) -> u64 {
        Unit::of(&clock()).units(ticks)
    }

    fn found(ended: &[(u32, u64)], span: u64) -> Vec<(u32, u64)> {
        let mut all = Vec::new();
        let mut ended: Vec<_> = ended.iter().map(|&(label, age)| (By::label(label), age, [false; 2])).collect();
        in_window(&mut ended, units(WINDOW), span, |(by, ..), chance| all.push((by.label, chance)));
        all
    }

    #[test]
    fn chance_is_the_part_of_the_wait_that_comes_right_after_an_end() {
        let window = units(WINDOW);
        let span = 11 * window;
        assert_eq!(found(&[(1, 5), (2, window + 1)], span), [(1, 0)], "the second came too early");
        let part = |windows: u64| windows * CERTAIN / 10;
        assert_eq!(found(&[(1, 5), (1, 3 * window), (1, 7 * window)], span), [(1, part(2))]);
        assert_eq!(found(&[(1, 5), (1, 3 * window), (1, 3 * window)], span), [(1, part(1))], "they overlap");
        assert_eq!(found(&[(1, 0), (1, window)], span), [(1, 0)], "the window itself is not asked about");
        let always: Vec<(u32, u64)> = (0..12).map(|number| (1, number * window)).collect();
        assert_eq!(found(&always, span), [(1, CERTAIN)]);
        assert_eq!(found(&[(1, 5)], window), [(1, CERTAIN)], "too little is known");
    }

    const HOLDER: u32 = 1;
    const WAITER: u32 = 2;

    fn rows_of(all: &AllEndings, wait: [Ticks; 2]) -> (Vec<(Key, Sums)>, Option<Mark>) {
        let coincidences = Coincidences::default();
        let mark = coincidences.look((all, &clock()), (WAITER, Waiter::Call(None, None)), wait);
        (coincidences.copy().into_iter().filter(|(key, _)| key.window == 0).collect(), mark)
    }

    #[test]
    fn a_queue_is_followed_to_its_head() {
        let all = AllEndings::new(&clock());
        let [of_holder, of_first]: [&Endings; 2] = [0, 1].map(|thread| all.make(thread).unwrap());
        let (began, let_go, first_left) = (1 << 30, 9 << 30, 10 << 30);
        of_holder.end(
            mark_at(HOLDER, let_go - WINDOW / 4),
            [mark_at(HOLDER, began - WINDOW), mark_at(HOLDER, began - WINDOW), None],
            Codes::default(),
        );
        // It had nothing before.
        of_holder.end(
            mark_at(9, let_go - WINDOW / 8),
            [mark_at(9, began + WINDOW), mark_at(9, began + WINDOW), None],
            Codes::default(),
        );
        let (rows, mark) = rows_of(&all, [began, let_go]);
        let sums = |time, moments| Sums { waits: 1, time, longest: time, moments, ..Sums::default() };
        let key = |by| Key {
            waiter: WAITER,
            by: By::label(by),
            window: 0,
            octave: clock().about_ns(let_go - began).ilog2() as u8,
        };
        let expected = |sums| vec![(key(HOLDER), sums), (key(ANY), sums)];
        assert_eq!((rows, mark), (expected(sums(let_go - began, 1)), mark_at(WAITER, let_go)));
        // The first of the queue runs for a while, and the second goes on after it.
        of_first.begin(mark);
        of_first.end(mark_at(7, first_left), [mark_at(7, began), mark_at(7, began), None], Codes::default());
        let (rows, mark) = rows_of(&all, [began, first_left + WINDOW / 2]);
        assert_eq!(mark.and_then(|mark| all.unit.age(mark, let_go)), Some(0));
        assert_eq!(rows, expected(sums(let_go - began, 0)), "it proves no more than the first");
        // A wait that began after the holder had gone is owed to the first.
        let (rows, _) = rows_of(&all, [let_go + (1 << 28), first_left + WINDOW / 2]);
        assert_eq!(rows.iter().map(|(key, _)| key.by.label).collect::<Vec<_>>(), [7, ANY]);
    }

    #[test]
    fn what_held_the_thread_for_most_of_a_wait_need_not_have_begun_before_it() {
        let all = AllEndings::new(&clock());
        let (began, until) = (1 << 30, 2 << 30);
        for label in [HOLDER, 9] {
            let marks = [mark_at(label, began + WINDOW), mark_at(label, began + WINDOW), None];
            all.make(label).unwrap().end(mark_at(label, until - WINDOW / 2), marks, Codes::default());
        }
        let found = |held_by: Option<u32>| {
            let coincidences = Coincidences::default();
            coincidences.look((&all, &clock()), (WAITER, Waiter::Call(held_by, None)), [began, until]);
            let all = coincidences.copy().into_iter().filter(|(key, _)| key.window == 0);
            all.map(|(key, _)| key.by.label).collect::<Vec<_>>()
        };
        assert_eq!([found(None), found(Some(HOLDER))], [vec![ANY], vec![HOLDER, ANY]]);
        let filled = |begun: Ticks, entered: Ticks, held_by: Option<u32>| {
            let all = AllEndings::new(&clock());
            let marks = [mark_at(HOLDER, begun), mark_at(HOLDER, entered), None];
            all.make(0).unwrap().end(mark_at(HOLDER, until - WINDOW / 2), marks, Codes::default());
            let coincidences = Coincidences::default();
            coincidences.look((&all, &clock()), (WAITER, Waiter::Call(held_by, None)), [began, until]);
            let all = coincidences.copy().into_iter().filter(|(key, _)| key.by == By::label(HOLDER) && key.window == 0);
            all.map(|(_, sums)| [sums.held, sums.filled]).collect::<Vec<_>>()
        };
        let (before, after) = (began - WINDOW, began + WINDOW);
        assert_eq!(filled(after, after, Some(HOLDER)), [[1, 1]]);
        assert_eq!(filled(before, after, Some(HOLDER)), [[0, 1]]);
        assert_eq!(filled(before, before, Some(HOLDER)), [[0, 0]]);
        assert_eq!(filled(before, after, None), [[0, 0]]);
        let has_held = |range: [Ticks; 2], wait: [Ticks; 2]| {
            let ran_since = (wait[1] - range[1]) << 20;
            super::has_held(&clock(), range.map(|at| at << 20), ran_since, wait.map(|at| at << 20))
        };
        assert!(has_held([0, 100], [60, 100]) && has_held([0, 96], [60, 100]));
        assert!(!has_held([0, 95], [60, 100]), "too long ago");
        let ran_since = |ran_since: u64| super::has_held(&clock(), [0, 8 << 20], ran_since, [0, 10 << 20]);
        assert!(ran_since(3 << 19) && !ran_since((3 << 19) - 1), "it was free for a quarter of the time since");
        let was_free = |free: u64| !super::has_held(&clock(), [0, 64 << 20], (1 << 20) - free, [0, 65 << 20]);
        assert!(!was_free(1 << 19) && was_free((1 << 19) + 1), "a part of what it ran, some 0.2 ms at most");
        let was_free = |free: u64| !super::has_held(&clock(), [0, 16 << 20], (1 << 19) - free, [0, 33 << 19]);
        assert!(!was_free(1 << 18) && was_free((1 << 18) + 1), "a part of what it ran");
        assert!(super::has_held(&clock(), [0, 100 << 20], 0, [60 << 20, (100 << 20) + (WINDOW / 4)]));
        assert!(has_held([70, 100], [60, 100]) && !has_held([71, 100], [60, 100]));
        assert!(!has_held([0, 50], [60, 100]), "before the wait");
    }

    /// The labels that are found late around the wait of a thread, with the waits that began with them.
    fn found_late(all: &AllEndings, [since, until]: [Ticks; 2], now: Ticks) -> Vec<(u32, u64)> {
        let (coincidences, clock, own) = (Coincidences::default(), clock(), all.make(0).unwrap());
        coincidences.look((all, &clock), (WAITER, Waiter::Thread(own, None)), [since, until]);
        assert!(!coincidences.is_due(until + 8 * WINDOW - 1) && coincidences.is_due(until + 8 * WINDOW));
        coincidences.look_late((all, &clock), own, now);
        assert!(!coincidences.is_due(now + 8 * WINDOW));
        let late = coincidences.copy().into_iter().filter(|(key, _)| key.window == LATE);
        late.map(|(key, sums)| (key.by.label, sums.began_with)).collect()
    }

    #[test]
    fn who_lets_go_of_a_lock_of_threads_may_end_later_than_who_got_it() {
        let (began, until) = (1 << 30, 2 << 30);
        let found = |end: Ticks, begun: Ticks, off_since: Ticks| {
            let all = AllEndings::new(&clock());
            let [own, holder] = [0, 1].map(|thread| all.make(thread).unwrap());
            own.end(
                mark_at(8, until + WINDOW / 4),
                [mark_at(8, began - 9 * WINDOW), mark_at(8, began - 9 * WINDOW), None],
                Codes::default(),
            );
            holder.end(
                mark_at(HOLDER, end),
                [mark_at(HOLDER, begun), mark_at(HOLDER, begun), mark_at(HOLDER, off_since)],
                Codes::default(),
            );
            found_late(&all, [began, until], until + 9 * WINDOW)
        };
        let (long_before, any) = (began - 9 * WINDOW, (ANY, 0));
        let held = [(HOLDER, 0), any];
        assert_eq!(found(until + WINDOW / 2, long_before, long_before), held);
        assert_eq!(found(until - WINDOW / 2, long_before, long_before), held);
        assert_eq!(found(until + 2 * WINDOW, long_before, long_before), [any], "too late");
        assert_eq!(found(until - 2 * WINDOW, long_before, long_before), [any], "too early");
        assert_eq!(found(until + WINDOW / 2, began + WINDOW, began + WINDOW), [any], "it had nothing before");
        // It waits for the waiter: the two begin together as well.
        assert_eq!(found(until + WINDOW / 2, began - WINDOW / 2, began), [(HOLDER, 1), any]);
        assert_eq!(found(until + WINDOW / 2, long_before, began + WINDOW / 2), [(HOLDER, 1), any]);
    }

    #[test]
    fn what_is_forgotten_by_then_is_not_asked_about() {
        let (began, until) = (1 << 30, 2 << 30);
        let all = AllEndings::new(&clock());
        let busy = all.make(1).unwrap();
        (0..200).for_each(|end| {
            busy.end(
                mark_at(7, until + 8 * WINDOW + (end << 10)),
                [mark_at(7, began - WINDOW), mark_at(7, began - WINDOW), None],
                Codes::default(),
            )
        });
        assert_eq!(found_late(&all, [began, until], until + 99 * WINDOW), []);
    }

    #[test]
    fn values_of_calls_of_the_own_name_are_found() {
        let (all, clock, values) = (AllEndings::new(&clock()), clock(), AskedValues::new());
        let coincidences = Coincidences::default();
        let (began, end) = (1 << 30, 9 << 30);
        let holder = all.make(1).unwrap();
        holder.end(
            mark_at(WAITER, end - WINDOW / 4),
            [mark_at(WAITER, began - WINDOW), mark_at(WAITER, began - WINDOW), None],
            [5, 8, 0, 0],
        );
        holder.end(
            mark_at(HOLDER, end - WINDOW / 4),
            [mark_at(HOLDER, began - WINDOW), mark_at(HOLDER, began - WINDOW), None],
            [6, 0, 0, 0],
        );
        let look = |codes, now: Ticks| {
            let task = Task { label: WAITER, codes, values: &values };
            coincidences.look((&all, &clock), (WAITER, Waiter::Call(None, Some(task))), [began, now]);
        };
        let found = |code| {
            let by = By { label: WAITER, code };
            let rows = coincidences.copy().into_iter().filter(|(key, _)| (key.by, key.window) == (by, 0));
            rows.fold((0, 0, 0), |(waits, moments, own), (_, sums)| {
                (waits + sums.waits, moments + sums.moments, own + sums.own)
            })
        };
        look([0; 4], end);
        assert!(values.is_asked(WAITER), "calls of one name wait for each other");
        assert_eq!(found(8), (0, 0, 0), "who waited is not known");
        look([5, 9, 0, 0], end + (1 << 17));
        look([5, 9, 0, 0], end + (2 << 17));
        assert_eq!([5, 8, 9].map(found), [(0, 0, 2), (2, 1, 0), (0, 0, 2)], "one end, and not of what who waited has");
        assert_eq!([found(6), found(ANY)], [(0, 0, 0), (2, 0, 0)], "those of another name do not count");
    }

    #[test]
    fn reading_values_takes_little_of_the_time() {
        let (coincidences, clock) = (Coincidences::default(), clock());
        let slowly = || {
            let begun = clock.now();
            while clock.now() < begun + clock.ticks(UNUSED) {}
            Some([1; 4])
        };
        assert_eq!(coincidences.read_values(&clock, slowly), Read::Costly);
        assert_eq!(coincidences.read_values(&clock, || Some([1; 4])), Read::Nothing);
        coincidences.clear();
        coincidences.unread_until.store(0, Relaxed);
        assert_eq!(coincidences.read_values(&clock, || None), Read::Costly, "it failed");
    }

    #[test]
    fn looks_take_little_of_the_time() {
        let all = AllEndings::new(&clock());
        let coincidences = Coincidences::default();
        let clock = clock();
        let now = clock.now() + (1 << 41);
        // The pause after the first is longer than the second wait, and shorter than the third.
        for waited in [4 * WINDOW, 1, 1 << 40] {
            coincidences.look((&all, &clock), (WAITER, Waiter::Call(None, None)), [now - waited, now]);
        }
        let waits: u64 = coincidences.copy().iter().map(|(_, sums)| sums.waits).sum();
        assert_eq!(waits, 2 * u64::from(LATE), "the second is passed over");
        coincidences.clear();
        assert_eq!((coincidences.copy(), coincidences.lost()), (vec![], 0));
    }
}
