//! Batches of images and activations.

/// The extent of a [`Tensor`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Images in the batch.
    pub images: usize,
    /// Channels of an image: three for RGB, any number for activations.
    pub channels: usize,
    /// Rows of a channel.
    pub height: usize,
    /// Columns of a channel.
    pub width: usize,
}

impl Shape {
    /// Numbers in one channel of one image.
    pub fn plane(self) -> usize {
        self.height * self.width
    }

    /// Numbers in one image.
    pub fn image(self) -> usize {
        self.channels * self.plane()
    }

    /// Numbers in the batch.
    pub fn elements(self) -> usize {
        self.images * self.image()
    }
}

/// A batch in NCHW order: image by image, channel by channel, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    shape: Shape,
    data: Vec<f32>,
}

impl Tensor {
    /// A batch of zeros.
    pub fn zeros(shape: Shape) -> Self {
        Self { shape, data: vec![0.0; shape.elements()] }
    }

    /// A batch of the numbers in `data`.
    ///
    /// # Panics
    /// If `data` does not have [`Shape::elements`] numbers.
    pub fn new(shape: Shape, data: Vec<f32>) -> Self {
        assert_eq!(data.len(), shape.elements(), "{shape:?}");
        Self { shape, data }
    }

    /// Converts images from the order of cameras and decoders, NHWC bytes, to NCHW numbers that are normalised by the
    /// mean and the standard deviation of each channel (on a scale from 0 to 1).
    ///
    /// # Panics
    /// If `bytes` does not have [`Shape::elements`] bytes, or `mean` or `deviation` not one number for each channel.
    pub fn from_nhwc(shape: Shape, bytes: &[u8], mean: &[f32], deviation: &[f32]) -> Self {
        assert_eq!(bytes.len(), shape.elements(), "{shape:?}");
        assert_eq!((mean.len(), deviation.len()), (shape.channels, shape.channels));
        let mut tensor = Self::zeros(shape);
        for (image, bytes) in bytes.chunks_exact(shape.image()).enumerate() {
            let planes = tensor.image_mut(image).chunks_exact_mut(shape.plane());
            for (channel, plane) in planes.enumerate() {
                let scale = 1.0 / (255.0 * deviation[channel]);
                let offset = mean[channel] / deviation[channel];
                for (value, pixel) in plane.iter_mut().zip(bytes.chunks_exact(shape.channels)) {
                    *value = f32::from(pixel[channel]) * scale - offset;
                }
            }
        }
        tensor
    }

    /// The extent.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Every number, in NCHW order.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// Every number, in NCHW order.
    pub fn data_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// The numbers of one image.
    pub fn image(&self, index: usize) -> &[f32] {
        let length = self.shape.image();
        &self.data[index * length..][..length]
    }

    /// The numbers of one image.
    pub fn image_mut(&mut self, index: usize) -> &mut [f32] {
        let length = self.shape.image();
        &mut self.data[index * length..][..length]
    }

    /// The largest difference between two batches of the same extent, relative to the largest number in either. NaN,
    /// which is within no bound, if one of them has a NaN.
    ///
    /// # Panics
    /// If the extents differ.
    pub fn relative_difference(&self, other: &Self) -> f32 {
        assert_eq!(self.shape, other.shape);
        // `f32::max` would drop a NaN; this keeps the first.
        let larger = |largest: f32, number: &f32| match number.abs() {
            size if size.is_nan() || size > largest => size,
            _ => largest,
        };
        let largest = |numbers: &[f32]| numbers.iter().fold(0.0, larger);
        let scale = largest(&self.data).max(largest(&other.data));
        let differences: Vec<f32> = self.data.iter().zip(&other.data).map(|(a, b)| a - b).collect();
        if scale == 0.0 { 0.0 } else { largest(&differences) / scale }
    }
}

#[cfg(test)]
mod tests {
    use super::{Shape, Tensor};

    #[test]
    fn nhwc_bytes_become_normalised_planes() {
        let shape = Shape { images: 2, channels: 3, height: 1, width: 2 };
        let bytes = [0, 51, 255, 51, 102, 0, 255, 0, 51, 0, 255, 102];
        let tensor = Tensor::from_nhwc(shape, &bytes, &[0.0, 0.2, 0.5], &[1.0, 0.2, 0.5]);
        let expected = [0.0, 0.2, 0.0, 1.0, 1.0, -1.0, 1.0, 0.0, -1.0, 4.0, -0.6, -0.2];
        for (number, expected) in tensor.data().iter().zip(expected) {
            assert!((number - expected).abs() < 1e-6, "{:?}", tensor.data());
        }
    }

    #[test]
    fn an_image_is_a_slice_of_its_batch() {
        let shape = Shape { images: 2, channels: 1, height: 2, width: 2 };
        let tensor = Tensor::new(shape, (0..8_u8).map(f32::from).collect());
        assert_eq!(tensor.image(1), [4.0, 5.0, 6.0, 7.0]);
    }

    #[test]
    fn the_relative_difference_is_measured_against_the_largest_number() {
        let shape = Shape { images: 1, channels: 1, height: 1, width: 2 };
        let one = Tensor::new(shape, vec![1.0, -10.0]);
        let other = Tensor::new(shape, vec![2.0, -10.0]);
        assert!((one.relative_difference(&other) - 0.1).abs() < 1e-6);
        assert_eq!(one.relative_difference(&one), 0.0);
        let broken = Tensor::new(shape, vec![f32::NAN, -10.0]);
        assert!(broken.relative_difference(&one).is_nan() && one.relative_difference(&broken).is_nan());
    }
}
