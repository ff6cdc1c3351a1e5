//! Uses the part of the interface that names cudarc's types.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError};
#[cfg(feature = "sqlx")]
use sqlx as _; // that both can be built together is all
use tracing_gpu::{OnStream as _, stream_id, with_stream};

fn timed(stream: &Arc<CudaStream>) -> u64 {
    with_stream(stream, || tracing::info_span!("timed").in_scope(|| stream_id(stream)))
}

async fn across_await(stream: &Arc<CudaStream>) {
    async {}.on_stream(stream).await;
}

fn main() -> Result<(), DriverError> {
    let _profile = tracing_gpu::init();
    let stream = CudaContext::new(0)?.new_stream()?;
    drop(across_await(&stream));
    println!("stream {}", timed(&stream));
    Ok(())
}
