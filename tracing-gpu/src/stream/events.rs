//! Recording pairs of CUDA events, and reading them.
//!
//! A start event is recorded just before a range begins, an end event just after it ends. The program never waits for
//! the GPU: pairs are read in the order in which they came, once they have finished. Only a summary waits, for the
//! newest pair of each stream first.
//!
//! Every call leaves the thread's current context, its stored errors and all captures as they were. Events are only
//! enqueued into a stream that captures nothing, which harms no capture. Calls that enqueue nothing (they create
//! events, read them, wait) are made in the relaxed capture mode.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use gpu_activity::driver::{Capture, CudaError, Driver, Handle};
use gpu_activity::forks;
use gpu_activity::own_calls;

use super::lane::Lane;
use super::named::{self, Alive, NamedStream};
use super::queue::{BATCH, EventPair, Gone, Queue, RecordedPair, Target};
use super::scope;
use super::totals::{StreamKey, StreamTotals};
use crate::record::StreamId;

/// After this number of ended ranges, the finished pairs of a stream are read.
const READ_EVERY: usize = 64;

/// A pair whose first event is recorded on this stream, and whose second is not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StartedPair {
    stream: StreamId,
    events: EventPair,
}

impl StartedPair {
    /// The stream and its events as numbers, which a thread can keep without a lock.
    #[inline(always)]
    pub(crate) fn words(self) -> (StreamId, u64, u64) {
        (self.stream, self.events.start as u64, self.events.end as u64)
    }

    /// From [`words`](Self::words).
    #[inline(always)]
    pub(crate) fn from_words(stream: StreamId, start: u64, end: u64) -> Option<Self> {
        Some(Self { stream, events: EventPair { start: start as Handle, end: end as Handle } })
    }
}

/// Records the start of a range on a stream. `None` where that cannot be: counted.
#[inline(always)]
pub(super) fn begin(totals: &'static StreamTotals, id: StreamId) -> Option<StartedPair> {
    let driver = Driver::get().ok()?; // the footer has the reason
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
#[inline(always)]
pub(super) fn end(started: StartedPair, target: Target) {
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

/// [`end`] without a lane.
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
#[inline(always)]
fn record(driver: &Driver, stream: &NamedStream, event: Handle) -> Result<bool, CudaError> {
    driver.record_in(stream.context_handle, event, stream.handle)
}

/// Counts an event that was not recorded, and gives the pair back.
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

/// Counts one more start on a stream, and gives its events. `None` where that cannot be: counted.
#[inline(never)]
fn open(driver: &Driver, totals: &'static StreamTotals, id: StreamId) -> Option<(&'static NamedStream, EventPair)> {
    let known = named::get(id).filter(|_| !forks::is_child());
    let opened = known.ok_or(Gone).and_then(|stream| {
        let mut queue = stream.queue.lock();
        let events = match scope::lane_or(totals, id, || queue.lend(stream, totals))? {
            Some(lane) => queue.open_in(stream, lane),
            None => queue.open(stream),
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

/// [`open`] where there are no spare events: it creates some, after it has prepared the context.
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
        stream.context.prepare(driver)?;
        driver.relaxed(|| create_events(driver, stream)).map(Some)
    });
    match made {
        Ok(Some(events)) => return Some((stream, events)),
        Ok(None) => forgo(driver, totals, stream, None, Ok(false)),
        Err(error) => forgo(driver, totals, stream, None, Err(error)),
    }
    None
}

/// Queues the pairs of a lane that is full, and gives it events for as many starts.
#[inline(never)]
fn turn(driver: &Driver, stream: &NamedStream, lane: &Lane) {
    let mut queue = stream.queue.lock();
    queue.take_in(lane);
    read_in_time(driver, stream, &mut queue);
    queue.fill(lane);
}

/// Takes back the lane that a scope has borrowed from its stream.
pub(super) fn leave(stream: &NamedStream, lane: &Lane) {
    let Ok(driver) = Driver::get() else { return };
    let mut queue = stream.queue.lock();
    queue.take_back(lane);
    read_in_time(driver, stream, &mut queue);
    let idle = queue.idle(stream);
    drop(queue);
    Alive::let_go(idle, driver);
}

/// Reads the pairs of a stream that only its queue holds, then lets go of the stream and of the queue's memory. False
/// where it must be tried again: the stream is in use, or its work has not finished.
pub(super) fn retire(stream: &NamedStream) -> bool {
    let Some(holders) = stream.holders() else { return true };
    let queue = stream.queue.try_lock().filter(|queue| holders <= usize::from(queue.is_holding()));
    let Some(mut queue) = queue else { return false };
    if !queue.is_holding() {
        queue.end(); // no pair waits there, so the driver is not needed
        return true;
    }
    let Ok(driver) = Driver::get() else { return true };
    queue.take_in_all();
    read_finished(driver, stream, &mut queue);
    let idle = queue.idle(stream);
    if idle.is_some() {
        queue.end();
    }
    drop(queue);
    Alive::let_go(idle, driver);
    stream.holders() == Some(0) // a holder may have recorded since the holders were counted
}

/// Queues a pair.
fn queue(driver: &Driver, stream: &NamedStream, pair: RecordedPair) {
    let mut queue = stream.queue.lock();
    queue.close();
    queue.push(pair);
    if read_in_time(driver, stream, &mut queue) {
        let idle = queue.idle(stream);
        drop(queue);
        Alive::let_go(idle, driver);
    }
}

/// Reads finished pairs if it is time to. Then drops pairs beyond the bound on those that wait, and counts them. Says
/// whether it was time.
fn read_in_time(driver: &Driver, stream: &NamedStream, queue: &mut Queue) -> bool {
    let is_time = queue.is_time_to_read(READ_EVERY) || queue.is_over();
    if is_time {
        read_finished(driver, stream, queue);
        queue.drop_newest(|target| {
            if target.window == target.totals.window() {
                target.totals.losses.dropped.fetch_add(1, Relaxed);
            }
        });
    }
    is_time
}

/// Gives back a pair whose range will not end.
pub(super) fn abandon(started: StartedPair) {
    if forks::is_child() {
        return;
    }
    if let (Ok(driver), Some(stream)) = (Driver::get(), named::get(started.stream)) {
        close(driver, stream, Some(started.events));
    }
}

/// The streams whose queues may be locked: all of them, and in a forked child none.
fn reachable() -> impl Iterator<Item = &'static NamedStream> {
    named::all().filter(|_| !forks::is_child())
}

/// Reads all pairs that are recorded so far, and waits for them.
pub(super) fn read_all() {
    // Where no stream was named, the driver is not even loaded.
    reachable().for_each(|stream| _ = Driver::get().map(|driver| read_stream(driver, stream)));
}

/// [`read_all`] at the end of the process: pairs that do not finish in this time are left.
pub(super) fn read_within(patience: Duration) {
    let is_left = |stream: &'static NamedStream| {
        let Ok(driver) = Driver::get() else { return false };
        let mut queue = stream.queue.lock();
        queue.take_in_all();
        read_finished(driver, stream, &mut queue);
        queue.len() > 0
    };
    let left = reachable().filter(|stream| is_left(stream)).count();
    if left > 0 && !patience.is_zero() {
        let _late_or_no_thread = own_calls::within(patience, read_all);
    }
}

/// Waits for the newest pair, then for pairs that were queued before it and are not done. There may be some: threads
/// that share a stream may queue in another order than they record in, and a per-thread default stream is really one
/// stream for each thread.
fn read_stream(driver: &Driver, stream: &NamedStream) {
    let mut left = {
        let mut queue = stream.queue.lock();
        queue.take_in_all();
        queue.len()
    };
    let mut newest = true;
    while left > 0 {
        let (event, alive) = {
            let queue = stream.queue.lock();
            let waiting = queue.waiting();
            let pair = if newest { waiting.get(left - 1).or(waiting.last()) } else { waiting.first() };
            let Some(pair) = pair else { return };
            (pair.events.end, queue.alive())
        };
        newest = false;
        // Waits outside the lock, so that the measured threads go on; `alive` keeps stream and context meanwhile. An
        // error comes again when the pair is read, and that takes the pair off the queue.
        let _read_below = driver.relaxed(|| driver.in_context(stream.context.handle, || driver.wait(event)));
        let mut queue = stream.queue.lock();
        let before = queue.len();
        read_finished(driver, stream, &mut queue);
        left = left.saturating_sub((before - queue.len()).max(1));
        let idle = queue.idle(stream);
        drop(queue);
        Alive::let_go(idle, driver);
        Alive::let_go(alive, driver);
    }
}

/// Number of pairs of a profiler's window that are recorded and not read.
pub(super) fn pending(totals: &StreamTotals) -> u64 {
    let is_meant =
        |pair: &&RecordedPair| std::ptr::eq(pair.target.totals, totals) && pair.target.window == totals.window();
    let of_stream = |stream: &NamedStream| {
        let mut queue = stream.queue.lock();
        queue.take_in_all();
        queue.waiting().iter().filter(is_meant).count() as u64
    };
    reachable().map(of_stream).sum()
}

/// Counts one start less: its end was not recorded.
fn close(driver: &Driver, stream: &NamedStream, events: Option<EventPair>) {
    let mut queue = stream.queue.lock();
    queue.give_back(events);
    queue.close();
    let idle = queue.idle(stream);
    drop(queue);
    Alive::let_go(idle, driver);
}

/// Creates some pairs for a stream whose context has none to spare, and gives one of them. The context is the current
/// one.
fn create_events(driver: &Driver, stream: &NamedStream) -> Result<EventPair, CudaError> {
    let pair = || {
        let start = driver.create_event()?;
        Ok(EventPair { start, end: driver.create_event().inspect_err(|_| driver.destroy_event(start))? })
    };
    let first = pair()?;
    let more: Vec<EventPair> = (1..BATCH).map_while(|_| pair().ok()).collect();
    stream.queue.lock().give_back(more);
    Ok(first)
}

/// Reads finished pairs in the order in which they came, up to the first that has not finished.
#[inline(never)]
fn read_finished(driver: &Driver, stream: &NamedStream, queue: &mut Queue) {
    let floor = stream.context.floor_ns();
    driver.relaxed(|| {
        let mut readings = [0; READ_EVERY];
        loop {
            // All readings first: so a profiler's rows are locked once, not for each pair, and not during calls of the
            // driver.
            let (mut count, mut stopped) = (0, Ok(()));
            for (reading, pair) in readings.iter_mut().zip(queue.waiting()) {
                match driver.elapsed_ns(pair.events.start, pair.events.end) {
                    Ok(ns) => *reading = ns,
                    Err(error) => {
                        stopped = Err(error);
                        break;
                    }
                }
                count += 1;
            }
            add(stream.id, floor, queue.waiting(), readings.get(..count).unwrap_or_default());
            queue.done(count);
            match stopped {
                Ok(()) if count == readings.len() => {}
                Ok(()) | Err(CudaError::NOT_READY) => return,
                Err(error) => {
                    let Some(&RecordedPair { target, .. }) = queue.waiting().first() else { return };
                    queue.done(1);
                    if target.window == target.totals.window() {
                        target.totals.losses.count_unreadable(error);
                    }
                }
            }
        }
    });
}

/// Adds the readings of the first of these pairs, in nanoseconds, to the rows of their profilers.
fn add(stream: StreamId, floor: u64, pairs: &[RecordedPair], mut readings: &[u64]) {
    let mut locked: Option<(&StreamTotals, _)> = None;
    let read = pairs.get(..readings.len()).unwrap_or_default();
    for same in read.chunk_by(|one, next| one.target.is(&next.target)) {
        let Some((&RecordedPair { target, .. }, (these, others))) =
            same.first().zip(readings.split_at_checked(same.len()))
        else {
            return;
        };
        readings = others;
        let totals = target.totals;
        let rows = match &mut locked {
            Some((of, rows)) if std::ptr::eq(*of, totals) => rows,
            other => {
                *other = None;
                &mut other.insert((totals, totals.lock())).1
            }
        };
        if target.window != totals.window() {
            continue; // entered before the last reset, which changes the window under this lock
        }
        let key = StreamKey { stream, node: target.node, range: target.key };
        rows.add(key, these, floor, &totals.budget);
    }
}
