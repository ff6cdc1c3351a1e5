//! The one shape of all that is joined: which row it is, what it is in all processes, and what each process has of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::ops::Deref;

use crate::stats::order;
use crate::summary::schema::Join;

/// One row in all processes: a range, a kernel, a category.
///
/// `K` says which row it is, `V` what it amounts to.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Merged<K, V> {
    /// Which row it is.
    pub key: K,
    /// All processes together. Counts, sums, minimum, maximum and deviation are those of all instances; a median cannot
    /// be told from medians, so it is `None`, unless one process alone has the row.
    /// [`median_bounds`](Self::median_bounds) says between what it lies.
    pub all: V,
    /// The least and the greatest median of a process, in the unit of `all`: that of all instances is neither below nor
    /// above (as far as they are exact themselves). `None` where a process does not know its own, or there is no such
    /// thing.
    pub median_bounds: Option<(f64, f64)>,
    /// What each process has of it.
    pub ranks: RankTotals,
}

/// What one process has of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RankTotal {
    /// The process, as a place in [`MergedSummary::processes`](super::MergedSummary::processes).
    pub process: usize,
    /// Instances there: of ranges, of kernels, of operations, of calls.
    pub instances: u64,
    /// Their sum: nanoseconds, and bytes in [`MergedActivity::memory_sizes`](super::MergedActivity::memory_sizes).
    pub total: u64,
}

/// What each process has of a row, in the order of [`MergedSummary::processes`](super::MergedSummary::processes); those
/// that do not have it are left out.
///
/// ```
/// use range_report::{CategoryStats, Summary, Times};
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
    /// What each process has of several rows together.
    pub(crate) fn sum<'a>(rows: impl Iterator<Item = &'a Self>) -> Self {
        let mut sums: BTreeMap<usize, RankTotal> = BTreeMap::new();
        for &RankTotal { process, instances, total } in rows.flat_map(|row| &row.0) {
            let sum = sums.entry(process).or_insert(RankTotal { process, instances: 0, total: 0 });
            sum.instances = sum.instances.saturating_add(instances);
            sum.total = sum.total.saturating_add(total);
        }
        Self(sums.into_values().collect())
    }

    /// The process with the largest total; the first of those that are equal.
    #[must_use]
    pub fn slowest(&self) -> Option<&RankTotal> {
        self.iter().min_by_key(|rank| Reverse(rank.total))
    }

    /// The process with the smallest total, of those that have the row; the first of those that are equal.
    #[must_use]
    pub fn fastest(&self) -> Option<&RankTotal> {
        self.iter().min_by_key(|rank| rank.total)
    }

    /// The sum over all processes; `u64::MAX` where it is beyond.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.iter().fold(0, |sum, rank| sum.saturating_add(rank.total))
    }

    /// The largest total by the average over the processes that have the row: 1 where all take equally long. `None`
    /// where there is nothing to share.
    #[must_use]
    pub fn imbalance(&self) -> Option<f64> {
        let slowest = self.slowest()?.total as f64;
        let total: f64 = self.iter().map(|rank| rank.total as f64).sum();
        (total > 0.0).then(|| slowest * self.len() as f64 / total)
    }
}

/// What a row amounts to in one process.
pub(super) trait Part: Join + Clone {
    /// Instances.
    fn count(&self) -> u64;

    /// What distinguishes processes.
    fn total(&self) -> u64;

    fn median(&self) -> Option<f64>;
}

/// Parts of rows, as they come: by key, each with the number of its process.
pub(super) struct Rows<K, V>(HashMap<K, Vec<(usize, V)>>);

impl<K, V> Default for Rows<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Ord + Hash, V: Part> Rows<K, V> {
    /// A part without an instance is no row.
    pub(super) fn add(&mut self, process: usize, key: K, part: V) {
        if part.count() > 0 {
            self.0.entry(key).or_default().push((process, part));
        }
    }

    /// By total descending, then by key. `places` has the new number of each process.
    pub(super) fn together(self, places: &[usize]) -> Vec<Merged<K, V>> {
        let mut rows: Vec<_> = self.0.into_iter().map(|(key, parts)| together(key, parts, places)).collect();
        order::by(&mut rows, |a, b| (Reverse(a.all.total()), &a.key).cmp(&(Reverse(b.all.total()), &b.key)));
        rows
    }
}

/// One row. The parts are put in the order of the processes first, so that sums of doubles do not depend on the order
/// in which they came.
pub(super) fn together<K, V: Part>(key: K, mut parts: Vec<(usize, V)>, places: &[usize]) -> Merged<K, V> {
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
    let all = match parts.as_slice() {
        [alone] => (*alone).clone(),
        several => V::join(several),
    };
    Merged { key, all, median_bounds, ranks: RankTotals(ranks) }
}
