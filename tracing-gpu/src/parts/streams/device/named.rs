//! The streams that a program has named, each under a number that a span field can hold.

use gpu_activity::driver::Handle;
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::owner::StreamOwner;
use super::queue::Queue;
use crate::core::chunked::Chunked;
use crate::parts::streams::StreamId;

/// A named stream. Lives as long as the process; the CUDA stream itself may be gone. Entries and exits read one cache
/// line of it, which nobody writes.
#[repr(C, align(64))]
pub(crate) struct NamedStream {
    pub(crate) handle: Handle,
    pub(crate) context_handle: Handle,
    pub(crate) id: StreamId,
    pub(crate) owner: StreamOwner,
    pub(crate) queue: Mutex<Queue>,
}

static STREAMS: OnceCell<Chunked<OnceCell<&'static NamedStream>, 64>> = OnceCell::new();

/// The stream with this number. Takes no lock.
pub(crate) fn get(id: StreamId) -> Option<&'static NamedStream> {
    STREAMS.get()?.get(id as usize)?.get().copied()
}

/// The slot of a number; `None` beyond the limit on streams.
pub(crate) fn slot(id: StreamId) -> Option<&'static OnceCell<&'static NamedStream>> {
    STREAMS.get_or_init(Chunked::new).get_or_grow(id as usize)
}

/// All streams named so far, in order of their numbers.
pub(crate) fn all() -> impl Iterator<Item = &'static NamedStream> {
    (1..).map_while(get)
}
