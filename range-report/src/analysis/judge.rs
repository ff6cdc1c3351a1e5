//! Judging a range in two runs by a gate.

use std::cmp::Reverse;

use super::gate::{Basis, Change, Gate, Regression};
use super::interval::{CONFIDENCE, Interval, intervals};
use crate::Times;
use crate::stats::Lean;

/// The least growth, in percent, that is judged where too few repeats tell a change from noise.
const ROUGH_MEDIAN: f64 = 25.0;
const ROUGH: f64 = 100.0;

/// A range in one run: its durations over all repeats together, and in each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeats<'a> {
    pub(crate) times: &'a Times,
    pub(crate) each: &'a [Option<Times>],
}

impl Gate {
    /// The change of each range from the first of two runs to the second; `None` for a range that one run lacks.
    pub(crate) fn changes(&self, ranges: &[Option<[Repeats; 2]>]) -> Vec<Option<Change>> {
        let pairs: Vec<Vec<Option<f64>>> =
            ranges.iter().map(|runs| runs.map_or_else(Vec::new, |runs| self.pairs(runs))).in_vec();
        let judged = ranges.iter().zip(&pairs).zip(intervals(&pairs));
        judged.map(|((runs, pairs), interval)| self.judge((*runs)?, pairs.iter().flatten().count(), interval)).in_vec()
    }

    /// The difference of a range in each pair of repeats, as the logarithm of a ratio.
    fn pairs(&self, [base, new]: [Repeats; 2]) -> Vec<Option<f64>> {
        let basis = self.basis_of([base, new]);
        let time = |times: &Option<Times>| basis.of(times.as_ref()?).filter(|ns| *ns > 0.0);
        let pairs = base.each.iter().zip(new.each);
        pairs.map(|(base, new)| Some((time(new)? / time(base)?).ln())).in_vec()
    }

    /// The figure by which a range is judged: the total if the range has few instances, or if the gate's figure is not
    /// known in every repeat.
    fn basis_of(&self, runs: [Repeats; 2]) -> Basis {
        let enough = |run: Repeats| {
            let known = run.each.iter().flatten();
            let instances: u64 = known.clone().map(|times| times.instances).fold(0, u64::saturating_add);
            instances >= self.least_instances && known.clone().all(|times| self.basis.of(times).is_some())
        };
        if runs.into_iter().all(enough) { self.basis } else { Basis::Total }
    }

    /// The change of one range that occurs in `pairs` pairs of repeats.
    fn judge(&self, [base, new]: [Repeats; 2], pairs: usize, interval: Option<Interval>) -> Option<Change> {
        let basis = self.basis_of([base, new]);
        let (base_ns, ns) = (basis.of(base.times)?, basis.of(new.times)?);
        let percent = |log: f64| 100.0 * log.exp_m1();
        let change = match interval {
            Some(interval) => percent(interval.change),
            None if ns == base_ns => 0.0, // even if both are 0
            None => 100.0 * (ns - base_ns) / base_ns,
        };
        let rough = match basis {
            _ if pairs.max(1) >= self.least_repeats => 0.0,
            Basis::Median => ROUGH_MEDIAN,
            Basis::Total | Basis::P99 => ROUGH,
        };
        let allowed_percent = self.threshold_percent.max(0.0).max(rough); // the maximum of NaN and 0 is 0
        let as_many = if basis == Basis::Total { 1.0 } else { new.times.instances as f64 };
        let grown_ns = as_many * if interval.is_some() { base_ns * change / 100.0 } else { ns - base_ns };
        let sure = interval.is_none_or(|interval| interval.low > 0.0);
        let slower = sure && change > allowed_percent && grown_ns >= self.least_ns.max(1) as f64;
        Some(Change {
            basis,
            base_ns,
            ns,
            percent: change,
            low_percent: interval.map(|interval| percent(interval.low)),
            high_percent: interval.map(|interval| percent(interval.high)),
            allowed_percent,
            grown_ns: grown_ns.max(0.0) as u64,
            slower,
        })
    }

    /// The place of a regression in a list. For totals: ranges that lost time themselves, then ranges with unknown own
    /// times, then ranges that lost time only in the ranges inside them. Medians and 99th percentiles have no self
    /// time: the largest change comes first, because a range around the cause changes by less.
    pub(crate) fn place(&self, regression: &Regression) -> (u8, Reverse<u64>) {
        if regression.change.basis != Basis::Total {
            let least = regression.change.low_percent.unwrap_or(regression.change.percent);
            return (0, Reverse((1_000.0 * least) as u64));
        }
        match regression.self_grown_ns {
            Some(own) if own > 0 && own.unsigned_abs() >= self.least_ns => (1, Reverse(own.unsigned_abs())),
            None => (2, Reverse(regression.change.grown_ns)),
            Some(_) => (3, Reverse(regression.change.grown_ns)),
        }
    }
}

/// The confidence of the intervals, in percent.
pub(crate) fn confidence() -> f64 {
    100.0 * CONFIDENCE
}
