//! What the examples compute: small neural networks, on the CPU or a GPU, the images they classify, and the numbers all
//! of it starts from; and where they print.
//!
//! Nothing here is annotated. The spans and ranges are in `examples/*.rs`, where they are the subject.

pub mod gpu;
pub mod images;
pub mod network;
pub mod sieve;

use std::ops::Range;

use fastrand::Rng;

/// A number of `range`: with the same seed the same ones on every machine and in every run.
pub fn uniform(random: &mut Rng, range: Range<f32>) -> f32 {
    range.start + (range.end - range.start) * random.f32()
}

/// `count` numbers of `range`.
pub fn uniform_vec(random: &mut Rng, count: usize, range: Range<f32>) -> Vec<f32> {
    (0..count).map(|_| uniform(random, range.clone())).collect()
}
