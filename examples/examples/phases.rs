//! The phases of an inference program, seen from outside: loading a module, making data, setting the input, running.
//!
//! A residual network of 2.8 million parameters is read from a file and classifies ten batches of four images. The program
//! is annotated with `#[instrument]` and nothing else; one line in `main` turns that into NVTX ranges and into the
//! statistics printed at the end.
//!
//! ```text
//! cargo run --release --example phases
//! ```
//!
//! The same phases in Nsight Systems, on a time line and as `nsys stats` counts them:
//!
//! ```text
//! nsys profile -t nvtx -o phases target/release/examples/phases
//! nsys stats -r nvtx_pushpop_sum phases.nsys-rep
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

use examples::network::layers::{global_average_pool, largest, relu, softmax};
use examples::network::residual::{Block, Stage};
use examples::network::weights::fnv1a;
use examples::network::{Conv2d, ResidualNetwork, Tensor, Weights, WeightsError, reference};
use examples::random::Random;
use tracing::instrument;

const BATCHES: u64 = 10;
const BATCH: usize = 4;
/// The mean and the standard deviation of ImageNet, as every network trained on it expects them.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

fn main() -> Result<(), Box<dyn Error>> {
    let file = provide_weights()?;
    let _profile = tracing_gpu::init();

    let network = load_module(&file)?;
    let mut checksum = Vec::new();
    for seed in 0..BATCHES {
        let pixels = init_random_data(seed);
        let input = set_input(&pixels);
        let output = run(&network, &input);
        checksum.extend(output.logits.data().iter().flat_map(|logit| logit.to_le_bytes()));
        if seed == 0 {
            verify(&network, &pixels, &input, &output);
        }
    }
    let checksum = fnv1a(&checksum);
    println!("{} images classified, checksum of the logits {checksum:016x}", BATCHES * BATCH as u64);
    assert_eq!(checksum, LOGITS, "the network computes other numbers than it did");
    Ok(())
}

/// [`fnv1a`] of all logits. They are sums in a fixed order, so they are the same to the last bit on every machine.
const LOGITS: u64 = 0xe784_081c_7d52_c7b8;

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

#[instrument(name = "Init random data", skip_all)]
fn init_random_data(seed: u64) -> Vec<u8> {
    let mut pixels = vec![0; ResidualNetwork::input_shape(BATCH).elements()];
    Random::new(seed).fill(&mut pixels);
    pixels
}

#[instrument(name = "Set input data to module", skip_all)]
fn set_input(pixels: &[u8]) -> Tensor {
    Tensor::from_nhwc(ResidualNetwork::input_shape(BATCH), pixels, &MEAN, &DEVIATION)
}

struct Output {
    logits: Tensor,
    probabilities: Tensor,
}

#[instrument(name = "Module running", skip_all)]
fn run(network: &ResidualNetwork, input: &Tensor) -> Output {
    let activations = run_stem(&network.stem, input);
    let activations = network.stages.iter().fold(activations, |input, stage| run_stage(stage, input));
    run_head(network, &activations)
}

#[instrument(name = "stem", skip_all)]
fn run_stem(stem: &Conv2d, input: &Tensor) -> Tensor {
    let mut activations = stem.forward(input);
    relu(&mut activations);
    activations
}

/// The name of the range is the stage's, known at run time.
#[instrument(name = "stage", skip_all, fields(nvtx.name = stage.name))]
fn run_stage(stage: &Stage, input: Tensor) -> Tensor {
    stage.blocks.iter().fold(input, |input, block| run_block(block, &input))
}

#[instrument(name = "block", skip_all)]
fn run_block(block: &Block, input: &Tensor) -> Tensor {
    block.forward(input)
}

#[instrument(name = "head", skip_all)]
fn run_head(network: &ResidualNetwork, activations: &Tensor) -> Output {
    let logits = network.classifier.forward(&global_average_pool(activations));
    let mut probabilities = logits.clone();
    softmax(&mut probabilities);
    Output { logits, probabilities }
}

/// Checks the fast computation against the definition, where that is quick enough.
fn verify(network: &ResidualNetwork, pixels: &[u8], input: &Tensor, output: &Output) {
    // Layout and normalisation: the green value of the last pixel of the last image.
    let green = f32::from(pixels[pixels.len() - 2]) / 255.0;
    let plane = input.shape().plane();
    let set = input.image(BATCH - 1)[2 * plane - 1];
    assert!((set - (green - MEAN[1]) / DEVIATION[1]).abs() < 1e-5, "{set} set for {green}");

    let difference =
        network.stem.forward(input).relative_difference(&reference::convolve(network.stem.filters(), input));
    assert!(difference < 1e-5, "the convolution is off by {difference}");

    // The instrumented way through the network is the network's own.
    assert_eq!(network.forward(input), output.logits);

    for index in 0..BATCH {
        let sum: f32 = output.probabilities.image(index).iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "probabilities sum to {sum}");
        assert_eq!(largest(output.probabilities.image(index)), largest(output.logits.image(index)));
    }
}

/// The file that a program like this is shipped with: made at the first run, and again where it is not as it should be.
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
