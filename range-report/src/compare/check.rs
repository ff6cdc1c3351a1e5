//! The ranges of a comparison at which a gate fails.

use super::comparison::{ComparedRange, Comparison};
use crate::analysis::{Added, Basis, Change, Gate, Regression, Repeats};
use crate::stats::order;

impl Comparison {
    /// Ranges of later runs that the first run does not have, with a total of at least `least_ns` nanoseconds, the
    /// longest first. [`regressions`](Self::regressions) does not contain them; a gate that must fail for them calls
    /// both.
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

    /// Ranges that became slower by more than `threshold_percent`, with the defaults of [`Gate`]: medians are judged,
    /// and differences below 0.1 ms do not count. The order is that of [`check`](Self::check). New ranges are in
    /// [`added`](Self::added) alone.
    #[must_use]
    pub fn regressions(&self, threshold_percent: f64) -> Vec<Regression> {
        self.check(&Gate::new(threshold_percent))
    }

    /// Ranges that became slower by more than the gate allows, in any run. Medians and 99th percentiles come first, the
    /// surest changes before others. Totals follow in two groups: first ranges whose own time grew by
    /// [`Gate::least_ns`] or more, the largest growth first; then ranges with unknown own time and ranges slowed by
    /// others inside them, the largest loss first.
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

    /// The same comparison with the [`change`](crate::InRun::change) of each range filled in, so that reports and files
    /// show it.
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

    /// The change of each range in each run.
    fn changes(&self, gate: &Gate) -> Vec<Vec<Option<Change>>> {
        let mut changes = vec![vec![None; self.runs.len()]; self.ranges.len()];
        for run in 1..self.runs.len() {
            let sides = self.ranges.iter().map(|range| Some([range.repeats(0)?, range.repeats(run)?]));
            let ranges: Vec<_> = sides.collect();
            for (changes, change) in changes.iter_mut().zip(gate.changes(&ranges)) {
                changes.get_mut(run).into_iter().for_each(|place| *place = change);
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

impl ComparedRange {
    fn repeats(&self, run: usize) -> Option<Repeats<'_>> {
        let place = self.in_runs.get(run)?.as_ref()?;
        Some(Repeats { times: &place.times, each: &place.each })
    }
}
