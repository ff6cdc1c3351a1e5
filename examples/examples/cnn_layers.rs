//! Where the time of a network goes, layer by layer and kind by kind.
//!
//! A network for images like CIFAR-10's (three times convolution, ReLU, pooling; then a fully connected layer and
//! softmax) classifies 1,200 images one by one, on the GPU if there is one. Its layers come from a list, so one call
//! site makes all their spans: the field `nvtx.name` names each at run time, and `nvtx.category` gives the kind by
//! which times are added up. The report is a tree of the layers, with the stream time of each on a GPU, and the sums of
//! the categories `Conv`, `ReLU`, `Pool`, `FC` and `Softmax`. On a GPU, CUPTI adds two tables: that of
//! `torch.profiler`, with layers, API calls and kernels, and the few kernels and calls that take nine tenths of the
//! time.
//!
//! ```text
//! cargo run --release --example cnn_layers        # or, with a GPU and without using it: cnn_layers -- --cpu
//! nsys profile -t nvtx target/release/examples/cnn_layers
//! ```

use std::error::Error;

use examples::gpu::{self, Gpu};
use examples::images::{CLASSES, Camera, LabelledImage, to_tensor};
use examples::network::layers::largest;
use examples::network::{Conv2d, Cpu, Device, Filters, Layer, Operation, Tensor, nearest, reference, sequential};
use fastrand::Rng;
use tracing::{info_span, instrument};
use tracing_gpu::{Profiler, Report, with_stream};
use tracing_subscriber::prelude::*;

const IMAGES: usize = 1_200;
const LEARN_FROM: usize = 100;
/// So strong that some images are misclassified.
const NOISE: f32 = 110.0;
/// Largest deviation of probabilities from the definition, relative to the largest. Sums are rounded: for logits in the
/// hundreds, an error of a millionth becomes an error of a thousandth after the softmax.
const CPU_TOLERANCE: f32 = 1e-3;
/// Largest deviation of a GPU from the CPU: it adds in another order.
const GPU_TOLERANCE: f32 = 5e-3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut reports = vec![Report::Tree, Report::Categories];
    if gpu::is_available() {
        reports.extend([Report::Torch, Report::Hot]);
    }
    let profiler = Profiler::builder().report(reports).build()?;
    tracing_subscriber::registry().with(profiler.layer()).init();

    println!("CNN for {IMAGES} images");
    let images = load_images(IMAGES);
    let network = create_network();
    let gpu = Gpu::open_or_explain().map(|gpu| (upload(&gpu, &network), gpu));
    let outputs = match &gpu {
        Some((network, gpu)) => with_stream(gpu.stream(), || run(gpu, network, &images)),
        None => run(&Cpu, &network, &images),
    };

    let right = images.iter().zip(&outputs).filter(|(image, output)| image.class == largest(output.data())).count();
    println!("Accuracy: {:.2} %", 100.0 * right as f64 / IMAGES as f64);
    verify(&network, &images[0], &outputs, if gpu.is_some() { GPU_TOLERANCE } else { CPU_TOLERANCE });
    if gpu.is_some() {
        verify_gpu(&network, &images, &outputs);
    } else {
        assert_eq!(right, 927, "images classified rightly");
    }

    profiler.finish()?;

    Ok(())
}

#[instrument(name = "Load images")]
fn load_images(count: usize) -> Vec<LabelledImage> {
    let mut camera = Camera::new(10, NOISE);
    (0..count).map(|index| camera.photograph(index % CLASSES)).collect()
}

/// The convolutions are random and stay so; the fully connected layer learns what their output is for each class.
#[instrument(name = "Create network")]
fn create_network() -> Vec<Layer> {
    let mut random = Rng::with_seed(32);
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

#[instrument(name = "Upload network", skip_all)]
fn upload(gpu: &Gpu, network: &[Layer]) -> Vec<Layer<Gpu>> {
    network.iter().map(|layer| layer.on(gpu)).collect()
}

#[instrument(name = "Net forward", skip_all)]
fn run<D: Device>(device: &D, network: &[Layer<D>], images: &[LabelledImage]) -> Vec<Tensor> {
    images.iter().map(|image| run_image(device, network, image)).collect()
}

/// On a GPU its self time is that of the copies: the image in, the probabilities out.
#[instrument(name = "image", skip_all, fields(nvtx.payload = image.class))]
fn run_image<D: Device>(device: &D, network: &[Layer<D>], image: &LabelledImage) -> Tensor {
    let input = device.upload(to_tensor(&image.pixels));
    let output = network.iter().fold(input, |input, layer| {
        let _span = info_span!("layer", nvtx.name = %layer.name, nvtx.category = layer.kind()).entered();
        layer.forward(device, input)
    });
    device.download(output)
}

/// Checks the first image against the definitions of its layers, and properties that all outputs share.
fn verify(network: &[Layer], first: &LabelledImage, outputs: &[Tensor], tolerance: f32) {
    let expected = network.iter().fold(to_tensor(&first.pixels), |input, layer| match &layer.operation {
        Operation::Conv(conv) => reference::convolve(conv.filters(), &input),
        _ => layer.forward(&Cpu, input),
    });
    let difference = outputs[0].relative_difference(&expected);
    assert!(difference < tolerance, "the first image's probabilities are off by {difference}");

    for output in outputs {
        let sum: f32 = output.data().iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "probabilities sum to {sum}");
    }
}

/// Checks every image against the CPU.
fn verify_gpu(network: &[Layer], images: &[LabelledImage], outputs: &[Tensor]) {
    let mut worst = 0.0_f32;
    for (image, output) in images.iter().zip(outputs) {
        let expected = sequential::forward(&Cpu, network, to_tensor(&image.pixels));
        let difference = output.relative_difference(&expected);
        assert!(difference < GPU_TOLERANCE, "the probabilities of an image are off by {difference}");
        worst = worst.max(difference);
    }
    println!("Computed on the GPU, probabilities within {worst:.1e} of the CPU's");
}
