//! The operations between and after the convolutions.

use super::tensor::{Shape, Tensor};

/// Replaces every negative number by zero.
pub fn relu(input: &mut Tensor) {
    for value in input.data_mut() {
        *value = value.max(0.0);
    }
}

/// Adds `other` to `input`, number by number.
///
/// # Panics
/// If the extents differ.
pub fn add(input: &mut Tensor, other: &Tensor) {
    assert_eq!(input.shape(), other.shape());
    for (value, other) in input.data_mut().iter_mut().zip(other.data()) {
        *value += other;
    }
}

/// The largest number of every two by two square. An odd last row or column is left out.
pub fn max_pool(input: &Tensor) -> Tensor {
    let shape = input.shape();
    let halved = Shape { height: shape.height / 2, width: shape.width / 2, ..shape };
    let mut output = Tensor::zeros(halved);
    let planes = input.data().chunks_exact(shape.plane());
    for (plane, target) in planes.zip(output.data_mut().chunks_exact_mut(halved.plane())) {
        let pairs = plane.chunks_exact(2 * shape.width);
        for (rows, target) in pairs.zip(target.chunks_exact_mut(halved.width)) {
            let (upper, lower) = rows.split_at(shape.width);
            let squares = upper.chunks_exact(2).zip(lower.chunks_exact(2));
            for (value, (upper, lower)) in target.iter_mut().zip(squares) {
                *value = upper[0].max(upper[1]).max(lower[0].max(lower[1]));
            }
        }
    }
    output
}

/// The mean of every channel.
pub fn global_average_pool(input: &Tensor) -> Tensor {
    let shape = input.shape();
    let means = input.data().chunks_exact(shape.plane()).map(|plane| plane.iter().sum::<f32>() / shape.plane() as f32);
    Tensor::new(Shape { height: 1, width: 1, ..shape }, means.collect())
}

/// Turns the numbers of every image into probabilities.
pub fn softmax(input: &mut Tensor) {
    let length = input.shape().image();
    for numbers in input.data_mut().chunks_exact_mut(length) {
        // Without this subtraction, `exp` overflows from 89 up.
        let largest = numbers.iter().fold(f32::NEG_INFINITY, |largest, &number| largest.max(number));
        numbers.iter_mut().for_each(|number| *number = (*number - largest).exp());
        let sum: f32 = numbers.iter().sum();
        numbers.iter_mut().for_each(|number| *number /= sum);
    }
}

/// The position of the largest number; of several, the first.
pub fn largest(numbers: &[f32]) -> usize {
    (1..numbers.len()).fold(0, |best, index| if numbers[index] > numbers[best] { index } else { best })
}

/// A layer in which every output depends on every number of the image.
#[derive(Debug, Clone, PartialEq)]
pub struct FullyConnected {
    /// A row of weights for each output.
    pub weights: Vec<f32>,
    /// One number for each output.
    pub bias: Vec<f32>,
}

impl FullyConnected {
    /// Computes the outputs of every image.
    ///
    /// # Panics
    /// If the weights are not one row of [`Shape::image`] numbers for each bias.
    pub fn forward(&self, input: &Tensor) -> Tensor {
        let length = input.shape().image();
        assert_eq!(self.weights.len(), self.bias.len() * length, "weights");
        let mut outputs = Vec::with_capacity(input.shape().images * self.bias.len());
        for image in input.data().chunks_exact(length) {
            for (row, bias) in self.weights.chunks_exact(length).zip(&self.bias) {
                outputs.push(row.iter().zip(image).map(|(weight, value)| weight * value).sum::<f32>() + bias);
            }
        }
        Tensor::new(Shape { channels: self.bias.len(), height: 1, width: 1, ..input.shape() }, outputs)
    }
}

#[cfg(test)]
mod tests {
    use super::{FullyConnected, global_average_pool, largest, max_pool, softmax};
    use crate::network::tensor::{Shape, Tensor};

    fn plane(height: usize, width: usize, numbers: &[f32]) -> Tensor {
        Tensor::new(Shape { images: 1, channels: 1, height, width }, numbers.to_vec())
    }

    #[test]
    fn pooling_halves_and_drops_the_odd_edge() {
        let input = plane(3, 5, &[1.0, 2.0, 9.0, 4.0, 99.0, 5.0, 6.0, 7.0, 8.0, 99.0, 99.0, 99.0, 99.0, 99.0, 99.0]);
        assert_eq!(max_pool(&input), plane(1, 2, &[6.0, 9.0]));
    }

    #[test]
    fn the_average_is_taken_over_the_channel() {
        assert_eq!(global_average_pool(&plane(2, 2, &[1.0, 2.0, 3.0, 6.0])), plane(1, 1, &[3.0]));
    }

    #[test]
    fn softmax_survives_large_numbers_and_sums_to_one() {
        let mut numbers = plane(1, 3, &[1000.0, 1001.0, 900.0]);
        softmax(&mut numbers);
        assert!((numbers.data()[1] / numbers.data()[0] - 1.0_f32.exp()).abs() < 1e-5);
        assert!((numbers.data().iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }

    #[test]
    fn a_fully_connected_layer_is_a_matrix_product() {
        let layer = FullyConnected { weights: vec![1.0, 2.0, 3.0, -1.0, 0.0, 1.0], bias: vec![0.5, -0.5] };
        assert_eq!(layer.forward(&plane(1, 3, &[1.0, 10.0, 100.0])).data(), [321.5, 98.5]);
    }

    #[test]
    fn the_first_of_equal_largest_numbers_wins() {
        assert_eq!(largest(&[1.0, 3.0, 3.0, 2.0]), 1);
    }
}
