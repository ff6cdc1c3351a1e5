//! Two-dimensional convolution as a matrix product.
//!
//! Eight output pixels, neighbours in one row, are computed at a time. Their input values form a panel with a row for
//! each (input channel, kernel row, kernel column). This is im2col for one panel at a time, which stays in the
//! first-level cache while all output channels are computed from it, four at a time.

use fastrand::Rng;

use super::tensor::{Shape, Tensor};
use crate::uniform_vec;

/// Output pixels computed together.
const LANES: usize = 8;
/// Output channels computed together. Four by eight sums fit the sixteen vector registers of any x86-64 or Arm.
const ROWS: usize = 4;

/// The filters of a convolution, in the order files store them: output channel, input channel, row, column.
#[derive(Debug, Clone, PartialEq)]
pub struct Filters {
    /// Channels of the result, and number of filters.
    pub out_channels: usize,
    /// Channels of the input, and of each filter.
    pub in_channels: usize,
    /// Rows, and columns, of a filter.
    pub size: usize,
    /// Input pixels from one output pixel to the next.
    pub stride: usize,
    /// Zeros around the input, on every side.
    pub padding: usize,
    /// `out_channels * in_channels * size * size` numbers.
    pub weights: Vec<f32>,
    /// One number an output channel.
    pub bias: Vec<f32>,
}

/// The learnt parameters of a batch normalisation, for each channel.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchNorm {
    /// The factor applied to the normalised value.
    pub gamma: Vec<f32>,
    /// The offset that is added afterwards.
    pub beta: Vec<f32>,
    /// The mean seen in training.
    pub mean: Vec<f32>,
    /// The variance seen in training.
    pub variance: Vec<f32>,
}

impl BatchNorm {
    /// Keeps the division valid for a channel that never varied.
    pub const EPSILON: f32 = 1e-5;
}

impl Filters {
    /// Untrained filters that keep the extent of the image and the variance of its values, with no bias.
    pub fn random(random: &mut Rng, in_channels: usize, out_channels: usize, size: usize) -> Self {
        let filter_len = in_channels * size * size;
        let bound = Self::random_bound(filter_len);
        let weights = uniform_vec(random, out_channels * filter_len, -bound..bound);
        Self { out_channels, in_channels, size, stride: 1, padding: size / 2, weights, bias: vec![0.0; out_channels] }
    }

    /// The bound of random weights: "Delving Deep into Rectifiers", He et al. 2015.
    pub fn random_bound(filter_len: usize) -> f32 {
        (6.0 / filter_len as f32).sqrt()
    }

    /// Numbers in one filter.
    pub fn filter_len(&self) -> usize {
        self.in_channels * self.size * self.size
    }

    /// The extent of the result for an input of extent `input`.
    ///
    /// # Panics
    /// If the channels differ or the padded input is smaller than a filter.
    pub fn output_shape(&self, input: Shape) -> Shape {
        assert_eq!(input.channels, self.in_channels, "input channels");
        let steps = |extent: usize| (extent + 2 * self.padding - self.size) / self.stride + 1;
        Shape { channels: self.out_channels, height: steps(input.height), width: steps(input.width), ..input }
    }

    /// One convolution that replaces this one and the batch normalisation after it.
    pub fn fold(mut self, norm: &BatchNorm) -> Self {
        let filter_len = self.filter_len();
        for (channel, filter) in self.weights.chunks_exact_mut(filter_len).enumerate() {
            let scale = norm.gamma[channel] / (norm.variance[channel] + BatchNorm::EPSILON).sqrt();
            filter.iter_mut().for_each(|weight| *weight *= scale);
            self.bias[channel] = (self.bias[channel] - norm.mean[channel]) * scale + norm.beta[channel];
        }
        self
    }
}

/// A convolution that is ready to run.
#[derive(Debug, Clone)]
pub struct Conv2d {
    filters: Filters,
    /// The filters in the layout of [`multiply`]: for every four output channels, the four weights of each panel row.
    packed: Vec<[f32; ROWS]>,
}

impl Conv2d {
    /// Packs `filters` for the matrix product.
    ///
    /// # Panics
    /// If the number of weights or biases does not match the other fields.
    pub fn new(filters: Filters) -> Self {
        assert_eq!(filters.weights.len(), filters.out_channels * filters.filter_len(), "weights");
        assert_eq!(filters.bias.len(), filters.out_channels, "biases");
        let filter_len = filters.filter_len();
        let mut packed = vec![[0.0; ROWS]; filters.out_channels.div_ceil(ROWS) * filter_len];
        for (channel, filter) in filters.weights.chunks_exact(filter_len).enumerate() {
            let group = &mut packed[channel / ROWS * filter_len..][..filter_len];
            for (weights, &weight) in group.iter_mut().zip(filter) {
                weights[channel % ROWS] = weight;
            }
        }
        Self { filters, packed }
    }

    /// The filters that were passed to `new`.
    pub fn filters(&self) -> &Filters {
        &self.filters
    }

    /// Convolves every image of `input`.
    pub fn forward(&self, input: &Tensor) -> Tensor {
        let shape = self.filters.output_shape(input.shape());
        let mut output = Tensor::zeros(shape);
        let mut panel = vec![[0.0; LANES]; self.filters.filter_len()];
        for image in 0..shape.images {
            let target = output.image_mut(image);
            for y in 0..shape.height {
                for x in (0..shape.width).step_by(LANES) {
                    self.gather(input, image, (y, x), &mut panel);
                    let pixels = y * shape.width + x..y * shape.width + shape.width.min(x + LANES);
                    for (group, weights) in self.packed.chunks_exact(panel.len()).enumerate() {
                        let sums = multiply(&panel, weights);
                        let planes = target.chunks_exact_mut(shape.plane()).enumerate().skip(group * ROWS);
                        for ((channel, plane), sums) in planes.zip(&sums) {
                            for (value, sum) in plane[pixels.clone()].iter_mut().zip(sums) {
                                *value = sum + self.filters.bias[channel];
                            }
                        }
                    }
                }
            }
        }
        output
    }

    /// Fills `panel` with the input values of the eight output pixels that start at row `y`, column `x`; zeros outside.
    fn gather(&self, input: &Tensor, image: usize, (y, x): (usize, usize), panel: &mut [[f32; LANES]]) {
        let Filters { size, stride, padding, .. } = self.filters;
        let Shape { height, width, .. } = input.shape();
        let planes = input.image(image).chunks_exact(input.shape().plane());
        for (plane, panel) in planes.zip(panel.chunks_exact_mut(size * size)) {
            for (ky, panel) in panel.chunks_exact_mut(size).enumerate() {
                // Left of the image and above it the subtraction wraps to a number that is outside as well.
                let source = (y * stride + ky).wrapping_sub(padding);
                if source >= height {
                    panel.fill([0.0; LANES]);
                    continue;
                }
                let row = &plane[source * width..][..width];
                for (kx, pixels) in panel.iter_mut().enumerate() {
                    let first = (x * stride + kx).wrapping_sub(padding);
                    if stride == 1 && first < width && first + LANES <= width {
                        pixels.copy_from_slice(&row[first..first + LANES]);
                    } else {
                        for (lane, pixel) in pixels.iter_mut().enumerate() {
                            *pixel = row.get(first.wrapping_add(lane * stride)).copied().unwrap_or(0.0);
                        }
                    }
                }
            }
        }
    }
}

/// The products of four filters with eight pixels. The compiler keeps the thirty-two sums in vector registers.
fn multiply(panel: &[[f32; LANES]], weights: &[[f32; ROWS]]) -> [[f32; LANES]; ROWS] {
    let mut sums = [[0.0; LANES]; ROWS];
    for (pixels, weights) in panel.iter().zip(weights) {
        for (sums, weight) in sums.iter_mut().zip(weights) {
            for (sum, pixel) in sums.iter_mut().zip(pixels) {
                *sum += weight * pixel;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::{BatchNorm, Conv2d, Filters};
    use crate::network::reference;
    use crate::network::tensor::{Shape, Tensor};
    use crate::uniform_vec;

    fn filters(out_channels: usize, in_channels: usize, size: usize, stride: usize, padding: usize) -> Filters {
        let mut random = Rng::with_seed(7);
        let weights = uniform_vec(&mut random, out_channels * in_channels * size * size, -1.0..1.0);
        let bias = uniform_vec(&mut random, out_channels, -1.0..1.0);
        Filters { out_channels, in_channels, size, stride, padding, weights, bias }
    }

    fn images(images: usize, channels: usize, height: usize, width: usize) -> Tensor {
        let shape = Shape { images, channels, height, width };
        Tensor::new(shape, uniform_vec(&mut Rng::with_seed(11), shape.elements(), -1.0..1.0))
    }

    #[test]
    fn it_equals_the_reference_for_every_geometry() {
        for (size, stride, padding) in [(1, 1, 0), (1, 2, 0), (3, 1, 1), (3, 2, 1), (5, 1, 2), (5, 3, 0), (7, 2, 3)] {
            for (in_channels, out_channels) in [(1, 1), (3, 4), (5, 6)] {
                for (height, width) in [(7, 7), (8, 8), (9, 17), (16, 10)] {
                    let filters = filters(out_channels, in_channels, size, stride, padding);
                    let input = images(2, in_channels, height, width);
                    let expected = reference::convolve(&filters, &input);
                    let difference = Conv2d::new(filters).forward(&input).relative_difference(&expected);
                    assert!(difference < 1e-5, "{difference} with {size}/{stride}/{padding} on {height}x{width}");
                }
            }
        }
    }

    #[test]
    fn a_known_convolution_gives_known_numbers() {
        let edge = Filters {
            out_channels: 1,
            in_channels: 1,
            size: 3,
            stride: 1,
            padding: 1,
            weights: vec![0.0, 0.0, 0.0, -1.0, 0.0, 1.0, 0.0, 0.0, 0.0],
            bias: vec![10.0],
        };
        let shape = Shape { images: 1, channels: 1, height: 1, width: 4 };
        let output = Conv2d::new(edge).forward(&Tensor::new(shape, vec![1.0, 2.0, 4.0, 8.0]));
        assert_eq!(output.data(), [12.0, 13.0, 16.0, 6.0]);
    }

    #[test]
    fn folding_a_batch_norm_changes_nothing() {
        let mut random = Rng::with_seed(5);
        let norm = BatchNorm {
            gamma: uniform_vec(&mut random, 6, 0.5..1.5),
            beta: uniform_vec(&mut random, 6, -0.5..0.5),
            mean: uniform_vec(&mut random, 6, -0.5..0.5),
            variance: uniform_vec(&mut random, 6, 0.5..2.0),
        };
        let (filters, input) = (filters(6, 3, 3, 1, 1), images(1, 3, 9, 9));
        let expected = reference::normalise(&norm, &reference::convolve(&filters, &input));
        let difference = Conv2d::new(filters.fold(&norm)).forward(&input).relative_difference(&expected);
        assert!(difference < 1e-5, "{difference}");
    }
}
