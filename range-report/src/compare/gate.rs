//! What became slower: a gate for continuous integration.

use std::cmp::Reverse;
use std::fmt;

use super::interval::{CONFIDENCE, Interval, LEAST_PAIRS, intervals};
use super::{ComparedRange, Comparison, InRun};
use crate::text::number::{human_inline, ratio};
use crate::text::{escaped, label};
use crate::{RangeStyle, Times};

/// By default, a difference below this time is never a regression: 0.1 ms.
const LEAST_NS: u64 = 100_000;
/// By default, the median and the 99th percentile of fewer instances are not judged.
const LEAST_INSTANCES: u64 = 30;
/// The least growth, in percent, that is judged where too few repeats tell a change from noise.
const ROUGH_MEDIAN: f64 = 25.0;
const ROUGH: f64 = 100.0;

/// Which time of a range is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Basis {
    /// The median of its instances. A few disturbed instances do not move it, and it does not depend on how often the
    /// range is entered.
    #[default]
    Median,
    /// The time of all its instances together: for runs that do the same work on a quiet machine. A range that is
    /// entered more often is slower, even if each instance is not; and one whose work is cut into other instances is
    /// not, as when an async span is polled less often.
    Total,
    /// The time that 99 of 100 instances take at most.
    P99,
}

impl Basis {
    fn of(self, times: &Times) -> Option<f64> {
        match self {
            Self::Median => times.median_ns,
            Self::Total => Some(times.total_ns as f64),
            Self::P99 => times.quantile(0.99).map(|quantile| quantile.ns),
        }
    }

    /// In a sentence, after a time.
    const fn said(self) -> &'static str {
        match self {
            Self::Median => " at the median",
            Self::Total => "",
            Self::P99 => " at the 99th percentile",
        }
    }

    /// In a table.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Median => "median",
            Self::Total => "total",
            Self::P99 => "p99",
        }
    }
}

/// What counts as a regression.
///
/// A range of a run is a regression if it takes longer than in the first run by more than `threshold_percent` and by at
/// least `least_ns`, and if that is no noise: the interval of the change is above 0. The intervals come from what the
/// repeats of the runs differ by ([`Comparison::of_sides`]); those of all ranges together hold the true changes in 99
/// of 100 comparisons. Where fewer than `least_repeats` pairs of repeats have the range, noise is not known. Then only
/// a rough change is a regression: 25 % of a median, 100 % of a total or 99th percentile.
///
/// The median or the 99th percentile of a range with fewer than `least_instances` says little: its total is judged.
/// A range that the first run does not have is no regression: there is nothing to compare it with (its time is in the
/// ranges around it, and [`Comparison::added`] lists it).
///
/// ```
/// use range_report::{Basis, Comparison, Gate, Summary};
///
/// let mut gate = Gate::new(5.0);
/// gate.basis = Basis::P99;
/// gate.least_ns = 1_000_000;
/// let (old, new) = (Summary::default(), Summary::default());
/// assert!(Comparison::of([("old", &old), ("new", &new)]).check(&gate).is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Gate {
    /// The growth that is allowed, in percent of the time in the first run. A negative value or NaN counts as 0.
    pub threshold_percent: f64,
    /// What is judged. Default: the median.
    pub basis: Basis,
    /// The least time lost in a run, in nanoseconds: the growth of the total, or of the median or 99th percentile
    /// times the instances. Keeps out ranges that are too short to be compared. Default: 100,000 (0.1 ms).
    pub least_ns: u64,
    /// The least instances in all repeats of either run together; of a range with fewer, the total is judged.
    /// Default: 30.
    pub least_instances: u64,
    /// The least pairs of repeats that both have the range; with fewer, only a rough change is a regression. There is
    /// no interval with fewer than 8. Default: 8. With 1, the threshold alone counts where there is no interval.
    pub least_repeats: usize,
}

impl Gate {
    /// A gate with this threshold, and otherwise the defaults.
    #[must_use]
    pub const fn new(threshold_percent: f64) -> Self {
        Self {
            threshold_percent,
            basis: Basis::Median,
            least_ns: LEAST_NS,
            least_instances: LEAST_INSTANCES,
            least_repeats: LEAST_PAIRS,
        }
    }

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

/// How a range changed from the first run to another. Its text is the change with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Change {
    /// What was judged: that of the gate, or the total where the range has few instances.
    pub basis: Basis,
    /// That time in the first run, in nanoseconds; of repeated runs, the median over them.
    pub base_ns: f64,
    /// The same in the other run.
    pub ns: f64,
    /// The change in percent. Of repeated runs it is the mean over the pairs that lie next to each other, without the
    /// fifth at either end. Infinite where the first run spent no time.
    pub percent: f64,
    /// The lower end of its interval: with those of all other ranges, it holds the true change in 99 of 100
    /// comparisons. `None` where fewer than 8 pairs of repeats have the range.
    pub low_percent: Option<f64>,
    /// The upper end of its interval.
    pub high_percent: Option<f64>,
    /// What was allowed: the threshold, or more where there are too few repeats.
    pub allowed_percent: f64,
    /// Time lost in a run: the change times the instances; 0 where the range became faster.
    pub grown_ns: u64,
    /// Whether it is a regression.
    pub slower: bool,
}

impl Change {
    /// `+5.1 %`, or `x3236` where it is twice as long or more.
    pub(crate) fn percent_text(&self) -> String {
        if self.percent < 100.0 {
            signed(self.percent) + " %"
        } else {
            ratio(1.0 + self.percent / 100.0).trim().to_owned()
        }
    }

    /// `+3.9 to +6.3 %`
    pub(crate) fn interval_text(&self) -> Option<String> {
        Some(format!("{} to {} %", signed(self.low_percent?), signed(self.high_percent?)))
    }
}

fn signed(percent: f64) -> String {
    match format!("{percent:+.1}") {
        zero if zero == "-0.0" || zero == "+0.0" => "0.0".to_owned(),
        text => text,
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.percent_text())?;
        self.interval_text().map_or(Ok(()), |interval| write!(f, ", from {interval}"))
    }
}

/// A range that became slower than the gate allows. Its text is one line.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Regression {
    /// The run it is slower in.
    pub run: String,
    /// The run it is compared with: the first.
    pub base: String,
    /// NVTX domain of the range; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// Push/pop or start/end.
    pub style: RangeStyle,
    /// Total in the first run, in nanoseconds.
    pub base_total_ns: u64,
    /// Total in this run, in nanoseconds.
    pub total_ns: u64,
    /// Instances in the first run.
    pub base_instances: u64,
    /// Instances in this run.
    pub instances: u64,
    /// How its own total ([`InRun::self_ns`]) grew, negative where that shrank: nothing or little where a range became
    /// slower through others inside of it. `None` where own times are not known, and where no total was judged.
    pub self_grown_ns: Option<i64>,
    /// What was judged, and how much slower it is.
    pub change: Change,
}

impl fmt::Display for Regression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { basis, base_ns, ns, percent, allowed_percent, .. } = self.change;
        let (run, base) = (escaped(&self.run), escaped(&self.base));
        let range = named(self.domain.as_deref(), &self.name, self.style);
        let base_time = human_inline(base_ns as u64);
        let allowed = (100.0 * allowed_percent).round() / 100.0;
        match self.change.interval_text() {
            None => {
                let (time, of, change) = (human_inline(ns as u64), basis.said(), self.change.percent_text());
                write!(f, "{run}: {range} took {time}{of}, {base_time} in {base} ({change}; {allowed} % allowed)")?;
            }
            // The change is that of the pairs of runs, which the times over all runs of a side need not show.
            Some(interval) => {
                let longer = match self.change.percent_text() {
                    times if percent >= 100.0 => format!("{} times as long as", times.trim_start_matches('x')),
                    grown => format!("{} longer than", grown.trim_start_matches('+')),
                };
                let of = basis.said();
                write!(f, "{run}: {range} took {longer} in {base}, where it took {base_time}{of} ")?;
                write!(f, "({interval}; {allowed} % allowed)")?;
            }
        }
        if self.instances != self.base_instances {
            write!(f, ", in {} instances instead of {}", self.instances, self.base_instances)?;
        }
        match self.self_grown_ns {
            Some(own) if own.unsigned_abs() != self.change.grown_ns => {
                write!(f, ", itself {} {}", human_inline(own.unsigned_abs()), if own < 0 { "less" } else { "more" })
            }
            _ => Ok(()),
        }
    }
}

/// The name of a range in a line: a lifetime is told from the entries of the same name, as in the table.
fn named(domain: Option<&str>, name: &str, style: RangeStyle) -> String {
    let label = label(domain, name).unwrap_or_else(|| "None".to_owned());
    let lifetime = if style == RangeStyle::StartEnd { " (start/end)" } else { "" };
    format!("{}{lifetime}", escaped(&label))
}

/// A range that a run has and the first one has not. Its text is one line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Added {
    /// The run that has it.
    pub run: String,
    /// The run that has it not: the first.
    pub base: String,
    /// NVTX domain of the range; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// Push/pop or start/end.
    pub style: RangeStyle,
    /// Total in this run, in nanoseconds: that of ranges inside of it, and a part of those around it.
    pub total_ns: u64,
    /// Instances in this run.
    pub instances: u64,
}

impl fmt::Display for Added {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} took {}, and is not in {}",
            escaped(&self.run),
            named(self.domain.as_deref(), &self.name, self.style),
            human_inline(self.total_ns),
            escaped(&self.base),
        )
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
        added.sort_by_key(|added| std::cmp::Reverse(added.total_ns)); // stable
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
        found.sort_by_key(|regression| gate.place(regression)); // stable
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
