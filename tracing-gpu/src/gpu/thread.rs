//! What a thread keeps between two timed spans, in one cache line.

use std::cell::Cell;

use super::driver::Driver;
use super::streams::{self, NamedStream, StreamId};

#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Thread {
    /// The stream of the innermost `with_stream` on this thread; 0 for none.
    pub(super) current: Cell<StreamId>,
    /// Depth of our own code around the driver on this thread.
    pub(super) own: Cell<u32>,
    /// What was timed last, so that the next one need not be looked up.
    last: Cell<Option<Timed>>,
}

thread_local! {
    /// Needs no destructor.
    pub(super) static THREAD: Thread = const { Thread { current: Cell::new(0), own: Cell::new(0), last: Cell::new(None) } };
}

/// A stream that can be timed, and the driver that does it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timed {
    pub(super) driver: &'static Driver,
    pub(super) stream: &'static NamedStream,
}

/// Why a stream cannot be timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Untimed {
    /// There is no driver: the footer has the reason.
    NoDriver,
    /// No stream has this number.
    Unknown,
}

/// The stream of a number.
#[inline]
pub(super) fn timed(id: StreamId) -> Result<Timed, Untimed> {
    match THREAD.with(|thread| thread.last.get()).filter(|last| last.stream.id == id) {
        Some(last) => Ok(last),
        None => look_up(id),
    }
}

#[inline(never)]
fn look_up(id: StreamId) -> Result<Timed, Untimed> {
    let driver = Driver::get().map_err(|_| Untimed::NoDriver)?;
    let timed = Timed { driver, stream: streams::get(id).ok_or(Untimed::Unknown)? };
    THREAD.with(|thread| thread.last.set(Some(timed)));
    Ok(timed)
}
