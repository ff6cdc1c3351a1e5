//! The GPU time of batches, divided among the calls that they serve.

use range_model::stats::{Keyed, Lean};
use range_model::timeline::Link;

use range_model::stats::parts;

/// The batches that may still launch, by their calls.
#[derive(Debug, Default)]
pub(super) struct Batches(Keyed<u64, Batch>);

#[derive(Debug, Default)]
struct Batch {
    /// The calls that it serves, and the weight of each.
    served: Vec<(u64, f64)>,
    /// Durations of its operations that are not divided yet.
    on_gpu: u64,
}

impl Batches {
    pub(super) fn link(&mut self, link: &Link) {
        let served = &mut self.0.row(link.batch).served;
        if served.iter().all(|(call, _)| *call != link.served) {
            served.push((link.served, link.weight));
        }
    }

    /// Adds the duration of an operation to the batches among the calls around its launch.
    pub(super) fn launched(&mut self, duration: u64, around: impl Iterator<Item = u64>) {
        if self.0.is_empty() {
            return;
        }
        for call in around {
            if let Some(batch) = self.0.get_mut(&call) {
                batch.on_gpu = batch.on_gpu.saturating_add(duration);
            }
        }
    }

    /// Divides the GPU time of the batches that are over: calls `give` with each call that one serves, and its share.
    pub(super) fn divide(&mut self, is_over: impl Fn(u64) -> bool, mut give: impl FnMut(u64, u64)) {
        for (call, batch) in self.0.iter_mut().filter(|(_, batch)| batch.on_gpu > 0) {
            if is_over(*call) {
                let shares = parts(std::mem::take(&mut batch.on_gpu), batch.served.iter().map(|(_, weight)| *weight));
                batch.served.iter().zip(shares).for_each(|((served, _), share)| give(*served, share));
            }
        }
    }

    /// Forgets the older half of the batches, if there are more than so many.
    pub(super) fn forget(&mut self, most: usize) {
        if self.0.len() > most {
            let mut numbers: Vec<u64> = self.0.keys().copied().in_vec();
            let middle = numbers.len() / 2;
            let oldest = *numbers.select_nth_unstable(middle).1;
            self.0.retain(|call, batch| *call > oldest || batch.on_gpu > 0);
        }
    }
}
