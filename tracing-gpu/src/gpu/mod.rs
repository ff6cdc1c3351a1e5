//! Which stream a range is timed on, and the one port through which ranges are timed.
//!
//! A range is timed on the stream of its span's field `gpu.stream`, else on that of the innermost [`with_stream`] of the thread, else on that
//! of the nearest parent with the field, else on none. There is no default stream: events on the legacy stream would make other streams wait.

mod collector;
mod events;
mod floor;
mod future;
mod lane;
mod queue;
mod scope;
mod status;
mod streams;

use cuda_activity::{cupti, driver, forks, own_calls as own};
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::{CUcontext, CUstream};

pub(crate) use collector::{Collector, CollectorOptions};
pub(crate) use events::{EventLosses, Mark};
pub use future::{OnStream, WithStream};
pub(crate) use queue::Target;
pub(crate) use scope::current;
pub(crate) use status::{losses, stream_facts};
pub(crate) use streams::StreamId;

use crate::collect::core::Core;

/// Records the start of a range on a stream. `None` where that cannot be: counted.
#[inline(always)]
pub(crate) fn begin(core: &'static Core, stream: StreamId) -> Option<Mark> {
    collector::own_calls_begin();
    let _ours = own::calls();
    events::begin(core, stream)
}

/// Records the end of a range and queues the pair to be read.
#[inline(always)]
pub(crate) fn end(mark: Mark, target: Target) {
    let _ours = own::calls();
    events::end(mark, target);
}

/// Gives a start back whose range will not end.
pub(crate) fn abandon(mark: Mark) {
    own::during(|| events::abandon(mark));
}

/// Reads what is recorded on all streams so far. Waits for it: without bound, or where the process ends, for this long at most.
pub(crate) fn read_all(patience: Option<Duration>) {
    match patience {
        None => own::during(events::read_all),
        Some(patience) => own::during(|| events::read_within(patience)),
    }
}

/// Sentences on stream times, for the report.
pub(crate) fn notes(core: &Core) -> Vec<String> {
    own::during(|| status::notes(core))
}

/// Runs `body`; spans entered inside, on this thread, are timed on `stream` with CUDA events.
///
/// What is measured is *stream time*: from the moment the stream reaches the entry to the moment it reaches the exit, waiting and idling included. It
/// is read later, without stopping the program. May be nested, with any streams; a span's own `gpu.stream` goes first. A span that was
/// entered before is not timed. From the first timed span to the end of `body`, and on until what was measured is read, the stream and its context are kept alive.
///
/// ```no_run
/// use cudarc::driver::CudaContext;
///
/// let stream = CudaContext::new(0)?.new_stream()?;
/// tracing_gpu::with_stream(&stream, || {
///     tracing::info_span!("copy in").in_scope(|| stream.clone_htod(&[1.0f32; 1024]))
/// })?;
/// # Ok::<(), cudarc::driver::DriverError>(())
/// ```
pub fn with_stream<T>(stream: &Arc<CudaStream>, body: impl FnOnce() -> T) -> T {
    scope::inside(streams::name(stream), body)
}

/// A number for a stream, to be used as the span field `gpu.stream`: the span, and those created below it that name no stream, are timed on it.
///
/// The same stream has the same number as long as it lives. The number does not keep it alive; a span entered when the stream is gone is
/// not timed, and counted in the footer.
///
/// ```no_run
/// use cudarc::driver::CudaContext;
///
/// let stream = CudaContext::new(0)?.new_stream()?;
/// let span = tracing::info_span!("copy", gpu.stream = tracing_gpu::stream_id(&stream));
/// # drop(span);
/// # Ok::<(), cudarc::driver::DriverError>(())
/// ```
#[must_use = "the number does something as the span field `gpu.stream`"]
pub fn stream_id(stream: &Arc<CudaStream>) -> u64 {
    u64::from(streams::name(stream))
}

/// [`stream_id`] for a stream that cudarc did not create, by the raw handles of any binding.
///
/// # Safety
///
/// `stream` must be a stream of `context`, and both must stay alive for as long as spans are entered with this number, and until a summary
/// has been taken after the last of them.
#[allow(unsafe_code)]
#[must_use = "the number does something as the span field `gpu.stream`"]
pub unsafe fn stream_id_raw(context: CUcontext, stream: CUstream) -> u64 {
    u64::from(streams::name_raw(context.expose_provenance(), stream.expose_provenance()))
}
