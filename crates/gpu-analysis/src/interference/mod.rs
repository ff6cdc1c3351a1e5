//! Which operations waited behind operations of other requests, and whose.
//!
//! A stream runs its operations one after the other, so an operation that is launched waits for the earlier ones of its
//! stream, and for those of other streams that its stream was told to wait for by an event. An operation is *ready*
//! from the start of the call that launches it, and once the operations of its own request that it waits for have
//! ended. From then on until it starts, each moment in which an operation of another request runs that it waits for is
//! charged to the span that launched that one: once, and rather to its own stream than to one behind an event.
//!
//! If its stream is free, and nothing that it waits for runs, but it starts more than [`DISPATCH`] later, it may wait
//! for room on the device: each of these moments in which another stream runs is possibly owed to that one.
//!
//! A request is the outermost call around a launch (`calls`). What the records do not tell apart counts as one request:
//! launches outside of spans, and calls whose callers are not known yet, unless their outermost spans have different
//! names. A request that was over when the same thread launched the operation is an earlier step of it. Where calls
//! have no numbers, ranges nest on their threads, so those of different threads are different requests.
//!
//! Records arrive late and in any order. So operations that started before [`Limits::lateness`] are settled whenever
//! [`Limits::batch`] records have arrived, and memory does not grow with the run.

mod calls;

#[cfg(test)]
mod tests;

use std::fmt;

use range_model::stats::{Keyed, Lean, order};
use range_model::summary::{InterferenceStats, Join as _, MemoryKind};
use range_model::timeline::{Call, Detail, Details, Operation, PlacedDetail, Range, WaitKind, Work};
use range_model::{Note, Summary};

use self::calls::Calls;
use super::idle::DISPATCH;
use super::union::Union;
use range_model::Fold;

/// How long records are kept.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// How far records may arrive behind the latest one, in nanoseconds.
    lateness: u64,
    /// Number of records after which the older operations are settled.
    batch: usize,
    /// Number of operations at which all are settled: some 60 MB.
    most: usize,
    /// Number of settled operations that are remembered, and of waits and of events.
    kept: usize,
    /// Number of pairs of spans.
    pairs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lateness: 2_000_000_000, batch: 1 << 18, most: 1 << 20, kept: 1 << 16, pairs: 1 << 16 }
    }
}

/// Whose operations made those of others wait in a stream of a GPU.
#[derive(Default)]
pub struct Interference {
    limits: Limits,
    without_events: bool,
    paths: Paths,
    calls: Calls,
    streams: Keyed<StreamId, StreamLog>,
    /// Records of events, by their numbers.
    events: Keyed<u64, Event>,
    /// Whether an event was forgotten.
    forgot_event: bool,
    pairs: Keyed<Pair, Sums>,
    /// Start of the window. Operations that started before are not judged.
    window: u64,
    /// Operations that started before this are settled.
    settled: u64,
    /// Number of records since the last settling, and the end of the latest one.
    arrived: usize,
    latest: u64,
    operations: usize,
    /// Operations that arrived too late; that waited longer than what is remembered; and those of pairs without room.
    late: u64,
    cut: u64,
    crowded: u64,
}

/// Context and number of a stream.
type StreamId = (u32, u32);
/// Paths of the operation that waited, and of the one behind which it waited.
type Pair = (u32, u32);

/// The number of streams at which those without a record are forgotten.
const MOST_STREAMS: usize = 1 << 10;
/// Stands for no span in place of a path.
const NO_PATH: u32 = u32::MAX;

/// Paths of spans, by number.
#[derive(Default)]
struct Paths {
    numbers: Keyed<Vec<String>, u32>,
    roots: Keyed<String, u32>,
    /// Of each path, the number of its outermost span's label, and how many spans it has.
    known: Vec<(u32, usize)>,
}

impl Paths {
    /// The number of a path. Copies it only if it is new.
    fn number(&mut self, path: &[String]) -> u32 {
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        let Some(root) = path.first() else { return NO_PATH };
        let (next_root, number) = (self.roots.len() as u32, self.known.len() as u32);
        let root = *self.roots.row_or(root.clone(), || next_root);
        self.known.push((root, path.len()));
        *self.numbers.row_or(path.to_vec(), || number)
    }

    fn root(&self, path: u32) -> u32 {
        self.known.get(path as usize).map_or(NO_PATH, |(root, _)| *root)
    }

    fn spans(&self, path: u32) -> usize {
        self.known.get(path as usize).map_or(0, |(_, spans)| *spans)
    }
}

/// An operation of a stream.
#[derive(Clone, Copy, Default)]
struct StreamOperation {
    start: u64,
    end: u64,
    /// The latest end up to here, in order of starts.
    reach: u64,
    launched: u64,
    thread: u32,
    path: u32,
    /// Number of the call that launched it, and of the request; 0 if unknown.
    call: u64,
    request: u64,
}

/// An event is recorded.
#[derive(Clone, Copy)]
struct Event {
    stream: StreamId,
    at: u64,
}

/// What is known of a stream.
#[derive(Default)]
struct StreamLog {
    device: u32,
    operations: Vec<StreamOperation>,
    /// When it was told to wait for which record of an event.
    waits: Vec<(u64, u64)>,
    /// The latest end of an operation, and the latest wait, that was forgotten.
    forgotten: u64,
    untold: u64,
}

impl StreamLog {
    fn sort(&mut self) {
        order::by_key(&mut self.operations, |operation| (operation.start, operation.launched, operation.end));
        let mut reach = self.forgotten;
        for operation in &mut self.operations {
            reach = reach.max(operation.end);
            operation.reach = reach;
        }
        self.waits.sort_unstable();
    }

    fn is_empty(&self) -> bool {
        self.operations.is_empty() && self.waits.is_empty()
    }
}

/// The figures of a pair.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    operations: u64,
    ns: u64,
    longest: u64,
    possible_operations: u64,
    possible_ns: u64,
}

impl fmt::Debug for Interference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interference").finish_non_exhaustive()
    }
}

impl Fold for Interference {
    fn details(&self) -> Details {
        if self.without_events { Details::EVENT_WAITS } else { Details::EVENT_WAITS.and(Details::EVENTS) }
    }

    fn range(&mut self, range: &Range<'_>) {
        if range.span != 0 {
            self.calls.instance(range.call, range.parent, range.end); // not one that stands in for its caller
        }
        self.forget_calls();
    }

    fn call(&mut self, call: &Call<'_>) {
        self.calls.closed(call.call, call.parent, call.end);
        self.forget_calls();
    }

    fn operation(&mut self, operation: &Operation<'_>) {
        if operation.end < self.window
            || matches!(operation.work, Work::Memory(memory) if memory.kind == MemoryKind::HtoH)
        {
            return; // before the window, or in host memory only
        }
        let path = if operation.launch.is_some() { self.paths.number(operation.path) } else { NO_PATH };
        let &Operation { start, device, context, stream, call, .. } = operation;
        self.late += u64::from(start < self.settled && start >= self.window);
        let (end, (thread, launched)) = (operation.end.max(start), operation.launch.unwrap_or_default());
        let log = self.streams.row((context, stream));
        log.device = device;
        let operation = StreamOperation { start, end, launched, thread, path, call, ..StreamOperation::default() };
        log.operations.push(operation);
        self.operations += 1;
        self.arrived(end);
    }

    fn detail(&mut self, detail: &PlacedDetail<'_>) {
        let Some((_, at)) = detail.launch else { return };
        match detail.detail {
            Detail::Wait(wait) if wait.kind == WaitKind::StreamForEvent && wait.record != 0 => {
                let Some(stream) = wait.stream else { return };
                self.streams.row((wait.context, stream)).waits.push((at, wait.record));
            }
            Detail::Event(event) if event.record != 0 => {
                self.events.insert(event.record, Event { stream: (event.context, event.stream), at });
            }
            _ => return,
        }
        self.arrived(at);
    }

    fn restart(&mut self, at: u64) {
        self.window = at;
        self.settled = self.settled.max(at);
        self.pairs.clear();
        (self.late, self.cut, self.crowded) = (0, 0, 0);
    }

    fn finish(&mut self, summary: &mut Summary) {
        self.settle(u64::MAX);
        let mut paths = vec![Vec::new(); self.paths.known.len()];
        for (path, number) in std::mem::take(&mut self.paths.numbers) {
            if let Some(place) = paths.get_mut(number as usize) {
                *place = path;
            }
        }
        let path = |number: u32| paths.get(number as usize).cloned().unwrap_or_default();
        let row = |(&(waiter, by), sums): (&Pair, &Sums)| {
            let mut row = InterferenceStats::new(path(waiter), path(by), sums.operations, sums.ns, sums.longest);
            (row.possible_operations, row.possible_ns) = (sums.possible_operations, sums.possible_ns);
            row
        };
        summary.interference = self.pairs.iter().map(row).in_vec().joined();
        let notes = [
            (self.late, Note::InterferenceLate { operations: self.late }),
            (self.crowded, Note::InterferenceOverLimit { operations: self.crowded }),
            (self.cut, Note::InterferenceCut { operations: self.cut }),
        ];
        summary.notes.extend(notes.into_iter().filter(|(count, _)| *count > 0).map(|(_, note)| note));
    }
}

impl Interference {
    /// A fold that needs no records of events. It leaves out operations that wait for one.
    #[must_use]
    pub fn without_events() -> Self {
        Self { without_events: true, ..Self::default() }
    }

    /// Settles old operations after many records have arrived.
    fn arrived(&mut self, end: u64) {
        self.arrived += 1;
        self.latest = self.latest.max(end);
        if self.operations >= self.limits.most {
            self.settle(self.latest + 1);
        } else if self.arrived >= self.limits.batch {
            self.settle(self.latest.saturating_sub(self.limits.lateness));
        }
    }

    /// Judges all operations that started before a moment.
    fn settle(&mut self, until: u64) {
        self.arrived = 0;
        self.streams.values_mut().for_each(StreamLog::sort);
        self.find_requests();
        let mut devices = Devices::default();
        let mut pairs = std::mem::take(&mut self.pairs);
        let (mut cut, mut crowded) = (0, 0);
        for (&id, log) in self.streams.iter() {
            let first = log.operations.partition_point(|operation| operation.start < self.settled);
            let behind = log.operations.partition_point(|operation| operation.start < until);
            for (index, it) in log.operations.iter().enumerate().take(behind).skip(first) {
                if it.path == NO_PATH {
                    continue;
                }
                let mut has_room = true;
                let is_whole = self.judge((id, log), index, &mut devices, &mut |by, ns, is_possible| {
                    let pair = (it.path, by);
                    if pairs.len() >= self.limits.pairs && !pairs.contains_key(&pair) {
                        has_room = false;
                        return;
                    }
                    let sums = pairs.row(pair);
                    if is_possible {
                        (sums.possible_operations, sums.possible_ns) =
                            (sums.possible_operations + 1, sums.possible_ns + ns);
                    } else {
                        (sums.operations, sums.ns) = (sums.operations + 1, sums.ns + ns);
                        sums.longest = sums.longest.max(ns);
                    }
                });
                cut += u64::from(!is_whole);
                crowded += u64::from(!has_room);
            }
        }
        self.pairs = pairs;
        (self.cut, self.crowded) = (self.cut + cut, self.crowded + crowded);
        self.settled = self.settled.max(until);
        self.forget();
    }

    /// Finds the requests of operations, as far as they are known.
    fn find_requests(&mut self) {
        let Self { calls, paths, streams, .. } = self;
        for log in streams.values_mut() {
            let is_unknown = |it: &&mut StreamOperation| it.request == 0 && it.call != 0 && it.path != NO_PATH;
            for operation in log.operations.iter_mut().filter(is_unknown) {
                operation.request = calls.request(operation.call, paths.spans(operation.path));
            }
        }
    }

    /// Forgets calls if there are many, but not the requests of operations in them.
    fn forget_calls(&mut self) {
        if self.calls.are_many() {
            self.find_requests();
            self.calls.forget();
        }
    }

    /// Passes on the path and the time of each span behind whose operations one waited, and whether that is only
    /// possible. Returns whether all of it is known.
    fn judge(
        &self,
        (id, log): (StreamId, &StreamLog),
        index: usize,
        devices: &mut Devices,
        charge: &mut dyn FnMut(u32, u64, bool),
    ) -> bool {
        let Some((it, before)) = log.operations.get(..=index).and_then(<[_]>::split_last) else { return true };
        let from = it.launched.max(self.window);
        let mut ready = from.max(log.forgotten);
        let mut awaited = self.others(it, before, &mut ready);
        // An operation that began before had waited for all that its stream was told to wait for.
        let began = before.len().checked_sub(awaited.len() + 1).and_then(|last| before.get(last));
        let began = began.map_or(0, |operation| operation.launched);
        if began < log.untold {
            return false;
        }
        let mut elsewhere = Vec::new();
        let told = log.waits.partition_point(|&(at, _)| at <= it.launched);
        let waits = log.waits.iter().take(told).rev().take_while(|&&(at, _)| at > began);
        for (at, record) in waits {
            let event = match self.events.get(record) {
                _ if self.without_events => return true,
                None if self.forgot_event => return false,
                event => event.filter(|event| event.at <= *at),
            };
            let Some((event, of)) = event.and_then(|event| Some((event, self.streams.get(&event.stream)?))) else {
                continue;
            };
            ready = ready.max(of.forgotten.min(it.start));
            let recorded = of.operations.partition_point(|operation| operation.launched <= event.at);
            elsewhere.extend(self.others(it, of.operations.get(..recorded).unwrap_or_default(), &mut ready));
        }
        order::by_key(&mut elsewhere, |operation| (operation.start, operation.launched));
        awaited.append(&mut elsewhere);
        let free = charged(&awaited, (ready, it.start), &mut |by, ns| charge(by, ns, false));
        if it.start - free.min(it.start) > DISPATCH {
            let all = devices.row_or(log.device, || self.of_device(log.device));
            let running = all.partition_point(|(_, operation)| operation.start < it.start);
            let mut beside: Vec<StreamOperation> = all
                .iter()
                .take(running)
                .rev()
                .take_while(|(_, operation)| operation.reach > free)
                .filter(|(of, operation)| *of != id && self.are_apart(it, operation))
                .map(|(_, operation)| *operation)
                .in_vec();
            beside.reverse();
            charged(&beside, (free, it.start), &mut |by, ns| charge(by, ns, true));
        }
        log.forgotten <= from
    }

    /// The last of these operations, from the one on that began after `ready` or runs then: those of other requests. An
    /// operation that is not of another request ends the list, and `ready` is not before its end.
    fn others(&self, it: &StreamOperation, operations: &[StreamOperation], ready: &mut u64) -> Vec<StreamOperation> {
        let mut others = Vec::new();
        for operation in operations.iter().rev() {
            if operation.reach <= *ready {
                break;
            }
            if !self.are_apart(it, operation) {
                *ready = (*ready).max(operation.end);
                break;
            }
            others.push(*operation);
        }
        others.reverse();
        others
    }

    /// Whether the records prove that two operations are of different requests, where `earlier` is no step before `it`.
    fn are_apart(&self, it: &StreamOperation, earlier: &StreamOperation) -> bool {
        if it.path == NO_PATH || earlier.path == NO_PATH {
            return false;
        }
        if it.call == 0 || earlier.call == 0 {
            return it.thread != earlier.thread;
        }
        let (one, other) = (it.request, earlier.request);
        let differ =
            self.paths.root(it.path) != self.paths.root(earlier.path) || one != 0 && other != 0 && one != other;
        differ && (it.thread != earlier.thread || !self.calls.is_over(other, earlier.launched, it.launched))
    }

    /// The operations of a device in order of their starts.
    fn of_device(&self, device: u32) -> Vec<(StreamId, StreamOperation)> {
        let mut all: Vec<(StreamId, StreamOperation)> = Vec::new();
        for (id, log) in self.streams.iter().filter(|(_, log)| log.device == device) {
            all.extend(log.operations.iter().map(|operation| (*id, *operation)));
        }
        order::by_key(&mut all, |(_, operation)| (operation.start, operation.launched));
        let mut reach = 0;
        for (_, operation) in &mut all {
            reach = reach.max(operation.end);
            operation.reach = reach;
        }
        all
    }

    /// Forgets all but the newest of what is settled.
    fn forget(&mut self) {
        let Self { streams, events, forgot_event, settled, operations, .. } = self;
        let horizon = |mut moments: Vec<u64>| {
            let older = moments.len().checked_sub(self.limits.kept).filter(|older| *older > 0);
            older.map_or(0, |older| *moments.select_nth_unstable(older - 1).1)
        };
        let (mut ended, mut told) = (Vec::new(), Vec::new());
        for log in streams.rows() {
            ended.extend(log.operations.iter().filter(|it| it.start < *settled).map(|it| it.end));
            told.extend(log.waits.iter().map(|wait| wait.0).filter(|at| at < settled));
        }
        let (ended, told) = (horizon(ended), horizon(told));
        let recorded = horizon(events.rows().iter().map(|event| event.at).filter(|at| at < settled).in_vec());
        for log in streams.values_mut() {
            log.operations.retain(|operation| {
                let is_old = operation.start < *settled && operation.end <= ended;
                log.forgotten = log.forgotten.max(if is_old { operation.end } else { 0 });
                !is_old
            });
            log.waits.retain(|&(at, _)| {
                log.untold = log.untold.max(if at > told { 0 } else { at });
                at > told
            });
        }
        *forgot_event |= recorded > 0;
        events.retain(|_, event| event.at > recorded);
        if streams.len() > MOST_STREAMS {
            *streams = std::mem::take(streams).into_iter().filter(|(_, log)| !log.is_empty()).collect();
        }
        *operations = streams.rows().iter().map(|log| log.operations.len()).sum();
    }
}

/// The operations of each device, as far as they are needed.
type Devices = Keyed<u32, Vec<(StreamId, StreamOperation)>>;

/// Passes on the time for which operations of each path ran in an interval, each moment once. Returns the end of the
/// last such moment, or the start.
fn charged(operations: &[StreamOperation], (start, end): (u64, u64), charge: &mut dyn FnMut(u32, u64)) -> u64 {
    let (mut union, mut sums) = (Union::default(), Vec::<(u32, u64)>::new());
    for operation in operations {
        let ns = union.add(operation.start.max(start), operation.end.min(end));
        match sums.iter_mut().find(|(path, _)| *path == operation.path) {
            _ if ns == 0 => {}
            Some((_, sum)) => *sum += ns,
            None => sums.push((operation.path, ns)),
        }
    }
    sums.into_iter().for_each(|(path, ns)| charge(path, ns));
    union.end().max(start)
}
