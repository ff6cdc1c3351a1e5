//! The certainty of a change: confidence intervals for all ranges together, from several runs on each side.
//!
//! Each run of one side is compared with the run of the other side that began next to it, because the pace of a machine
//! drifts, and is nearly the same for two neighbours. The change of a range is the mean difference of its pairs,
//! without the smallest and the largest fifth of the differences. So a run that was disturbed counts little.
//!
//! The intervals come from a bootstrap. The error of a pair is its difference minus the change. The bootstrap gives
//! each error a random sign, and looks how far the mean of the errors is from 0, in units of its own spread. A pair has
//! one sign for all ranges, because a slow machine is slow for all of them. The worst range decides. So the intervals
//! of *all* ranges together hold the true change in 99 of 100 comparisons, however many ranges there are.
//!
//! Where most differences are equal, as of a cause of idle time that few runs have, random signs may leave hardly any
//! spread, and the mean would be infinitely many spreads from 0. So a drawn spread counts as at least a part of the
//! measured one, and a figure without spread decides nothing.

use range_model::stats::Lean;

/// The least number of pairs for an interval: random signs of fewer pairs have too few outcomes.
pub(crate) const LEAST_PAIRS: usize = 8;
/// The part of all comparisons in which every interval holds the true change.
pub(super) const CONFIDENCE: f64 = 0.99;
/// How often the signs of all pairs are drawn.
const ROUNDS: usize = 1_000;
/// A spread that comes from rounding.
const NO_SPREAD: f64 = 1e-9;
/// The least part of the measured spread that a drawn one counts as.
const LEAST_SPREAD: f64 = 0.25;
/// One in this many differences is left out at either end.
const TRIMMED: usize = 5;

/// The change of a range and its interval, as natural logarithms of ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub change: f64,
    pub low: f64,
    pub high: f64,
}

/// The interval of each range from the differences of its pairs. The place of a difference is that of its pair; it is
/// `None` where a run of the pair does not have the range. A range with fewer than [`LEAST_PAIRS`] has no interval.
/// Equal differences give equal intervals: the signs are those of a generator with a fixed seed.
pub(super) fn intervals(ranges: &[Vec<Option<f64>>]) -> Vec<Option<Interval>> {
    let mut buffer = Vec::new();
    let estimates: Vec<Option<Estimate>> =
        ranges.iter().map(|pairs| Estimate::of(pairs.iter().copied().flatten(), &mut buffer)).in_vec();
    let errors: Vec<(f64, Vec<(usize, f64)>)> = (ranges.iter().zip(&estimates))
        .filter_map(|(pairs, estimate)| {
            let &Estimate { change, spread } = estimate.as_ref().filter(|estimate| estimate.spread > NO_SPREAD)?;
            let errors = pairs.iter().enumerate().filter_map(|(at, pair)| Some((at, (*pair)? - change)));
            Some((LEAST_SPREAD * spread, errors.in_vec()))
        })
        .in_vec();
    let mut signs = vec![1.0; ranges.iter().map(Vec::len).max().unwrap_or(0)];
    let mut random = Random(0);
    let mut worst: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            signs.fill_with(|| random.sign());
            let of_range = errors.iter().filter_map(|(least, errors)| {
                let signed = errors.iter().filter_map(|&(at, error)| Some(error * signs.get(at)?));
                Some(Estimate::of(signed, &mut buffer)?.in_spreads(*least))
            });
            of_range.fold(0.0, f64::max)
        })
        .in_vec();
    worst.sort_by(f64::total_cmp);
    let spreads = worst.get((ROUNDS as f64 * CONFIDENCE) as usize).copied().unwrap_or(0.0);
    let interval = |Estimate { change, spread }: Estimate| {
        let half = spreads * spread;
        Interval { change, low: change - half, high: change + half }
    };
    estimates.into_iter().map(|estimate| estimate.map(interval)).in_vec()
}

/// A trimmed mean, and its standard error by the Winsorised variance (Yuen).
struct Estimate {
    change: f64,
    spread: f64,
}

impl Estimate {
    fn of(differences: impl Iterator<Item = f64>, sorted: &mut Vec<f64>) -> Option<Self> {
        sorted.clear();
        sorted.extend(differences);
        let all = sorted.len();
        let out = all / TRIMMED;
        if all < LEAST_PAIRS {
            return None;
        }
        sorted.sort_unstable_by(f64::total_cmp);
        let kept = sorted.get(out..all - out)?;
        let change = kept.iter().sum::<f64>() / kept.len() as f64;
        let (lowest, highest) = (*kept.first()?, *kept.last()?);
        let winsorised = || sorted.iter().map(|difference| difference.clamp(lowest, highest));
        let mean = winsorised().sum::<f64>() / all as f64;
        let variance = winsorised().map(|difference| (difference - mean).powi(2)).sum::<f64>() / (all - 1) as f64;
        let spread = (variance * all as f64).sqrt() / kept.len() as f64;
        Some(Self { change, spread })
    }

    fn in_spreads(&self, least: f64) -> f64 {
        (self.change / self.spread.max(least)).abs()
    }
}

/// SplitMix64, which is enough to draw signs.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn sign(&mut self) -> f64 {
        if self.next() >> 63 == 0 { 1.0 } else { -1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that is hard to measure on: its pace drifts and jumps for all ranges at once, every range has noise of
    /// its own, and is disturbed in 3 of 100 runs.
    struct Machine {
        random: Random,
        drift: f64,
    }

    impl Machine {
        fn new(seed: u64) -> Self {
            Self { random: Random(seed << 32), drift: 0.0 }
        }

        fn uniform(&mut self) -> f64 {
            (self.random.next() >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// Near enough to normal.
        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }

        /// Logarithms of the medians of a run.
        fn run(&mut self, ranges: usize) -> Vec<f64> {
            self.drift = 0.8 * self.drift + 0.015 * self.normal();
            let jump = if self.uniform() < 0.05 { 0.5 * self.uniform() } else { 0.0 };
            let pace = self.drift + jump;
            let noise = |machine: &mut Self, range: usize| {
                let disturbed = if machine.uniform() < 0.03 { machine.uniform() } else { 0.0 };
                pace + disturbed + 0.01 * (1.0 + (range % 3) as f64) * machine.normal()
            };
            (0..ranges).map(|range| noise(self, range)).collect()
        }

        /// The ranges that are found to be more than 2 % slower in alternate runs. Only `slower` is, by the part `by`.
        fn compare(&mut self, pairs: usize, slower: usize, by: f64) -> Vec<usize> {
            const RANGES: usize = 8;
            let mut differences = vec![Vec::new(); RANGES];
            for _ in 0..pairs {
                let (old, new) = (self.run(RANGES), self.run(RANGES));
                for (range, (old, new)) in old.iter().zip(new).enumerate() {
                    let change = if range == slower { by.ln_1p() } else { 0.0 };
                    differences[range].push(Some(new + change - old));
                }
            }
            let intervals = intervals(&differences).into_iter().map(Option::unwrap).enumerate();
            intervals.filter(|(_, one)| one.low > 0.0 && one.change > 0.02_f64.ln_1p()).map(|(at, _)| at).collect()
        }
    }

    #[test]
    fn equal_runs_pass_and_five_percent_is_found() {
        let (mut failed, mut found) = (0, 0);
        for seed in 0..40 {
            let mut machine = Machine::new(seed);
            failed += u32::from(!machine.compare(20, 0, 0.0).is_empty());
            found += u32::from(machine.compare(20, 3, 0.05) == [3]);
        }
        assert!(failed == 0 && found >= 38, "{failed} of 40 equal runs failed, {found} of 40 were found");
    }

    /// Of a figure that few runs have, most differences are equal. It must not widen the intervals of others.
    #[test]
    fn rare_differences_widen_no_other_interval() {
        let mut machine = Machine::new(7);
        for seed in 0..200 {
            machine.random = Random(seed);
            let common = (0..20).map(|_| Some(0.05 + 0.01 * machine.normal())).in_vec();
            let alone = intervals(std::slice::from_ref(&common))[0].unwrap();
            for few in 1..8 {
                let rare = (0..20).map(|at| Some(if at % 20 < few { 0.002 * machine.uniform() } else { 0.0 })).in_vec();
                let beside = intervals(&[common.clone(), rare])[0].unwrap();
                let width = |interval: Interval| interval.high - interval.low;
                assert!(width(beside) < 2.0 * width(alone), "{few}: {beside:?}, alone {alone:?}");
            }
        }
    }

    #[test]
    fn an_interval_holds_the_change() {
        let alike = vec![Some(0.5); LEAST_PAIRS];
        let one = Interval { change: 0.5, low: 0.5, high: 0.5 };
        assert_eq!(intervals(&[alike.clone(), alike[1..].to_vec(), vec![]]), [Some(one), None, None]);
        // A fifth of the pairs at either end does not move the change.
        let mut disturbed = vec![Some(0.1); 10];
        (disturbed[0], disturbed[4], disturbed[7]) = (Some(9.0), Some(-3.0), None);
        let found = intervals(&[disturbed.clone()])[0].unwrap();
        assert_eq!([found.change, found.low, found.high].map(|log| (log * 1e9).round()), [1e8; 3]);
        assert_eq!(intervals(&[disturbed.clone()]), intervals(&[disturbed]));
    }
}
