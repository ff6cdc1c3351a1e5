//! Reading pairs of CUDA events.
//!
//! The program never waits for the GPU: pairs are read in order of arrival, once they have finished. Only a summary
//! waits, for the newest pair of each stream first. Calls that read events or wait are made in the relaxed capture
//! mode.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use gpu_activity::driver::{CudaError, Driver};
use gpu_activity::{forks, own_calls};

use super::lane::Lane;
use super::named::{self, NamedStream};
use super::owner::Alive;
use super::pair::{EventPair, RecordedPair};
use super::queue::Queue;
use super::totals::{StreamKey, StreamTotals};
use crate::parts::streams::StreamId;

/// Finished pairs of a stream are read after this many ended ranges.
const READ_EVERY: usize = 64;

/// Returns the lane that a scope has borrowed from its stream.
pub(crate) fn leave(stream: &NamedStream, lane: &Lane) {
    let Ok(driver) = Driver::get() else { return };
    let mut queue = stream.queue.lock();
    queue.take_back(lane);
    read_in_time(driver, stream, &mut queue);
    let idle = queue.idle(&stream.owner);
    drop(queue);
    Alive::let_go(idle, driver);
}

/// Reads the pairs of a stream that only its queue holds, then releases the stream and the queue's memory. Returns
/// false if it must be tried again, because the stream is in use or its work has not finished.
pub(crate) fn retire(stream: &NamedStream) -> bool {
    let Some(holders) = stream.owner.holders() else { return true };
    let queue = stream.queue.try_lock().filter(|queue| holders <= usize::from(queue.is_holding()));
    let Some(mut queue) = queue else { return false };
    if !queue.is_holding() {
        queue.end(); // no pair waits there, so the driver is not needed
        return true;
    }
    let Ok(driver) = Driver::get() else { return true };
    queue.take_in_all();
    read_finished(driver, stream, &mut queue);
    let idle = queue.idle(&stream.owner);
    if idle.is_some() {
        queue.end();
    }
    drop(queue);
    Alive::let_go(idle, driver);
    stream.owner.holders() == Some(0) // a holder may have recorded a pair before it let go
}

/// Reads finished pairs if it is time to. Then drops and counts pairs beyond the limit. Returns whether it was time.
pub(crate) fn read_in_time(driver: &Driver, stream: &NamedStream, queue: &mut Queue) -> bool {
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

/// The streams whose queues may be locked: all of them, but none in a forked child.
fn reachable() -> impl Iterator<Item = &'static NamedStream> {
    named::all().filter(|_| !forks::is_child())
}

/// Reads all pairs recorded so far, and waits for them.
pub(crate) fn read_all() {
    // If no stream was named, the driver is not even loaded.
    reachable().for_each(|stream| _ = Driver::get().map(|driver| read_stream(driver, stream)));
}

/// [`read_all`] at the end of the process: gives up on pairs that do not finish in this time.
pub(crate) fn read_within(patience: Duration) {
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

/// Waits for the newest pair, then for unfinished ones queued before it. There may be some: threads that share a stream
/// may record in one order and queue in another, and a per-thread default stream is really one stream for each thread.
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
        // Waits outside of the lock, so that measured threads continue; `alive` keeps stream and context meanwhile. The
        // reading of the pair returns the same error, and removes the pair from the queue.
        let _read_below = driver.relaxed(|| driver.in_context(stream.owner.context.handle, || driver.wait(event)));
        let mut queue = stream.queue.lock();
        let before = queue.len();
        read_finished(driver, stream, &mut queue);
        left = left.saturating_sub((before - queue.len()).max(1));
        let idle = queue.idle(&stream.owner);
        drop(queue);
        Alive::let_go(idle, driver);
        Alive::let_go(alive, driver);
    }
}

/// Number of recorded but unread pairs in a profiler's window.
pub(crate) fn pending(totals: &StreamTotals) -> u64 {
    let is_meant =
        |pair: &&RecordedPair| std::ptr::eq(pair.target.totals, totals) && pair.target.window == totals.window();
    let of_stream = |stream: &NamedStream| {
        let mut queue = stream.queue.lock();
        queue.take_in_all();
        queue.waiting().iter().filter(is_meant).count() as u64
    };
    reachable().map(of_stream).sum()
}

/// Counts one start less, because its end was not recorded.
pub(crate) fn close(driver: &Driver, stream: &NamedStream, events: Option<EventPair>) {
    let mut queue = stream.queue.lock();
    queue.give_back(events);
    queue.close();
    let idle = queue.idle(&stream.owner);
    drop(queue);
    Alive::let_go(idle, driver);
}

/// Reads finished pairs in order of arrival, up to the first unfinished one.
#[inline(never)]
fn read_finished(driver: &Driver, stream: &NamedStream, queue: &mut Queue) {
    let floor = stream.owner.context.floor_ns();
    driver.relaxed(|| {
        let mut readings = [0; READ_EVERY];
        loop {
            // Takes all readings first, so that a profiler's rows are locked only once, and not during driver calls.
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

/// Adds the readings of these first pairs, in nanoseconds, to the rows of their profilers.
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
