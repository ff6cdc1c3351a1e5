//! Figures of durations.

use super::{HISTOGRAM_SCALE, Quantile, Times, histogram_bucket};
use crate::stats::histogram::middle_of;
use crate::stats::{Between, Distribution, Lean, order};

/// Quantiles that are always kept, beside the median.
const ALWAYS: [f64; 2] = [0.9, 0.99];

/// The unit of measured durations.
pub trait DurationUnit {
    /// Nanoseconds of so many units.
    fn ns(&self, units: u128) -> u64;
    /// Nanoseconds of one.
    fn factor(&self) -> f64;
}

/// Durations in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Nanoseconds;

impl DurationUnit for Nanoseconds {
    fn ns(&self, units: u128) -> u64 {
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    fn factor(&self) -> f64 {
        1.0
    }
}

impl Quantile {
    /// These quantiles of a distribution; none if its durations are not known.
    #[must_use]
    #[inline(never)]
    pub fn measured(distribution: &Distribution, unit: &dyn DurationUnit, asked: &[f64]) -> Vec<Self> {
        let ns = |units: u64| unit.ns(u128::from(units)) as f64;
        let found = distribution.quantiles(asked).unwrap_or_default();
        let quantiles = asked.iter().zip(found).map(|(&q, Between { lower, upper, way, exact })| {
            Self::new(q, ns(lower) + (ns(upper) - ns(lower)) * way, exact)
        });
        quantiles.in_vec()
    }
}

impl Times {
    /// The figures of a distribution: `asked` are quantiles beside the median and those that are always kept.
    #[must_use]
    #[inline(never)]
    pub fn measured(distribution: &Distribution, unit: &dyn DurationUnit, asked: &[f64]) -> Self {
        let mut kept = [&ALWAYS[..], asked].concat();
        kept.retain(|&q| q != 0.5); // the median has a field of its own
        order::numbers(&mut kept);
        let median = distribution.median();
        let mut times = Self::new(distribution.count, unit.ns(distribution.total));
        times.min_ns = unit.ns(u128::from(distribution.min));
        times.max_ns = unit.ns(u128::from(distribution.max));
        // Each of the two middle durations is a whole number of nanoseconds, so their mean ends in .0 or .5.
        times.median_ns = median.map(|median| {
            (u128::from(unit.ns(u128::from(median.lower))) + u128::from(unit.ns(u128::from(median.upper)))) as f64 / 2.0
        });
        times.median_exact = median.is_none_or(|median| median.exact);
        times.stddev_ns = distribution.stddev() * unit.factor();
        times.quantiles = Quantile::measured(distribution, unit, &kept);
        if median.is_some() {
            times.histogram = histogram(distribution, unit);
        }
        times
    }
}

/// How many durations there are of about each length; see [`Times::histogram`].
#[inline(never)]
fn histogram(distribution: &Distribution, unit: &dyn DurationUnit) -> Vec<(u32, u64)> {
    let mut counts = [0_u64; 64 * HISTOGRAM_SCALE as usize + 1];
    let single = distribution.samples.iter().map(|&duration| (duration, 1));
    let middles = distribution.buckets.iter().map(|((octave, bucket), count)| (middle_of(octave, bucket), count));
    for (duration, count) in single.chain(middles) {
        if let Some(sum) = counts.get_mut(histogram_bucket(unit.ns(u128::from(duration))) as usize) {
            *sum += count;
        }
    }
    (0..).zip(counts).filter(|(_, count)| *count > 0).in_vec()
}
