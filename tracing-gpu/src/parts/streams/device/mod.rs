//! CUDA events on named streams: decides on which stream a range is timed, and is the only interface for timing ranges.
//!
//! A range is timed on the stream of its span's field `gpu.stream`. Without the field it is timed on the stream of the
//! innermost [`with_stream`] of its thread; outside of those, on the stream of the nearest parent with the field;
//! otherwise on none. There is no default stream: events on the legacy stream would make other streams wait.

mod binding;
mod context;
#[cfg(feature = "cudarc")]
mod cudarc;
mod events;
mod lane;
mod named;
mod naming;
mod owner;
mod pair;
mod queue;
mod reading;
mod scope;
mod status;
mod totals;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use gpu_activity::{cupti, own_calls};
use pin_project_lite::pin_project;

pub use binding::{AsStream, RawStream};
pub(crate) use events::StartedPair;
use pair::Target;
pub(crate) use scope::{current, on_scope_change};
pub(crate) use status::{losses, stream_facts};
pub(crate) use totals::{StreamRow, StreamRowKey, StreamTime, StreamTotals};

use crate::core::record::RangeKey;
use crate::parts::streams::StreamId;

/// Runs `body`; spans entered inside, on this thread, are timed on `stream` with CUDA events.
///
/// The table shows *stream time*: from the moment the stream reaches the entry to the moment it reaches the exit,
/// including waiting and idling. It is read later, without stopping the program. Calls may be nested, with any streams;
/// a span's own `gpu.stream` has priority. A span that was entered before is not timed. The stream and its context are
/// kept alive (a [`RawStream`] is not) from the first timed span until `body` has ended and all measurements are read.
///
#[cfg_attr(feature = "cudarc", doc = "```no_run")]
#[cfg_attr(not(feature = "cudarc"), doc = "```ignore")]
/// use cudarc::driver::CudaContext;
///
/// let stream = CudaContext::new(0)?.new_stream()?;
/// tracing_gpu::with_stream(&stream, || {
///     tracing::info_span!("copy in").in_scope(|| stream.clone_htod(&[1.0f32; 1024]))
/// })?;
/// # Ok::<(), cudarc::driver::DriverError>(())
/// ```
pub fn with_stream<T>(stream: &(impl AsStream + ?Sized), body: impl FnOnce() -> T) -> T {
    scope::inside(stream.name(), body)
}

/// A number for a stream, to be used as the span field `gpu.stream`: the span is timed on this stream, and so are spans
/// created below it that name no stream.
///
/// The same stream has the same number as long as it lives. The number does not keep the stream alive. A span that is
/// entered when the stream is gone is not timed; the footer counts it.
///
#[cfg_attr(feature = "cudarc", doc = "```no_run")]
#[cfg_attr(not(feature = "cudarc"), doc = "```ignore")]
/// use cudarc::driver::CudaContext;
///
/// let stream = CudaContext::new(0)?.new_stream()?;
/// let span = tracing::info_span!("copy", gpu.stream = tracing_gpu::stream_id(&stream));
/// # drop(span);
/// # Ok::<(), cudarc::driver::DriverError>(())
/// ```
#[must_use = "the number does something as the span field `gpu.stream`"]
pub fn stream_id(stream: &(impl AsStream + ?Sized)) -> u64 {
    u64::from(stream.name())
}

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
#[cfg_attr(feature = "cudarc", doc = "```no_run")]
#[cfg_attr(not(feature = "cudarc"), doc = "```ignore")]
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
    /// Runs every poll inside [`with_stream`](crate::with_stream). Put it outside of `.instrument(span)`, so that the
    /// span is timed.
    fn on_stream(self, stream: &(impl AsStream + ?Sized)) -> WithStream<Self> {
        WithStream { future: self, stream: stream.name() }
    }
}

impl<F: Future> OnStream for F {}

/// Records the start of a range on a stream. `None` where that cannot be: counted.
#[inline]
pub(crate) fn begin(totals: &'static StreamTotals, stream: StreamId) -> Option<StartedPair> {
    cupti::before_own_calls();
    let _ours = own_calls::calls();
    events::begin(totals, stream)
}

/// Records the end of a range, and queues the pair to be read. The range has this node and key, and was entered in this
/// window.
#[inline]
pub(crate) fn end(started: StartedPair, totals: &'static StreamTotals, node: u32, key: RangeKey, window: u64) {
    let _ours = own_calls::calls();
    events::end(started, Target { totals, node, key, window });
}

/// Gives back a pair whose range will not end.
pub(crate) fn abandon(started: StartedPair) {
    own_calls::during(|| events::abandon(started));
}

/// Reads all pairs recorded on all streams so far. Waits for them: without bound, or at the end of the process for at
/// most this long.
pub(crate) fn read_all(patience: Option<Duration>) {
    match patience {
        None => own_calls::during(reading::read_all),
        Some(patience) => own_calls::during(|| reading::read_within(patience)),
    }
}

/// Notes on stream times.
pub(crate) fn notes(totals: &StreamTotals) -> Vec<range_model::Note> {
    own_calls::during(|| status::notes(totals))
}
