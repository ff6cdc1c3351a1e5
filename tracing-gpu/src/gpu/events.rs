//! Stream time with pairs of CUDA events.
//!
//! A start event is recorded just before a range begins and an end event just after it ends. Nothing waits for the GPU: pairs are read in
//! stream order once they have finished, by a thread of our own (`reader.rs`), and only a summary waits, for the newest pair of each stream. Every call leaves the thread's current
//! context, its stored errors and all captures as they were: what is enqueued into a stream that captures nothing harms no capture, and what
//! is not enqueued (to create events, to read them, to wait) is called in the relaxed capture mode.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::driver::{Capture, CudaError, Driver, Handle};
use super::queue::{BATCH, Events, PENDING, Pair, Taken, Target};
use super::reader::{self, WAKE_AT};
use super::streams::{self, Alive, ContextFacts, NamedStream, StreamId};
use super::thread::{self, Timed, Untimed};
use crate::collect::core::Core;
use crate::collect::stream_times::StreamKey;

/// Pairs that are read before others get their turn: what the lock on what is being read is held for.
const READ_AT_ONCE: usize = 256;
/// A thread of the program waits no longer than this for another one to have read a batch: several times as long as that takes.
const LONGEST_HELP: Duration = Duration::from_millis(2);
/// A summary waits no longer than this for a batch.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// A start event that waits for its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    driver: &'static Driver,
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
        let Timed { driver, stream } = thread::timed(u32::try_from(id).ok()?).ok()?;
        Some(Self { driver, stream, events: Events { start: start as Handle, end: end as Handle } })
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
    let losses = &core.losses.streams;
    let Timed { driver, stream } = match thread::timed(id) {
        Ok(timed) => timed,
        Err(Untimed::NoDriver) => return None, // the footer has the reason
        Err(Untimed::Unknown) => {
            losses.refused.fetch_add(1, Relaxed);
            return None;
        }
    };
    let opened = {
        let mut queue = stream.queue.lock();
        queue.open(stream).map(|events| (events, queue.is_prepared))
    };
    let Ok((mut events, is_prepared)) = opened else {
        losses.refused.fetch_add(1, Relaxed);
        return None;
    };
    // Outside the lock: the driver waits where its own queue is full.
    let recorded = driver.in_context(stream.context_handle, || {
        // In its context: a default stream is that of whichever is current.
        if driver.capture(stream.handle)? == Capture::Active {
            return Ok(None);
        }
        if !is_prepared {
            prepare(driver, stream)?;
        }
        let events = match events {
            Some(events) => events,
            None => *events.insert(driver.relaxed(|| create_events(driver, stream))?),
        };
        driver.record(events.start, stream.handle)?;
        Ok(Some(Mark { driver, stream, events }))
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
    let Mark { driver, stream, events } = mark;
    let recorded = driver.in_context(stream.context_handle, || {
        if driver.capture(stream.handle)? == Capture::Active {
            return Ok(false);
        }
        driver.record(events.end, stream.handle).map(|()| true)
    });
    if recorded != Ok(true) {
        target.shard.event_losses().count_unrecorded(recorded.err());
        return close(driver, stream, Some(events));
    }
    let mut queue = stream.queue.lock();
    if queue.waiting() >= PENDING {
        drop(queue);
        help(driver, stream); // the stream is still held: this range is open
        queue = stream.queue.lock();
    }
    queue.close();
    if queue.waiting() >= PENDING {
        queue.spare.push(events);
        target.shard.event_losses().dropped.fetch_add(1, Relaxed);
        return;
    }
    queue.pairs.push(Pair { events, target });
    let waiting = queue.pairs.len();
    drop(queue);
    let is_time = waiting % WAKE_AT == 0 || waiting == 1 && reader::is_asleep();
    if is_time && !reader::wake() {
        help(driver, stream);
    }
}

/// Reads some finished pairs of a stream on a thread of the program: too many wait, or there is nobody else to read them.
#[inline(never)]
fn help(driver: &Driver, stream: &NamedStream) {
    // Whoever holds it reads a batch, and does not wait meanwhile.
    let Some(mut taken) = stream.taken().try_lock_for(LONGEST_HELP) else { return };
    let batch = driver.relaxed(|| read_batch(driver, stream, &mut taken, || true));
    drop(taken);
    Alive::let_go(batch.idle, driver);
}

/// Gives a start back whose range will not end.
pub(crate) fn abandon(mark: Mark) {
    close(mark.driver, mark.stream, Some(mark.events));
}

/// Reads what is recorded on all streams so far; waits for it.
pub(crate) fn read_all() {
    // Where no stream has anything, there may be no driver either, and it is not loaded for this.
    for stream in streams::all() {
        if stream.queue.lock().waiting() > 0 {
            let Ok(driver) = Driver::get() else { return };
            read_stream(driver, stream);
        }
    }
}

/// Waits for the newest pair, and then for those that were queued before it and are not done: threads that share a stream may queue in another
/// order than they record in, and a per-thread default stream is one for each thread.
fn read_stream(driver: &Driver, stream: &NamedStream) {
    let lock = || stream.taken().try_lock_for(LONGEST_WAIT); // the reader holds it for a batch: not long
    let Some(goal) = lock().map(|taken| taken.read + stream.queue.lock().waiting() as u64) else { return };
    // First for the newest pair, then for the oldest that is left, once each as long as nothing gets read.
    let (mut read_before, mut waits) = (0, 0);
    loop {
        let Some(mut taken) = lock() else { return };
        let batch = driver.relaxed(|| read_batch(driver, stream, &mut taken, || true));
        let (is_done, progress) = (taken.read >= goal, taken.read > read_before);
        read_before = taken.read;
        let next = {
            let queue = stream.queue.lock();
            waits = if progress && waits > 0 { 1 } else { waits };
            let pair = match waits {
                0 => queue.pairs.last().or(taken.rest().last()),
                1 => taken.rest().first(),
                _ => None, // what has been waited for cannot be read: it stays pending
            };
            pair.map(|pair| (pair.events.end, queue.alive()))
        };
        drop(taken);
        Alive::let_go(batch.idle, driver);
        match next {
            Some((_, alive)) if is_done || batch.count > 0 => Alive::let_go(alive, driver),
            Some((event, alive)) => {
                // Outside the locks, so that the measured threads go on; `alive` keeps stream and context meanwhile. An error is found again when
                // the pair is read, which takes it off the queue.
                let _read_below = driver.relaxed(|| driver.in_context(stream.context_handle, || driver.wait(event)));
                Alive::let_go(alive, driver);
                waits += 1;
            }
            None if batch.count == 0 => return,
            None => {}
        }
        if is_done {
            return;
        }
    }
}

/// Reads a batch of finished pairs unless somebody else is at it. Returns whether another batch should follow: what arrives meanwhile can wait
/// until it is worth it. Stops early where it is not to go on.
pub(super) fn read_batch_if_free(driver: &Driver, stream: &NamedStream, goes_on: impl Fn() -> bool) -> bool {
    let Some(mut taken) = stream.taken().try_lock() else { return false };
    driver.relaxed(|| {
        let batch = read_batch(driver, stream, &mut taken, goes_on);
        let is_left = batch.count == READ_AT_ONCE && !taken.rest().is_empty();
        drop(taken);
        Alive::let_go(batch.idle, driver);
        batch.count > 0 && (is_left || batch.queued >= WAKE_AT)
    })
}

/// Pairs of a profiler's window that are recorded and not read.
pub(crate) fn pending(core: &Core) -> u64 {
    let is_meant = |pair: &&Pair| pair.target.shard.profiler == core.id && pair.target.window == core.window_number();
    let of_stream = |stream: &NamedStream| {
        let taken = stream.taken().try_lock_for(LONGEST_WAIT);
        let queue = stream.queue.lock();
        let taken = taken.as_ref().map(|taken| taken.rest()).unwrap_or_default();
        taken.iter().chain(&queue.pairs).filter(is_meant).count() as u64
    };
    streams::all().map(of_stream).sum()
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
    let mut is_refused = false;
    let more: [Option<Events>; BATCH - 1] = std::array::from_fn(|_| {
        let pair = if is_refused { None } else { pair().ok() };
        is_refused = pair.is_none();
        pair
    });
    stream.queue.lock().spare.extend(more.into_iter().flatten());
    Ok(first)
}

/// What became of a batch.
struct Batch {
    /// Pairs that were read.
    count: usize,
    /// Pairs that are in the queue.
    queued: usize,
    /// The hold on the stream if nothing needs it any more: to be let go outside all locks.
    idle: Option<Alive>,
}

/// Reads finished pairs, oldest first, until one has not finished, or there are as many as are read at once. In the relaxed capture mode.
fn read_batch(driver: &Driver, stream: &NamedStream, taken: &mut Taken, goes_on: impl Fn() -> bool) -> Batch {
    taken.take(stream);
    let mut readings = [Ok(0); READ_AT_ONCE];
    let mut count = 0;
    for (reading, pair) in readings.iter_mut().zip(taken.rest()).take_while(|_| goes_on()) {
        *reading = match driver.elapsed_ns(pair.events.start, pair.events.end) {
            Ok(None) => break,
            Ok(Some(ns)) => Ok(ns),
            Err(error) => Err(error),
        };
        count += 1;
    }
    add(stream, taken.rest().iter().zip(readings).take(count));
    let (queued, idle) = taken.give_back(count, stream);
    Batch { count, queued, idle }
}

/// Adds readings to the tables of their profilers. A table is locked once, not for each of its pairs, and not while the driver is asked.
fn add<'a>(stream: &NamedStream, readings: impl Iterator<Item = (&'a Pair, Result<u64, CudaError>)>) {
    let floor = stream.context.floor_ns();
    let mut table = None;
    for (Pair { target, .. }, reading) in readings {
        let core = target.shard.core();
        let rows = match &mut table {
            Some((id, rows)) if *id == core.id => rows,
            other => {
                *other = None;
                &mut other.insert((core.id, core.stream_times.lock())).1
            }
        };
        // Under the lock, which a reset takes after it has begun the new window.
        if target.window != core.window_number() {
            continue; // it was entered before the last reset
        }
        match (reading, target.shard.timed_row(target.row)) {
            (Ok(ns), Some((node, range))) => {
                let key = StreamKey { stream: stream.id, node, range };
                rows.add(key, ns, ns <= floor, &core.budget);
            }
            (Ok(_), None) => {} // a range has a row
            (Err(error), _) => core.losses.streams.count(&core.losses.streams.unreadable, error),
        }
    }
}

/// Asks and measures what is wanted once a context. The context is current.
#[inline(never)]
fn prepare(driver: &Driver, stream: &NamedStream) -> Result<(), CudaError> {
    let context = stream.context;
    context.facts.get_or_try_init(|| {
        let (device, device_name) = driver.current_device()?;
        // Tried once: what fails at one entry would fail, and cost as much, at the next.
        let floor = driver.relaxed(|| measure_floor(driver, context.handle));
        Ok(ContextFacts { device, device_name, floor })
    })?;
    stream.queue.lock().is_prepared = true;
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
            readings.push(driver.elapsed_ns(pair[0], pair[1])?.ok_or(CudaError::NOT_READY)?);
        }
        readings.sort_unstable();
        Ok(2 * readings[PAIRS * 9 / 10])
    })();
    events.iter().for_each(|&event| driver.destroy_event(event));
    driver.destroy_stream(stream);
    measured
}
