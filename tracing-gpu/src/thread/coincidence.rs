//! What has just ended each time when a wait ends: who ended the waits of futures that nobody follows, inferred.
//!
//! If a wait ends right after a range of some name does, that may be chance. So each look asks two questions of
//! the names that ended meanwhile: did one end right before the wait did? And of the moments during the wait, how many
//! come as close after such an end? That part is how often chance would say yes. One wait proves nothing; `drain`
//! judges many.
//!
//! Who has what a call waits for has it before the call waits. So only ranges and calls count that had begun by then:
//! what goes on after a pause of the whole process does so together, but in no order.
//!
//! Waiters in a queue go on one after the other, each after a poll of the one before it. So such a poll passes on when
//! the first of its queue went on: that moment is asked about. What a task waits for while it has its turn is shorter
//! than its wait in the queue, or the queue would not be what costs the time: the longest wait of a task counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;
use range_report::stats::Keyed;

use crate::clock::{Clock, Ticks};
use crate::session::endings::{AllEndings, Endings, Mark, in_ticks, units};

/// A shorter wait is not looked at: some 0.8 ms, in ticks.
pub(crate) const LEAST: u64 = 1 << 21;
/// How soon a wait ends after what ended it, in ticks: some 0.2 ms; and 1.6 ms, on a machine that is too busy to go on
/// at once.
pub(crate) const WINDOWS: [u64; 2] = [1 << 19, 1 << 22];
/// Chance of one.
pub(crate) const CERTAIN: u64 = 1 << 16;
/// Stands for any range, in place of a label.
pub(crate) const ANY: u32 = u32::MAX;
/// Rows that one thread keeps.
const MOST: usize = 4_096;
/// A look asks for so many times its own time without another one: looks take at most 0.4 % of a thread's time.
const PAUSE_PER_COST: u64 = 250;

/// Waits of one name and of about one length (a power of two) that ended within a window after a range of one name; or
/// all that were looked at ([`ANY`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) waiter: u32,
    pub(crate) by: u32,
    pub(crate) window: u8,
    pub(crate) octave: u8,
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
}

impl Sums {
    pub(crate) fn add(&mut self, more: &Self) {
        self.waits += more.waits;
        self.by_chance += more.by_chance;
        self.time = self.time.saturating_add(more.time);
        self.longest = self.longest.max(more.longest);
        self.moments += more.moments;
    }
}

#[derive(Debug, Default)]
struct State {
    rows: Keyed<Key, Sums>,
    /// Memory for one look.
    seen: Vec<Seen>,
    ended: Vec<(u32, u64)>,
}

/// What one thread has found. Written by it, read by any.
#[derive(Debug, Default)]
pub(crate) struct Coincidences {
    state: Mutex<State>,
    /// When the pauses are over that the looks so far have asked for. A wait that is longer than what is left of them
    /// is looked at all the same: else short waits, which are many, would leave no time for long ones.
    paused_until: AtomicU64,
    /// Looks without room for their row.
    lost: AtomicU64,
}

impl Coincidences {
    /// A wait has ended. Returns when the first of its queue went on.
    pub(crate) fn look(
        &self,
        (endings, clock): (&AllEndings, &Clock),
        waiter: u32,
        [since, now]: [Ticks; 2],
    ) -> Option<Mark> {
        let paused_until = self.paused_until.load(Relaxed).max(now);
        if paused_until - now >= now - since {
            return Mark::new(waiter, now);
        }
        let began = clock.now();
        let state = &mut *self.state.lock();
        state.seen.clear();
        let seen = endings.iter().flat_map(Endings::all).filter_map(|ending| Seen::of(ending, [since, now]));
        // A range that was off the CPU is among them, since it ends with its wait.
        state.seen.extend(seen.filter(|seen| (seen.label, seen.age) != (waiter, 0)));
        // Before the oldest ending that a thread has kept nothing is known.
        let known = endings.iter().filter_map(|all| all.oldest()?.age(now)).min().unwrap_or(u64::MAX);
        let mut went_on = now;
        for (window, &ticks) in (0_u8..).zip(&WINDOWS) {
            let before = head_of_queue(&state.seen, waiter, units(now - since), units(ticks));
            // The last window is the longest, which finds the most of a queue.
            went_on = now - in_ticks(before);
            let length = went_on.saturating_sub(since);
            let is_new = endings.is_new_moment(waiter * WINDOWS.len() as u32 + u32::from(window), went_on, ticks);
            let sums = |by_chance| Sums { waits: 1, by_chance, time: length, longest: length, moments: is_new.into() };
            let octave = length.max(1).ilog2() as u8;
            let mut add = |by, by_chance| {
                let key = Key { waiter, by, window, octave };
                if state.rows.len() < MOST || state.rows.get(&key).is_some() {
                    state.rows.row(key).add(&sums(by_chance));
                } else {
                    self.lost.store(self.lost.load(Relaxed) + 1, Relaxed);
                }
            };
            add(ANY, 0);
            let span = units(length).min(known.saturating_sub(before));
            state.ended.clear();
            let in_time = state.seen.iter().filter(|seen| seen.had_begun);
            let in_time = in_time.filter_map(|seen| Some((seen.label, seen.age.checked_sub(before)?)));
            // Not what the call itself did when it began to wait.
            state.ended.extend(in_time.filter(|(_, age)| age + 1 < span));
            in_window(&mut state.ended, units(ticks), span, add);
        }
        let cost = clock.now().saturating_sub(began);
        self.paused_until.store(paused_until + cost * PAUSE_PER_COST, Relaxed);
        Mark::new(waiter, went_on)
    }

    pub(crate) fn clear(&self) {
        self.state.lock().rows = Keyed::default();
        self.lost.store(0, Relaxed);
    }

    pub(crate) fn copy(&self) -> Vec<(Key, Sums)> {
        self.state.lock().rows.iter().map(|(key, sums)| (*key, *sums)).collect()
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

/// What had ended when a wait did. Times are units before its end.
#[derive(Clone, Copy, Debug)]
struct Seen {
    label: u32,
    age: u64,
    /// Whether it had begun before the wait.
    had_begun: bool,
    /// If it began with the end of a wait: who waited, and when the first of that queue went on.
    woken: Option<(u32, u64)>,
}

impl Seen {
    /// `None` for what ended before the wait began, or after its end.
    fn of((end, begun, woken): (Mark, Option<Mark>, Option<Mark>), [since, now]: [Ticks; 2]) -> Option<Self> {
        let age = end.age(now).filter(|age| *age < units(now - since))?;
        let had_begun = begun.is_some_and(|begun| begun.age(since).is_some());
        let woken = woken.and_then(|woken| Some((woken.label(), woken.age(now)?)));
        Some(Self { label: end.label(), age, had_begun, woken })
    }
}

/// How long before the end of a wait the first of its queue went on; 0 where there is no queue.
fn head_of_queue(seen: &[Seen], waiter: u32, waited: u64, window: u64) -> u64 {
    let queue = seen.iter().filter(|seen| seen.age <= window);
    let queue = queue.filter_map(|seen| Some((seen.age, seen.woken.filter(|(label, _)| *label == waiter)?.1)));
    queue.min().map(|(_, before)| before).filter(|before| *before < waited).unwrap_or(0)
}

/// Calls `found` for each label that ended within the window, with the part of the time before it that comes as close
/// after such an end. `ended` has labels and ages; `span`: how far back they are known. All times are in units.
fn in_window(ended: &mut [(u32, u64)], window: u64, span: u64, mut found: impl FnMut(u32, u64)) {
    ended.sort_unstable();
    for of_label in ended.chunk_by(|one, next| one.0 == next.0) {
        let Some(&(label, _)) = of_label.first().filter(|(_, age)| *age <= window) else { continue };
        let (mut close, mut until) = (0, window);
        // An end of this age has the moments after it, whose ages are smaller.
        for &(_, age) in of_label {
            let (from, to) = (age.saturating_sub(window).max(until), age.min(span));
            close += to.saturating_sub(from);
            until = until.max(to);
        }
        let asked = span.saturating_sub(window);
        // A span that is hardly longer than the window says nothing.
        found(label, if asked < window { CERTAIN } else { close * CERTAIN / asked });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = WINDOWS[0];

    fn found(ended: &[(u32, u64)], span: u64) -> Vec<(u32, u64)> {
        let mut all = Vec::new();
        in_window(&mut ended.to_vec(), units(WINDOW), span, |label, chance| all.push((label, chance)));
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
        let mark = coincidences.look((all, &Clock::new()), WAITER, wait);
        (coincidences.copy().into_iter().filter(|(key, _)| key.window == 0).collect(), mark)
    }

    #[test]
    fn a_queue_is_followed_to_its_head() {
        let all = AllEndings::new();
        let [of_holder, of_first]: [&Endings; 2] = [0, 1].map(|thread| all.make(thread).unwrap());
        let (began, let_go, first_left) = (1 << 30, 9 << 30, 10 << 30);
        of_holder.end(Mark::new(HOLDER, let_go - WINDOW / 4), Mark::new(HOLDER, began - WINDOW));
        of_holder.end(Mark::new(9, let_go - WINDOW / 8), Mark::new(9, began + WINDOW)); // it had nothing before
        let (rows, mark) = rows_of(&all, [began, let_go]);
        let sums = |time, moments| Sums { waits: 1, by_chance: 0, time, longest: time, moments };
        let key = |by| Key { waiter: WAITER, by, window: 0, octave: (let_go - began).ilog2() as u8 };
        let expected = |sums| vec![(key(HOLDER), sums), (key(ANY), sums)];
        assert_eq!((rows, mark), (expected(sums(let_go - began, 1)), Mark::new(WAITER, let_go)));
        // The first of the queue runs for a while, and the second goes on after it.
        of_first.begin(mark);
        of_first.end(Mark::new(7, first_left), Mark::new(7, began));
        let (rows, mark) = rows_of(&all, [began, first_left + WINDOW / 2]);
        assert_eq!(mark.and_then(|mark| mark.age(let_go)), Some(0));
        assert_eq!(rows, expected(sums(let_go - began, 0)), "it proves no more than the first");
        // A wait that began after the holder had gone is owed to the first.
        let (rows, _) = rows_of(&all, [let_go + (1 << 28), first_left + WINDOW / 2]);
        assert_eq!(rows.iter().map(|(key, _)| key.by).collect::<Vec<_>>(), [7, ANY]);
    }

    #[test]
    fn looks_take_little_of_the_time() {
        let all = AllEndings::new();
        let coincidences = Coincidences::default();
        let clock = Clock::new();
        let now = clock.now() + (1 << 41);
        // The pause after the first is longer than the second wait, and shorter than the third.
        for waited in [LEAST, 1, 1 << 40] {
            coincidences.look((&all, &clock), WAITER, [now - waited, now]);
        }
        let waits: u64 = coincidences.copy().iter().map(|(_, sums)| sums.waits).sum();
        assert_eq!(waits, 2 * WINDOWS.len() as u64, "the second is passed over");
        coincidences.clear();
        assert_eq!((coincidences.copy(), coincidences.lost()), (vec![], 0));
    }
}
