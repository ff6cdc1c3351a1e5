//! Synthetic labelled photographs: 32 by 32 RGB images of ten classes, like CIFAR-10's.
//!
//! Every class has a pattern of its own; every image shows it with a different brightness and under noise.

use fastrand::Rng;

use crate::network::tensor::{Shape, Tensor};
use crate::{uniform, uniform_vec};

/// The classes.
pub const CLASSES: usize = 10;
/// Number of rows of an image, and of columns.
pub const SIDE: usize = 32;
/// Bytes in an image: three for each pixel.
pub const BYTES: usize = SIDE * SIDE * 3;

/// A pattern is made of squares of one colour, eight a side.
const SQUARES: usize = 8;

/// An image and its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelledImage {
    /// From 0 to [`CLASSES`].
    pub class: usize,
    /// [`BYTES`] bytes, NHWC.
    pub pixels: Vec<u8>,
}

/// Makes images: the same ones for the same seed.
#[derive(Debug, Clone)]
pub struct Camera {
    patterns: Vec<Vec<f32>>,
    random: Rng,
    noise: f32,
}

impl Camera {
    /// A camera whose pixels deviate by up to `noise` of 255.
    pub fn new(seed: u64, noise: f32) -> Self {
        // All cameras use the same patterns.
        let mut world = Rng::with_seed(0xc1fa_0010);
        let patterns = (0..CLASSES).map(|_| uniform_vec(&mut world, SQUARES * SQUARES * 3, 88.0..168.0)).collect();
        Self { patterns, random: Rng::with_seed(seed), noise }
    }

    /// The next image, of this class.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn photograph(&mut self, class: usize) -> LabelledImage {
        let light = uniform(&mut self.random, 0.8..1.2);
        let pixels = (0..BYTES).map(|byte| {
            let (y, x, channel) = (byte / 3 / SIDE, byte / 3 % SIDE, byte % 3);
            let square = y * SQUARES / SIDE * SQUARES + x * SQUARES / SIDE;
            let colour = self.patterns[class][square * 3 + channel];
            // `as` saturates, like a real sensor
            (colour * light + uniform(&mut self.random, -self.noise..self.noise)) as u8
        });
        LabelledImage { class, pixels: pixels.collect() }
    }
}

/// Shrinks RGB photographs, one below the other, `width` pixels wide: every square of `factor` by `factor` pixels
/// becomes one pixel of their mean colour.
///
/// # Panics
/// If the photographs do not consist of whole squares.
pub fn shrink(pixels: &[u8], width: usize, factor: usize) -> Vec<u8> {
    let (row, area) = (3 * width, factor * factor);
    assert!(
        width.is_multiple_of(factor) && pixels.len().is_multiple_of(row * factor),
        "{} bytes, {width} pixels wide",
        pixels.len()
    );
    let mut small = Vec::with_capacity(pixels.len() / area);
    let mut sums = vec![0_u32; row];
    for squares in pixels.chunks_exact(row * factor) {
        sums.fill(0);
        for row in squares.chunks_exact(row) {
            sums.iter_mut().zip(row).for_each(|(sum, &byte)| *sum += u32::from(byte));
        }
        for square in sums.chunks_exact(3 * factor) {
            let sum = |channel| square.iter().skip(channel).step_by(3).sum::<u32>();
            small.extend([0, 1, 2].map(|channel| (sum(channel) / area as u32) as u8));
        }
    }
    small
}

/// The network's input for one image.
///
/// # Panics
/// If there are not [`BYTES`] bytes.
pub fn to_tensor(pixels: &[u8]) -> Tensor {
    let shape = Shape { images: 1, channels: 3, height: SIDE, width: SIDE };
    Tensor::from_nhwc(shape, pixels, &[0.5; 3], &[0.25; 3])
}

#[cfg(test)]
mod tests {
    use super::{BYTES, Camera, shrink, to_tensor};

    #[test]
    fn images_depend_on_the_seed_alone() {
        let shoot = |seed| Camera::new(seed, 40.0).photograph(3);
        assert_eq!(shoot(1), shoot(1));
        assert_ne!(shoot(1), shoot(2));
        assert_eq!(shoot(1).pixels.len(), BYTES);
    }

    #[test]
    fn a_square_shrinks_to_its_mean_colour() {
        // Two squares beside each other, and two photographs with the height of one square.
        let above = [[10, 0, 255], [20, 1, 255], [7, 0, 0], [7, 0, 1]];
        let below = [[30, 2, 255], [40, 4, 255], [7, 0, 2], [7, 0, 6]];
        let pixels = [above, below, below, below].concat().concat();
        assert_eq!(shrink(&pixels, 4, 2), [[25, 1, 255], [7, 0, 2], [35, 3, 255], [7, 0, 4]].concat());
        assert_eq!(shrink(&pixels, 4, 1), pixels);
    }

    #[test]
    fn without_noise_a_square_has_one_colour() {
        let image = to_tensor(&Camera::new(1, 0.0).photograph(0).pixels);
        let row = &image.image(0)[..8];
        assert!(row[..4].iter().all(|&value| value == row[0]));
        assert_ne!(row[3], row[4]);
    }
}
