//! Judging a figure of two runs by a gate.

use std::cmp::Reverse;

use super::figure::Figure;
use super::gate::{Basis, Change, Gate, Regression};
use super::interval::{CONFIDENCE, Interval, intervals};
use range_model::Times;
use range_model::stats::Lean;

/// The least growth, in percent, that is judged where too few repeats tell a change from noise.
const ROUGH_MEDIAN: f64 = 25.0;
const ROUGH: f64 = 100.0;

/// A range in one run: its durations over all repeats together, and in each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeats<'a> {
    pub(crate) times: &'a Times,
    pub(crate) each: &'a [Option<Times>],
}

/// A figure in the first run and in another.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) basis: Basis,
    /// Over all repeats together.
    pub(crate) ns: [f64; 2],
    /// What the change is a part of: the figure in the first run, or the time of the device that was idle.
    pub(crate) of_ns: f64,
    /// How many times the change is lost in a run.
    pub(crate) as_many: f64,
    /// The change of each pair of repeats, as the logarithm of a ratio.
    pub(crate) pairs: Vec<Option<f64>>,
}

impl Gate {
    /// The change of each figure from the first of two runs to the second; `None` for one that is not in both.
    pub(crate) fn changes(&self, figures: &[Option<Judged>]) -> Vec<Option<Change>> {
        let pairs = figures.iter().map(|figure| figure.as_ref().map_or_else(Vec::new, |figure| figure.pairs.clone()));
        let intervals = intervals(&pairs.in_vec());
        figures.iter().zip(intervals).map(|(figure, interval)| self.judge(figure.as_ref()?, interval)).in_vec()
    }

    /// A range, by the figure of this gate.
    pub(crate) fn range(&self, [base, new]: [Repeats; 2]) -> Option<Judged> {
        let basis = self.basis_of([base, new]);
        let time = |times: &Option<Times>| basis.of(times.as_ref()?).filter(|ns| *ns > 0.0);
        let pairs = base.each.iter().zip(new.each).map(|(base, new)| Some((time(new)? / time(base)?).ln()));
        let ns = [basis.of(base.times)?, basis.of(new.times)?];
        let as_many = if basis == Basis::Total { 1.0 } else { new.times.instances as f64 };
        Some(Judged { basis, ns, of_ns: ns[0], as_many, pairs: pairs.in_vec() })
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

    fn judge(&self, figure: &Judged, interval: Option<Interval>) -> Option<Change> {
        let &Judged { basis, ns: [base_ns, ns], of_ns, as_many, .. } = figure;
        let percent = |log: f64| 100.0 * log.exp_m1();
        let change = match interval {
            Some(interval) => percent(interval.change),
            None if ns == base_ns => 0.0, // even if both are 0
            None => 100.0 * (ns - base_ns) / of_ns,
        };
        let rough = match basis {
            _ if figure.pairs.iter().flatten().count().max(1) >= self.least_repeats => 0.0,
            Basis::Median => ROUGH_MEDIAN,
            Basis::Total | Basis::P99 => ROUGH,
        };
        let allowed_percent = self.threshold_percent.max(0.0).max(rough); // the maximum of NaN and 0 is 0
        let grown_ns = as_many * if interval.is_some() { of_ns * change / 100.0 } else { ns - base_ns };
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

    /// The place of a regression in a list. Latencies and what runs on a thread come before polls. For totals: ranges
    /// that lost time themselves, then ranges with unknown own times and devices, then ranges that lost time only in
    /// the ranges inside them. Medians and 99th percentiles have no self time: the largest change comes first, because
    /// a range around the cause changes by less.
    pub(crate) fn place(&self, regression: &Regression) -> (u8, Reverse<u64>) {
        if regression.change.basis != Basis::Total {
            let least = regression.change.low_percent.unwrap_or(regression.change.percent);
            return (u8::from(regression.figure == Figure::Poll), Reverse((1_000.0 * least) as u64));
        }
        match regression.self_grown_ns {
            Some(own) if own > 0 && own.unsigned_abs() >= self.least_ns => (2, Reverse(own.unsigned_abs())),
            None => (3, Reverse(regression.change.grown_ns)),
            Some(_) => (4, Reverse(regression.change.grown_ns)),
        }
    }
}

/// The confidence of the intervals, in percent.
pub(crate) fn confidence() -> f64 {
    100.0 * CONFIDENCE
}
