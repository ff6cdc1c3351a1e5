//! What has ended last on each thread, as other threads read it: who may have let go of what their calls waited for.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

use once_cell::race::OnceBox;

use crate::clock::{Clock, Ticks};
use crate::core::chunked::Chunked;
use crate::parts::values::span::codes::{Codes, FIELDS};

/// Endings that are kept of each thread.
const KEPT: usize = 64;
const TIME_BITS: u32 = 40;
const TIME: u64 = (1 << TIME_BITS) - 1;

/// A label, and a moment in units; 0 for none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64);

/// The unit of moments: a power of two ticks, between 0.2 and 0.5 us.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit(u32);

impl Unit {
    pub(crate) fn of(clock: &Clock) -> Self {
        Self(clock.ticks(Duration::from_nanos(500)).checked_ilog2().unwrap_or(0))
    }

    /// Ticks in units.
    pub(crate) fn units(self, ticks: u64) -> u64 {
        ticks >> self.0
    }

    /// Units in ticks.
    pub(crate) fn ticks(self, units: u64) -> u64 {
        units << self.0
    }

    /// `None` for a label that has no room: names made at run time have smaller ones.
    pub(crate) fn mark(self, label: u32, at: Ticks) -> Option<Mark> {
        let label = u64::from(label) + 1;
        (label >> (64 - TIME_BITS) == 0).then_some(Mark(label << TIME_BITS | self.units(at) & TIME))
    }

    /// How many units before `now` a mark was made. `None` if it comes later.
    pub(crate) fn age(self, mark: Mark, now: Ticks) -> Option<u64> {
        let age = self.units(now).wrapping_sub(mark.0) & TIME;
        (age <= TIME / 2).then_some(age)
    }
}

impl Mark {
    /// A mark as a word.
    pub(crate) fn bits(mark: Option<Self>) -> u64 {
        mark.map_or(0, |mark| mark.0)
    }

    pub(crate) fn of(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word))
    }

    pub(crate) fn label(self) -> u32 {
        (self.0 >> TIME_BITS) as u32 - 1
    }
}

/// The last outermost ranges that have ended on a thread: polls of futures, and long ranges.
pub(crate) struct Endings {
    count: AtomicU64,
    all: [Ending; KEPT],
    /// As [`Ending::woken`], of the poll that runs.
    woken: AtomicU64,
}

#[derive(Debug, Default)]
struct Ending {
    /// The range, at its end; at its begin, or that of the call that was polled; and at the begin of that poll.
    range: AtomicU64,
    begun: AtomicU64,
    entered: AtomicU64,
    /// If the range began with the end of a wait: of the longest wait of its task, who waited, and when the first of
    /// its queue went on.
    woken: AtomicU64,
    /// If its thread was off the CPU in it: the last moment at which that may have begun.
    off_since: AtomicU64,
    codes: [AtomicU32; FIELDS],
}

/// A range that has ended; see [`Ending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) range: Mark,
    pub(crate) begun: Option<Mark>,
    pub(crate) entered: Option<Mark>,
    pub(crate) woken: Option<Mark>,
    pub(crate) off_since: Option<Mark>,
    /// Of its call.
    pub(crate) codes: Codes,
}

impl Default for Endings {
    fn default() -> Self {
        Self { count: AtomicU64::new(0), all: std::array::from_fn(|_| Ending::default()), woken: AtomicU64::new(0) }
    }
}

impl Endings {
    /// The range that runs began with the end of a wait; the longest of its task ended like this.
    pub(crate) fn begin(&self, woken: Option<Mark>) {
        self.woken.store(Mark::bits(woken), Relaxed);
    }

    /// The range that was noted last had begun so; see [`begin`](Self::begin).
    pub(crate) fn amend(&self, woken: Option<Mark>) {
        let last = self.count.load(Relaxed).checked_sub(1).and_then(|last| self.all.get(last as usize % KEPT));
        last.into_iter().for_each(|ending| ending.woken.store(Mark::bits(woken), Relaxed));
    }

    /// A range has ended that had begun and was entered then, and whose thread may have been off the CPU since then; of
    /// a call with these codes. Only for the owning thread.
    pub(crate) fn end(&self, range: Option<Mark>, [begun, entered, off_since]: [Option<Mark>; 3], codes: Codes) {
        let count = self.count.load(Relaxed);
        let Some(ending) = self.all.get(count as usize % KEPT) else { return };
        ending.woken.store(self.woken.load(Relaxed), Relaxed);
        self.woken.store(0, Relaxed);
        ending.begun.store(Mark::bits(begun), Relaxed);
        ending.entered.store(Mark::bits(entered), Relaxed);
        ending.off_since.store(Mark::bits(off_since), Relaxed);
        ending.codes.iter().zip(codes).for_each(|(word, code)| word.store(code, Relaxed));
        ending.range.store(Mark::bits(range), Release);
        self.count.store(count + 1, Relaxed);
    }

    /// The kept ones, in no order. On any thread: one that is replaced meanwhile may be mixed with the next.
    pub(crate) fn all(&self) -> impl Iterator<Item = Last> {
        self.all.iter().filter_map(|ending| {
            let range = Mark::of(ending.range.load(Acquire))?;
            let [begun, entered, woken, off_since] = [&ending.begun, &ending.entered, &ending.woken, &ending.off_since]
                .map(|word| Mark::of(word.load(Relaxed)));
            let codes = ending.codes.each_ref().map(|code| code.load(Relaxed));
            Some(Last { range, begun, entered, woken, off_since, codes })
        })
    }

    /// The oldest one, if older ones are forgotten.
    pub(crate) fn oldest(&self) -> Option<Mark> {
        let count = self.count.load(Relaxed) as usize;
        (count > KEPT).then(|| Mark::of(self.all[count % KEPT].range.load(Relaxed)))?
    }
}

/// Those of all threads, by the numbers of their states.
#[derive(Debug)]
pub(crate) struct AllEndings {
    threads: Chunked<OnceBox<Endings>, 64>,
    /// The last moment at which a wait of each name ended, over all threads. Names may share a place.
    moments: [AtomicU64; 64],
    /// More than the number of each thread that has any.
    count: AtomicU32,
    /// A program without waits notes no ends.
    are_asked_for: AtomicBool,
    pub(crate) unit: Unit,
}

impl AllEndings {
    pub(crate) fn new(clock: &Clock) -> Self {
        Self {
            threads: Chunked::new(),
            moments: [const { AtomicU64::new(0) }; 64],
            count: AtomicU32::new(0),
            are_asked_for: AtomicBool::new(false),
            unit: Unit::of(clock),
        }
    }

    /// Those of a thread. Other threads note theirs from now on.
    pub(crate) fn make(&self, thread: u32) -> Option<&Endings> {
        if !self.are_asked_for() {
            self.are_asked_for.store(true, Relaxed);
        }
        let endings = self.threads.get_or_grow(thread as usize)?.get_or_init(Box::default);
        if thread >= self.count.load(Relaxed) {
            self.count.fetch_max(thread + 1, Relaxed);
        }
        Some(endings)
    }

    /// Whether the last waits of this name ended more than this time before the moment.
    pub(crate) fn is_new_moment(&self, waiter: u32, at: Ticks, within: u64) -> bool {
        let last = &self.moments[waiter as usize % self.moments.len()];
        at.saturating_sub(last.fetch_max(at, Relaxed)) > within
    }

    /// Those of a thread, if they are made.
    pub(crate) fn of(&self, thread: u32) -> Option<&Endings> {
        self.threads.get_inline(thread as usize)?.get()
    }

    #[inline]
    pub(crate) fn are_asked_for(&self) -> bool {
        self.are_asked_for.load(Relaxed)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Endings> {
        // Threads between may have none, and not even a chunk.
        (0..self.count.load(Relaxed)).filter_map(|thread| self.of(thread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Unit = Unit(10);

    #[test]
    fn a_unit_is_short_at_any_rate() {
        let unit = |rate| Unit::of(&Clock::of_rate(rate)).ticks(1);
        assert_eq!([24_000_000, 1_000_000_000, 2_600_000_000].map(unit), [8, 256, 1_024]);
    }

    #[test]
    fn a_mark_has_a_label_and_an_age() {
        let mark = UNIT.mark(7, UNIT.ticks(5_000)).unwrap();
        assert_eq!(
            (mark.label(), UNIT.age(mark, UNIT.ticks(5_100)), UNIT.age(mark, UNIT.ticks(4_999))),
            (7, Some(100), None)
        );
        let late = UNIT.mark(0, u64::MAX).unwrap();
        assert_eq!((late.label(), UNIT.age(late, UNIT.ticks(9))), (0, Some(10)), "times go round");
        assert_eq!(UNIT.mark(u32::MAX, 0), None);
    }

    #[test]
    fn those_of_any_thread_are_found() {
        let all = AllEndings::new(&Clock::new());
        for thread in [3, 1_000] {
            all.make(thread).unwrap().end(UNIT.mark(thread, UNIT.ticks(1)), [None; 3], Codes::default());
        }
        let labels: Vec<u32> = all.iter().flat_map(Endings::all).map(|last| last.range.label()).collect();
        assert_eq!(labels, [3, 1_000]);
    }

    #[test]
    fn the_last_endings_are_kept() {
        let endings = Endings::default();
        let mark = |number: u64| UNIT.mark(number as u32, UNIT.ticks(number));
        endings.begin(mark(3));
        (0..=KEPT as u64).for_each(|number| endings.end(mark(number), [mark(0), mark(0), None], Codes::default()));
        let mut all: Vec<_> = endings.all().map(|last| (last.range.label(), last.woken.is_some())).collect();
        all.sort_unstable();
        assert_eq!((all.len(), all[0], endings.oldest()), (KEPT, (1, false), mark(1)));
        let other = Endings::default();
        other.end(mark(4), [mark(2), mark(5), mark(1)], [7, 0, 0, 9]);
        other.amend(mark(3));
        let range = mark(4).unwrap();
        let all = vec![Last {
            range,
            begun: mark(2),
            entered: mark(5),
            woken: mark(3),
            off_since: mark(1),
            codes: [7, 0, 0, 9],
        }];
        assert_eq!((other.all().collect::<Vec<_>>(), other.oldest()), (all, None));
    }
}
