//! Judging a comparison by a gate.

use std::cmp::Reverse;

use super::comparison::{ComparedRange, Comparison, InRun};
use super::gate::{Added, Basis, Change, Gate, Regression};
use super::interval::{CONFIDENCE, Interval, intervals};
use crate::Times;
use crate::stats::order;

/// The least growth, in percent, that is judged where too few repeats tell a change from noise.
const ROUGH_MEDIAN: f64 = 25.0;
const ROUGH: f64 = 100.0;

impl Gate {
    /// What is judged of a range: the total where it has few instances, or the figure is not known in every repeat.
    fn basis_of(&self, base: &InRun, new: &InRun) -> Basis {
        let enough = |place: &InRun| {
            let known = place.each.iter().flatten();
            let instances: u64 = known.clone().map(|times| times.instances).fold(0, u64::saturating_add);
            instances >= self.least_instances && known.clone().all(|times| self.basis.of(times).is_some())
        };
        if enough(base) && enough(new) { self.basis } else { Basis::Total }
    }

    /// The change of one range that so many pairs of repeats have, without its interval where that is not known.
    fn judge(&self, base: &InRun, new: &InRun, pairs: usize, interval: Option<Interval>) -> Option<Change> {
        let basis = self.basis_of(base, new);
        let (base_ns, ns) = (basis.of(&base.times)?, basis.of(&new.times)?);
        let percent = |log: f64| 100.0 * log.exp_m1();
        let change = match interval {
            Some(interval) => percent(interval.change),
            None if ns == base_ns => 0.0, // also of no time at all
            None => 100.0 * (ns - base_ns) / base_ns,
        };
        let rough = match basis {
            _ if pairs.max(1) >= self.least_repeats => 0.0,
            Basis::Median => ROUGH_MEDIAN,
            Basis::Total | Basis::P99 => ROUGH,
        };
        let allowed_percent = self.threshold_percent.max(0.0).max(rough); // the maximum of no number and 0 is 0
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

    /// The order of totals: ranges that lost time themselves, then ranges where that is not known, then ranges that
    /// lost time only in the ranges inside them. Medians and 99th percentiles have no self time: the largest change
    /// comes first, because a range around the cause changes by less.
    fn place(&self, regression: &Regression) -> (u8, Reverse<u64>) {
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

impl Comparison {
    /// Ranges that a later run has and the first one has not, with a total of at least `least_ns` nanoseconds, the
    /// longest first. They are no [`regressions`](Self::regressions); a gate that is to stop at them asks for both.
    ///
    /// ```
    /// use range_report::{Comparison, RangeStats, Summary, Times};
    ///
    /// let old = Summary::default();
    /// let mut new = Summary::default();
    /// new.ranges.push(RangeStats::new("decode", Times::new(1, 7_000_000)));
    /// let comparison = Comparison::of([("old", &old), ("new", &new)]);
    /// assert!(comparison.regressions(10.0).is_empty());
    /// assert_eq!(comparison.added(100_000)[0].to_string(), "new: decode took 7.000 ms, and is not in old");
    /// ```
    #[must_use]
    pub fn added(&self, least_ns: u64) -> Vec<Added> {
        let Some(base) = self.runs.first() else { return Vec::new() };
        let not_in_base = self.ranges.iter().filter(|range| matches!(range.in_runs.first(), Some(None)));
        let mut added: Vec<Added> = not_in_base
            .flat_map(|range| {
                let runs = range.in_runs.iter().zip(&self.runs);
                runs.filter_map(move |(place, run)| {
                    let times = &place.as_ref()?.times;
                    (times.total_ns >= least_ns).then(|| Added {
                        run: run.clone(),
                        base: base.clone(),
                        domain: range.domain.clone(),
                        name: range.name.clone(),
                        style: range.style,
                        total_ns: times.total_ns,
                        instances: times.instances,
                    })
                })
            })
            .collect();
        order::by_key(&mut added, |added| std::cmp::Reverse(added.total_ns)); // stable
        added
    }

    /// What became slower by more than `threshold_percent`, with the defaults of [`Gate`]: medians are judged, and
    /// differences below 0.1 ms do not count. Ranges that the first run does not have are in [`added`](Self::added)
    /// alone. In the order of [`check`](Self::check).
    #[must_use]
    pub fn regressions(&self, threshold_percent: f64) -> Vec<Regression> {
        self.check(&Gate::new(threshold_percent))
    }

    /// What became slower by more than the gate allows, in any run. Medians and 99th percentiles come first, those that
    /// surely changed most before others. Of totals, the cause comes first: ranges whose own time grew by
    /// [`Gate::least_ns`] or more, by that; then those whose own time is not known, and those that became slower
    /// through others inside of them, by the time lost.
    #[must_use]
    pub fn check(&self, gate: &Gate) -> Vec<Regression> {
        let mut found: Vec<Regression> = Vec::new();
        for (range, changes) in self.ranges.iter().zip(self.changes(gate)) {
            found.extend(changes.into_iter().enumerate().filter_map(|(run, change)| {
                let change = change.filter(|change| change.slower)?;
                self.regression(range, run, change)
            }));
        }
        order::by_key(&mut found, |regression| gate.place(regression)); // stable
        found
    }

    /// The same comparison with the [`change`](InRun::change) of each range, which is then printed and written, too.
    #[must_use]
    pub fn judged(mut self, gate: &Gate) -> Self {
        let changes = self.changes(gate);
        for (range, changes) in self.ranges.iter_mut().zip(changes) {
            for (place, change) in range.in_runs.iter_mut().zip(changes) {
                place.iter_mut().for_each(|place| place.change = change);
            }
        }
        self.gate = Some(*gate);
        self
    }

    /// By range and run.
    fn changes(&self, gate: &Gate) -> Vec<Vec<Option<Change>>> {
        let mut changes = vec![vec![None; self.runs.len()]; self.ranges.len()];
        for run in 1..self.runs.len() {
            let pairs: Vec<Vec<Option<f64>>> = self.ranges.iter().map(|range| pairs(range, run, gate)).collect();
            let ranges = self.ranges.iter().zip(&pairs).zip(intervals(&pairs));
            for (((range, pairs), interval), changes) in ranges.zip(&mut changes) {
                if let (Some(Some(base)), Some(Some(new)), Some(change)) =
                    (range.in_runs.first(), range.in_runs.get(run), changes.get_mut(run))
                {
                    *change = gate.judge(base, new, pairs.iter().flatten().count(), interval);
                }
            }
        }
        changes
    }

    fn regression(&self, range: &ComparedRange, run: usize, change: Change) -> Option<Regression> {
        let (base, new) = (range.in_runs.first()?.as_ref()?, range.in_runs.get(run)?.as_ref()?);
        Some(Regression {
            run: self.runs.get(run)?.clone(),
            base: self.runs.first()?.clone(),
            domain: range.domain.clone(),
            name: range.name.clone(),
            style: range.style,
            base_total_ns: base.times.total_ns,
            total_ns: new.times.total_ns,
            base_instances: base.times.instances,
            instances: new.times.instances,
            self_grown_ns: range.self_difference_ns(run).filter(|_| change.basis == Basis::Total),
            change,
        })
    }
}

/// What a range differs by in each pair of repeats.
fn pairs(range: &ComparedRange, run: usize, gate: &Gate) -> Vec<Option<f64>> {
    let (Some(Some(base)), Some(Some(new))) = (range.in_runs.first(), range.in_runs.get(run)) else {
        return Vec::new();
    };
    let basis = gate.basis_of(base, new);
    let time = |times: &Option<Times>| basis.of(times.as_ref()?).filter(|ns| *ns > 0.0);
    let pairs = base.each.iter().zip(&new.each);
    pairs.map(|(base, new)| Some((time(new)? / time(base)?).ln())).collect()
}

/// How sure the intervals are, in percent.
pub(crate) fn confidence() -> f64 {
    100.0 * CONFIDENCE
}
