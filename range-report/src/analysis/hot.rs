//! Where most of a sum is: the few rows that make most of it.

#[cfg(feature = "html")]
use std::cmp::Reverse;
#[cfg(feature = "html")]
use std::collections::BTreeMap;

#[cfg(feature = "html")]
use crate::stats::order;

/// How many of the first of these make `share` of their sum: at least one.
pub(crate) fn enough(totals: &[u64], share: f64) -> usize {
    let base: u128 = totals.iter().map(|&ns| u128::from(ns)).sum();
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
#[cfg(feature = "html")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hot {
    pub(crate) names: Vec<(String, u64)>,
    pub(crate) others: usize,
    pub(crate) others_ns: u128,
    pub(crate) whole_ns: u128,
}

/// Up to `most` names, by the sums of theirs, the largest first; equal ones by name.
#[cfg(feature = "html")]
pub(crate) fn hottest(parts: impl Iterator<Item = (String, u64)>, most: usize) -> Hot {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (name, ns) in parts {
        let sum = sums.entry(name).or_default();
        *sum = sum.saturating_add(ns);
    }
    let mut names: Vec<(String, u64)> = sums.into_iter().filter(|(_, ns)| *ns > 0).collect();
    order::by_key(&mut names, |(_, ns)| Reverse(*ns)); // stable
    let whole_ns = names.iter().map(|(_, ns)| u128::from(*ns)).sum();
    let rest = names.split_off(most.min(names.len()));
    let others_ns = rest.iter().map(|(_, ns)| u128::from(*ns)).sum();
    Hot { names, others: rest.len(), others_ns, whole_ns }
}
