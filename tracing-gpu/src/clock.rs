//! The one clock: raw ticks on the hot path, nanoseconds only when a summary is made.
//!
//! A tick is one step of the processor's counter: of the time-stamp counter on x86-64, where it is invariant (about
//! 9 ns to read, against 22 ns for [`Instant`]), of the virtual counter on AArch64 with Linux (steps of 1 to 40 ns).
//! Elsewhere a tick is a nanosecond of [`Instant`]. The rate of the counter is measured against `Instant`
//! (`CLOCK_MONOTONIC` on Linux) from the creation of the clock to each drain, so it grows more exact as the program
//! runs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::process;

/// A drain waits until the clock is this old. Two readings are each uncertain by some 50 ns; the rate is then exact to
/// 0.005 %.
const SHORTEST_CALIBRATION: Duration = Duration::from_millis(2);

/// For so long the pace is measured when the clock is made: it is then right to 1 %, which thresholds need.
const FIRST_CALIBRATION: Duration = Duration::from_micros(20);

/// A reading of the clock, in ticks since an arbitrary origin.
pub(crate) type Ticks = u64;

/// A moment by a clock that all sessions share: the processor's counter where it is invariant, else CLOCK_MONOTONIC in
/// nanoseconds. Never 0.
pub(crate) type Moment = u64;

/// Now.
pub(crate) fn moment() -> Moment {
    static IS_INVARIANT: OnceLock<bool> = OnceLock::new(); // the question leaves a virtual machine
    let now = if *IS_INVARIANT.get_or_init(counter::is_invariant) { counter::read() } else { process::monotonic_ns() };
    now.max(1)
}

/// The process's clock. Reading it never blocks and may happen on any thread.
#[derive(Debug)]
pub(crate) struct Clock {
    is_counter: bool,
    origin: Instant,
    origin_ticks: Ticks,
    /// Time of creation by CLOCK_MONOTONIC, in nanoseconds.
    origin_ns: u64,
    /// Ticks a nanosecond as a fixed-point number with 20 fractional bits, for thresholds.
    pace: u64,
    /// Ticks a nanosecond as a `f64`, from a measurement soon after the creation; 0 before it.
    rough_pace: AtomicU64,
    /// The last measured rate (0 before the first measurement), and the largest change between two measurements.
    last_rate: AtomicU64,
    worst_correction_ppm: AtomicU64,
}

/// The conversion from ticks to nanoseconds at one drain.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct Rate {
    /// Nanoseconds a tick, as a fixed-point number with 40 fractional bits.
    ns_per_tick_q40: u64,
}

impl Rate {
    /// One tick is one nanosecond.
    pub(crate) const IDENTITY: Self = Self { ns_per_tick_q40: 1 << 40 };

    /// Converts a duration in ticks, rounding to the nearest nanosecond.
    pub(crate) fn ns(self, ticks: u128) -> u64 {
        let scaled = ticks.saturating_mul(u128::from(self.ns_per_tick_q40)).saturating_add(1 << 39) >> 40;
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Nanoseconds a tick.
    pub(crate) fn factor(self) -> f64 {
        self.ns_per_tick_q40 as f64 / (1u64 << 40) as f64
    }
}

impl Clock {
    pub(crate) fn new() -> Self {
        let is_counter = counter::is_invariant();
        let (origin, origin_ticks) = if is_counter { paired_reading() } else { (Instant::now(), 0) };
        let origin_ns = process::monotonic_ns().saturating_sub(u64::try_from(origin.elapsed().as_nanos()).unwrap_or(0));
        Self {
            is_counter,
            origin,
            origin_ticks,
            origin_ns,
            pace: match counter::frequency() {
                Some(frequency) => pace_of(frequency),
                None if is_counter => first_pace(origin, origin_ticks),
                None => 1 << PACE_BITS,
            },
            rough_pace: AtomicU64::new(0),
            last_rate: AtomicU64::new(0),
            worst_correction_ppm: AtomicU64::new(0),
        }
    }

    /// A clock with this many ticks a second, for thresholds.
    #[cfg(test)]
    pub(crate) fn of_rate(ticks_a_second: u64) -> Self {
        Self { pace: pace_of(ticks_a_second), ..Self::new() }
    }

    /// A threshold in ticks. All thresholds are times, so that no verdict depends on the rate of the clock.
    #[inline]
    pub(crate) const fn ticks(&self, threshold: Duration) -> u64 {
        (threshold.as_nanos() as u64 * self.pace + HALF) >> PACE_BITS
    }

    /// A time in nanoseconds, as exact as [`ticks`](Self::ticks).
    pub(crate) fn about_ns(&self, ticks: u64) -> u64 {
        u64::try_from((u128::from(ticks) << PACE_BITS) / u128::from(self.pace.max(1))).unwrap_or(u64::MAX)
    }

    /// Whether ticks come from the processor's counter, so that [`read_counter`] is the clock.
    pub(crate) fn is_counter(&self) -> bool {
        self.is_counter
    }

    #[inline]
    pub(crate) fn now(&self) -> Ticks {
        if self.is_counter { counter::read() } else { self.instant_ticks() }
    }

    /// [`now`](Self::now), after everything that stands before it: a processor may read the counter ahead of loads that
    /// wait for memory, and another reader of the clock does not.
    pub(crate) fn now_in_order(&self) -> Ticks {
        if self.is_counter { counter::read_in_order() } else { self.instant_ticks() }
    }

    #[cold]
    fn instant_ticks(&self) -> Ticks {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The reading at which the clock was created.
    pub(crate) fn origin(&self) -> Ticks {
        self.origin_ticks
    }

    /// Time of creation of the clock by CLOCK_MONOTONIC, in nanoseconds. CUPTI's records have this clock.
    pub(crate) fn origin_monotonic_ns(&self) -> u64 {
        self.origin_ns
    }

    pub(crate) fn ticks_at(&self, moment: Moment) -> Ticks {
        if self.is_counter { moment } else { moment.saturating_sub(self.origin_ns).max(3) }
    }

    /// Nanoseconds of another clock in ticks, exact to some 0.01 %: by a rate that is measured once, when the clock is
    /// a few milliseconds old.
    pub(crate) fn ticks_of(&self, ns: u64) -> u64 {
        if !self.is_counter {
            return ns;
        }
        let known = f64::from_bits(self.rough_pace.load(Relaxed));
        let pace = if known > 0.0 { known } else { self.measure_pace() };
        (ns as f64 * pace) as u64
    }

    #[cold]
    fn measure_pace(&self) -> f64 {
        let (now, ticks) = paired_reading();
        let elapsed = now.duration_since(self.origin);
        let pace = ticks.saturating_sub(self.origin_ticks) as f64 / elapsed.as_nanos().max(1) as f64;
        if elapsed > 4 * SHORTEST_CALIBRATION {
            self.rough_pace.store(pace.to_bits(), Relaxed);
        }
        pace
    }

    /// Measures the rate from the creation of the clock to now. Waits up to 2 ms if the clock is younger than that.
    pub(crate) fn calibrate(&self) -> Rate {
        if !self.is_counter {
            return Rate::IDENTITY;
        }
        wait_until_older(|| self.origin.elapsed());
        let (now, ticks) = paired_reading();
        let ns = now.duration_since(self.origin).as_nanos();
        let elapsed = u128::from(ticks.saturating_sub(self.origin_ticks).max(1));
        let rate = u64::try_from((ns << 40) / elapsed).unwrap_or(1 << 40);
        let last = self.last_rate.swap(rate, Relaxed);
        if last != 0 {
            let ppm = u128::from(rate.abs_diff(last)) * 1_000_000 / u128::from(last);
            self.worst_correction_ppm.fetch_max(u64::try_from(ppm).unwrap_or(u64::MAX), Relaxed);
        }
        Rate { ns_per_tick_q40: rate }
    }

    /// One moment by both clocks: in ticks, and in nanoseconds since the creation of the clock.
    pub(crate) fn anchor(&self) -> (Ticks, u64) {
        let (instant, ticks) = if self.is_counter { paired_reading() } else { (Instant::now(), self.instant_ticks()) };
        (ticks, u64::try_from(instant.duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX))
    }

    /// Largest change of the rate from one measurement to the next, in parts per million.
    pub(crate) fn worst_correction_ppm(&self) -> u64 {
        self.worst_correction_ppm.load(Relaxed)
    }
}

/// The rate of a clock whose process has ended, from its first reading in ticks and by CLOCK_MONOTONIC. The machine
/// must not have restarted since.
pub(crate) fn rate_since(is_counter: bool, origin: Ticks, origin_ns: u64) -> Rate {
    if !is_counter {
        return Rate::IDENTITY;
    }
    wait_until_older(|| Duration::from_nanos(process::monotonic_ns().saturating_sub(origin_ns)));
    let (before, now, after) = (counter::read(), process::monotonic_ns(), counter::read());
    let ticks = u128::from((before / 2 + after / 2).saturating_sub(origin).max(1));
    let ns = u128::from(now.saturating_sub(origin_ns));
    Rate { ns_per_tick_q40: u64::try_from((ns << 40) / ticks).unwrap_or(1 << 40) }
}

const PACE_BITS: u32 = 20;
const HALF: u64 = 1 << (PACE_BITS - 1);

/// The pace of a counter with this many ticks a second.
fn pace_of(frequency: u64) -> u64 {
    (frequency << PACE_BITS) / 1_000_000_000
}

/// The pace of the counter since its first reading. `faketime` makes the other clock stand still: then it is
/// that of a usual processor.
fn first_pace(origin: Instant, origin_ticks: Ticks) -> u64 {
    const USUAL: u64 = 5 << PACE_BITS >> 1;
    const MOST_TICKS: u64 = 1 << 20;
    loop {
        let (now, ticks) = paired_reading();
        let (ns, ticks) = (now.duration_since(origin).as_nanos(), ticks.saturating_sub(origin_ticks));
        if ns >= FIRST_CALIBRATION.as_nanos() {
            return u64::try_from((u128::from(ticks) << PACE_BITS) / ns).unwrap_or(USUAL);
        }
        if ticks > MOST_TICKS {
            return USUAL;
        }
    }
}

/// Waits until a clock is old enough to measure its rate. `std::thread::sleep` will not do: each signal that interrupts
/// it prolongs it by the timer slack, so many signals keep it asleep. Gives up soon on a clock that stands still.
fn wait_until_older(age: impl Fn() -> Duration) {
    for _interrupted in 0..100 {
        let Some(wait) = SHORTEST_CALIBRATION.checked_sub(age()) else { break };
        if !process::sleep(wait) {
            break;
        }
    }
}

/// The processor's counter: the clock's ticks where [`Clock::is_counter`].
#[inline]
pub(crate) fn read_counter() -> Ticks {
    counter::read()
}

/// Reads both clocks at one moment. Takes the tightest of a few readings, to discard one with a preemption in between.
fn paired_reading() -> (Instant, Ticks) {
    let mut best = (Instant::now(), counter::read());
    let mut narrowest = u64::MAX;
    for _ in 0..8 {
        let before = counter::read();
        let instant = Instant::now();
        let width = counter::read().saturating_sub(before);
        if width < narrowest {
            narrowest = width;
            best = (instant, before.saturating_add(width / 2));
        }
    }
    best
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod counter {
    #![allow(unsafe_code)]

    use std::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

    /// Whether the counter runs at one rate on all cores and through sleep states (CPUID 8000_0007H, EDX bit 8).
    #[allow(unused_unsafe)] // `__cpuid` is safe from Rust 1.94 on
    pub(super) fn is_invariant() -> bool {
        // SAFETY: every x86-64 processor has the CPUID instruction, and both leaves only return registers.
        unsafe { __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0 }
    }

    /// Ticks a second, where the processor tells.
    pub(super) fn frequency() -> Option<u64> {
        None
    }

    #[inline]
    pub(super) fn read() -> u64 {
        // SAFETY: RDTSC exists on every x86-64 processor and touches no memory. A kernel that forbids it to user
        // code (PR_SET_TSC) does so on the program's own request.
        unsafe { _rdtsc() }
    }

    pub(super) fn read_in_order() -> u64 {
        // SAFETY: LFENCE is part of SSE2, which every x86-64 processor has; see `read`.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }
}

/// The virtual counter. The Generic Timer of the architecture makes it count at one rate on all cores and through sleep
/// states (Arm Architecture Reference Manual, "The Generic Timer in AArch64 state"). Linux lets programs read it: its
/// own vDSO does.
#[cfg(all(target_arch = "aarch64", target_os = "linux", not(miri)))]
mod counter {
    #![allow(unsafe_code)]

    use std::arch::asm;

    /// Whether the counter says how fast it counts: firmware may have left that out.
    pub(super) fn is_invariant() -> bool {
        frequency().is_some()
    }

    /// Ticks a second: 24 MHz to 1 GHz in known processors.
    pub(super) fn frequency() -> Option<u64> {
        let frequency: u64;
        // SAFETY: CNTFRQ_EL0 exists on every AArch64 processor; reading it touches no memory.
        unsafe { asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nomem, nostack, preserves_flags)) };
        Some(frequency & 0xFFFF_FFFF).filter(|frequency| *frequency >= 1_000_000)
    }

    #[inline]
    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: as above, for CNTVCT_EL0. On processors whose counter has an erratum, Linux reads it for the program.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags)) };
        ticks
    }

    pub(super) fn read_in_order() -> u64 {
        // SAFETY: DSB waits for the loads before it, and ISB keeps what follows behind both. Without `nomem`, so that
        // the compiler moves no load either.
        unsafe { asm!("dsb ishld", "isb", options(nostack, preserves_flags)) };
        read()
    }
}

#[cfg(any(not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux"))), miri))]
mod counter {
    pub(super) fn is_invariant() -> bool {
        false
    }

    pub(super) fn frequency() -> Option<u64> {
        None
    }

    pub(super) fn read() -> u64 {
        0
    }

    pub(super) fn read_in_order() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `faketime` makes clocks stand still.
    #[test]
    fn a_clock_that_stands_still_is_not_waited_for() {
        wait_until_older(|| Duration::ZERO);
    }

    #[test]
    fn a_rate_rounds_to_the_nearest_nanosecond() {
        let third = Rate { ns_per_tick_q40: (1 << 40) / 3 };
        assert_eq!(third.ns(3), 1);
        assert_eq!(third.ns(4), 1);
        assert_eq!(third.ns(5), 2);
        assert_eq!(Rate::IDENTITY.ns(u128::from(u64::MAX)), u64::MAX);
        assert_eq!(Rate::IDENTITY.ns(u128::MAX), u64::MAX);
    }

    #[test]
    fn thresholds_are_times() {
        let threshold = Duration::from_micros(50);
        let ticks = [24_000_000, 1_000_000_000, 2_600_000_000].map(|rate| Clock::of_rate(rate).ticks(threshold));
        assert_eq!(ticks, [1_200, 50_000, 130_000]);
        let clock = Clock::new();
        let ns = clock.calibrate().ns(u128::from(clock.ticks(Duration::from_millis(20))));
        assert!(ns.abs_diff(20_000_000) < 400_000, "{ns} ns");
    }

    #[test]
    fn ticks_agree_with_the_monotonic_clock() {
        let clock = Clock::new();
        // Each of our readings lies between two readings of the wall clock, because the thread may stop between any
        // two.
        let (before, begun, after) = (Instant::now(), clock.now(), Instant::now());
        while after.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let (least, ended, most) = (after.elapsed(), clock.now(), before.elapsed());
        let ours = clock.calibrate().ns(u128::from(ended - begun)) as f64;
        let bounds = 0.998 * least.as_nanos() as f64..1.002 * most.as_nanos() as f64;
        assert!(bounds.contains(&ours), "{ours} is not in {bounds:?} (counter: {})", clock.is_counter());
    }
}
