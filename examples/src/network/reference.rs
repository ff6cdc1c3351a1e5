//! Convolution and batch normalisation straight from their definitions, in `f64`: slow, and easy to believe.

use super::conv::{BatchNorm, Filters};
use super::tensor::{Shape, Tensor};

/// The result of [`Conv2d`](super::conv::Conv2d), from the definition.
pub fn convolve(filters: &Filters, input: &Tensor) -> Tensor {
    let shape = filters.output_shape(input.shape());
    let mut numbers = Vec::with_capacity(shape.elements());
    for image in 0..shape.images {
        for channel in 0..shape.channels {
            for y in 0..shape.height {
                for x in 0..shape.width {
                    numbers.push(output_pixel(filters, input.shape(), input.image(image), channel, y, x));
                }
            }
        }
    }
    Tensor::new(shape, numbers)
}

fn output_pixel(filters: &Filters, input: Shape, image: &[f32], channel: usize, y: usize, x: usize) -> f32 {
    let Filters { in_channels, size, stride, padding, .. } = *filters;
    let mut sum = f64::from(filters.bias[channel]);
    for in_channel in 0..in_channels {
        for ky in 0..size {
            for kx in 0..size {
                let (row, column) = (y * stride + ky, x * stride + kx);
                let inside = (padding..padding + input.height).contains(&row)
                    && (padding..padding + input.width).contains(&column);
                if inside {
                    let pixel = (in_channel * input.height + row - padding) * input.width + column - padding;
                    let weight = ((channel * in_channels + in_channel) * size + ky) * size + kx;
                    sum += f64::from(image[pixel]) * f64::from(filters.weights[weight]);
                }
            }
        }
    }
    sum as f32
}

/// Batch normalisation with the statistics of training.
pub fn normalise(norm: &BatchNorm, input: &Tensor) -> Tensor {
    let shape = input.shape();
    let mut output = input.clone();
    for (index, plane) in output.data_mut().chunks_exact_mut(shape.plane()).enumerate() {
        let channel = index % shape.channels;
        let deviation = f64::from(norm.variance[channel] + BatchNorm::EPSILON).sqrt();
        for value in plane {
            let normal = (f64::from(*value) - f64::from(norm.mean[channel])) / deviation;
            *value = (normal * f64::from(norm.gamma[channel]) + f64::from(norm.beta[channel])) as f32;
        }
    }
    output
}
