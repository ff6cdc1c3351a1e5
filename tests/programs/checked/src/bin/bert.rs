//! A small BERT of candle: its spans have the level TRACE, are made when the model is loaded, and entered in each pass.

use std::process::ExitCode;

use candle_core::{DType, Device, Tensor};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models::bert::{BertModel, Config};
use checked::{Expected, Run};
use tracing::info_span;
use tracing_subscriber::prelude::*;

const PASSES: u64 = 5;

fn main() -> ExitCode {
    let run = Run::new("info,candle_transformers=trace");
    tracing_subscriber::registry().with(run.layer()).init();
    passes().expect("no error");
    let layers: &[&str] = &["layer"];
    run.finish(Expected {
        spans: &[("Load Module", 1), ("Module running", PASSES), ("model", 1), ("layer", 3), ("linear", 3 * 6)],
        parents: &[
            ("model", &["Module running"]),
            ("embeddings", &["model"]),
            ("encoder", &["model"]),
            ("layer", &["encoder"]),
            ("attn", layers),
            ("inter", layers),
            ("out", layers),
            ("self-attn", &["attn"]),
            ("self-out", &["attn"]),
            ("linear", &["self-attn", "self-out", "inter", "out"]),
        ],
        ..Expected::default()
    })
}

/// Drops the model and all its spans at the end.
fn passes() -> candle_core::Result<()> {
    let device = Device::Cpu;
    let config = Config {
        vocab_size: 1000,
        hidden_size: 128,
        num_hidden_layers: 3,
        num_attention_heads: 4,
        intermediate_size: 512,
        max_position_embeddings: 64,
        ..Config::default()
    };
    let model = info_span!("Load Module").in_scope(|| {
        let weights = VarMap::new();
        BertModel::load(VarBuilder::from_varmap(&weights, DType::F32, &device), &config)
    })?;
    let tokens = Tensor::arange(0u32, 64, &device)?.unsqueeze(0)?.repeat(4)?;
    let types = tokens.zeros_like()?;
    for _ in 0..PASSES {
        info_span!("Module running").in_scope(|| model.forward(&tokens, &types, None))?;
    }
    Ok(())
}
