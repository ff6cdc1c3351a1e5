//! Converts ticks to nanoseconds. A converted moment never moves.

use crate::clock::Ticks;

/// The two clocks are read within some tens of nanoseconds of each other. At this distance, in nanoseconds, two
/// readings give the rate of one clock by the other.
const SPACE: u64 = 20_000_000;
/// The largest number of lines: 2 MiB.
const MOST: usize = 1 << 16;

/// The relation of the two clocks over time, as line segments. Each begins at the end of the previous one. So nested
/// ranges stay nested, however much later the outer one is written.
///
/// After the first lines there are at most two within [`SPACE`], however often moments are added. If there are too many
/// lines, fewer replace them, and the start of a range that is still open moves by some tens of nanoseconds.
pub(crate) struct Moments {
    lines: Vec<Line>,
    /// Moments up to here may have been converted, so their conversion is fixed.
    covered: Ticks,
    /// The last reading from which a line was made.
    measured: (Ticks, u64),
    /// The smallest length of a line in nanoseconds, after there were too many.
    space: u64,
}

/// A line from this moment on, until the next one begins.
#[derive(Clone, Copy)]
struct Line {
    from: Ticks,
    from_ns: u64,
    /// The rate: `ticks` ticks take `ns` nanoseconds.
    ticks: u64,
    ns: u64,
}

impl Line {
    fn ns(&self, ticks: Ticks) -> u64 {
        let beyond = ticks.saturating_sub(self.from);
        let beyond = match beyond.checked_mul(self.ns) {
            Some(product) => product / self.ticks.max(1),
            None => {
                let beyond = u128::from(beyond) * u128::from(self.ns) / u128::from(self.ticks.max(1));
                u64::try_from(beyond).unwrap_or(u64::MAX)
            }
        };
        self.from_ns.saturating_add(beyond)
    }
}

impl Moments {
    pub(crate) fn new(origin: Ticks) -> Self {
        let lines = vec![Line { from: origin, from_ns: 0, ticks: 1, ns: 0 }]; // no rate is known yet
        Self { lines, covered: origin, measured: (origin, 0), space: SPACE }
    }

    /// Nanoseconds since the origin.
    pub(crate) fn ns(&self, ticks: Ticks) -> u64 {
        let after = self.lines.partition_point(|line| line.from <= ticks);
        self.lines.get(after.saturating_sub(1)).map_or(0, |line| line.ns(ticks))
    }

    /// Adds a reading of both clocks: everything before can be converted from now on.
    pub(crate) fn add(&mut self, (ticks, ns): (Ticks, u64)) {
        let Some(&last) = self.lines.last().filter(|_| ticks > self.covered) else { return };
        let (measured, measured_ns) = self.measured;
        let (since, passed) = (ticks.saturating_sub(measured), ns.saturating_sub(measured_ns));
        let covered_ns = last.ns(self.covered);
        let gap = ns.saturating_sub(covered_ns);
        if ns < SPACE || gap >= SPACE {
            // No moment of this time was converted, or there is too little data: leads straight to the present reading,
            // and from there on with the rate so far.
            self.lines.push(Line { from: self.covered, from_ns: covered_ns, ticks: ticks - self.covered, ns: gap });
            self.lines.push(Line { from: ticks, from_ns: ns.max(covered_ns), ticks: since, ns: passed });
            if ns >= SPACE {
                self.measured = (ticks, ns);
            }
        } else if passed >= SPACE {
            // Continues from the end of the line, and meets the clock gradually: if a line as short as this one
            // corrected the error, short ranges would show it.
            let (here, horizon) = (last.ns(ticks), 2 * SPACE);
            let target = (horizon + ns).saturating_sub(here).clamp(horizon / 2, 2 * horizon);
            let steered = u128::from(passed) * u128::from(target) / u128::from(horizon);
            let steered = u64::try_from(steered).unwrap_or(u64::MAX);
            self.lines.push(Line { from: ticks, from_ns: here, ticks: since, ns: steered });
            self.measured = (ticks, ns);
        }
        self.covered = ticks;
        if self.lines.len() > MOST {
            self.thin();
        }
    }

    /// Merges lines into fewer ones: each but the last leads to the start of the next.
    #[cold]
    fn thin(&mut self) {
        let Some(last) = self.lines.pop() else { return };
        loop {
            let mut next = 0;
            self.lines.retain(|line| {
                let stays = line.from_ns >= next;
                next = if stays { line.from_ns + self.space } else { next };
                stays
            });
            if self.lines.len() <= MOST / 2 {
                break;
            }
            self.space *= 2;
        }
        let mut end = last;
        for line in self.lines.iter_mut().rev() {
            (line.ticks, line.ns) = (end.from - line.from, end.from_ns - line.from_ns);
            end = *line;
        }
        self.lines.push(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_converted_once_stays_there() {
        let mut moments = Moments::new(1_000);
        assert_eq!(moments.ns(2_000), 0, "nothing is known yet");
        moments.add((2_000, 50_000_000));
        let before = [1_000, 1_001, 1_999, 2_000].map(|ticks| moments.ns(ticks));
        assert_eq!(before, [0, 50_000, 49_950_000, 50_000_000]);
        moments.add((3_000, 150_000_000));
        assert_eq!([1_000, 1_001, 1_999, 2_000].map(|ticks| moments.ns(ticks)), before);
        let after = [50_100_000, 100_000_000, 150_000_000, 250_000_000];
        assert_eq!([2_001, 2_500, 3_000, 4_000].map(|ticks| moments.ns(ticks)), after);
        assert_eq!(moments.ns(0), 0, "before the origin is at the origin");
    }

    #[test]
    fn moments_that_are_far_apart_are_converted_as_others_are() {
        let mut moments = Moments::new(0);
        moments.add((3 << 40, 1 << 40)); // half an hour, whose product needs more than 64 bits
        for ticks in [0, 3, 4, 5, 1 << 34, 3 << 39, (3 << 40) - 1, 3 << 40, 3 << 41] {
            assert_eq!(moments.ns(ticks), ticks / 3, "{ticks}");
        }
    }

    /// Random numbers from a seed (SplitMix64).
    fn numbers(mut seed: u64) -> impl FnMut(u64) -> u64 {
        move |bound| {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ mixed >> 27) % bound
        }
    }

    /// Readings with errors of up to 40 ns, in bursts and alone, of a counter at 2.7 GHz that later runs 30 ppm faster.
    #[test]
    fn errors_of_readings_do_not_add_up_and_are_not_in_what_is_short() {
        for seed in 0..40 {
            let (mut random, mut moments, mut ns) = (numbers(seed), Moments::new(1 << 40), 0);
            let ticks_at = |ns: u64| (1 << 40) + ns * 27 / 10 + ns.saturating_sub(1_000_000_000) * 81 / 1_000_000;
            let (mut before, mut worst) = (Vec::new(), [0; 2]);
            while ns < 3_000_000_000 {
                ns += match (seed % 4, random(40)) {
                    (0, _) => 200_000,
                    (1, 0) => 48_000_000,
                    (1, _) => 200_000,
                    (2, _) => random(45_000_000),
                    (_, kind) => 1_000 + random(1 << (kind % 26)),
                };
                let moment = ticks_at(ns);
                moments.add((moment, ns + random(41)));
                let worst = &mut worst[usize::from(ns > 1_000_000_000)];
                *worst = (*worst).max(moments.ns(moment).abs_diff(ns));
                // Early on there is little data.
                if ns > 100_000_000 {
                    let short = moments.ns(moment) - moments.ns(moment - 2_700);
                    assert!((999..=1_001).contains(&short), "seed {seed}: {short} ns at {ns}");
                }
                before.push((moment, moments.ns(moment)));
            }
            // The change of the rate, 0.6 us in 20 ms, is noticed that much later.
            assert!(worst[0] <= 200 && worst[1] <= 800, "seed {seed}: off by {worst:?} ns");
            assert!(before.is_sorted_by_key(|(_, ns)| *ns), "seed {seed}");
            assert!(before.iter().all(|(ticks, ns)| moments.ns(*ticks) == *ns), "seed {seed}");
            assert!(moments.lines.len() < 2 * 150 + 60, "seed {seed}: {} lines", moments.lines.len());
        }
    }

    /// A counter whose rate varies by 1 ppm, read 20 times a second for eight hours.
    #[test]
    fn lines_are_bounded_however_long_a_program_runs() {
        let (mut random, mut moments) = (numbers(3), Moments::new(0));
        let ticks_at = |ns: u64| ns * 27 / 10 + (1e6 * (1.0 + (ns as f64 / 1e12).sin())) as u64 - 1_000_000;
        let mut before = Vec::new();
        for ns in (1..8 * 3_600 * 20).map(|reading| reading * 50_000_000) {
            moments.add((ticks_at(ns), ns + random(41)));
            before.push((ticks_at(ns), moments.ns(ticks_at(ns))));
            assert!(moments.lines.len() <= MOST);
        }
        let off = before.iter().map(|(ticks, ns)| moments.ns(*ticks).abs_diff(*ns)).max();
        assert!(off.is_some_and(|off| (1..=50).contains(&off)), "off by {off:?} ns");
        assert!(before.is_sorted_by_key(|(ticks, _)| moments.ns(*ticks)));
    }

    #[test]
    fn order_is_kept_where_the_clock_goes_as_it_likes() {
        let mut moments = Moments::new(0);
        let readings =
            [(1_000, 33_300_000), (2_000, 70_000_000), (2_000, 90_000_000), (2_001, 60_000_000), (5_000, 71_000_000)];
        readings.into_iter().for_each(|reading| moments.add(reading));
        let all: Vec<u64> = (0..6_000).map(|ticks| moments.ns(ticks)).collect();
        assert!(all.is_sorted());
    }
}
