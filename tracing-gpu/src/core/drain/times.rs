//! Figures of durations, from ticks.

use range_model::stats::Distribution;
use range_model::summary::measured::DurationUnit;
use range_model::{Quantile, Times};

use crate::clock::Rate;

impl DurationUnit for Rate {
    fn ns(&self, ticks: u128) -> u64 {
        Self::ns(*self, ticks)
    }

    fn factor(&self) -> f64 {
        Self::factor(*self)
    }
}

/// The asked quantiles, in nanoseconds; empty if durations are not known.
pub(crate) fn quantiles(distribution: &Distribution, rate: Rate, asked: &[f64]) -> Vec<Quantile> {
    Quantile::measured(distribution, &rate, asked)
}

pub(crate) fn times(distribution: &Distribution, rate: Rate, asked: &[f64]) -> Times {
    Times::measured(distribution, &rate, asked)
}
