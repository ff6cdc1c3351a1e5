//! Figures of durations, from ticks.

use range_model::stats::histogram::middle_of;
use range_model::stats::{Between, Distribution, Lean, order};
use range_model::summary::{HISTOGRAM_SCALE, histogram_bucket};
use range_model::{Quantile, Times};

use crate::clock::Rate;

/// Quantiles that are always kept, beside the median.
pub(super) const ALWAYS: [f64; 2] = [0.9, 0.99];

/// The asked quantiles, in nanoseconds; empty if durations are not known.
#[inline(never)]
pub(super) fn quantiles(distribution: &Distribution, rate: Rate, asked: &[f64]) -> Vec<Quantile> {
    let ns = |ticks: u64| rate.ns(u128::from(ticks)) as f64;
    let found = distribution.quantiles(asked).unwrap_or_default();
    let quantiles = asked.iter().zip(found).map(|(&q, Between { lower, upper, way, exact })| {
        Quantile::new(q, ns(lower) + (ns(upper) - ns(lower)) * way, exact)
    });
    quantiles.in_vec()
}

#[inline(never)]
pub(super) fn times(distribution: &Distribution, rate: Rate, asked: &[f64]) -> Times {
    let mut kept = [&ALWAYS[..], asked].concat();
    kept.retain(|&q| q != 0.5); // the median has a field of its own
    order::numbers(&mut kept);
    let median = distribution.median();
    let mut times = Times::new(distribution.count, rate.ns(distribution.total));
    times.min_ns = rate.ns(u128::from(distribution.min));
    times.max_ns = rate.ns(u128::from(distribution.max));
    // Each of the two middle durations is a whole number of nanoseconds, so their mean ends in .0 or .5.
    times.median_ns = median.map(|median| {
        (u128::from(rate.ns(u128::from(median.lower))) + u128::from(rate.ns(u128::from(median.upper)))) as f64 / 2.0
    });
    times.median_exact = median.is_none_or(|median| median.exact);
    times.stddev_ns = distribution.stddev() * rate.factor();
    times.quantiles = quantiles(distribution, rate, &kept);
    if median.is_some() {
        times.histogram = histogram(distribution, rate);
    }
    times
}

/// How many durations there are of about each length; see [`Times::histogram`].
#[inline(never)]
pub(super) fn histogram(distribution: &Distribution, rate: Rate) -> Vec<(u32, u64)> {
    let mut counts = [0_u64; 64 * HISTOGRAM_SCALE as usize + 1];
    let single = distribution.samples.iter().map(|&duration| (duration, 1));
    let middles = distribution.buckets.iter().map(|((octave, bucket), count)| (middle_of(octave, bucket), count));
    for (duration, count) in single.chain(middles) {
        if let Some(sum) = counts.get_mut(histogram_bucket(rate.ns(u128::from(duration))) as usize) {
            *sum += count;
        }
    }
    (0..).zip(counts).filter(|(_, count)| *count > 0).in_vec()
}
