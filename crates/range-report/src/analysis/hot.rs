//! Where most of a sum is: the few rows that make most of it.

#[cfg(feature = "page")]
use std::cmp::Reverse;
#[cfg(feature = "page")]
use std::collections::BTreeMap;

use range_model::stats::Lean;
#[cfg(feature = "page")]
use range_model::stats::order;

/// How many of the first of these make `share` of their sum: at least one.
pub(crate) fn enough(totals: &[u64], share: f64) -> usize {
    let base: u128 = totals.iter().copied().total();
    let wanted = share * base as f64;
    let mut sum = 0_u128;
    for (index, &ns) in totals.iter().enumerate() {
        sum += u128::from(ns);
        if sum == base || sum as f64 >= wanted {
            return index + 1;
        }
    }
    totals.len()
}

/// The names with the most of something, and what the others have together.
#[cfg(feature = "page")]
#[derive(Debug, serde::Serialize)]
#[doc(hidden)] // for the crate range-page
pub struct Hot {
    /// Each with the time that it ran, and that it waited where that counts.
    pub names: Vec<(String, [u64; 2])>,
    pub others: usize,
    pub others_ns: u128,
    /// What shares are of.
    pub whole_ns: u128,
}

/// Up to `most` names, by the sums of their times, the largest first; equal ones by name.
#[cfg(feature = "page")]
pub fn hottest(parts: impl Iterator<Item = (String, [u64; 2])>, most: usize) -> Hot {
    let mut sums: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    for (name, parts) in parts {
        let times = sums.entry(name).or_default();
        times.iter_mut().zip(parts).for_each(|(sum, ns)| *sum = sum.saturating_add(ns));
    }
    let sum = |(_, [ran, waited]): &(String, [u64; 2])| u128::from(*ran) + u128::from(*waited);
    let mut names: Vec<_> = sums.into_iter().filter(|name| sum(name) > 0).collect();
    order::by_key(&mut names, |name| Reverse(sum(name))); // stable
    let whole_ns = names.iter().map(sum).sum();
    let rest = names.split_off(most.min(names.len()));
    Hot { names, others: rest.len(), others_ns: rest.iter().map(sum).sum(), whole_ns }
}
