//! What became slower: a gate for continuous integration.

use std::fmt;

use super::figure::Figure;
use super::interval::LEAST_PAIRS;
use super::reason::Reason;
use crate::text::number::{human_inline, ratio};
use range_model::names::escaped;
use range_model::names::label_or_none;
use range_model::summary::IdleCause;
use range_model::{RangeStyle, Times};

/// By default, a difference below this time is never a regression: 0.1 ms.
const LEAST_NS: u64 = 100_000;
/// By default, the median and the 99th percentile of fewer instances are not judged.
const LEAST_INSTANCES: u64 = 30;
/// Which time of a range is judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    pub(crate) fn of(self, times: &Times) -> Option<f64> {
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
/// Ranges are judged, the latencies of calls that wait, and what GPUs did: together they are figures.
///
/// A figure of a run is a regression if it takes longer than in the first run by more than `threshold_percent` and by
/// at least `least_ns`, and if that is no noise: the interval of the change is above 0. The intervals come from what
/// the repeats of the runs differ by ([`of_sides`]); those of all figures together hold the true changes in 99 of 100
/// comparisons. Where fewer than `least_repeats` pairs of repeats have the figure, noise is not known. Then only a
/// rough change is a regression: 25 % of a median, 100 % of a total or 99th percentile.
///
/// The median or the 99th percentile of a range with fewer than `least_instances` says little: its total is judged.
/// Calls that wait are judged by the median of their latencies, with `least_instances`, and by the 99th percentile,
/// with 100 calls in each run; the polls of their futures second, as ranges. Of a GPU, the time is judged in which it
/// was busy, and in which it was idle by each cause, in parts of the time from its first operation to its last.
///
/// A range that the first run does not have is no regression: there is nothing to compare it with (its time is in the
/// ranges around it, and [`added`] lists it).
///
/// ```
/// use range_report::{Basis, Comparison, Gate};
/// use range_model::Summary;
///
/// let mut gate = Gate::new(5.0);
/// gate.basis = Basis::P99;
/// gate.least_ns = 1_000_000;
/// let (old, new) = (Summary::default(), Summary::default());
/// assert!(Comparison::of([("old", &old), ("new", &new)]).check(&gate).is_empty());
/// ```
///
/// [`of_sides`]: crate::Comparison::of_sides
/// [`added`]: crate::Comparison::added
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
}

/// How a figure changed from the first run to another. Its text is the change with its interval.
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

/// A figure that became slower than the gate allows. Its text is one line.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Regression {
    /// The run it is slower in.
    pub run: String,
    /// The run it is compared with: the first.
    pub base: String,
    /// What was judged.
    pub figure: Figure,
    /// NVTX domain of the range or the calls; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range or the calls, or `GPU 0`.
    pub name: String,
    /// Push/pop or start/end.
    pub style: RangeStyle,
    /// Instances in the first run.
    pub base_instances: u64,
    /// Instances in this run.
    pub instances: u64,
    /// How its own total ([`self_ns`](crate::InRun::self_ns)) grew, negative where that shrank: nothing or little where
    /// a range became slower through others inside of it. `None` where own times are not known, and where no total was
    /// judged.
    pub self_grown_ns: Option<i64>,
    /// How much slower it is.
    pub change: Change,
    /// What of it grew, where that is known.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub reason: Option<Reason>,
}

impl fmt::Display for Regression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { basis, base_ns, ns, percent, allowed_percent, .. } = self.change;
        let (run, base) = (escaped(&self.run), escaped(&self.base));
        let range = named(self.domain.as_deref(), &self.name, self.style);
        let range = match self.figure {
            Figure::Range | Figure::Latency => range,
            Figure::Poll => format!("a poll of {range}"),
            Figure::GpuBusy => format!("the work of {range}"),
            Figure::GpuIdle(cause) => return self.fmt_idle(f, &range, cause),
        };
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
                write!(f, ", itself {} {}", human_inline(own.unsigned_abs()), if own < 0 { "less" } else { "more" })?;
            }
            _ => {}
        }
        self.fmt_reason(f)
    }
}

impl Regression {
    fn fmt_idle(&self, f: &mut fmt::Formatter<'_>, device: &str, cause: IdleCause) -> fmt::Result {
        let Change { base_ns, ns, .. } = self.change;
        let (run, base, cause) = (escaped(&self.run), escaped(&self.base), cause.name());
        let [base_time, time] = [base_ns, ns].map(|ns| human_inline(ns as u64));
        write!(f, "{run}: {device} was idle for {time}, {base_time} in {base} ({cause}: ")?;
        match self.change.interval_text() {
            Some(interval) => write!(f, "{interval} of its time)")?,
            None => write!(f, "{} % of its time)", signed(self.change.percent))?,
        }
        self.fmt_reason(f)
    }

    fn fmt_reason(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => write!(f, "; {reason}{}", self.figure.each()),
            None => Ok(()),
        }
    }
}

/// The name of a range in a line: a lifetime is told from the entries of the same name, as in the table.
fn named(domain: Option<&str>, name: &str, style: RangeStyle) -> String {
    let label = label_or_none(domain, name);
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
