//! Executions that wait until it is known which of the start/end ranges around them count: one that ends on another thread than it began on does not.
//!
//! What counts an execution once, however many ranges are around it, waits for all of these: the executions of a row, which are those in at least one instance of
//! its range; and the row of no range, whose executions are in none.

use std::collections::BTreeMap;

use super::kernels::Key;
use range_report::stats::Distribution;

/// Executions that have the same ranges around them.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    pub(super) executions: u64,
    /// For the row of no range only.
    pub(super) times: Distribution,
}

/// All that wait, by the slots of the ranges that may still count, and by row.
///
/// Of those around a launch the undecided ones are still open. So for one thread a set is all that began before some launch, and there are no more sets than open
/// ranges (for each, one of its own name and one of all names).
#[derive(Debug, Default)]
pub(super) struct Undecided(BTreeMap<Vec<u32>, BTreeMap<Key, Waiting>>);

impl Undecided {
    /// One more execution in these ranges, with those that wait for the same: they are in the row of a range if any of these counts, in that of no range if none does.
    pub(super) fn wait(&mut self, mut slots: Vec<u32>, key: Key) -> &mut Waiting {
        slots.sort_unstable();
        let waiting = self.0.entry(slots).or_default().entry(key).or_default();
        waiting.executions += 1;
        waiting
    }

    /// A range counts, or does not: what waits no longer. If it counts, that is in the rows of ranges, and in that of no range if not.
    pub(super) fn decide(&mut self, slot: u32, counts: bool) -> Vec<(Key, Waiting)> {
        let sets: Vec<Vec<u32>> = self.0.keys().filter(|set| set.contains(&slot)).cloned().collect();
        let mut decided = Vec::new();
        for set in sets {
            let waiting = self.0.remove(&set).unwrap_or_default();
            let rest: Vec<u32> = set.into_iter().filter(|&other| other != slot).collect();
            for (key, waiting) in waiting {
                if !counts && !rest.is_empty() {
                    let merged = self.0.entry(rest.clone()).or_default().entry(key).or_default();
                    merged.executions += waiting.executions;
                    merged.times.merge(&waiting.times);
                } else {
                    decided.push((key, waiting));
                }
            }
        }
        decided
    }

    /// Executions of rows of ranges, as if all ranges counted.
    pub(super) fn all(&self) -> impl Iterator<Item = (Key, u64)> {
        let all = self.0.values().flatten().filter(|(key, _)| key.1.is_some());
        all.map(|(&key, waiting)| (key, waiting.executions))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
