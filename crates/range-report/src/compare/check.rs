//! The ranges of a comparison at which a gate fails.

use super::comparison::{ComparedRange, Comparison};
use super::figures::ComparedFigure;
use crate::analysis::{Added, Basis, Change, Figure, Gate, Regression, Repeats};
use range_model::RangeStyle;
use range_model::stats::{Lean, order};

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

    /// Figures that became slower by more than the gate allows, in any run. Medians and 99th percentiles come first,
    /// the surest changes before others, those of polls after those of latencies. Totals follow in two groups: first
    /// ranges whose own time grew by [`Gate::least_ns`] or more, the largest growth first; then GPUs, ranges with
    /// unknown own time and ranges slowed by others inside them, the largest loss first.
    #[must_use]
    pub fn check(&self, gate: &Gate) -> Vec<Regression> {
        let mut found: Vec<Regression> = Vec::new();
        for run in 1..self.runs.len() {
            let [of_ranges, of_figures] = self.changes(gate, run);
            let slower = |change: Option<Change>| change.filter(|change| change.slower);
            for (range, change) in self.ranges.iter().zip(of_ranges) {
                found.extend(slower(change).and_then(|change| self.slower_range(range, run, change)));
            }
            for (figure, change) in self.figures.iter().zip(of_figures) {
                found.extend(slower(change).and_then(|change| self.slower_figure(figure, run, change)));
            }
        }
        order::by_key(&mut found, |regression| gate.place(regression)); // stable
        found
    }

    /// The same comparison with the [`change`](crate::InRun::change) of each range and figure filled in, so that
    /// reports and files show it.
    #[must_use]
    pub fn judged(mut self, gate: &Gate) -> Self {
        for run in 1..self.runs.len() {
            let [of_ranges, of_figures] = self.changes(gate, run);
            for (range, change) in self.ranges.iter_mut().zip(of_ranges) {
                range.in_runs.get_mut(run).into_iter().flatten().for_each(|place| place.change = change);
            }
            for (figure, change) in self.figures.iter_mut().zip(of_figures) {
                figure.in_runs.get_mut(run).into_iter().flatten().for_each(|place| place.change = change);
            }
        }
        self.gate = Some(*gate);
        self
    }

    /// The change of each range and of each other figure in a run.
    pub(super) fn changes(&self, gate: &Gate, run: usize) -> [Vec<Option<Change>>; 2] {
        if self.gate == Some(*gate) {
            let of_ranges = self.ranges.iter().map(|range| range.in_runs.get(run)?.as_ref()?.change);
            return [
                of_ranges.in_vec(),
                self.figures.iter().map(|row| row.in_runs.get(run)?.as_ref()?.change).in_vec(),
            ];
        }
        let ranges = self.ranges.iter().map(|range| gate.range([range.repeats(0)?, range.repeats(run)?]));
        let figures = self.figures.iter().map(|figure| figure.judged(run, gate));
        let mut changes = gate.changes(&ranges.chain(figures).in_vec());
        let of_figures = changes.split_off(self.ranges.len());
        [changes, of_figures]
    }

    /// What a range is judged as: calls that wait have latencies, and their ranges are polls.
    pub(crate) fn figure_of(&self, range: &ComparedRange) -> Figure {
        let is_of = |row: &ComparedFigure| {
            row.figure == Figure::Latency && (&row.domain, &row.name) == (&range.domain, &range.name)
        };
        if self.figures.iter().any(is_of) { Figure::Poll } else { Figure::Range }
    }

    fn slower_range(&self, range: &ComparedRange, run: usize, change: Change) -> Option<Regression> {
        let (base, new) = (range.in_runs.first()?.as_ref()?, range.in_runs.get(run)?.as_ref()?);
        Some(Regression {
            run: self.runs.get(run)?.clone(),
            base: self.runs.first()?.clone(),
            figure: self.figure_of(range),
            domain: range.domain.clone(),
            name: range.name.clone(),
            style: range.style,
            base_instances: base.times.instances,
            instances: new.times.instances,
            self_grown_ns: range.self_difference_ns(run).filter(|_| change.basis == Basis::Total),
            change,
            reason: new.reason.clone(),
        })
    }

    fn slower_figure(&self, row: &ComparedFigure, run: usize, change: Change) -> Option<Regression> {
        let (base, new) = (row.in_runs.first()?.as_ref()?, row.in_runs.get(run)?.as_ref()?);
        Some(Regression {
            run: self.runs.get(run)?.clone(),
            base: self.runs.first()?.clone(),
            figure: row.figure,
            domain: row.domain.clone(),
            name: row.name.clone(),
            style: RangeStyle::PushPop,
            base_instances: base.instances,
            instances: new.instances,
            self_grown_ns: None,
            change,
            reason: new.reason.clone(),
        })
    }
}

impl ComparedRange {
    fn repeats(&self, run: usize) -> Option<Repeats<'_>> {
        let place = self.in_runs.get(run)?.as_ref()?;
        Some(Repeats { times: &place.times, each: &place.each })
    }
}
