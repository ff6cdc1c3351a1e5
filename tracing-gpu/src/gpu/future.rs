//! A stream across `.await`.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use cudarc::driver::CudaStream;
use pin_project_lite::pin_project;

use super::scope;
use super::streams;
use crate::record::StreamId;

pin_project! {
    /// A future whose polls run inside [`with_stream`](crate::with_stream). Made by [`OnStream::on_stream`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless polled"]
    pub struct WithStream<F> {
        #[pin]
        future: F,
        stream: StreamId,
    }
}

impl<F: Future> Future for WithStream<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        scope::inside(*this.stream, || this.future.poll(context))
    }
}

/// Times a future's spans on a stream, on whichever thread it is polled.
///
/// ```no_run
/// use cudarc::driver::CudaContext;
/// use tracing::Instrument as _;
/// use tracing_gpu::OnStream as _;
///
/// # async fn run() -> Result<(), cudarc::driver::DriverError> {
/// let stream = CudaContext::new(0)?.new_stream()?;
/// async { /* enqueue on the stream, await, enqueue more */ }
///     .instrument(tracing::info_span!("step"))
///     .on_stream(&stream)
///     .await;
/// # Ok(())
/// # }
/// ```
pub trait OnStream: Future + Sized {
    /// Runs every poll inside [`with_stream`](crate::with_stream). Put it outside of `.instrument(span)`, so that the span is timed.
    fn on_stream(self, stream: &Arc<CudaStream>) -> WithStream<Self> {
        WithStream { future: self, stream: streams::name(stream) }
    }
}

impl<F: Future> OnStream for F {}
