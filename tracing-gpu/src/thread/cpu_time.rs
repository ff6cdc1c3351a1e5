//! Processor time of a thread's ranges, read at few moments.
//!
//! A reading takes as long as ten spans, so a short range pays none. The clock is read at the end of a range of at
//! least [`LONG`](crate::thresholds::LONG), and at the start of a range while such ranges have paid for that: [`CREDIT`] of
//! their time pays one reading. The processor time of a range is then known within bounds, which are narrow if it was
//! read close to the start.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::stack::Stack;
use crate::clock::{Clock, Ticks};
use crate::process;
use crate::record::{Ended, OnCpu};

/// The time in long ranges that pays one reading at a start: so these take at most 0.5 % of it.
const CREDIT: Duration = Duration::from_micros(100);
const MOST_CREDITS: u64 = 1 << 10;
const FIRST_CREDITS: u64 = 64;
/// A reading at most so old does for a start; and at the end of a range, one that is so small a part of it.
const FRESH: Duration = Duration::from_nanos(1_600);
const FRESH_PART: u32 = 6;
/// Ranges that are open above more than so many others have no processor time.
const DEPTH: usize = 32;

/// A reading: when, and the processor time of the thread then, both in ticks.
#[derive(Clone, Copy)]
struct Reading {
    at: Ticks,
    cpu: u64,
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
    /// The processor time at the first reading, in nanoseconds: the conversion to ticks is not exact.
    first_ns: AtomicU64,
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
    pub(crate) fn read_at_start(&self, now: Ticks, stack: &Stack, credits: &Credits, clock: &Clock) -> bool {
        let before = self.last();
        if now.wrapping_sub(before.at) <= clock.ticks(FRESH) {
            return false;
        }
        credits.spend();
        let Some(now) = self.read(clock) else { return false };
        self.keep(before, now, now, stack, stack.depth());
        true
    }

    /// The processor time of a range that has just left this stack, with `below` ranges below it.
    #[inline(never)]
    pub(crate) fn of(&self, ended: &Ended, stack: &Stack, below: usize, credits: &Credits, clock: &Clock) -> OnCpu {
        let end = ended.entered.saturating_add(ended.duration);
        credits.earn(ended.entered, end);
        let before = self.last();
        let since = end.wrapping_sub(before.at);
        let (least, most) = if since < ended.duration >> FRESH_PART {
            (before.cpu, before.cpu + since)
        } else {
            let Some(now) = self.read(clock) else { return OnCpu::default() };
            // The thread has run since the end of the range.
            let cpu = now.cpu.saturating_sub(now.at.saturating_sub(end)).max(before.cpu);
            self.keep(before, Reading { at: end, cpu }, now, stack, below + 1);
            (cpu, cpu)
        };
        let open = self.open.get(below).filter(|open| open.start.load(Relaxed) == ended.entered);
        let at_start = open.map(|open| (open.least.load(Relaxed), open.most.load(Relaxed)));
        at_start.map_or_else(OnCpu::default, |start| {
            bounded(ended.duration, least.saturating_sub(start.1), most.saturating_sub(start.0))
        })
    }

    fn read(&self, clock: &Clock) -> Option<Reading> {
        let ns = process::thread_cpu_ns()?;
        if self.at.load(Relaxed) == 0 {
            self.first_ns.store(ns, Relaxed);
        }
        let cpu = clock.ticks_of(ns.saturating_sub(self.first_ns.load(Relaxed)));
        Some(Reading { at: clock.now(), cpu })
    }

    fn last(&self) -> Reading {
        Reading { at: self.at.load(Relaxed), cpu: self.cpu.load(Relaxed) }
    }

    /// Keeps the reading `now`. Until `moment`, right before it, so many ranges were open: bounds the processor time at
    /// the starts of those that have started since the last reading.
    fn keep(&self, before: Reading, moment: Reading, now: Reading, stack: &Stack, ranges: usize) {
        self.at.store(now.at, Relaxed);
        self.cpu.store(now.cpu, Relaxed);
        // Not from the first reading of a thread, and not in a forked child.
        let is_known = before.at != 0 && before.cpu <= now.cpu && before.at <= moment.at;
        for (range, open) in self.open.iter().enumerate().take(ranges).rev() {
            let Some(start) = stack.start_of(range) else { continue };
            if start < before.at || open.start.load(Relaxed) == start {
                break;
            }
            let (least, most) = if is_known { between(before, moment, start) } else { (0, u64::MAX) };
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
mod tests {
    use super::*;

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

    #[test]
    fn what_is_not_sure_is_neither_on_nor_off() {
        assert_eq!(bounded(100, 20, 30), OnCpu { on: 20, off: 70 });
        assert_eq!(bounded(100, 120, 130), OnCpu { on: 100, off: 0 });
        assert_eq!(bounded(100, 0, 0), OnCpu { on: 0, off: 100 });
    }

    #[test]
    fn long_ranges_pay_for_readings_at_starts() {
        let clock = Clock::new();
        let credits = Credits::new(true, &clock);
        (0..FIRST_CREDITS).for_each(|_| credits.spend());
        assert!(!credits.any() && !Credits::new(false, &clock).any());
        let long = credits.credit & !1;
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
