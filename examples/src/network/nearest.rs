//! The simplest classifier that learns.

use super::device::Cpu;
use super::layers::FullyConnected;
use super::sequential::{Layer, forward};
use crate::images::{CLASSES, Camera, to_tensor};

/// A classifier that prefers the class whose mean is nearest to the features that `layers` find in an image.
///
/// The means are those of `images_per_class` new images of every class.
pub fn learn(layers: &[Layer], camera: &mut Camera, images_per_class: usize) -> FullyConnected {
    let mut classifier = FullyConnected { weights: Vec::new(), bias: Vec::new() };
    for class in 0..CLASSES {
        let mut sums: Vec<f32> = Vec::new();
        for _ in 0..images_per_class {
            let features = forward(&Cpu, layers, to_tensor(&camera.photograph(class).pixels));
            sums.resize(features.data().len(), 0.0);
            sums.iter_mut().zip(features.data()).for_each(|(sum, feature)| *sum += feature);
        }
        let mean: Vec<f32> = sums.iter().map(|sum| sum / images_per_class as f32).collect();
        // |x - m|^2 = |x|^2 - 2 (x * m - |m|^2 / 2), and |x|^2 is the same for every class.
        classifier.bias.push(mean.iter().map(|mean| mean * mean).sum::<f32>() / -2.0);
        classifier.weights.extend(mean);
    }
    classifier
}

#[cfg(test)]
mod tests {
    use super::learn;
    use crate::images::{CLASSES, Camera, to_tensor};
    use crate::network::device::Cpu;
    use crate::network::layers::largest;
    use crate::network::sequential::{Layer, Operation, forward};

    #[test]
    fn it_knows_the_classes_of_clear_images() {
        let mut layers = vec![Layer::new("pool", Operation::Pool)];
        let classifier = learn(&layers, &mut Camera::new(1, 20.0), 3);
        layers.push(Layer::new("fc", Operation::FullyConnected(classifier)));
        let mut camera = Camera::new(2, 20.0);
        for class in 0..CLASSES {
            let logits = forward(&Cpu, &layers, to_tensor(&camera.photograph(class).pixels));
            assert_eq!(largest(logits.data()), class);
        }
    }
}
