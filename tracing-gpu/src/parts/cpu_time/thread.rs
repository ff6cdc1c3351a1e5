//! Processor time of a thread's ranges, read at few moments.
//!
//! A reading takes as long as ten spans, so a short range pays none. The clock is read at the end of a range of at
//! least [`LONG`](crate::core::thresholds::LONG), and at the start of a range while such ranges have paid for that:
//! [`CREDIT`] of their time pays one reading. The processor time of a range is then known within bounds, which are
//! narrow if it was read close to the start.
//!
//! Linux takes the processor away from a thread that asks for its processor time after its slice has run out. So a
//! reading first asks whether the thread has stopped since the last reading: that question never takes the processor
//! away. If the thread has not stopped, it has run all the time. If it has, its slice is usually fresh. A reading that
//! is slow nevertheless belongs to what has used up the slice, which is what ran before it: a range that ends contains
//! its reading, and a range that starts does not.

pub(crate) mod paths;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::clock::{Clock, Ticks};
use crate::core::record::{Ended, OnCpu};
use crate::core::thread::stack::Stack;
use crate::process;

/// The time in long ranges that pays one reading at a start: so these take at most 0.5 % of it.
const CREDIT: Duration = Duration::from_micros(100);
const MOST_CREDITS: u64 = 1 << 10;
const FIRST_CREDITS: u64 = 64;
/// A reading at most so old does for a start; and at the end of a range, one that is so small a part of it.
const FRESH: Duration = Duration::from_nanos(1_600);
const FRESH_PART: u32 = 6;
/// The processor time itself is asked for after so long, even if the thread has not stopped: the two clocks drift
/// apart. More than a slice and a tick of the scheduler.
const EXACT: Duration = Duration::from_millis(25);
/// The processor time at the first reading of a thread: more than a thread runs, so that what came before is unknown.
const FIRST: u64 = 1 << 62;
/// Ranges that are open above more than so many others have no processor time.
const DEPTH: usize = 32;

/// A reading: when, and the processor time of the thread then, both in ticks.
#[derive(Clone, Copy)]
struct Reading {
    at: Ticks,
    cpu: u64,
}

/// What a reading asks.
pub(crate) trait Clocks {
    fn now(&self) -> Ticks;
    fn ticks(&self, threshold: Duration) -> u64;
    fn ticks_of(&self, ns: u64) -> u64;
    /// How often this thread has stopped running.
    fn switches(&self) -> Option<u64>;
    /// The processor time of this thread.
    fn cpu_ns(&self) -> Option<u64>;
}

impl Clocks for Clock {
    fn now(&self) -> Ticks {
        self.now()
    }

    fn ticks(&self, threshold: Duration) -> u64 {
        self.ticks(threshold)
    }

    fn ticks_of(&self, ns: u64) -> u64 {
        self.ticks_of(ns)
    }

    fn switches(&self) -> Option<u64> {
        process::thread_switches()
    }

    fn cpu_ns(&self) -> Option<u64> {
        process::thread_cpu_ns()
    }
}

/// Processor time at the start of an open range: at least and at most. Valid if it is of the range with this start.
#[derive(Debug, Default)]
struct AtStart {
    start: AtomicU64,
    least: AtomicU64,
    most: AtomicU64,
}

/// Only for the owning thread.
#[derive(Debug, Default)]
pub(crate) struct CpuTime {
    /// The last reading; 0 before the first.
    at: AtomicU64,
    cpu: AtomicU64,
    /// How often the thread had stopped before it.
    switches: AtomicU64,
    /// The last processor time that the system told: when, in nanoseconds, and in ticks.
    told_at: AtomicU64,
    told_ns: AtomicU64,
    told: AtomicU64,
    open: [AtStart; DEPTH],
}

/// Readings at starts that are paid for.
#[derive(Debug)]
pub(crate) struct Credits {
    left: AtomicU64,
    /// [`CREDIT`] in ticks.
    credit: u64,
    /// Until when the time of the thread has paid: nested ranges pay once.
    paid_until: AtomicU64,
    /// The part of a credit, in ticks, that has been earned on top.
    rest: AtomicU64,
}

impl Credits {
    pub(crate) fn new(is_on: bool, clock: &Clock) -> Self {
        let left = AtomicU64::new(if is_on { FIRST_CREDITS } else { 0 });
        Self { left, credit: clock.ticks(CREDIT).max(1), paid_until: AtomicU64::new(0), rest: AtomicU64::new(0) }
    }

    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.left.load(Relaxed) != 0
    }

    fn spend(&self) {
        self.left.store(self.left.load(Relaxed).saturating_sub(1), Relaxed);
    }

    /// A long range has ended. What ended inside of it has paid for its time.
    fn earn(&self, start: Ticks, end: Ticks) {
        let time = end.saturating_sub(start.max(self.paid_until.load(Relaxed)));
        self.paid_until.store(end, Relaxed);
        let time = time.saturating_add(self.rest.load(Relaxed));
        self.rest.store(time % self.credit, Relaxed);
        let left = self.left.load(Relaxed) + (time / self.credit).min(MOST_CREDITS);
        self.left.store(left.min(MOST_CREDITS), Relaxed);
    }
}

impl CpuTime {
    /// Another thread has this state now.
    pub(crate) fn begin_thread(&self) {
        self.at.store(0, Relaxed);
    }

    /// Reads the processor time for a range that is about to start on this stack, unless the last reading is fresh.
    /// Returns whether it did: that took some time.
    pub(crate) fn read_at_start(&self, now: Ticks, stack: &Stack, credits: &Credits, clocks: &impl Clocks) -> bool {
        if now.wrapping_sub(self.at.load(Relaxed)) <= clocks.ticks(FRESH) {
            return false;
        }
        credits.spend();
        self.read(now, stack, stack.depth(), clocks)
    }

    /// The same for a range that is about to end on this stack, or has just left it, with `below` ranges below it.
    pub(crate) fn read_at_end(
        &self,
        start: Ticks,
        now: Ticks,
        stack: &Stack,
        below: usize,
        clocks: &impl Clocks,
    ) -> bool {
        let is_fresh = now.wrapping_sub(self.at.load(Relaxed)) < now.saturating_sub(start) >> FRESH_PART;
        !is_fresh && self.read(now, stack, below + 1, clocks)
    }

    /// The processor time of a range that has just left this stack, with `below` ranges below it.
    #[inline(never)]
    pub(crate) fn of(&self, ended: &Ended, below: usize, credits: &Credits) -> OnCpu {
        let end = ended.end();
        credits.earn(ended.entered, end);
        let last = self.last();
        // A range may have ended before the reading, with the front end.
        let least = last.cpu.saturating_sub(last.at.saturating_sub(end));
        let most = last.cpu.saturating_add(end.saturating_sub(last.at));
        let open = self.open.get(below).filter(|open| open.start.load(Relaxed) == ended.entered);
        let at_start = open.map(|open| (open.least.load(Relaxed), open.most.load(Relaxed)));
        at_start.map_or_else(OnCpu::default, |start| {
            bounded(ended.duration, least.saturating_sub(start.1), most.saturating_sub(start.0))
        })
    }

    /// Reads the processor time. It is later than `now`, and so many ranges are open. Returns false if the system does
    /// not tell it.
    fn read(&self, now: Ticks, stack: &Stack, ranges: usize, clocks: &impl Clocks) -> bool {
        let before = self.last();
        let switches = clocks.switches();
        let has_run = before.at != 0
            && switches == Some(self.switches.load(Relaxed))
            && now.saturating_sub(self.told_at.load(Relaxed)) < clocks.ticks(EXACT);
        let now = if has_run {
            Reading { at: now, cpu: before.cpu.saturating_add(now.saturating_sub(before.at)) }
        } else {
            let Some(ns) = clocks.cpu_ns() else { return false };
            self.switches.store(switches.unwrap_or(u64::MAX), Relaxed);
            self.told(before, ns, clocks)
        };
        self.at.store(now.at, Relaxed);
        self.cpu.store(now.cpu, Relaxed);
        self.bound_starts(before, now, stack, ranges);
        true
    }

    /// Keeps what the system has just told.
    fn told(&self, before: Reading, ns: u64, clocks: &impl Clocks) -> Reading {
        // A conversion since the last time, because it is not exact. In a forked child the time has begun again.
        let since = ns.checked_sub(self.told_ns.load(Relaxed)).filter(|_| before.at != 0);
        let told = since.map_or(FIRST, |since| self.told.load(Relaxed).saturating_add(clocks.ticks_of(since)));
        let at = clocks.now();
        self.told_at.store(at, Relaxed);
        self.told_ns.store(ns, Relaxed);
        self.told.store(told, Relaxed);
        // The clocks may have drifted apart.
        Reading { at, cpu: if since.is_some() { told.max(before.cpu) } else { told } }
    }

    fn last(&self) -> Reading {
        Reading { at: self.at.load(Relaxed), cpu: self.cpu.load(Relaxed) }
    }

    /// Bounds the processor time at the starts of the ranges that have started between two readings and are open.
    fn bound_starts(&self, before: Reading, now: Reading, stack: &Stack, ranges: usize) {
        // Not from the first reading of a thread, and not in a forked child.
        let is_known = before.at != 0 && before.cpu <= now.cpu && before.at <= now.at;
        for (range, open) in self.open.iter().enumerate().take(ranges).rev() {
            let Some(start) = stack.start_of(range) else { continue };
            if start < before.at || open.start.load(Relaxed) == start {
                break;
            }
            let (least, most) = if is_known { between(before, now, start) } else { (0, u64::MAX) };
            open.start.store(start, Relaxed);
            open.least.store(least, Relaxed);
            open.most.store(most, Relaxed);
        }
    }
}

/// Bounds of the processor time at a moment between two readings.
fn between(before: Reading, after: Reading, moment: Ticks) -> (u64, u64) {
    let (past, left) = (moment.saturating_sub(before.at), after.at.saturating_sub(moment));
    let least = after.cpu.saturating_sub(left).max(before.cpu);
    (least, (before.cpu + past).min(after.cpu).max(least))
}

/// By the least and the most that a range of this duration can have run.
fn bounded(duration: u64, least: u64, most: u64) -> OnCpu {
    let most = most.min(duration);
    OnCpu { on: least.min(most), off: duration - most }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::core::record::Place;
    use std::cell::Cell;

    const BEFORE: Reading = Reading { at: 1_000, cpu: 500 };

    #[test]
    fn a_moment_between_two_readings_is_bounded_by_both() {
        let after = |cpu| Reading { at: 1_100, cpu };
        assert_eq!(between(BEFORE, after(600), 1_040), (540, 540), "it ran all the time");
        assert_eq!(between(BEFORE, after(500), 1_040), (500, 500), "it never ran");
        assert_eq!(between(BEFORE, after(530), 1_040), (500, 530));
        assert_eq!(between(BEFORE, after(580), 1_040), (520, 540));
        assert_eq!(between(BEFORE, after(580), 1_000), (500, 500), "at a reading it is known");
        assert_eq!(between(BEFORE, after(700), 1_040), (640, 640), "the two clocks may disagree a little");
    }

    /// A system in which everything happens when it is told to.
    #[derive(Default)]
    pub(crate) struct Told {
        pub(crate) now: Cell<Ticks>,
        pub(crate) switches: Cell<u64>,
        pub(crate) cpu: Cell<u64>,
        /// How long the thread has no processor when it asks for its processor time.
        pub(crate) slow: Cell<u64>,
        asked: Cell<u32>,
    }

    impl Told {
        /// The thread goes on for so long, and runs for a part of that.
        pub(crate) fn pass(&self, time: u64, cpu: u64) {
            self.now.set(self.now.get() + time);
            self.cpu.set(self.cpu.get() + cpu);
            self.switches.set(self.switches.get() + u64::from(time != cpu));
        }
    }

    impl Clocks for Told {
        fn now(&self) -> Ticks {
            self.now.get()
        }
        fn ticks(&self, threshold: Duration) -> u64 {
            threshold.as_nanos() as u64
        }
        fn ticks_of(&self, ns: u64) -> u64 {
            ns
        }
        fn switches(&self) -> Option<u64> {
            Some(self.switches.get())
        }
        fn cpu_ns(&self) -> Option<u64> {
            self.asked.set(self.asked.get() + 1);
            let before = self.cpu.get();
            self.pass(self.slow.get(), 0);
            Some(before)
        }
    }

    /// A thread whose processor time was read for the first time.
    fn begun() -> (CpuTime, Told, Stack, Credits) {
        let (time, told, stack, credits) =
            (CpuTime::default(), Told::default(), Stack::new(), Credits::new(true, &Clock::of_rate(1_000_000_000)));
        told.now.set(1_000_000);
        assert!(time.read_at_start(told.now(), &stack, &credits, &told));
        (time, told, stack, credits)
    }

    /// A range in which `body` happens, which is read at its end.
    fn range(on: &(CpuTime, Told, Stack, Credits), body: impl FnOnce(&Told)) -> OnCpu {
        let (time, told, stack, credits) = on;
        let entered = told.now();
        stack.push(1, Place::stand_in(0), entered);
        body(told);
        assert!(time.read_at_end(entered, told.now(), stack, stack.depth() - 1, told));
        let ended = stack.pop(told.now()).unwrap();
        time.of(&ended, stack.depth(), credits)
    }

    #[test]
    fn a_thread_that_has_not_stopped_is_not_asked_for_its_processor_time() {
        let on = begun();
        assert_eq!(range(&on, |told| told.pass(500_000, 500_000)), OnCpu { on: 500_000, off: 0 });
        assert_eq!(on.1.asked.get(), 1, "at the start of the thread");
        assert_eq!(range(&on, |told| told.pass(500_000, 200_000)), OnCpu { on: 200_000, off: 300_000 });
        assert_eq!(on.1.asked.get(), 2);
        let exact = on.1.ticks(EXACT);
        assert_eq!(range(&on, |told| told.pass(exact, exact)), OnCpu { on: exact, off: 0 });
        assert_eq!(on.1.asked.get(), 3, "the clocks may have drifted apart");
        assert_eq!(range(&on, |told| told.pass(300, 300)), OnCpu { on: 300, off: 0 });
        assert_eq!(on.1.asked.get(), 3);
    }

    #[test]
    fn a_clock_that_falls_behind_makes_no_time_on_the_cpu_negative() {
        let on = begun();
        range(&on, |told| told.pass(500_000, 500_000));
        on.1.cpu.set(400_000);
        assert_eq!(range(&on, |told| told.pass(200_000, 50_000)), OnCpu { on: 0, off: 200_000 });
        assert_eq!(range(&on, |told| told.pass(200_000, 80_000)), OnCpu { on: 30_000, off: 170_000 });
    }

    #[test]
    fn a_slow_reading_is_time_off_the_cpu() {
        let on = begun();
        on.1.slow.set(4_000_000);
        assert_eq!(range(&on, |told| told.pass(300_000, 250_000)), OnCpu { on: 250_000, off: 4_050_000 });
    }

    #[test]
    fn the_processor_time_of_a_forked_child_begins_again() {
        let on = begun();
        range(&on, |told| told.pass(500_000, 400_000));
        on.1.cpu.set(10);
        assert_eq!(range(&on, |told| told.pass(500_000, 300_000)), OnCpu::default());
        assert_eq!(range(&on, |told| told.pass(500_000, 400_000)), OnCpu { on: 400_000, off: 100_000 });
    }

    #[test]
    fn nothing_is_known_of_a_range_before_the_first_reading() {
        let on = begun();
        on.0.begin_thread();
        assert_eq!(range(&on, |told| told.pass(500_000, 400_000)), OnCpu::default());
    }

    #[test]
    fn what_is_not_sure_is_neither_on_nor_off() {
        assert_eq!(bounded(100, 20, 30), OnCpu { on: 20, off: 70 });
        assert_eq!(bounded(100, 120, 130), OnCpu { on: 100, off: 0 });
        assert_eq!(bounded(100, 0, 0), OnCpu { on: 0, off: 100 });
    }

    #[test]
    fn long_ranges_pay_for_readings_at_starts() {
        let clock = Clock::of_rate(1_000_000_000);
        let credits = Credits::new(true, &clock);
        (0..FIRST_CREDITS).for_each(|_| credits.spend());
        assert!(!credits.any() && !Credits::new(false, &clock).any());
        let long = credits.credit;
        credits.earn(0, long / 2);
        assert!(!credits.any());
        credits.earn(long, 2 * long - long / 2);
        assert_eq!(credits.left.load(Relaxed), 1, "two halves");
        credits.earn(0, 3 * long - long / 2);
        assert_eq!(credits.left.load(Relaxed), 2, "what ended inside of it has paid for the rest");
        credits.earn(3 * long, u64::MAX);
        assert_eq!(credits.left.load(Relaxed), MOST_CREDITS);
    }
}
