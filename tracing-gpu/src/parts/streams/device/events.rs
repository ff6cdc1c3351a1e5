//! Recording pairs of CUDA events.
//!
//! A start event is recorded just before a range begins, an end event just after it ends.
//!
//! Every call leaves the thread's current context, its stored errors and all captures unchanged. Events are enqueued
//! only into streams that do not capture, and are created in the relaxed capture mode, so no capture breaks.

use std::sync::atomic::Ordering::Relaxed;

use gpu_activity::driver::{Capture, CudaError, Driver, Handle};
use gpu_activity::forks;

use super::lane::Lane;
use super::named::{self, NamedStream};
use super::owner::Alive;
use super::pair::{EventPair, RecordedPair, Target};
use super::queue::{BATCH, Gone};
use super::reading::{close, read_in_time};
use super::scope;
use super::totals::StreamTotals;
use crate::parts::streams::StreamId;
use range_model::stats::Lean;

/// A pair with a recorded start on this stream, and no recorded end.
#[derive(Clone, Copy)]
pub(crate) struct StartedPair {
    stream: StreamId,
    events: EventPair,
}

impl StartedPair {
    /// The stream and its events as numbers, which a thread can keep without a lock.
    #[inline]
    pub(crate) fn words(self) -> (StreamId, u64, u64) {
        (self.stream, self.events.start as u64, self.events.end as u64)
    }

    /// From [`words`](Self::words).
    #[inline]
    pub(crate) fn from_words(stream: StreamId, start: u64, end: u64) -> Option<Self> {
        Some(Self { stream, events: EventPair { start: start as Handle, end: end as Handle } })
    }
}

/// Records the start of a range on a stream. `None` where that cannot be: counted.
#[inline]
pub(crate) fn begin(totals: &'static StreamTotals, id: StreamId) -> Option<StartedPair> {
    let driver = Driver::get().ok()?; // the footer gives the reason
    let next = scope::lane(totals, id).and_then(|(stream, lane)| Some((stream, lane?.start()?)));
    let (stream, events) = match next {
        Some(next) => next,
        None => open(driver, totals, id)?,
    };
    match record(driver, stream, events.start) {
        Ok(true) => Some(StartedPair { stream: id, events }),
        unrecorded => {
            forgo(driver, totals, stream, Some(events), unrecorded);
            None
        }
    }
}

/// Records the end of a range and queues the pair to be read.
#[inline]
pub(crate) fn end(started: StartedPair, target: Target) {
    let Ok(driver) = Driver::get() else { return };
    let StartedPair { stream, events } = started;
    let Some((stream, lane)) = scope::lane(target.totals, stream) else { return };
    let Some(lane) = lane else { return end_beside(driver, stream, RecordedPair { events, target }) };
    match record(driver, stream, events.end) {
        Ok(true) if !lane.end(events, &target) => {}
        Ok(true) => turn(driver, stream, lane),
        unrecorded => forgo(driver, target.totals, stream, Some(events), unrecorded),
    }
}

/// [`end`] for a pair outside of any lane.
#[inline(never)]
fn end_beside(driver: &Driver, stream: &NamedStream, pair: RecordedPair) {
    let RecordedPair { events, target } = pair;
    if forks::is_child() {
        target.totals.losses.refused.fetch_add(1, Relaxed);
        return;
    }
    match record(driver, stream, events.end) {
        Ok(true) => queue(driver, stream, pair),
        unrecorded => forgo(driver, target.totals, stream, Some(events), unrecorded),
    }
}

/// Puts an event into a stream; false where the stream captures. The context says which default stream is meant. The
/// caller holds no lock: the driver waits where its own queue is full.
#[inline]
fn record(driver: &Driver, stream: &NamedStream, event: Handle) -> Result<bool, CudaError> {
    driver.record_in(stream.context_handle, event, stream.handle)
}

/// Counts an event that was not recorded, and returns the pair.
#[cold]
fn forgo(
    driver: &Driver,
    totals: &StreamTotals,
    stream: &NamedStream,
    events: Option<EventPair>,
    unrecorded: Result<bool, CudaError>,
) {
    totals.losses.count_unrecorded(unrecorded.err());
    close(driver, stream, events);
}

/// Counts one more start on a stream, and returns its events. `None`, and counted, if that fails.
#[inline(never)]
fn open(driver: &Driver, totals: &'static StreamTotals, id: StreamId) -> Option<(&'static NamedStream, EventPair)> {
    let known = named::get(id).filter(|_| !forks::is_child());
    let opened = known.ok_or(Gone).and_then(|stream| {
        let mut queue = stream.queue.lock();
        let events = match scope::lane_or(totals, id, || queue.lend(&stream.owner, totals))? {
            Some(lane) => queue.open_in(&stream.owner, lane),
            None => queue.open(&stream.owner),
        };
        Ok((stream, events?))
    });
    match opened {
        Ok((stream, Some(events))) => Some((stream, events)),
        Ok((stream, None)) => open_new(driver, totals, stream),
        Err(Gone) => {
            totals.losses.refused.fetch_add(1, Relaxed);
            None
        }
    }
}

/// [`open`] without spare events: prepares the context and creates some.
#[cold]
fn open_new(
    driver: &Driver,
    totals: &StreamTotals,
    stream: &'static NamedStream,
) -> Option<(&'static NamedStream, EventPair)> {
    let made = driver.in_context(stream.context_handle, || {
        if driver.capture(stream.handle)? == Capture::Active {
            return Ok(None);
        }
        stream.owner.context.prepare(driver)?;
        driver.relaxed(|| create_events(driver, stream)).map(Some)
    });
    match made {
        Ok(Some(events)) => return Some((stream, events)),
        Ok(None) => forgo(driver, totals, stream, None, Ok(false)),
        Err(error) => forgo(driver, totals, stream, None, Err(error)),
    }
    None
}

/// Queues the pairs of a full lane, and gives it events for as many starts.
#[inline(never)]
fn turn(driver: &Driver, stream: &NamedStream, lane: &Lane) {
    let mut queue = stream.queue.lock();
    queue.take_in(lane);
    read_in_time(driver, stream, &mut queue);
    queue.fill(lane);
}

fn queue(driver: &Driver, stream: &NamedStream, pair: RecordedPair) {
    let mut queue = stream.queue.lock();
    queue.close();
    queue.push(pair);
    if read_in_time(driver, stream, &mut queue) {
        let idle = queue.idle(&stream.owner);
        drop(queue);
        Alive::let_go(idle, driver);
    }
}

/// Returns a pair whose range will not end.
pub(crate) fn abandon(started: StartedPair) {
    if forks::is_child() {
        return;
    }
    if let (Ok(driver), Some(stream)) = (Driver::get(), named::get(started.stream)) {
        close(driver, stream, Some(started.events));
    }
}

/// Creates event pairs for a stream whose context has no spare ones, and returns one of them. The context must be
/// current.
fn create_events(driver: &Driver, stream: &NamedStream) -> Result<EventPair, CudaError> {
    let pair = || {
        let start = driver.create_event()?;
        Ok(EventPair { start, end: driver.create_event().inspect_err(|_| driver.destroy_event(start))? })
    };
    let first = pair()?;
    let more: Vec<EventPair> = (1..BATCH).map_while(|_| pair().ok()).in_vec();
    stream.queue.lock().give_back(more);
    Ok(first)
}
