//! Stream time with pairs of CUDA events.
//!
//! A start event is recorded just before a range begins and an end event just after it ends. Nothing waits for the GPU: pairs are read in
//! stream order once they have finished, and only a summary waits, for the newest pair of each stream. Every call leaves the thread's current
//! context, its stored errors and all captures as they were: what is enqueued into a stream that captures nothing harms no capture, and what
//! is not enqueued (to create events, to read them, to wait) is called in the relaxed capture mode.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use super::driver::{Capture, CudaError, Driver, Handle};
use super::queue::{BATCH, Events, Gone, PENDING, Pair, Queue, Target};
use super::streams::{self, Alive, ContextFacts, NamedContext, NamedStream, StreamId};
use crate::collect::core::Core;
use crate::collect::stream_times::StreamKey;

/// Every so many ends of a stream, finished pairs are read.
const READ_EVERY: u64 = 64;

/// A start event that waits for its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    stream: &'static NamedStream,
    events: Events,
}

impl Mark {
    /// As words that a thread can keep without a lock.
    pub(crate) fn words(self) -> [u64; 3] {
        [u64::from(self.stream.id), self.events.start as u64, self.events.end as u64]
    }

    /// From [`words`](Self::words).
    pub(crate) fn from_words([id, start, end]: [u64; 3]) -> Option<Self> {
        let stream = streams::get(u32::try_from(id).ok()?)?;
        Some(Self { stream, events: Events { start: start as Handle, end: end as Handle } })
    }
}

/// What could not be timed in one window of one profiler.
#[derive(Debug, Default)]
pub(crate) struct EventLosses {
    /// Entries or exits during a capture of their stream.
    pub(crate) captured: AtomicU64,
    /// Entries or exits on a stream that was gone, or that the driver refused.
    pub(crate) refused: AtomicU64,
    /// Pairs beyond the bound on those that wait.
    pub(crate) dropped: AtomicU64,
    /// Pairs that could not be read: their context failed or is gone.
    pub(crate) unreadable: AtomicU64,
    /// The driver's last answer to a refused or unreadable one.
    pub(crate) last_error: AtomicI32,
}

impl EventLosses {
    /// Starts over for a new window.
    pub(crate) fn clear(&self) {
        for counter in [&self.captured, &self.refused, &self.dropped, &self.unreadable] {
            counter.store(0, Relaxed);
        }
        self.last_error.store(0, Relaxed);
    }

    /// Counts an event that was not recorded: why, unless it is a capture.
    fn count_unrecorded(&self, why: Option<CudaError>) {
        match why {
            Some(error) => self.count(&self.refused, error),
            None => _ = self.captured.fetch_add(1, Relaxed),
        }
    }

    fn count(&self, counter: &AtomicU64, error: CudaError) {
        counter.fetch_add(1, Relaxed);
        self.last_error.store(error.0, Relaxed);
    }
}

/// Records the start of a range on a stream. `None` where that cannot be: counted.
pub(crate) fn begin(core: &'static Core, id: StreamId) -> Option<Mark> {
    let driver = Driver::get().ok()?; // the footer has the reason
    let losses = &core.losses.streams;
    let opened = streams::get(id).ok_or(Gone).and_then(|stream| Ok((stream, stream.queue.lock().open(stream)?)));
    let Ok((stream, mut events)) = opened else {
        losses.refused.fetch_add(1, Relaxed);
        return None;
    };
    // Outside the lock: the driver waits where its own queue is full.
    let recorded = driver.in_context(stream.context.handle, || {
        // In its context: a default stream is that of whichever is current.
        if driver.capture(stream.handle)? == Capture::Active {
            return Ok(None);
        }
        prepare(driver, stream.context)?;
        let events = match events {
            Some(events) => events,
            None => *events.insert(driver.relaxed(|| create_events(driver, stream))?),
        };
        driver.record(events.start, stream.handle)?;
        Ok(Some(Mark { stream, events }))
    });
    match recorded {
        Ok(Some(mark)) => return Some(mark),
        Ok(None) => losses.count_unrecorded(None),
        Err(error) => losses.count_unrecorded(Some(error)),
    }
    close(driver, stream, events);
    None
}

/// Records the end of a range and queues the pair to be read.
pub(crate) fn end(mark: Mark, target: Target) {
    let Ok(driver) = Driver::get() else { return };
    let Mark { stream, events } = mark;
    let recorded = driver.in_context(stream.context.handle, || {
        if driver.capture(stream.handle)? == Capture::Active {
            return Ok(false);
        }
        driver.record(events.end, stream.handle).map(|()| true)
    });
    let losses = &target.core.losses.streams;
    match recorded {
        Ok(true) => {}
        Ok(false) => losses.count_unrecorded(None),
        Err(error) => losses.count_unrecorded(Some(error)),
    }
    if recorded != Ok(true) {
        return close(driver, stream, Some(events));
    }
    let mut queue = stream.queue.lock();
    let ends = queue.end();
    if queue.pairs.len() >= PENDING {
        read_finished(driver, stream, &mut queue);
    }
    if queue.pairs.len() >= PENDING {
        queue.spare.push(events);
        losses.dropped.fetch_add(1, Relaxed);
        return;
    }
    queue.pairs.push_back(Pair { events, target });
    if ends % READ_EVERY == 0 {
        read_finished(driver, stream, &mut queue);
        let idle = queue.idle(stream);
        drop(queue);
        Alive::let_go(idle, driver);
    }
}

/// Gives a start back whose range will not end.
pub(crate) fn abandon(mark: Mark) {
    let Ok(driver) = Driver::get() else { return };
    close(driver, mark.stream, Some(mark.events));
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
            (pair.events.end, queue.alive())
        };
        newest = false;
        // Outside the lock, so that the measured threads go on; `alive` keeps stream and context meanwhile. An error is found again when
        // the pair is read, which takes it off the queue.
        let _read_below = driver.relaxed(|| driver.in_context(stream.context.handle, || driver.wait(event)));
        let mut queue = stream.queue.lock();
        let before = queue.pairs.len();
        read_finished(driver, stream, &mut queue);
        left = left.saturating_sub((before - queue.pairs.len()).max(1));
        let idle = queue.idle(stream);
        drop(queue);
        Alive::let_go(idle, driver);
        Alive::let_go(alive, driver);
    }
}

/// Pairs of a profiler's window that are recorded and not read.
pub(crate) fn pending(core: &Core) -> u64 {
    let is_meant = |pair: &&Pair| pair.target.core.id == core.id && pair.target.window == core.window();
    streams::all().map(|stream| stream.queue.lock().pairs.iter().filter(is_meant).count() as u64).sum()
}

/// One start fewer that waits for its end, which has not been recorded.
fn close(driver: &Driver, stream: &NamedStream, events: Option<Events>) {
    let mut queue = stream.queue.lock();
    queue.spare.extend(events);
    queue.close();
    let idle = queue.idle(stream);
    drop(queue);
    Alive::let_go(idle, driver);
}

/// Makes some pairs of events for a stream whose context, the current one, has none to spare, and gives one.
fn create_events(driver: &Driver, stream: &NamedStream) -> Result<Events, CudaError> {
    let pair = || {
        let start = driver.create_event()?;
        Ok(Events { start, end: driver.create_event().inspect_err(|_| driver.destroy_event(start))? })
    };
    let first = pair()?;
    let more: Vec<Events> = (1..BATCH).map_while(|_| pair().ok()).collect();
    stream.queue.lock().spare.extend(more);
    Ok(first)
}

/// Reads finished pairs, oldest first, and stops at the first that is not.
fn read_finished(driver: &Driver, stream: &NamedStream, queue: &mut Queue) {
    let floor = stream.context.floor_ns();
    let Queue { pairs, spare, .. } = queue;
    driver.relaxed(|| {
        let mut readings = [0; READ_EVERY as usize];
        loop {
            // One profiler's table is locked once, not for each of its pairs, and not while the driver is asked.
            let (mut count, mut stopped) = (0, Ok(()));
            for (reading, pair) in readings.iter_mut().zip(pairs.iter()) {
                match driver.elapsed_ns(pair.events.start, pair.events.end) {
                    Ok(ns) => *reading = ns,
                    Err(error) => {
                        stopped = Err(error);
                        break;
                    }
                }
                count += 1;
            }
            let mut table = None;
            for &ns in readings.iter().take(count) {
                let Some(Pair { events, target }) = pairs.pop_front() else { return };
                spare.push(events);
                let core = target.core;
                if target.window != core.window() {
                    continue; // it was entered before the last reset
                }
                let rows = match &mut table {
                    Some((id, rows)) if *id == core.id => rows,
                    other => {
                        *other = None;
                        &mut other.insert((core.id, core.stream_times.lock())).1
                    }
                };
                let key = StreamKey { stream: stream.id, node: target.node, range: target.key };
                rows.add(key, ns, ns <= floor, &core.budget);
            }
            drop(table);
            match stopped {
                Ok(()) if count == readings.len() => {}
                Ok(()) | Err(CudaError::NOT_READY) => return,
                Err(error) => {
                    let Some(Pair { events, target }) = pairs.pop_front() else { return };
                    spare.push(events);
                    if target.window == target.core.window() {
                        target.core.losses.streams.count(&target.core.losses.streams.unreadable, error);
                    }
                }
            }
        }
    });
}

/// Asks and measures what is wanted once a context. The context is current.
fn prepare(driver: &Driver, context: &NamedContext) -> Result<(), CudaError> {
    if context.facts.get().is_some() {
        return Ok(());
    }
    context.facts.get_or_try_init(|| {
        let (device, device_name) = driver.current_device()?;
        // Tried once: what fails at one entry would fail, and cost as much, at the next.
        let floor = driver.relaxed(|| measure_floor(driver, context.handle));
        Ok(ContextFacts { device, device_name, floor })
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
                driver.in_context(context, || {
                    driver.capture(stream)?;
                    driver.record(event, stream)
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
