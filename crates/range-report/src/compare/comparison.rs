//! The comparison of runs, range by range.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::figures::{self, ComparedFigure, middle};
use super::sides::Side;
use crate::analysis::{Basis, Change, Facts, Figure, Gate, Reason};
use range_model::names::in_domain;
use range_model::stats::{Lean, order};
use range_model::{Process, Quantile, RangeStats, RangeStyle, Summary, Times, TreeNode};

/// The ranges of several runs side by side. The other runs are compared with the first.
///
/// ```
/// use range_report::{Comparison, RenderOptions};
/// use range_model::{RangeStats, Summary, Times};
///
/// fn run(phases: &[(&str, u64)]) -> Summary {
///     let mut summary = Summary::default();
///     summary.ranges = phases.iter().map(|&(name, ns)| RangeStats::new(name, Times::new(1, ns))).collect();
///     summary
/// }
///
/// let cuda = run(&[("Load Module", 3_498_803_745), ("Module running", 7_365_201)]);
/// let sycl = run(&[("Load Module", 875_001_997), ("Module running", 23_833_423_995)]);
/// let comparison = Comparison::of([("cuda", &cuda), ("sycl", &sycl)]);
/// assert_eq!(comparison.ranges[0].name, "Module running"); // the largest difference first
///
/// let mut text = Vec::new();
/// comparison.render(&RenderOptions::default().width(80), &mut text)?;
/// assert_eq!(
///     String::from_utf8_lossy(&text),
///     "
///  ** Range Comparison (base: cuda):
///
///                          cuda                        sycl
///                    ----------------  -------------------------------------
///    Range            Total     Share   Total     Share  Difference   Ratio
///    --------------  --------  ------  --------  ------  ----------  -------
/// >> Module running  7.365 ms    0.2%  23.83 s    96.5%   +23.83 s     x3236
///    Load Module     3.499 s    99.8%  875.0 ms    3.5%   -2.624 s     x0.25
///
///  >> slower in sycl: Module running +23.83 s (x3236)
///
/// "
/// );
///
/// let regressions = comparison.regressions(10.0);
/// assert_eq!(regressions.len(), 1);
/// assert_eq!(
///     regressions[0].to_string(),
///     "sycl: Module running took 23.83 s, 7.365 ms in cuda (x3236; 100 % allowed)"
/// );
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Comparison {
    /// Names of the runs, in the order given.
    pub runs: Vec<String>,
    /// How often each run was repeated: 1, or the number of its summaries in [`of_sides`](Self::of_sides).
    pub repeats: Vec<usize>,
    /// The process of each run, from [`Summary::process`]; of repeated runs, the first.
    pub processes: Vec<Process>,
    /// The machines of each run.
    pub sides: Vec<Side>,
    /// The gate of [`judged`](Self::judged).
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub gate: Option<Gate>,
    /// Quantiles that were asked for in every run, ascending: columns of the printed table and of the page.
    pub quantiles: Vec<f64>,
    /// Ranges that have an instance in any run. By their largest difference to the first run (see
    /// [`ComparedRange::largest_difference_ns`]) descending, then by their largest total descending, then by name and
    /// style.
    pub ranges: Vec<ComparedRange>,
    /// Latencies of calls that wait, by name, then what GPUs did, by number.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub figures: Vec<ComparedFigure>,
}

/// One range in all runs.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ComparedRange {
    /// NVTX domain; `None` for the default domain.
    pub domain: Option<String>,
    /// Name of the range.
    pub name: String,
    /// Push/pop or start/end.
    pub style: RangeStyle,
    /// Its figures in each run, in the order of [`Comparison::runs`]; `None` if the range did not occur.
    pub in_runs: Vec<Option<InRun>>,
}

/// One range in one run.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct InRun {
    /// Its durations.
    pub times: Times,
    /// Its share of the sum over all ranges of this run, as in the report: nested ranges count inclusively.
    pub percent: f64,
    /// Its total divided by that of the first run; `None` if the first run has no such range, or spent no time in it.
    pub ratio: Option<f64>,
    /// Its total without the ranges directly above it on the same thread, as in the tree: where the time itself was
    /// spent. `None` if the summary has no such phase in its tree, and for start/end ranges.
    pub self_ns: Option<u64>,
    /// Its change from the first run, from [`Comparison::judged`]. `None` if the first run does not have the range, for
    /// the first run itself, and in a comparison that was not judged.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub change: Option<Change>,
    /// What of its mean grew from the first run, where that is known.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub reason: Option<Reason>,
    /// Its durations in each repeat, by start of the process.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(super) each: Vec<Option<Times>>,
}

impl InRun {
    /// The medians over the repeats that have this range.
    fn typical(each: Vec<Option<Times>>, own: &[u64]) -> Option<Self> {
        let known: Vec<&Times> = each.iter().flatten().collect();
        let times = match *known {
            [] => return None,
            [only] => only.clone(),
            _ => typical(&known),
        };
        Some(Self { times, percent: 0.0, ratio: None, self_ns: middle(own), change: None, reason: None, each })
    }
}

/// Each figure is the median over the runs; the shortest and the longest are those of all runs.
fn typical(runs: &[&Times]) -> Times {
    let count =
        |figure: fn(&Times) -> u64| middle(&runs.iter().map(|times| figure(times)).collect::<Vec<_>>()).unwrap_or(0);
    let time = |figure: &dyn Fn(&Times) -> Option<f64>| {
        let mut all = runs.iter().map(|times| figure(times)).collect::<Option<Vec<f64>>>()?;
        all.sort_by(f64::total_cmp);
        Some(f64::midpoint(*all.get((all.len() - 1) / 2)?, *all.get(all.len() / 2)?))
    };
    let quantiles = runs.first().map_or(&[][..], |first| &first.quantiles).iter().filter_map(|quantile| {
        let exact = runs.iter().all(|times| times.quantile(quantile.q).is_some_and(|quantile| quantile.exact));
        Some(Quantile::new(quantile.q, time(&|times| Some(times.quantile(quantile.q)?.ns))?, exact))
    });
    let mut all = Times::new(count(|times| times.instances), count(|times| times.total_ns));
    all.min_ns = runs.iter().map(|times| times.min_ns).min().unwrap_or(0);
    all.max_ns = runs.iter().map(|times| times.max_ns).max().unwrap_or(0);
    all.median_ns = time(&|times| times.median_ns);
    all.median_exact = runs.iter().all(|times| times.median_exact);
    all.stddev_ns = time(&|times| Some(times.stddev_ns)).unwrap_or(0.0);
    all.quantiles = quantiles.collect();
    all
}

impl ComparedRange {
    /// The name in the form of [`RangeStats::label`].
    #[must_use]
    pub fn label(&self) -> String {
        in_domain(self.domain.as_deref(), &self.name)
    }

    /// Total time in a run; `None` where the range did not occur there.
    #[must_use]
    pub fn total_ns(&self, run: usize) -> Option<u64> {
        self.in_runs.get(run)?.as_ref().map(|run| run.times.total_ns)
    }

    /// Total time in a run minus that in the first one. A run without the range counts as 0; `None` if neither has it.
    #[must_use]
    pub fn difference_ns(&self, run: usize) -> Option<i64> {
        let (base, total) = (self.total_ns(0), self.total_ns(run));
        (base.is_some() || total.is_some()).then(|| difference(base.unwrap_or(0), total.unwrap_or(0)))
    }

    /// The same for its own time, [`InRun::self_ns`], which excludes ranges inside that became slower. `None` if a run
    /// has the range but its own time is not known.
    #[must_use]
    pub fn self_difference_ns(&self, run: usize) -> Option<i64> {
        let own = |run: usize| match self.in_runs.get(run)? {
            Some(place) => place.self_ns,
            None => Some(0),
        };
        self.difference_ns(run)?;
        Some(difference(own(0)?, own(run)?))
    }

    /// The largest absolute difference of any run from the first one. It determines the order of the table.
    #[must_use]
    pub fn largest_difference_ns(&self) -> u64 {
        let differences = (1..self.in_runs.len()).filter_map(|run| self.difference_ns(run));
        differences.map(i64::unsigned_abs).max().unwrap_or(0)
    }
}

fn difference(base: u64, now: u64) -> i64 {
    let difference = i128::from(now) - i128::from(base);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

/// The quantiles that a run was asked for, from its tree.
fn asked(summary: &Summary) -> Vec<f64> {
    let mut waiting: Vec<&TreeNode> = summary.tree.iter().collect();
    let mut quantiles = Vec::new();
    while let Some(node) = waiting.pop() {
        quantiles.extend(node.quantiles.iter().map(|quantile| quantile.q));
        waiting.extend(&node.children);
    }
    quantiles.sort_by(f64::total_cmp);
    quantiles.dedup();
    quantiles
}

/// Own times of all phases by label.
fn own_times(summary: &Summary) -> BTreeMap<String, u64> {
    let mut own: BTreeMap<String, u64> = BTreeMap::new();
    let mut waiting: Vec<&TreeNode> = summary.tree.iter().collect();
    while let Some(node) = waiting.pop() {
        let sum = own.entry(in_domain(node.domain.as_deref(), &node.name)).or_default();
        *sum = sum.saturating_add(node.self_ns);
        waiting.extend(&node.children);
    }
    own
}

impl Comparison {
    /// Compares two runs, named "base" and "new".
    ///
    /// ```
    /// use range_report::Comparison;
    /// use range_model::Summary;
    ///
    /// let (old, new) = (Summary::default(), Summary::default());
    /// assert_eq!(Comparison::new(&old, &new).runs, ["base", "new"]);
    /// ```
    #[must_use]
    pub fn new(base: &Summary, new: &Summary) -> Self {
        Self::of([("base", base), ("new", new)])
    }

    /// Compares any number of runs with the first, each under the name given.
    ///
    /// Ranges are the same if their label and style are. Ranges without an instance do not count.
    #[must_use]
    pub fn of<'a, N: Into<String>>(runs: impl IntoIterator<Item = (N, &'a Summary)>) -> Self {
        Self::of_sides(runs.into_iter().map(|(name, summary)| (name, [summary])))
    }

    /// The same for repeated runs, so that [`judged`](Self::judged) can tell a change from noise. Every figure of a
    /// range is the median over the repeats that have it.
    ///
    /// Record the repeats alternately: first one of each side, then the next. The repeats are ordered by the start of
    /// their processes, and the first repeats of all sides are compared with each other, then the second, and so on,
    /// because the speed of a machine drifts.
    ///
    /// ```
    /// use range_report::{Comparison, Gate};
    /// use range_model::{RangeStats, Summary, Times};
    ///
    /// /// Ten runs with 100 steps.
    /// fn repeated(median_ns: f64) -> Vec<Summary> {
    ///     let run = |number: u32| {
    ///         let mut times = Times::new(100, 100 * median_ns as u64);
    ///         times.median_ns = Some(median_ns * (1.0 + f64::from(number % 4) / 1_000.0));
    ///         let mut summary = Summary::default();
    ///         summary.ranges.push(RangeStats::new("step", times));
    ///         summary
    ///     };
    ///     (0..10).map(run).collect()
    /// }
    ///
    /// let (old, new) = (repeated(1_000_000.0), repeated(1_050_000.0));
    /// let found = Comparison::of_sides([("old", &old), ("new", &new)]).check(&Gate::new(2.0));
    /// let said = found[0].to_string();
    /// assert!(said.starts_with("new: step took 5.0 % longer than in old, where it took 1.001 ms at the median"));
    /// ```
    #[must_use]
    pub fn of_sides<'a, N: Into<String>, S: IntoIterator<Item = &'a Summary>>(
        sides: impl IntoIterator<Item = (N, S)>,
    ) -> Self {
        let (names, mut sides): (Vec<String>, Vec<Vec<&Summary>>) =
            sides.into_iter().map(|(name, side)| (name.into(), side.into_iter().collect())).unzip();
        sides.iter_mut().for_each(|side| side.sort_by_key(|summary| summary.process.started_unix_ns)); // stable
        let mut rows: BTreeMap<(String, RangeStyle), ComparedRange> = BTreeMap::new();
        for (number, side) in sides.iter().enumerate() {
            for (key, place) in places(side) {
                let row = rows.entry(key).or_insert_with(|| nowhere(place.range, sides.len()));
                if let Some(in_run) = row.in_runs.get_mut(number) {
                    *in_run = InRun::typical(place.each, &place.own);
                }
            }
        }
        for number in 0..sides.len() {
            let places = || rows.values().filter_map(|range| Some(range.in_runs.get(number)?.as_ref()?.times.total_ns));
            let whole: f64 = places().map(|total_ns| total_ns as f64).sum();
            for place in rows.values_mut().filter_map(|range| range.in_runs.get_mut(number)?.as_mut()) {
                place.percent = if whole > 0.0 { 100.0 * (place.times.total_ns as f64 / whole) } else { 0.0 };
            }
        }
        let mut ranges: Vec<ComparedRange> = rows.into_values().map(with_ratios).collect();
        // Stable: equal ones stay in order of names.
        ranges.sort_by_cached_key(|range| {
            let totals = range.in_runs.iter().flatten().map(|run| run.times.total_ns);
            (Reverse(range.largest_difference_ns()), Reverse(totals.max()))
        });
        let mut runs = sides.iter().flatten();
        let mut quantiles = runs.next().map_or_else(Vec::new, |run| asked(run));
        for run in runs {
            let here = asked(run);
            quantiles.retain(|q| here.contains(q));
        }
        let process = |side: &Vec<&Summary>| side.first().map_or_else(Process::default, |run| run.process.clone());
        let (processes, repeats) = (sides.iter().map(process).collect(), sides.iter().map(Vec::len).collect());
        let figures = figures::of_sides(&sides);
        let machines = |side: &[&Summary]| side.iter().map(|summary| summary.machine.clone()).in_vec();
        let mut machines = names.iter().zip(&sides).map(|(name, side)| Side::of(name, &machines(side))).in_vec();
        if let Some((base, others)) = machines.split_first_mut() {
            others.iter_mut().for_each(|side| side.notes.extend(side.differs(base)));
        }
        let mut comparison =
            Self { runs: names, repeats, processes, sides: machines, gate: None, quantiles, ranges, figures };
        if let Some((base, others)) = sides.split_first() {
            (1..).zip(others).for_each(|(run, new)| comparison.explain(run, &Facts::of(base, new)));
        }
        comparison
    }

    /// Says of each row of a run what of it grew.
    fn explain(&mut self, run: usize, facts: &Facts<'_>) {
        for row in &mut self.figures {
            let label = row.label();
            let reason = match row.figure {
                Figure::GpuBusy | Figure::GpuIdle(_) => facts.of_device(row.figure, &row.name),
                _ if row.basis == Basis::P99 => row.grown(run).and_then(|grown| facts.of_slowest(&label, grown)),
                _ => facts.of_row(&label, row.figure, row.grown(run)),
            };
            row.in_runs.get_mut(run).into_iter().flatten().for_each(|place| place.reason = reason.clone());
        }
        // The times of polls say nothing of waits.
        let of_polls: BTreeSet<String> = self.figures.iter().map(ComparedFigure::label).collect();
        let is_plain =
            |range: &&mut ComparedRange| range.style == RangeStyle::PushPop && !of_polls.contains(&range.label());
        for range in self.ranges.iter_mut().filter(is_plain) {
            let reason = facts.of_row(&range.label(), Figure::Range, None);
            range.in_runs.get_mut(run).into_iter().flatten().for_each(|place| place.reason = reason.clone());
        }
    }
}

/// A range in the runs of one side.
struct Repeated<'a> {
    range: &'a RangeStats,
    pub(super) each: Vec<Option<Times>>,
    /// Its own times, as far as they are known.
    own: Vec<u64>,
}

fn places<'a>(side: &[&'a Summary]) -> BTreeMap<(String, RangeStyle), Repeated<'a>> {
    let mut places = BTreeMap::new();
    for (repeat, summary) in side.iter().enumerate() {
        let own = own_times(summary);
        for range in summary.ranges.iter().filter(|range| range.times.instances > 0) {
            let new = || Repeated { range, each: vec![None; side.len()], own: Vec::new() };
            let place = places.entry((range.label(), range.style)).or_insert_with(new);
            if let Some(each) = place.each.get_mut(repeat) {
                *each = Some(range.times.clone());
            }
            let known = if range.style == RangeStyle::PushPop { own.get(&range.label()) } else { None };
            place.own.extend(known);
        }
    }
    places
}

fn nowhere(range: &RangeStats, runs: usize) -> ComparedRange {
    let (domain, name) = (range.domain.clone(), range.name.clone());
    ComparedRange { domain, name, style: range.style, in_runs: vec![None; runs] }
}

/// The same ranges with own times in place of totals, the largest difference first; `None` if own times are not known
/// in all runs, or equal the totals.
pub fn by_self_time(comparison: &Comparison) -> Option<Comparison> {
    let places = || comparison.ranges.iter().flat_map(|range| range.in_runs.iter().flatten());
    let differs = |place: &InRun| place.self_ns.is_some_and(|own| own != place.times.total_ns);
    let has_none = |run: usize| {
        let own = comparison.ranges.iter().filter(|range| range.style == RangeStyle::PushPop);
        let mut own = own.filter_map(|range| range.in_runs.get(run)?.as_ref()).map(|place| place.self_ns).peekable();
        own.peek().is_some() && own.all(|own| own.is_none())
    };
    if !places().any(differs) || (0..comparison.runs.len()).any(has_none) {
        return None;
    }
    let known = |range: &&ComparedRange| range.in_runs.iter().flatten().all(|place| place.self_ns.is_some());
    let mut ranges: Vec<ComparedRange> = comparison.ranges.iter().filter(known).cloned().collect();
    for place in ranges.iter_mut().flat_map(|range| range.in_runs.iter_mut().flatten()) {
        place.times.total_ns = place.self_ns.unwrap_or(0);
    }
    ranges = ranges.into_iter().map(with_ratios).collect();
    order::by_key(&mut ranges, |range| Reverse(range.largest_difference_ns())); // stable
    Some(Comparison { ranges, ..comparison.clone() })
}

pub(crate) fn with_ratios(mut range: ComparedRange) -> ComparedRange {
    range.in_runs.iter_mut().flatten().for_each(|run| run.ratio = None);
    if let Some(base) = range.total_ns(0).filter(|&base| base > 0) {
        for run in range.in_runs.iter_mut().flatten() {
            run.ratio = Some(run.times.total_ns as f64 / base as f64);
        }
    }
    range
}
