//! The computations of the examples: small neural networks, on the CPU or a GPU, the images that they classify, and
//! their random numbers; and the output.
//!
//! Nothing here is annotated. The spans and ranges are in `examples/*.rs`.

pub mod gpu;
pub mod images;
pub mod network;
pub mod sieve;

use std::ops::Range;

use fastrand::Rng;

/// A number in `range`: the same seed gives the same numbers on every machine and in every run.
pub fn uniform(random: &mut Rng, range: Range<f32>) -> f32 {
    range.start + (range.end - range.start) * random.f32()
}

/// `count` numbers in `range`.
pub fn uniform_vec(random: &mut Rng, count: usize, range: Range<f32>) -> Vec<f32> {
    (0..count).map(|_| uniform(random, range.clone())).collect()
}
