//! The common form of all joined rows: the key, the figures over all processes, and the figures of each process.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::Deref;

use crate::stats::order;
use crate::summary::Times;
use crate::summary::schema::Join;

/// One row in all processes: a range, a kernel, a category.
///
/// `K` identifies the row, `V` has its figures.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(not(feature = "_literals"), non_exhaustive)]
pub struct Merged<K, V> {
    /// The identity of the row.
    pub key: K,
    /// The figures over all processes. Counts, sums, minimum, maximum and deviation are those of all instances. A
    /// median cannot be computed from medians, so it is `None` unless only one process has the row;
    /// [`median_bounds`](Self::median_bounds) has its bounds.
    pub all: V,
    /// The least and the greatest median of a process, in the unit of `all`. The median of all instances lies between
    /// them (as far as they are exact). `None` if a process does not know its median, or if there is no such figure.
    pub median_bounds: Option<(f64, f64)>,
    /// The figures of each process.
    pub ranks: RankTotals,
}

/// The figures of a row in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(not(feature = "_literals"), non_exhaustive)]
pub struct RankTotal {
    /// The process, as an index in [`MergedSummary::processes`](super::MergedSummary::processes).
    pub process: usize,
    /// Its number of instances: of ranges, kernels, operations or calls.
    pub instances: u64,
    /// Their sum: nanoseconds, or bytes in [`MergedActivity::memory_sizes`](super::MergedActivity::memory_sizes).
    pub total: u64,
}

/// The figures of a row by process, in the order of [`MergedSummary::processes`](super::MergedSummary::processes);
/// processes without the row are left out.
///
/// ```
/// use range_model::{CategoryStats, Summary, Times};
///
/// let of_rank = |rank: u32, total_ns: u64| {
///     let mut summary = Summary::default();
///     summary.process.rank = Some(rank);
///     summary.categories = vec![CategoryStats::new("io", Times::new(1, total_ns))];
///     summary
/// };
/// let merged = Summary::merge([of_rank(0, 100), of_rank(1, 500), of_rank(2, 300)]);
/// let ranks = &merged.categories[0].ranks;
/// assert_eq!(ranks.len(), 3);
/// assert_eq!(ranks.fastest().map(|rank| rank.total), Some(100));
/// assert_eq!(ranks.slowest().map(|rank| rank.process), Some(1));
/// assert_eq!((ranks.total(), ranks.imbalance()), (900, Some(5.0 / 3.0)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(transparent))]
pub struct RankTotals(Vec<RankTotal>);

impl Deref for RankTotals {
    type Target = [RankTotal];

    fn deref(&self) -> &[RankTotal] {
        &self.0
    }
}

impl RankTotals {
    /// The sums of several rows by process.
    #[must_use]
    pub fn sum<'a>(rows: impl Iterator<Item = &'a Self>) -> Self {
        let mut sums: BTreeMap<usize, RankTotal> = BTreeMap::new();
        for &RankTotal { process, instances, total } in rows.flat_map(|row| &row.0) {
            let sum = sums.entry(process).or_insert(RankTotal { process, instances: 0, total: 0 });
            sum.instances = sum.instances.saturating_add(instances);
            sum.total = sum.total.saturating_add(total);
        }
        Self(sums.into_values().collect())
    }

    /// The process with the largest total; the first of equal ones.
    #[must_use]
    pub fn slowest(&self) -> Option<&RankTotal> {
        self.iter().min_by_key(|rank| Reverse(rank.total))
    }

    /// The process with the smallest total among those with the row; the first of equal ones.
    #[must_use]
    pub fn fastest(&self) -> Option<&RankTotal> {
        self.iter().min_by_key(|rank| rank.total)
    }

    /// The sum over all processes, at most `u64::MAX`.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.iter().fold(0, |sum, rank| sum.saturating_add(rank.total))
    }

    /// The largest total divided by the average over the processes with the row: 1 if all take equally long. `None` if
    /// all totals are 0.
    #[must_use]
    pub fn imbalance(&self) -> Option<f64> {
        let slowest = self.slowest()?.total as f64;
        let total: f64 = self.iter().map(|rank| rank.total as f64).sum();
        (total > 0.0).then(|| slowest * self.len() as f64 / total)
    }
}

/// The figures of a row in one process.
pub(super) trait Part: Join + Clone {
    /// Instances.
    fn count(&self) -> u64;

    /// The figure that compares processes.
    fn total(&self) -> u64;

    fn median(&self) -> Option<f64>;

    /// Durations, if it has any.
    fn times(&mut self) -> Option<&mut Times>;
}

/// Parts of rows in order of arrival: by key, each with the index of its process.
pub(super) struct Rows<K, V>(HashMap<K, Parts<V>>);

/// The parts of a row. What takes most of their memory is joined at once, because no order matters there.
pub(super) struct Parts<V> {
    parts: Vec<(usize, V)>,
    /// The histogram of all parts, if there are several.
    histogram: Vec<(u32, u64)>,
}

impl<V> Default for Parts<V> {
    fn default() -> Self {
        Self { parts: Vec::new(), histogram: Vec::new() }
    }
}

impl<V> From<Vec<(usize, V)>> for Parts<V> {
    fn from(parts: Vec<(usize, V)>) -> Self {
        Self { parts, histogram: Vec::new() }
    }
}

impl<V: Part> Parts<V> {
    fn push(&mut self, process: usize, mut part: V) {
        if let [(_, first)] = self.parts.as_mut_slice() {
            Self::join_at_once(&mut self.histogram, first);
        }
        if !self.parts.is_empty() {
            Self::join_at_once(&mut self.histogram, &mut part);
        }
        self.parts.push((process, part));
    }

    /// Quantiles of several parts are not known.
    fn join_at_once(histogram: &mut Vec<(u32, u64)>, part: &mut V) {
        if let Some(times) = part.times() {
            times.quantiles = Vec::new();
            *histogram = Join::join(&[histogram, &std::mem::take(&mut times.histogram)]);
        }
    }
}

impl<K, V> Default for Rows<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Ord + Hash, V: Part> Rows<K, V> {
    /// Adds a part, unless it has no instance.
    pub(super) fn add(&mut self, process: usize, key: K, part: V) {
        if part.count() > 0 {
            self.0.entry(key).or_default().push(process, part);
        }
    }

    /// The rows by total descending, then by key. `places` has the new index of each process.
    pub(super) fn together(self, places: &[usize]) -> Vec<Merged<K, V>> {
        let mut rows: Vec<_> = self.0.into_iter().map(|(key, parts)| together(key, parts, places)).collect();
        order::by(&mut rows, |a, b| (Reverse(a.all.total()), &a.key).cmp(&(Reverse(b.all.total()), &b.key)));
        rows
    }
}

/// One row. Its parts are first sorted by process, so that sums of doubles do not depend on the order of arrival.
pub(super) fn together<K, V: Part>(key: K, parts: Parts<V>, places: &[usize]) -> Merged<K, V> {
    let Parts { mut parts, histogram } = parts;
    for (process, _) in &mut parts {
        *process = places.get(*process).copied().unwrap_or(*process);
    }
    order::by_key(&mut parts, |(process, _)| *process);
    let mut ranks: Vec<RankTotal> = Vec::with_capacity(parts.len());
    for (process, part) in &parts {
        match ranks.last_mut().filter(|rank| rank.process == *process) {
            Some(rank) => {
                rank.instances = rank.instances.saturating_add(part.count());
                rank.total = rank.total.saturating_add(part.total());
            }
            None => ranks.push(RankTotal { process: *process, instances: part.count(), total: part.total() }),
        }
    }
    let parts: Vec<&V> = parts.iter().map(|(_, part)| part).collect();
    let medians: Option<Vec<f64>> =
        parts.iter().map(|part| part.median().filter(|median| median.is_finite())).collect();
    let median_bounds = medians.map(|all| {
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        (least, all.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    });
    let mut all = match parts.as_slice() {
        [alone] => (*alone).clone(),
        several => V::join(several),
    };
    if let (Some(times), true) = (all.times(), parts.len() > 1) {
        times.histogram = histogram;
    }
    Merged { key, all, median_bounds, ranks: RankTotals(ranks) }
}
