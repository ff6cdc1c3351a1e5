//! The durations of one row: exact sums, and a median that is exact as long as every duration was kept.

use super::histogram::{bucket_of, middle_of};
use crate::stats::Lean;

/// Durations of one range on any number of threads, in the unit of the added values.
///
/// `merge` is associative and does not depend on order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Distribution {
    /// How many durations there are.
    pub count: u64,
    /// Their sum.
    pub total: u128,
    /// The shortest, 0 if there is none.
    pub min: u64,
    /// The longest.
    pub max: u64,
    /// Sum of the squares; saturates at `u128::MAX`.
    pub squares: u128,
    /// Single durations.
    pub samples: Vec<u64>,
    /// Counts of the other durations by (octave, bucket).
    pub buckets: Buckets,
}

/// Counts of durations, in order of their buckets: few enough for a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets(Vec<((usize, usize), u64)>);

impl Buckets {
    /// Adds this many durations to a bucket, which is an octave and a part of it.
    #[inline(never)]
    pub fn add(&mut self, bucket: (usize, usize), count: u64) {
        match self.0.binary_search_by(|(known, _)| known.cmp(&bucket)) {
            Ok(place) => self.0[place].1 += count,
            Err(place) => self.0.insert(place, (bucket, count)),
        }
    }

    /// Whether no duration is counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The durations of all buckets.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.iter().map(|(_, count)| count).sum()
    }

    /// What was counted since these counts.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = Self::default();
        for &(bucket, count) in &self.0 {
            let place = before.0.binary_search_by(|(known, _)| known.cmp(&bucket));
            let count = count.saturating_sub(place.map_or(0, |place| before.0[place].1));
            if count > 0 {
                since.0.push((bucket, count));
            }
        }
        since
    }

    /// Takes so many out of the fullest buckets.
    fn take(&mut self, mut count: u64) {
        while let Some((_, fullest)) = self.0.iter_mut().largest_by(|(_, count)| *count).filter(|_| count > 0) {
            let taken = count.min(*fullest);
            (*fullest, count) = (*fullest - taken, count - taken);
            self.0.retain(|(_, count)| *count > 0);
        }
    }

    /// The buckets and their counts, in the order of the buckets.
    pub fn iter(&self) -> impl Iterator<Item = ((usize, usize), u64)> {
        self.0.iter().copied()
    }
}

/// The middle of a distribution: the mean of two durations, which are equal if the count is odd.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The lower of the two in the middle.
    pub lower: u64,
    /// The upper of the two in the middle.
    pub upper: u64,
    /// Whether it comes from every single duration.
    pub exact: bool,
}

/// The position of a quantile between two durations, which are equal if the quantile is one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Between {
    /// The duration below.
    pub lower: u64,
    /// The duration above.
    pub upper: u64,
    /// The position between `lower` and `upper`, from 0 to 1.
    pub way: f64,
    /// Whether it comes from every single duration.
    pub exact: bool,
}

impl Distribution {
    /// These durations, all kept as single ones.
    #[must_use]
    pub fn of(durations: impl IntoIterator<Item = u64>) -> Self {
        let mut all = Self::default();
        for duration in durations {
            all.add(duration, |_| true);
        }
        all
    }

    /// Adds one duration. Given the number of single durations so far, `keep` decides whether this one is kept, too, or
    /// counted in its bucket.
    pub fn add(&mut self, duration: u64, keep: impl FnOnce(u64) -> bool) {
        self.min = if self.count == 0 { duration } else { self.min.min(duration) };
        self.max = self.max.max(duration);
        self.count += 1;
        self.total += u128::from(duration);
        self.squares = self.squares.saturating_add(u128::from(duration) * u128::from(duration));
        if self.buckets.is_empty() && keep(self.samples.len() as u64) {
            self.samples.push(duration);
        } else {
            self.buckets.add(bucket_of(duration), 1);
        }
    }

    /// Adds another thread's durations.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.total += other.total;
        self.squares = self.squares.saturating_add(other.squares);
        self.samples.extend_from_slice(&other.samples);
        for (bucket, count) in other.buckets.iter() {
            self.buckets.add(bucket, count);
        }
    }

    /// Adds durations that were measured separately. Keeps single durations only as [`add`](Self::add) does.
    pub fn take_over(&mut self, mut other: Self, keep: impl Fn(u64) -> bool) {
        let kept = if self.buckets.is_empty() {
            let room = |at: &usize| keep((self.samples.len() + at) as u64);
            (0..other.samples.len()).take_while(room).count()
        } else {
            0
        };
        for duration in other.samples.drain(kept..) {
            other.buckets.add(bucket_of(duration), 1);
        }
        self.merge(&other);
    }

    /// The durations that were added since `before`, an earlier state of these.
    ///
    /// Counts and sums are exact. So are the shortest and the longest, if they are single durations, or more extreme
    /// than all before; otherwise they are middles of buckets. If some durations are neither kept nor in a bucket, the
    /// extremes of all are bounds.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let count = self.count.saturating_sub(before.count);
        if count == 0 {
            return Self::default();
        }
        let mut since = Self {
            count,
            total: self.total.saturating_sub(before.total),
            min: self.min,
            max: self.max,
            squares: self.squares.saturating_sub(before.squares),
            samples: added(&self.samples, &before.samples),
            buckets: self.buckets.since(&before.buckets),
        };
        // A bucket may count durations already whose sums come later.
        let kept = since.samples.len() as u64 + since.buckets.sum();
        since.buckets.take(kept.saturating_sub(count));
        if since.missing() == 0 {
            let middles = || since.buckets.iter().map(|((octave, bucket), _)| middle_of(octave, bucket));
            let kept = || since.samples.iter().copied().chain(middles());
            let least = kept().min().filter(|_| before.count > 0 && self.min >= before.min);
            let most = kept().max().filter(|_| before.count > 0 && self.max <= before.max);
            let within = |found: u64| found.clamp(self.min, self.max);
            (since.min, since.max) = (least.map_or(self.min, within), most.map_or(self.max, within));
        }
        since
    }

    /// [`since`](Self::since), where only single durations that `before` lacks are kept here; `before` then has these
    /// sums and counts too. Nothing happens if this is the older of the two.
    #[must_use]
    pub fn since_mark(self, before: &mut Self) -> Self {
        let since = self.since(before);
        if since.count > 0 {
            for (bucket, count) in since.buckets.iter() {
                before.buckets.add(bucket, count);
            }
            let Self { count, total, min, max, squares, .. } = self;
            (before.count, before.total, before.squares) = (count, total, squares);
            (before.min, before.max) = (min, max);
        }
        since
    }

    /// Number of durations that are in neither the samples nor the histogram.
    fn missing(&self) -> u64 {
        let kept = self.samples.len() as u64 + self.buckets.sum();
        self.count.saturating_sub(kept)
    }

    /// The middle duration, or the mean of the two middle ones. `None` without durations, or if some were not kept.
    #[must_use]
    pub fn median(&self) -> Option<Median> {
        let middle = *self.quantiles(&[0.5])?.first()?;
        Some(Median { lower: middle.lower, upper: middle.upper, exact: middle.exact })
    }

    /// For each part from 0 to 1, the duration that this part of all took at most, with linear interpolation between
    /// durations. `None` without durations, or if some were not kept.
    #[must_use]
    pub fn quantiles(&self, parts: &[f64]) -> Option<Vec<Between>> {
        if self.count == 0 || self.missing() > 0 {
            return None;
        }
        let mut weighted: Vec<(u64, u64)> = self.samples.iter().map(|&sample| (sample, 1)).in_vec();
        weighted.extend(self.buckets.iter().map(|((octave, bucket), count)| (middle_of(octave, bucket), count)));
        weighted.sort_unstable();
        let mut counted = 0;
        for (_, count) in &mut weighted {
            counted += *count;
            *count = counted;
        }
        let at = |rank: u64| {
            let (value, _) = weighted.get(weighted.partition_point(|(_, counted)| *counted <= rank))?;
            Some((*value).clamp(self.min, self.max))
        };
        let last = self.count - 1;
        let between = |&part: &f64| {
            let rank = last as f64 * part.clamp(0.0, 1.0);
            let (lower, upper) = ((rank.floor() as u64).min(last), (rank.ceil() as u64).min(last));
            Some(Between { lower: at(lower)?, upper: at(upper)?, way: rank.fract(), exact: self.buckets.is_empty() })
        };
        parts.iter().map(between).collect()
    }

    /// Sample standard deviation (divisor n - 1); 0 for fewer than two durations.
    #[must_use]
    pub fn stddev(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let n = u128::from(self.count);
        // n * sum(d^2) - sum(d)^2, exact if it fits 128 bits, as it does up to 10^9 durations of 1 s.
        let spread = match (n.checked_mul(self.squares), self.total.checked_mul(self.total)) {
            (Some(scaled), Some(square)) => scaled.saturating_sub(square) as f64,
            _ => (n as f64 * self.squares as f64 - self.total as f64 * self.total as f64).max(0.0),
        };
        (spread / (n as f64 * (n - 1) as f64)).sqrt()
    }
}

/// The numbers that are more than those before, which mostly are the first ones.
fn added(all: &[u64], before: &[u64]) -> Vec<u64> {
    if let Some(more) = all.strip_prefix(before) {
        return more.to_vec();
    }
    let [mut all, mut before] = [all, before].map(<[u64]>::to_vec);
    all.sort_unstable();
    before.sort_unstable();
    let mut before = before.into_iter().peekable();
    all.retain(|number| {
        while before.next_if(|known| known < number).is_some() {}
        before.next_if_eq(number).is_none()
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sorted(mut distribution: Distribution) -> Distribution {
        distribution.samples.sort_unstable();
        distribution
    }

    proptest! {
        #[test]
        fn merging_is_associative_and_order_free(
            parts in prop::collection::vec(prop::collection::vec(0u64..1 << 40, 0..8), 3),
        ) {
            let [a, b, c] = [0, 1, 2].map(|i| Distribution::of(parts[i].iter().copied()));
            let join = |x: &Distribution, y: &Distribution| { let mut z = x.clone(); z.merge(y); z };
            let left = sorted(join(&join(&a, &b), &c));
            prop_assert_eq!(&left, &sorted(join(&a, &join(&b, &c))));
            prop_assert_eq!(&left, &sorted(join(&c, &join(&b, &a))));
            prop_assert_eq!(&left, &sorted(Distribution::of(parts.concat())));
        }

        #[test]
        fn figures_match_the_textbook(durations in prop::collection::vec(0u64..1 << 40, 1..60)) {
            let all = Distribution::of(durations.iter().copied());
            let mut ordered = durations.clone();
            ordered.sort_unstable();
            let n = ordered.len();
            let middle = Median { lower: ordered[(n - 1) / 2], upper: ordered[n / 2], exact: true };
            prop_assert_eq!(all.median(), Some(middle));
            prop_assert_eq!((all.min, all.max), (ordered[0], ordered[n - 1]));
            for part in [0.0, 0.25, 0.9, 0.99, 1.0] {
                let (place, found) = ((n - 1) as f64 * part, all.quantiles(&[part]).unwrap()[0]);
                let (lower, upper) = (ordered[place.floor() as usize], ordered[place.ceil() as usize]);
                prop_assert_eq!((found.lower, found.upper), (lower, upper));
                prop_assert_eq!((found.way, found.exact), (place.fract(), true));
            }
            let mean = ordered.iter().sum::<u64>() as f64 / n as f64;
            let variance = ordered.iter().map(|&d| (d as f64 - mean).powi(2)).sum::<f64>() / (n.max(2) - 1) as f64;
            prop_assert!((all.stddev() - variance.sqrt()).abs() <= 1e-6 * variance.sqrt() + 1e-3);
        }

        #[test]
        fn a_histogram_median_is_within_a_fifth_of_a_percent(
            durations in prop::collection::vec(1u64..1 << 40, 1..200), kept in 0usize..50,
        ) {
            let exact = Distribution::of(durations.iter().copied());
            let mut mixed = exact.clone();
            mixed.samples.truncate(kept);
            for &duration in durations.iter().skip(kept) {
                mixed.buckets.add(bucket_of(duration), 1);
            }
            let parts = [0.1, 0.9, 0.99];
            for (exact, mixed) in exact.quantiles(&parts).unwrap().iter().zip(mixed.quantiles(&parts).unwrap()) {
                for (mixed, exact) in [(mixed.lower, exact.lower), (mixed.upper, exact.upper)] {
                    prop_assert!((mixed as f64 / exact as f64 - 1.0).abs() < 0.002, "{mixed} against {exact}");
                }
            }
            let (exact, mixed) = (exact.median().unwrap(), mixed.median().unwrap());
            prop_assert!((mixed.lower as f64 / exact.lower as f64 - 1.0).abs() < 0.002, "{mixed:?} against {exact:?}");
            prop_assert!((mixed.upper as f64 / exact.upper as f64 - 1.0).abs() < 0.002, "{mixed:?} against {exact:?}");
        }
    }

    proptest! {
        #[test]
        fn parts_since_each_other_are_the_parts(
            parts in prop::collection::vec(prop::collection::vec(0u64..1 << 20, 0..9), 1..6), kept in 0u64..30,
        ) {
            let [mut all, mut before, mut mark] = [(); 3].map(|()| Distribution::default());
            for part in &parts {
                part.iter().for_each(|&duration| all.add(duration, |samples| samples < kept));
                let expected = Distribution::of(part.iter().copied());
                let since = all.since(&before);
                let (samples, known) = (since.samples.clone(), before.samples.len());
                prop_assert_eq!(&samples, &part[..samples.len()]);
                let new = Distribution { samples: all.samples[known..].to_vec(), ..all.clone() };
                prop_assert_eq!(&new.since_mark(&mut mark), &since);
                let Distribution { count, total, squares, .. } = since;
                prop_assert_eq!((count, total, squares), (expected.count, expected.total, expected.squares));
                prop_assert_eq!(samples.len() as u64 + since.buckets.sum(), count);
                let is_near = |found: u64, exact: u64| found.abs_diff(exact) as f64 <= exact as f64 * 0.001 + 1.0;
                prop_assert!(is_near(since.min, expected.min) && is_near(since.max, expected.max), "{:?}", since);
                let exact = since.buckets.is_empty();
                prop_assert!(!exact || (since.min, since.max) == (expected.min, expected.max));
                before = all.clone();
            }
        }
    }

    #[test]
    fn durations_in_another_order_are_the_same() {
        let [all, before] = [vec![5, 1, 5, 9, 2, 5], vec![9, 5, 1]].map(Distribution::of);
        assert_eq!(all.since(&before).samples, [2, 5, 5]);
    }

    #[test]
    fn a_bucket_that_is_ahead_of_the_sums_belongs_to_the_next_part() {
        let mut all = Distribution::default();
        (0..10).for_each(|_| all.add(5_000, |_| false));
        let mut ahead = all.clone();
        ahead.buckets.add(bucket_of(70), 2);
        let mut mark = Distribution::default();
        let first = ahead.clone().since_mark(&mut mark);
        assert_eq!((first.count, first.buckets.sum()), (10, 10));
        (all.count, all.total, all.min) = (12, 50_140, 70);
        all.buckets.add(bucket_of(70), 2);
        let second = all.clone().since_mark(&mut mark);
        assert_eq!((second.count, second.buckets.sum(), second.min), (2, 2, 70));
        assert!(second.median().is_some());
        let older = ahead.since_mark(&mut mark);
        assert_eq!((older, mark.count), (Distribution::default(), 12));
    }

    #[test]
    fn a_median_is_unknown_when_durations_were_not_kept() {
        let mut all = Distribution::of([1, 2, 3]);
        all.samples.pop();
        assert_eq!(all.median(), None);
        assert_eq!(Distribution::default().median(), None);
    }

    #[test]
    fn large_sums_do_not_overflow() {
        let mut all = Distribution::of([u64::MAX, u64::MAX]);
        all.merge(&all.clone());
        assert_eq!(all.total, u128::from(u64::MAX) * 4);
        assert!(all.stddev().is_finite());
    }
}
