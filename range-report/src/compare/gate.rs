//! What became slower: a gate for continuous integration.

use std::cmp::Reverse;
use std::fmt;

use super::{ComparedRange, Comparison, InRun};
use crate::RangeStyle;
use crate::text::number::{human_inline, ratio};
use crate::text::{escaped, label};

/// By default, a difference below this time is never a regression: 0.1 ms.
const LEAST_NS: u64 = 100_000;

/// Which time of a range is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Basis {
    /// The time of all its instances together: for runs that do the same work. A range that is entered more often is
    /// slower, even if each instance is not; and one whose work is cut into other instances is not, as when an async
    /// span is polled less often.
    #[default]
    Total,
    /// The average over its instances: for runs of different length.
    Average,
}

/// What counts as a regression.
///
/// A range of a run is a regression if it took longer than in the first run by more than `threshold_percent`, by at
/// least `least_ns`, and if it has at least `least_instances` in both runs. A range that the first run does not have is
/// no regression: there is nothing to compare it with (its time is in the ranges around it, and [`Comparison::added`]
/// lists it).
///
/// ```
/// use range_report::{Basis, Comparison, Gate, Summary};
///
/// let mut gate = Gate::new(5.0);
/// gate.basis = Basis::Average;
/// gate.least_ns = 1_000_000;
/// let (old, new) = (Summary::default(), Summary::default());
/// assert!(Comparison::of([("old", &old), ("new", &new)]).check(&gate).is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Gate {
    /// The growth that is allowed, in percent of the time in the first run. A negative value or NaN counts as 0.
    pub threshold_percent: f64,
    /// What is judged. Default: the total.
    pub basis: Basis,
    /// The least growth of the total, in nanoseconds; where the average is judged, of the average times the instances.
    /// Keeps out ranges that are too short to be compared. Default: 100,000 (0.1 ms).
    pub least_ns: u64,
    /// The least instances in both runs. Default: 1. The average of a few instances says little.
    pub least_instances: u64,
}

impl Gate {
    /// A gate with this threshold, and otherwise the defaults.
    #[must_use]
    pub const fn new(threshold_percent: f64) -> Self {
        Self { threshold_percent, basis: Basis::Total, least_ns: LEAST_NS, least_instances: 1 }
    }

    /// By how much a range grew, in nanoseconds, itself (if that is known), and as a ratio, if that is too much.
    fn judge(&self, base: &InRun, new: &InRun) -> Option<(u64, Option<i64>, f64)> {
        let (old, now) = (&base.times, &new.times);
        if old.instances.min(now.instances) < self.least_instances.max(1) {
            return None;
        }
        let as_many = |ns: u64| match self.basis {
            Basis::Total => ns as f64,
            Basis::Average => ns as f64 / old.instances as f64 * now.instances as f64,
        };
        let expected = as_many(old.total_ns);
        let grown = now.total_ns as f64 - expected;
        let bound = expected * (self.threshold_percent.max(0.0) / 100.0); // the maximum of no number and 0 is 0
        let too_much = grown > bound && grown >= self.least_ns.max(1) as f64;
        let own = base.self_ns.zip(new.self_ns).map(|(old, now)| (now as f64 - as_many(old)) as i64);
        too_much.then_some((grown as u64, own, now.total_ns as f64 / expected))
    }

    /// The order: ranges that lost time themselves, then ranges where that is not known, then ranges that lost time
    /// only in the ranges inside them.
    fn place(&self, regression: &Regression) -> (u8, Reverse<u64>) {
        match regression.self_grown_ns {
            Some(own) if own > 0 && own.unsigned_abs() >= self.least_ns => (0, Reverse(own.unsigned_abs())),
            None => (1, Reverse(regression.grown_ns)),
            Some(_) => (2, Reverse(regression.grown_ns)),
        }
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
    /// Time lost, in nanoseconds: beyond the total of the first run, or, where averages were compared, beyond what as
    /// many instances took there.
    pub grown_ns: u64,
    /// The same of its own time ([`InRun::self_ns`]), negative where that shrank: nothing or little where a range
    /// became slower through others inside of it. `None` where own times are not known.
    pub self_grown_ns: Option<i64>,
    /// What was compared, by the same of the first run. Infinite where the first run spent no time.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "is_infinite"))]
    pub ratio: f64,
}

#[cfg(feature = "serde")]
#[allow(clippy::trivially_copy_pass_by_ref)] // serde hands over a reference
fn is_infinite(ratio: &f64) -> bool {
    ratio.is_infinite()
}

impl fmt::Display for Regression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} took {}, {} in {} ({})",
            escaped(&self.run),
            named(self.domain.as_deref(), &self.name, self.style),
            human_inline(self.total_ns),
            human_inline(self.base_total_ns),
            escaped(&self.base),
            ratio(self.ratio).trim(),
        )?;
        if self.instances != self.base_instances {
            write!(f, ", in {} instances instead of {}", self.instances, self.base_instances)?;
        }
        match self.self_grown_ns {
            Some(own) if own.unsigned_abs() != self.grown_ns => {
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

    /// What became slower by more than `threshold_percent`, with the defaults of [`Gate`]: totals are compared,
    /// and differences below 0.1 ms do not count. Ranges that the first run does not have are in [`added`](Self::added)
    /// alone. In the order of [`check`](Self::check).
    #[must_use]
    pub fn regressions(&self, threshold_percent: f64) -> Vec<Regression> {
        self.check(&Gate::new(threshold_percent))
    }

    /// What became slower by more than the gate allows, in any run. The cause comes first: ranges whose own time grew
    /// by [`Gate::least_ns`] or more, by that; then those whose own time is not known, and those that became slower
    /// through others inside of them, by the time lost.
    #[must_use]
    pub fn check(&self, gate: &Gate) -> Vec<Regression> {
        let mut found: Vec<Regression> = self.ranges.iter().flat_map(|range| self.check_range(range, gate)).collect();
        found.sort_by_key(|regression| gate.place(regression)); // stable
        found
    }

    fn check_range(&self, range: &ComparedRange, gate: &Gate) -> Vec<Regression> {
        let (Some(Some(base)), Some(base_name)) = (range.in_runs.first(), self.runs.first()) else { return Vec::new() };
        let others = range.in_runs.iter().zip(&self.runs).skip(1);
        others
            .filter_map(|(new, run)| {
                let new = new.as_ref()?;
                let (grown_ns, self_grown_ns, ratio) = gate.judge(base, new)?;
                Some(Regression {
                    run: run.clone(),
                    base: base_name.clone(),
                    domain: range.domain.clone(),
                    name: range.name.clone(),
                    style: range.style,
                    base_total_ns: base.times.total_ns,
                    total_ns: new.times.total_ns,
                    base_instances: base.times.instances,
                    instances: new.times.instances,
                    grown_ns,
                    self_grown_ns,
                    ratio,
                })
            })
            .collect()
    }
}
