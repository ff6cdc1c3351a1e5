//! Runs side by side: the same program before and after a change, or the same phases on several backends.

mod gate;
#[cfg(test)]
mod tests;

pub use gate::{Added, Basis, Gate, Regression};

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::{Process, RangeStats, RangeStyle, Summary, Times, TreeNode};

/// The ranges of several runs side by side. The first run is what the others are compared with.
///
/// ```
/// use range_report::{Comparison, RangeStats, RenderOptions, Summary, Times};
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
/// assert_eq!(regressions[0].to_string(), "sycl: Module running took 23.83 s, 7.365 ms in cuda (x3236)");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Comparison {
    /// Names of the runs, in the order given.
    pub runs: Vec<String>,
    /// Which process each run was, as [`Summary::process`] has it.
    pub processes: Vec<Process>,
    /// Quantiles that were asked for in every run, in rising order: columns of the printed table and of the page.
    pub quantiles: Vec<f64>,
    /// Ranges that have an instance in any run. By their largest difference to the first run (see
    /// [`ComparedRange::largest_difference_ns`]) descending, then by their largest total descending, then by name and
    /// style.
    pub ranges: Vec<ComparedRange>,
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
    /// What each run has of it, in the order of [`Comparison::runs`]; `None` where the range did not occur.
    pub in_runs: Vec<Option<InRun>>,
}

/// One range in one run.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct InRun {
    /// Its durations.
    pub times: Times,
    /// Its part of the sum over all ranges of this run, as the report has it: nested ranges count inclusively.
    pub percent: f64,
    /// Its total by that of the first run; `None` where the first run has no such range, or spent no time in it.
    pub ratio: Option<f64>,
    /// Its total without the ranges directly above it on the same thread, as the tree has it: where the time itself was
    /// spent. `None` where the summary has no such phase in its tree, and for start/end ranges.
    pub self_ns: Option<u64>,
}

impl ComparedRange {
    /// The name as [`RangeStats::label`] gives it.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.domain {
            Some(domain) => format!("{domain}:{}", self.name),
            None => self.name.clone(),
        }
    }

    /// Total time in a run; `None` where the range did not occur there.
    #[must_use]
    pub fn total_ns(&self, run: usize) -> Option<u64> {
        self.in_runs.get(run)?.as_ref().map(|run| run.times.total_ns)
    }

    /// Total time in a run without that in the first one. A run without the range counts as one that spent no time in
    /// it; `None` where neither has it.
    #[must_use]
    pub fn difference_ns(&self, run: usize) -> Option<i64> {
        let (base, total) = (self.total_ns(0), self.total_ns(run));
        (base.is_some() || total.is_some()).then(|| difference(base.unwrap_or(0), total.unwrap_or(0)))
    }

    /// The same of its own time, [`InRun::self_ns`]: a range that became slower through one inside of it has none of
    /// that. `None` where a run has the range and its own time is not known.
    #[must_use]
    pub fn self_difference_ns(&self, run: usize) -> Option<i64> {
        let own = |run: usize| match self.in_runs.get(run)? {
            Some(place) => place.self_ns,
            None => Some(0),
        };
        self.difference_ns(run)?;
        Some(difference(own(0)?, own(run)?))
    }

    /// The largest difference of any run to the first one, whichever way: the order of the table.
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

/// The quantiles that a run was asked for: those that its tree has.
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
        let label = match &node.domain {
            Some(domain) => format!("{domain}:{}", node.name),
            None => node.name.clone(),
        };
        let sum = own.entry(label).or_default();
        *sum = sum.saturating_add(node.self_ns);
        waiting.extend(&node.children);
    }
    own
}

impl Comparison {
    /// Compares two runs, which are called "base" and "new".
    ///
    /// ```
    /// use range_report::{Comparison, Summary};
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
        let (names, runs): (Vec<String>, Vec<&Summary>) =
            runs.into_iter().map(|(name, summary)| (name.into(), summary)).unzip();
        let mut rows: BTreeMap<(String, RangeStyle), ComparedRange> = BTreeMap::new();
        for (number, summary) in runs.iter().enumerate() {
            let ran = || summary.ranges.iter().filter(|range| range.times.instances > 0);
            let own = own_times(summary);
            let whole: f64 = ran().map(|range| range.times.total_ns as f64).sum();
            for range in ran() {
                let row = rows.entry((range.label(), range.style)).or_insert_with(|| nowhere(range, runs.len()));
                let percent = if whole > 0.0 { 100.0 * (range.times.total_ns as f64 / whole) } else { 0.0 };
                let self_ns = match range.style {
                    RangeStyle::PushPop => own.get(&range.label()).copied(),
                    RangeStyle::StartEnd => None,
                };
                if let Some(place) = row.in_runs.get_mut(number) {
                    *place = Some(InRun { times: range.times.clone(), percent, ratio: None, self_ns });
                }
            }
        }
        let mut ranges: Vec<ComparedRange> = rows.into_values().map(with_ratios).collect();
        // Stable: those that are equal stay in the order of names.
        ranges.sort_by_cached_key(|range| {
            let totals = range.in_runs.iter().flatten().map(|run| run.times.total_ns);
            (Reverse(range.largest_difference_ns()), Reverse(totals.max()))
        });
        let mut quantiles = runs.first().map_or_else(Vec::new, |run| asked(run));
        for run in runs.iter().skip(1) {
            let here = asked(run);
            quantiles.retain(|q| here.contains(q));
        }
        let processes = runs.iter().map(|summary| summary.process.clone()).collect();
        Self { runs: names, processes, quantiles, ranges }
    }
}

fn nowhere(range: &RangeStats, runs: usize) -> ComparedRange {
    let (domain, name) = (range.domain.clone(), range.name.clone());
    ComparedRange { domain, name, style: range.style, in_runs: vec![None; runs] }
}

/// The same ranges by their own times in place of totals, the largest difference first; `None` where these are not
/// known in all runs, or are the totals.
pub(crate) fn by_self_time(comparison: &Comparison) -> Option<Comparison> {
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
    ranges.sort_by_key(|range| Reverse(range.largest_difference_ns())); // stable
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
