//! A BERT of candle with random weights, on the CPU or the first GPU.
//!
//! ```sh
//! cd programs
//! cargo run --release -p candle_bert
//! cargo run --release -p candle_bert --features cuda    # needs a CUDA toolkit
//! ```
//!
//! candle's spans have the level TRACE, so the filter names their crate.

use std::error::Error;

use candle_core::{DType, Device, Tensor};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models::bert::{BertModel, Config};
use tracing::{info_span, instrument};
use tracing_gpu::Profiler;

/// The size of all-MiniLM-L6-v2.
#[instrument(name = "Load Module", skip_all)]
fn load(device: &Device) -> candle_core::Result<BertModel> {
    let config = Config { hidden_size: 384, num_hidden_layers: 6, intermediate_size: 1536, ..Config::default() };
    // Random weights; a program of yours would read a file of safetensors.
    let weights = VarMap::new();
    BertModel::load(VarBuilder::from_varmap(&weights, DType::F32, device), &config)
}

#[instrument(name = "Set input data", skip_all)]
fn tokens(device: &Device, sentences: usize) -> candle_core::Result<Tensor> {
    let words: Vec<u32> = (0..sentences as u32 * 32).map(|word| word * 7919 % 30_000).collect();
    Tensor::from_vec(words, (sentences, 32), device)
}

fn embed(device: &Device) -> candle_core::Result<Tensor> {
    let model = load(device)?;
    let mut sum = Tensor::zeros(384, DType::F32, device)?;
    for _ in 0..10 {
        let tokens = tokens(device, 4)?;
        let output = info_span!("Module running").in_scope(|| model.forward(&tokens, &tokens.zeros_like()?, None))?;
        sum = (sum + output.mean((0, 1))?)?;
    }
    sum / 10.0
}

#[cfg(feature = "cuda")]
fn run() -> candle_core::Result<Tensor> {
    let device = Device::new_cuda(0)?;
    // Spans inside are timed on the stream that candle enqueues into.
    let stream = device.as_cuda_device()?.cuda_stream();
    tracing_gpu::with_stream(&stream, || embed(&device))
}

#[cfg(not(feature = "cuda"))]
fn run() -> candle_core::Result<Tensor> {
    embed(&Device::Cpu)
}

fn main() -> Result<(), Box<dyn Error>> {
    let filter = "info,candle_transformers=trace".parse()?;
    let profiler = Profiler::builder().filter(filter).build()?;
    tracing::subscriber::set_global_default(profiler.subscriber())?;
    println!("mean of the embedding: {:.3e}", run()?.mean_all()?.to_scalar::<f32>()?);
    profiler.finish()?; // prints the report
    Ok(())
}
