//! The phases of an inference program, seen from outside: loading a module, making data, setting the input, running.
//!
//! A residual network of 3.1 million parameters is read from a file and classifies ten batches of four photographs, on
//! the GPU if there is one. The program is annotated only with `#[instrument]`. A few lines at the start turn that into
//! NVTX ranges and into the statistics printed at the end; another line, around the work for the GPU, adds the stream
//! time of each range inside. On a GPU, CUPTI adds two tables: the ranges projected onto the GPU, and its kernels.
//!
//! ```text
//! cargo run --release --example phases            # or, with a GPU and without using it: phases -- --cpu
//! ```
//!
//! The same phases in Nsight Systems, on a timeline and in the tables of `nsys stats`:
//!
//! ```text
//! nsys profile -t nvtx -o phases target/release/examples/phases
//! nsys stats -r nvtx_pushpop_sum phases.nsys-rep
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

use examples::gpu::{self, Gpu};
use examples::images::shrink;
use examples::network::layers::largest;
use examples::network::residual::{Block, Stage};
use examples::network::weights::fnv1a;
use examples::network::{Cpu, Device, ResidualNetwork, Tensor, Weights, WeightsError, reference};
use fastrand::Rng;
use tracing::instrument;
use tracing_gpu::{Profiler, Report, with_stream};

const BATCHES: u64 = 10;
const BATCH: usize = 4;
/// Rows, and columns, of a photograph: eight times those of the network's input.
const SIDE: usize = 512;
const SHRINK: usize = 8;
/// The mean and the standard deviation of ImageNet, as every network trained on it expects them.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];
/// Largest deviation of a GPU's logits from the CPU's, relative to the largest: it adds in another order.
const TOLERANCE: f32 = 1e-3;

fn main() -> Result<(), Box<dyn Error>> {
    let file = provide_weights()?;
    let _profile = measure()?;

    let network = load_module(&file)?;
    let gpu = Gpu::open_or_explain().map(|gpu| (upload_weights(&gpu, &network), gpu));
    let tolerance = if gpu.is_some() { TOLERANCE } else { 0.0 };
    let (mut checksum, mut difference) = (Vec::new(), 0.0_f32);
    for seed in 0..BATCHES {
        let pixels = init_random_data(seed);
        let output = match &gpu {
            Some((network, gpu)) => with_stream(gpu.stream(), || classify(gpu, network, &pixels)),
            None => classify(&Cpu, &network, &pixels),
        };
        checksum.extend(output.logits.data().iter().flat_map(|logit| logit.to_le_bytes()));
        if seed == 0 {
            verify(&network, &pixels, &output);
        }
        if seed == 0 || gpu.is_some() {
            difference = difference.max(compare(&network, &pixels, &output, tolerance));
        }
    }

    let images = BATCHES * BATCH as u64;
    if gpu.is_some() {
        println!("{images} images classified on the GPU, logits within {difference:.1e} of the CPU's");
    } else {
        let checksum = fnv1a(&checksum);
        println!("{images} images classified, checksum of the logits {checksum:016x}");
        assert_eq!(checksum, LOGITS, "the network computes other numbers than it did");
    }
    Ok(())
}

/// Without a GPU the same as [`tracing_gpu::init`].
fn measure() -> Result<Profiler, Box<dyn Error>> {
    let mut reports = vec![Report::Ranges, Report::Tree];
    if gpu::is_available() {
        reports.extend([Report::GpuProjection, Report::Kernels]);
    }
    let profiler = Profiler::builder().report(reports).build()?;
    tracing::subscriber::set_global_default(profiler.subscriber())?;
    Ok(profiler)
}

/// [`fnv1a`] of all logits. The CPU adds in a fixed order, so its logits are equal to the last bit on every machine.
/// They depend on the numbers of `fastrand`, whose version is in `Cargo.lock`.
const LOGITS: u64 = 0x8a42_56fc_ef4c_d710;

#[instrument(name = "Load Module", skip_all)]
fn load_module(file: &Path) -> Result<ResidualNetwork, Box<dyn Error>> {
    let bytes = read_file(file)?;
    let weights = parse(&bytes)?;
    Ok(fold_and_pack(&weights)?)
}

#[instrument(skip_all)]
fn read_file(file: &Path) -> io::Result<Vec<u8>> {
    fs::read(file)
}

#[instrument(skip_all)]
fn parse(bytes: &[u8]) -> Result<Weights, WeightsError> {
    Weights::from_bytes(bytes)
}

#[instrument(skip_all)]
fn fold_and_pack(weights: &Weights) -> Result<ResidualNetwork, WeightsError> {
    ResidualNetwork::from_weights(weights)
}

#[instrument(name = "Upload weights", skip_all)]
fn upload_weights(gpu: &Gpu, network: &ResidualNetwork) -> ResidualNetwork<Gpu> {
    network.on(gpu)
}

#[instrument(name = "Init random data", skip_all)]
fn init_random_data(seed: u64) -> Vec<u8> {
    let mut pixels = vec![0; BATCH * SIDE * SIDE * 3];
    Rng::with_seed(seed).fill(&mut pixels);
    pixels
}

fn classify<D: Device>(device: &D, network: &ResidualNetwork<D>, pixels: &[u8]) -> Output {
    let input = set_input(device, pixels);
    run(device, network, &input)
}

#[instrument(name = "Set input data to module", skip_all)]
fn set_input<D: Device>(device: &D, pixels: &[u8]) -> D::Tensor {
    device.upload(prepare(pixels))
}

/// Turns photographs into the network's input.
fn prepare(pixels: &[u8]) -> Tensor {
    let small = shrink(pixels, SIDE, SHRINK);
    Tensor::from_nhwc(ResidualNetwork::input_shape(BATCH), &small, &MEAN, &DEVIATION)
}

struct Output {
    logits: Tensor,
    probabilities: Tensor,
}

#[instrument(name = "Module running", skip_all)]
fn run<D: Device>(device: &D, network: &ResidualNetwork<D>, input: &D::Tensor) -> Output {
    let activations = run_stem(device, &network.stem, input);
    let activations = network.stages.iter().fold(activations, |input, stage| run_stage(device, stage, input));
    run_head(device, network, &activations)
}

#[instrument(name = "stem", skip_all)]
fn run_stem<D: Device>(device: &D, stem: &D::Conv, input: &D::Tensor) -> D::Tensor {
    let mut activations = device.convolve(stem, input);
    device.relu(&mut activations);
    activations
}

/// The range has the name of the stage, which is known only at run time.
#[instrument(name = "stage", skip_all, fields(nvtx.name = stage.name))]
fn run_stage<D: Device>(device: &D, stage: &Stage<D>, input: D::Tensor) -> D::Tensor {
    stage.blocks.iter().fold(input, |input, block| run_block(device, block, &input))
}

#[instrument(name = "block", skip_all)]
fn run_block<D: Device>(device: &D, block: &Block<D>, input: &D::Tensor) -> D::Tensor {
    block.forward(device, input)
}

#[instrument(name = "head", skip_all)]
fn run_head<D: Device>(device: &D, network: &ResidualNetwork<D>, activations: &D::Tensor) -> Output {
    let logits = device.fully_connected(&network.classifier, &device.global_average_pool(activations));
    let probabilities = device.softmax(&logits);
    Output { logits: device.download(logits), probabilities: device.download(probabilities) }
}

/// Checks the fast computation against the definition, where that is quick enough.
fn verify(network: &ResidualNetwork, pixels: &[u8], output: &Output) {
    let input = prepare(pixels);
    // Layout, size and normalisation: the green value of the last pixel of the last image.
    let greens = pixels.rchunks_exact(3 * SIDE).take(SHRINK);
    let greens = greens.flat_map(|row| row.rchunks_exact(3).take(SHRINK).map(|pixel| u32::from(pixel[1])));
    let green = (greens.sum::<u32>() / (SHRINK * SHRINK) as u32) as f32 / 255.0;
    let plane = input.shape().plane();
    let set = input.image(BATCH - 1)[2 * plane - 1];
    assert!((set - (green - MEAN[1]) / DEVIATION[1]).abs() < 1e-5, "{set} set for {green}");

    let difference =
        network.stem.forward(&input).relative_difference(&reference::convolve(network.stem.filters(), &input));
    assert!(difference < 1e-5, "the convolution is off by {difference}");

    for index in 0..BATCH {
        let sum: f32 = output.probabilities.image(index).iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "probabilities sum to {sum}");
        assert_eq!(largest(output.probabilities.image(index)), largest(output.logits.image(index)));
    }
}

/// The difference between the instrumented computation, on any machine, and the network's own on the CPU.
fn compare(network: &ResidualNetwork, pixels: &[u8], output: &Output, tolerance: f32) -> f32 {
    let difference = network.forward(&Cpu, &prepare(pixels)).relative_difference(&output.logits);
    assert!(difference <= tolerance, "the logits are off by {difference}");
    difference
}

/// The file that such a program is shipped with: written at the first run, and again if it is not as expected.
fn provide_weights() -> io::Result<PathBuf> {
    let file = env::temp_dir().join("tracing-gpu-phases.weights");
    let contents = ResidualNetwork::random_weights(2015).to_bytes();
    if !fs::read(&file).is_ok_and(|found| found == contents) {
        // Another run may be doing the same: the file appears under its name complete or not at all.
        let unfinished = file.with_extension(process::id().to_string());
        fs::write(&unfinished, contents)?;
        fs::rename(&unfinished, &file)?;
    }
    Ok(file)
}
