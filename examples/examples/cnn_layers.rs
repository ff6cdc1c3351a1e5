//! Where the time of a network goes, layer by layer and kind by kind.
//!
//! A CIFAR-10-sized network (three times convolution, ReLU, pooling; then a fully connected layer and softmax) classifies
//! 1,200 images one by one. Its layers come from a list, so one call site makes all their spans: the field `nvtx.name`
//! gives each its name at run time, and `nvtx.category` the kind to sum by. The report is a tree of the layers and the
//! sums of the categories `Conv`, `ReLU`, `Pool`, `FC` and `Softmax`.
//!
//! ```text
//! cargo run --release --example cnn_layers
//! nsys profile -t nvtx target/release/examples/cnn_layers
//! ```

use std::error::Error;

use examples::images::{CLASSES, Camera, LabelledImage, to_tensor};
use examples::network::layers::largest;
use examples::network::{Conv2d, Filters, Layer, Operation, Tensor, nearest, reference};
use examples::random::Random;
use tracing::{info_span, instrument};
use tracing_gpu::{Profiler, Report};
use tracing_subscriber::prelude::*;

const IMAGES: usize = 1_200;
const LEARN_FROM: usize = 100;
/// Strong enough that some images are mistaken.
const NOISE: f32 = 110.0;

fn main() -> Result<(), Box<dyn Error>> {
    let profiler = Profiler::builder().report([Report::Tree, Report::Categories]).build()?;
    tracing_subscriber::registry().with(profiler.layer()).init();

    println!("CNN for {IMAGES} images");
    let images = load_images(IMAGES);
    let network = create_network();
    let outputs = run(&network, &images);

    let right = images.iter().zip(&outputs).filter(|(image, output)| image.class == largest(output.data())).count();
    println!("Accuracy: {:.2} %", 100.0 * right as f64 / IMAGES as f64);
    verify(&network, &images[0], &outputs, right);

    profiler.finish()?;

    Ok(())
}

#[instrument(name = "Load images")]
fn load_images(count: usize) -> Vec<LabelledImage> {
    let mut camera = Camera::new(10, NOISE);
    (0..count).map(|index| camera.photograph(index % CLASSES)).collect()
}

/// The convolutions are random and stay so; the fully connected layer learns what each class looks like behind them.
#[instrument(name = "Create network")]
fn create_network() -> Vec<Layer> {
    let mut random = Random::new(32);
    let mut layers = Vec::new();
    for (index, in_channels, out_channels) in [(1, 3, 16), (2, 16, 20), (3, 20, 20)] {
        let conv = Conv2d::new(Filters::random(&mut random, in_channels, out_channels, 5));
        layers.push(Layer::new(format!("conv{index}"), Operation::Conv(conv)));
        layers.push(Layer::new(format!("relu{index}"), Operation::Relu));
        layers.push(Layer::new(format!("pool{index}"), Operation::Pool));
    }
    let classifier = nearest::learn(&layers, &mut Camera::new(50_000, NOISE), LEARN_FROM / CLASSES);
    layers.push(Layer::new("fc", Operation::FullyConnected(classifier)));
    layers.push(Layer::new("softmax", Operation::Softmax));
    layers
}

#[instrument(name = "Net forward", skip_all)]
fn run(network: &[Layer], images: &[LabelledImage]) -> Vec<Tensor> {
    images.iter().map(|image| run_image(network, image)).collect()
}

#[instrument(name = "image", skip_all, fields(nvtx.payload = image.class))]
fn run_image(network: &[Layer], image: &LabelledImage) -> Tensor {
    network.iter().fold(to_tensor(&image.pixels), |input, layer| {
        let _span = info_span!("layer", nvtx.name = %layer.name, nvtx.category = layer.kind()).entered();
        layer.forward(input)
    })
}

/// Checks the first image against the definitions of its layers, and what all must have in common.
fn verify(network: &[Layer], first: &LabelledImage, outputs: &[Tensor], right: usize) {
    let expected = network.iter().fold(to_tensor(&first.pixels), |input, layer| match &layer.operation {
        Operation::Conv(conv) => reference::convolve(conv.filters(), &input),
        _ => layer.forward(input),
    });
    let difference = outputs[0].relative_difference(&expected);
    assert!(difference < 1e-3, "the first image's probabilities are off by {difference}");

    for output in outputs {
        let sum: f32 = output.data().iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "probabilities sum to {sum}");
    }
    assert_eq!(right, 916, "images classified rightly");
}
