//! Durations of ranges.

#[cfg(feature = "serde")]
use super::finite;
use super::schema::{Join, Since, figures};

/// How a range was opened and closed, as Nsight Systems names it in the `Style` column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum RangeStyle {
    /// Entered and exited on one thread: an NVTX push and pop.
    #[default]
    PushPop,
    /// From the creation of a span to its close, on any threads: an NVTX start and end (`nvtx.lifetime`).
    StartEnd,
}

figures! {
    /// The durations of all instances of one row, in nanoseconds.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct Times {
        /// Instances that have ended.
        instances: u64 = sum;
        /// Sum of all durations.
        total_ns: u64 = sum;
        /// Shortest duration; 0 where there is no instance.
        min_ns: u64 = least;
        /// Longest duration.
        max_ns: u64 = most;
        /// Median: the middle duration, or the mean of the two middle ones. `None` where there is no instance, or where
        /// the sample budget was spent before this row could keep its durations.
        #[serde(serialize_with = "finite::or_none")]
        median_ns: Option<f64> = apart;
        /// Whether `median_ns` comes from every single duration. Otherwise it comes from a histogram, with a relative
        /// error below 0.2 %.
        median_exact: bool = apart;
        /// Sample standard deviation (divisor n - 1); 0 for one instance.
        #[serde(serialize_with = "finite::or_zero")]
        stddev_ns: f64 = deviation(instances, total_ns);
        /// Quantiles by rising `q`: 0.9, 0.99 and those that were asked for. Empty where the median is unknown.
        /// [`quantile`](Self::quantile) finds one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        quantiles: Vec<Quantile> = apart;
        /// How many instances took how long: `[i, n]` are `n` instances of at most 2^(i/8) ns, and of more than
        /// 2^((i-1)/8) ns unless `i` is 0. By rising `i`; empty where the median is unknown.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        histogram: Vec<(u32, u64)> = joined;
    }
}

impl Join for Vec<(u32, u64)> {
    #[inline]
    fn join(parts: &[&Self]) -> Self {
        let mut rows: Vec<(u32, u64)> = parts.iter().copied().flatten().copied().collect();
        rows.sort_unstable();
        rows.dedup_by(|more, row| {
            let is_same = more.0 == row.0;
            row.1 = row.1.saturating_add(if is_same { more.1 } else { 0 });
            is_same
        });
        rows
    }
}

impl Since for Vec<(u32, u64)> {
    fn since(&self, before: &Self) -> Self {
        let old = |of: u32| before.iter().find(|(at, _)| *at == of).map_or(0, |(_, count)| *count);
        self.iter().map(|&(at, count)| (at, count.saturating_sub(old(at)))).filter(|(_, count)| *count > 0).collect()
    }
}

/// Buckets of [`Times::histogram`] for each doubling.
pub const HISTOGRAM_SCALE: u32 = 8;

/// The bucket of [`Times::histogram`] for a duration.
///
/// ```
/// use range_model::summary::histogram_bucket;
///
/// assert_eq!([0, 1, 2, 4, 1_024].map(histogram_bucket), [0, 0, 8, 16, 80]);
/// assert_eq!([3, 1_025].map(histogram_bucket), [13, 81]);
/// ```
#[must_use]
pub fn histogram_bucket(ns: u64) -> u32 {
    ((ns.max(1) as f64).log2() * f64::from(HISTOGRAM_SCALE)).ceil() as u32
}

impl Times {
    /// The duration that a part `q` of all instances took at most: 0.5 for the median, 0.99 for the 99th percentile.
    /// Between two durations it interpolates linearly, as NumPy does.
    ///
    /// `None` for a `q` that was not kept, or not within 0 and 1, and where there is no instance.
    ///
    /// ```
    /// use range_model::{Quantile, Times};
    ///
    /// let mut times = Times::new(3, 14);
    /// (times.min_ns, times.max_ns) = (1, 9);
    /// (times.median_ns, times.median_exact) = (Some(4.0), true);
    /// times.quantiles.push(Quantile::new(0.9, 8.0, true));
    /// let ns = |q| times.quantile(q).map(|quantile| quantile.ns);
    /// assert_eq!([0.0, 0.5, 0.9, 1.0].map(ns), [1.0, 4.0, 8.0, 9.0].map(Some));
    /// assert_eq!(ns(0.95), None);
    /// ```
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<Quantile> {
        let exact = |ns: u64| Some(Quantile::new(q, ns as f64, true)).filter(|_| self.instances > 0);
        match q {
            0.0 => exact(self.min_ns),
            1.0 => exact(self.max_ns),
            0.5 => self.median_ns.map(|ns| Quantile::new(q, ns, self.median_exact)),
            _ => self.quantiles.iter().find(|quantile| (quantile.q - q).abs() < 1e-9).copied(),
        }
    }
}

figures! {
    /// A duration that a part of all instances took at most.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct Quantile {
        /// The part, from 0 to 1: 0.9 for the 90th percentile.
        #[serde(serialize_with = "finite::or_zero")]
        q: f64;
        /// The duration, in nanoseconds.
        #[serde(serialize_with = "finite::or_zero")]
        ns: f64;
        /// Whether it comes from every single duration. Otherwise it comes from a histogram, with a relative error
        /// below 0.2 %.
        exact: bool;
    }
}

impl Quantile {
    /// This duration for this part.
    #[must_use]
    pub const fn new(q: f64, ns: f64, exact: bool) -> Self {
        Self { q, ns, exact }
    }
}

impl Times {
    /// This number of instances with this sum; nothing else is known.
    #[must_use]
    pub fn new(instances: u64, total_ns: u64) -> Self {
        Self { instances, total_ns, ..Self::default() }
    }
}
