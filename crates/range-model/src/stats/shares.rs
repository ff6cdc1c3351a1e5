//! A time in parts, which add up to it.

use super::Lean;

/// The parts of a time by these weights; equal ones if no weight is above 0. They add up to the time.
pub fn parts(time: u64, weights: impl Iterator<Item = f64> + Clone) -> Vec<u64> {
    let all: f64 = weights.clone().sum();
    let is_weighted = all > 0.0 && all.is_finite();
    let all = if is_weighted { all } else { weights.clone().count() as f64 };
    let (mut sum, mut before) = (0.0, 0);
    let part = |weight: f64| {
        sum += if is_weighted { weight } else { 1.0 };
        // The last sum is `all`: the numbers were added in the same order.
        let until = ((time as f64 * (sum / all)).round() as u64).clamp(before, time);
        let part = until - before;
        before = until;
        part
    };
    weights.map(part).in_vec()
}
