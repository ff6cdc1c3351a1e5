//! Stream time with pairs of CUDA events.
//!
//! A start event is recorded just before a range begins and an end event just after it ends. Nothing waits for the GPU: pairs are read in
//! stream order once they have finished, and only a summary waits, for the newest pair of each stream. Every call leaves the thread's current
//! context, its stored errors and all captures as they were.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use super::driver::{Capture, CudaError, Driver, Handle};
use super::queue::{PENDING, Pair, Target};
use super::streams::{self, ContextFacts, NamedContext, NamedStream, StreamId};

/// Every so many ends of a stream, finished pairs are read.
const READ_EVERY: u64 = 64;

/// A start event that waits for its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    stream: &'static NamedStream,
    start: Handle,
}

/// What could not be timed, over all profilers of the process.
#[derive(Debug, Default)]
pub(crate) struct EventLosses {
    /// Entries during a capture of their stream.
    pub(crate) captured: AtomicU64,
    /// Entries on a stream that was gone, or that the driver refused.
    pub(crate) refused: AtomicU64,
    /// Pairs beyond the bound on those that wait.
    pub(crate) dropped: AtomicU64,
    /// Pairs that could not be read: their context failed or is gone.
    pub(crate) unreadable: AtomicU64,
    /// The driver's last answer to a refused or unreadable one.
    pub(crate) last_error: AtomicI32,
}

pub(crate) static LOSSES: EventLosses = EventLosses {
    captured: AtomicU64::new(0),
    refused: AtomicU64::new(0),
    dropped: AtomicU64::new(0),
    unreadable: AtomicU64::new(0),
    last_error: AtomicI32::new(0),
};

fn count(counter: &AtomicU64, error: CudaError) {
    counter.fetch_add(1, Relaxed);
    LOSSES.last_error.store(error.0, Relaxed);
}

/// Records the start of a range on a stream. `None` where that cannot be: counted.
pub(crate) fn begin(id: StreamId) -> Option<Mark> {
    let driver = Driver::get().ok()?; // the footer has the reason
    let Some(stream) = streams::get(id) else {
        LOSSES.refused.fetch_add(1, Relaxed);
        return None;
    };
    {
        let mut queue = stream.queue.lock();
        if queue.alive.is_none() {
            let Some(alive) = stream.hold() else {
                LOSSES.refused.fetch_add(1, Relaxed);
                return None;
            };
            queue.alive = Some(alive);
        }
        queue.open += 1;
    }
    let recorded = driver.relaxed(|| {
        driver.in_context(stream.context.handle, || {
            // In its context: a default stream is that of whichever is current.
            if driver.capture(stream.handle)? == Capture::Active {
                return Ok(None);
            }
            prepare(driver, stream.context)?;
            record(driver, stream).map(Some)
        })
    });
    match recorded {
        Ok(Some(start)) => return Some(Mark { stream, start }),
        Ok(None) => _ = LOSSES.captured.fetch_add(1, Relaxed),
        Err(error) => count(&LOSSES.refused, error),
    }
    close(driver, stream);
    None
}

/// Records the end of a range and queues the pair to be read.
pub(crate) fn end(mark: Mark, target: Target) {
    let Ok(driver) = Driver::get() else { return };
    let stream = mark.stream;
    let recorded = driver.relaxed(|| {
        driver.in_context(stream.context.handle, || {
            if driver.capture(stream.handle)? == Capture::Active {
                return Ok(None);
            }
            record(driver, stream).map(Some)
        })
    });
    let end = match recorded {
        Ok(Some(end)) => end,
        other => {
            match other {
                Err(error) => count(&LOSSES.refused, error),
                _ => _ = LOSSES.captured.fetch_add(1, Relaxed),
            }
            stream.context.events.lock().push(mark.start);
            return close(driver, stream);
        }
    };
    let mut queue = stream.queue.lock();
    queue.open = queue.open.saturating_sub(1);
    queue.ends += 1;
    if queue.pairs.len() >= PENDING {
        read_finished(driver, stream, &mut queue.pairs);
    }
    if queue.pairs.len() >= PENDING {
        stream.context.events.lock().extend([mark.start, end]);
        LOSSES.dropped.fetch_add(1, Relaxed);
        return;
    }
    queue.pairs.push_back(Pair { start: mark.start, end, target });
    if queue.ends % READ_EVERY == 0 {
        read_finished(driver, stream, &mut queue.pairs);
        let idle = queue.idle();
        drop(queue);
        driver.keeping_context(|| drop(idle));
    }
}

/// Gives a start back whose range will not end.
pub(crate) fn abandon(mark: Mark) {
    let Ok(driver) = Driver::get() else { return };
    mark.stream.context.events.lock().push(mark.start);
    close(driver, mark.stream);
}

/// Reads what is recorded on all streams so far; waits for it.
pub(crate) fn read_all() {
    let Ok(driver) = Driver::get() else { return };
    streams::all().for_each(|stream| read_stream(driver, stream));
}

/// Waits for the newest pair, and then for those that were queued before it and are not done: threads that share a stream may queue in another
/// order than they record in, and a per-thread default stream is one for each thread.
fn read_stream(driver: &Driver, stream: &NamedStream) {
    let mut left = stream.queue.lock().pairs.len();
    let mut newest = true;
    while left > 0 {
        let (event, alive) = {
            let queue = stream.queue.lock();
            let pair = if newest { queue.pairs.get(left - 1).or(queue.pairs.back()) } else { queue.pairs.front() };
            let Some(pair) = pair else { return };
            (pair.end, queue.alive.clone())
        };
        newest = false;
        // Outside the lock, so that the measured threads go on; `alive` keeps stream and context meanwhile. An error is found again when
        // the pair is read, which takes it off the queue.
        let _read_below = driver.relaxed(|| driver.in_context(stream.context.handle, || driver.wait(event)));
        let mut queue = stream.queue.lock();
        let before = queue.pairs.len();
        read_finished(driver, stream, &mut queue.pairs);
        left = left.saturating_sub((before - queue.pairs.len()).max(1));
        let idle = queue.idle();
        drop(queue);
        driver.keeping_context(|| drop((idle, alive)));
    }
}

/// Pairs that are recorded and not read.
pub(crate) fn pending() -> u64 {
    streams::all().map(|stream| stream.queue.lock().pairs.len() as u64).sum()
}

/// One start fewer that waits for its end.
fn close(driver: &Driver, stream: &NamedStream) {
    let mut queue = stream.queue.lock();
    queue.open = queue.open.saturating_sub(1);
    let idle = queue.idle();
    drop(queue);
    driver.keeping_context(|| drop(idle)); // the last hold on a cudarc stream changes the current context when it goes
}

fn record(driver: &Driver, stream: &NamedStream) -> Result<Handle, CudaError> {
    let pooled = stream.context.events.lock().pop();
    let event = pooled.map_or_else(|| driver.create_event(), Ok)?;
    driver.record(event, stream.handle).inspect_err(|_| stream.context.events.lock().push(event))?;
    Ok(event)
}

/// Reads finished pairs, oldest first, and stops at the first that is not.
fn read_finished(driver: &Driver, stream: &NamedStream, pairs: &mut std::collections::VecDeque<Pair>) {
    let floor = stream.context.facts.get().map_or(0, |facts| facts.floor_ns);
    driver.relaxed(|| {
        while let Some(pair) = pairs.front() {
            match driver
                .is_done(pair.end)
                .and_then(|done| if done { driver.elapsed_ns(pair.start, pair.end).map(Some) } else { Ok(None) })
            {
                Ok(None) => break,
                Ok(Some(ns)) => pair.target.core.add_stream_time(stream.id, &pair.target, ns, ns <= floor),
                Err(error) => count(&LOSSES.unreadable, error),
            }
            stream.context.events.lock().extend([pair.start, pair.end]);
            pairs.pop_front();
        }
    });
}

/// Asks and measures what is wanted once a context. The context is current.
fn prepare(driver: &Driver, context: &NamedContext) -> Result<(), CudaError> {
    context.facts.get_or_try_init(|| {
        let (device, device_name) = driver.current_device()?;
        Ok(ContextFacts { device, device_name, floor_ns: measure_floor(driver, context.handle)? })
    })?;
    Ok(())
}

/// The reading up to which a pair says nothing: twice what nine in ten pairs read with nothing between their events, on an idle stream of
/// our own, recorded as entries and exits record them. Twice, since in a program the caches are colder.
fn measure_floor(driver: &Driver, context: Handle) -> Result<u64, CudaError> {
    const PAIRS: usize = 64;
    let stream = driver.create_stream()?;
    let mut events = Vec::with_capacity(2 * PAIRS);
    let measured = (|| {
        for _ in 0..2 * PAIRS {
            events.push(driver.create_event()?);
        }
        let mut readings = Vec::with_capacity(PAIRS);
        for pair in events.chunks_exact(2) {
            for &event in pair {
                driver.relaxed(|| {
                    driver.capture(stream)?;
                    driver.in_context(context, || driver.record(event, stream))
                })?;
            }
            driver.wait(pair[1])?;
            readings.push(driver.elapsed_ns(pair[0], pair[1])?);
        }
        readings.sort_unstable();
        Ok(2 * readings[PAIRS * 9 / 10])
    })();
    events.iter().for_each(|&event| driver.destroy_event(event));
    driver.destroy_stream(stream);
    measured
}
