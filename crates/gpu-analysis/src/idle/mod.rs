//! Why the GPU was idle.
//!
//! Each moment in which a device ran nothing has one cause and one span, taken from the thread that launched the
//! operation which ended the idle time; on the way from a wait to a launch, the span that waited. `gaps` finds idle
//! times. `functions` knows the purpose of CUDA API calls. `thread` knows a thread's state at a moment: in a call or
//! between two calls, and in which range.
//!
//! Records arrive late and in any order. So records older than [`Limits::lateness`] are settled whenever
//! [`Limits::batch`] records have arrived, and memory does not grow with the run.

mod collectives;
mod curve;
mod functions;
mod gaps;
mod pieces;
mod ranges;
mod streams;
mod thread;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::fmt;

use range_model::stats::{Keyed, Lean, order};
use range_model::summary::{
    CallKind, DeviceIdle, GpuIdle, IdleCause, IdleCauses, Join as _, MemoryKind, SpanCalls, SpanIdle,
};
use range_model::timeline::{
    ApiCall, Detail, Details, IdleTime, Item, Operation, OperationName, PlacedDetail, Range, WaitKind, Work,
};
use range_model::{RangeStyle, Summary};

use self::collectives::Collectives;
use self::curve::Curve;
use self::functions::{BLOCKING_COPY, Purpose, kind, purpose};
pub(super) use self::gaps::DISPATCH;
use self::gaps::{DeviceLog, DeviceOperation, Gap, Name, Settled};
use self::pieces::{Piece, Pieces};
use self::ranges::Ranges;
use self::streams::{StreamLogs, Streams};
use self::thread::{ApiSpan, CostlyCall, NO_RANGE, OpenSpan, ThreadLog, What};
use range_model::Fold;

/// How long records are kept.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// How far records may arrive behind the latest one, in nanoseconds.
    lateness: u64,
    /// Number of records after which the older ones are settled: some 10 MB.
    batch: usize,
    /// Number of records at which all are settled, even those that an idle device still needs: some 80 MB.
    most: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lateness: 2_000_000_000, batch: 1 << 18, most: 1 << 21 }
    }
}

/// What the host did while a GPU ran nothing, by cause and by span, and how the GPU was used meanwhile:
/// [`Summary::idle`] and what stands beside it.
#[derive(Default)]
pub struct Idle {
    limits: Limits,
    /// Purpose and number of each function, by its name.
    functions: Keyed<String, (Purpose, u16)>,
    kernels: Kernels,
    labels: Labels,
    threads: Keyed<u32, ThreadLog>,
    devices: Keyed<u32, Device>,
    spans: Keyed<u32, SpanSums>,
    ranges: Ranges,
    /// Idle times with the cause "no work", from start to end. The last settling finds them.
    no_work: Vec<(u64, u64)>,
    /// By range, kind of call and thread.
    calls: Keyed<(u32, What, u32), CallSums>,
    /// Copies from or to pageable memory whose calls are not known yet.
    pageable: Vec<PageableCopy>,
    /// Number of those whose calls never arrived.
    unmatched_copies: u64,
    streams: StreamLogs,
    collectives: Collectives,
    /// Start of the window. What ended before does not count.
    window: u64,
    /// Number of records since the last settling, and the end of the latest one.
    arrived: usize,
    latest: u64,
    gaps: u64,
    /// Explained idle times, with their threads, that no file has yet; `None` if no file shows them.
    unshown: Option<Vec<(Option<u32>, Piece)>>,
}

/// Kernels that ran: their numbers by symbol, and their names.
#[derive(Default)]
struct Kernels {
    numbers: Keyed<String, u32>,
    names: Vec<String>,
}

/// Names of ranges, by number.
#[derive(Default)]
struct Labels {
    /// For each name, its domains and the number of each label.
    numbers: Keyed<String, Vec<(Option<String>, u32)>>,
    count: u32,
}

impl Labels {
    /// The number of a label. Copies the name only for a new label.
    fn number(&mut self, domain: Option<&str>, name: &str) -> u32 {
        let known = self.numbers.get(name).into_iter().flatten().find(|(of, _)| of.as_deref() == domain);
        if let Some((_, number)) = known {
            return *number;
        }
        let number = self.count;
        self.count += 1;
        self.numbers.row(name.to_owned()).push((domain.map(str::to_owned), number));
        number
    }

    /// Domain and name for each number.
    fn take(&mut self) -> Keyed<u32, (Option<String>, String)> {
        let mut labels = Keyed::default();
        for (name, of) in std::mem::take(&mut self.numbers) {
            for (domain, number) in of {
                *labels.row(number) = (domain, name.clone());
            }
        }
        labels
    }
}

/// Stands in place of a function's number for operations.
const NO_FUNCTION: u16 = u16::MAX;

/// A copy from or to pageable memory, with thread, time and correlation id of its launch.
#[derive(Clone, Copy)]
struct PageableCopy {
    thread: u32,
    at: u64,
    end: u64,
    correlation: u32,
    bytes: u64,
}

/// Calls of one kind in the spans of one name, on one thread.
#[derive(Clone, Copy, Debug, Default)]
struct CallSums {
    calls: u64,
    ns: u64,
    bytes: u64,
    instances: u64,
    /// Start of the latest instance that made one. A call may come late, after some of later instances.
    last: Option<u64>,
}

#[derive(Default)]
struct Device {
    log: DeviceLog,
    streams: Streams,
    gaps: u64,
    causes: IdleCauses,
    curve: Curve,
}

impl Device {
    /// Forgets all sums.
    fn restart(&mut self, at: u64) {
        self.log.restart(at);
        (self.gaps, self.causes, self.curve) = (0, IdleCauses::default(), Curve::default());
    }
}

/// Idle time of the spans of one name.
#[derive(Clone, Default)]
struct SpanSums {
    causes: IdleCauses,
    gaps: u64,
    /// Number, time and start of the last counted gap; time and start of the longest one.
    last: (u64, u64, u64),
    longest: (u64, u64),
}

impl SpanSums {
    fn add(&mut self, piece: &Piece) {
        let ns = piece.end - piece.start;
        self.causes.add(piece.cause, ns);
        if self.last.0 == piece.gap {
            self.last.1 += ns;
        } else {
            self.gaps += 1;
            self.last = (piece.gap, ns, piece.start);
        }
        if self.last.1 > self.longest.0 {
            self.longest = (self.last.1, self.last.2);
        }
    }
}

impl fmt::Debug for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idle").finish_non_exhaustive()
    }
}

impl Fold for Idle {
    fn details(&self) -> Details {
        Details::EVENT_WAITS.and(Details::STREAMS)
    }

    fn range(&mut self, range: &Range<'_>) {
        self.collectives.range(range);
        if range.style == RangeStyle::PushPop && range.end > range.start.max(self.window) {
            let label = self.labels.number(range.domain, range.name);
            let thread = self.threads.row(range.thread);
            thread.has_ranges = true;
            let span = OpenSpan { start: range.start, end: range.end, label };
            thread.ranges.push(span);
            self.ranges.ended.push(OpenSpan { start: span.start.max(self.window), ..span });
            self.arrived(range.end);
        }
    }

    fn operation(&mut self, operation: &Operation<'_>) {
        if operation.end < self.window {
            return;
        }
        let (name, is_first) = match operation.work {
            Work::Memory(memory) if memory.kind == MemoryKind::HtoH => return, // host memory only
            Work::Memory(memory) => (Name::Memory(memory.kind), false),
            Work::Kernel(_) | Work::Graph(_) => {
                let (number, is_first) = self.kernels.number(operation);
                (Name::Kernel(number), is_first)
            }
        };
        let Operation { start, end, context, stream, correlation, launch, .. } = *operation;
        if let (Work::Memory(memory), Some((thread, at))) = (operation.work, launch)
            && memory.is_pageable()
            && at >= self.window
        {
            self.pageable.push(PageableCopy { thread, at, end, correlation, bytes: memory.bytes });
        }
        self.collectives.operation(operation, |span| self.labels.number(None, span));
        let handed_over = self.handed_over(operation.path);
        let log = &mut self.devices.row(operation.device).log;
        log.add(DeviceOperation {
            start: start.max(self.window),
            end: end.max(start),
            name,
            is_rest: start < self.window,
            is_first,
            context,
            stream,
            correlation,
            launch,
            handed_over,
        });
        self.arrived(end);
    }

    fn api(&mut self, call: &ApiCall<'_>) {
        if call.end < self.window {
            return;
        }
        let (mut purpose, function) = match self.functions.get(call.name) {
            Some(known) => *known,
            None => {
                let number = u16::try_from(self.functions.len()).unwrap_or(NO_FUNCTION);
                *self.functions.row_or(call.name.to_owned(), || (purpose(call.api, call.name), number))
            }
        };
        if purpose == Purpose::Slight {
            return;
        }
        let thread = self.threads.row(call.thread);
        let ApiCall { start, end, correlation, result: code, .. } = *call;
        // It begins no capture; or not this one ends, because of the wrong stream or thread.
        if matches!((purpose, code), (Purpose::BeginCapture, 1..) | (Purpose::EndCapture, 903 | 908)) {
            purpose = Purpose::BuildGraph;
        }
        thread.calls.push(ApiSpan { start, end, correlation, purpose, function, open_captures: 0 });
        if let Some(kind) = kind(purpose, code)
            && start >= self.window
        {
            let what = What { kind, function, code };
            thread.costly.push(CostlyCall { at: start, ns: end.saturating_sub(start), bytes: 0, what });
        }
        self.arrived(call.end);
    }

    fn detail(&mut self, detail: &PlacedDetail<'_>) {
        if let Detail::Stream(new) = detail.detail {
            self.streams.created((new.context, new.stream), new.kind, self.latest);
        }
        let (Detail::Wait(wait), Some((_, at))) = (detail.detail, detail.launch) else { return };
        if let (WaitKind::StreamForEvent, Some(stream)) = (wait.kind, wait.stream) {
            self.streams.waits((wait.context, stream), at);
            self.arrived(at);
        }
    }

    fn restart(&mut self, at: u64) {
        self.settle(at); // for files, which show all of the run
        self.window = at;
        for (number, mut device) in std::mem::take(&mut self.devices) {
            device.restart(at);
            if device.log.len() > 0 {
                *self.devices.row(number) = device; // one that the window does not use has no row
            }
        }
        for number in self.threads.keys().copied().in_vec() {
            let pieces = self.threads.get_mut(&number).map(|thread| thread.restart(at)).unwrap_or_default();
            self.unshown
                .iter_mut()
                .for_each(|unshown| unshown.extend(pieces.iter().map(|&piece| (Some(number), piece))));
        }
        self.spans.clear();
        self.calls.clear();
        self.ranges.restart(at);
        self.collectives.restart(at);
        self.pageable.retain(|copy| copy.at >= at);
        self.unmatched_copies = 0;
    }

    fn finish(&mut self, summary: &mut Summary) {
        self.settle(u64::MAX);
        let names = self.labels.take();
        summary.communicators = self.collectives.rows(&names);
        summary.idle = self.answer(summary.elapsed_ns, &names);
    }

    fn show(&mut self, give: &mut dyn FnMut(&Item<'_>)) {
        for (thread, Piece { start, end, cause, device, ended_by, waited, .. }) in
            self.unshown.iter_mut().flat_map(std::mem::take)
        {
            let ended_by = match ended_by {
                Name::Kernel(number) => {
                    OperationName::Kernel(self.kernels.names.get(number as usize).map_or("", |name| name))
                }
                Name::Memory(kind) => OperationName::Memory(kind),
            };
            let charged_at = waited.unwrap_or(start);
            give(&Item::Idle(IdleTime { device, start, end, cause, thread, charged_at, ended_by }));
        }
    }
}

impl Kernels {
    /// The number of an operation's kernel, and whether the kernel is new.
    fn number(&mut self, operation: &Operation<'_>) -> (u32, bool) {
        if let Some(&number) = self.numbers.get(operation.symbol) {
            return (number, false);
        }
        let number = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        *self.numbers.row(operation.symbol.to_owned()) = number;
        let name = if operation.kernel.is_empty() { operation.symbol } else { operation.kernel };
        self.names.push(name.to_owned());
        (number, true)
    }
}

/// How many instances of one label are looked at that may be open at one moment.
const MOST_OPEN: usize = 64;
/// The names of rows for work that a thread did for a range which waited for it begin so.
const HELPER: &str = "[thread ";

impl Idle {
    /// The range that waited for the thread which made a launch on this path. A path does not tell a domain from a name
    /// with a colon.
    fn handed_over(&mut self, path: &[String]) -> Option<[u32; 2]> {
        let helper = path.iter().rposition(|label| label.starts_with(HELPER))?;
        let waiting = path.get(helper.checked_sub(1)?)?;
        let plain = self.labels.number(None, waiting);
        let in_domain = waiting.split_once(':').map(|(domain, name)| self.labels.number(Some(domain), name));
        Some([plain, in_domain.unwrap_or(plain)])
    }

    /// A fold for files that show each idle time.
    #[must_use]
    pub fn shown() -> Self {
        Self { unshown: Some(Vec::new()), ..Self::default() }
    }

    /// The same, for the items of a file, which come in any order: all are kept until the end.
    #[must_use]
    pub fn of_file() -> Self {
        let limits = Limits { batch: usize::MAX, most: usize::MAX, ..Limits::default() };
        Self { limits, ..Self::shown() }
    }

    /// Settles old records after many have arrived.
    fn arrived(&mut self, end: u64) {
        self.arrived += 1;
        self.latest = self.latest.max(end);
        if self.arrived < self.limits.batch {
            return;
        }
        self.arrived = 0;
        let old = self.latest.saturating_sub(self.limits.lateness);
        self.settle(old);
        for moment in [old, u64::MAX] {
            if self.kept() >= self.limits.most {
                self.threads.values_mut().for_each(|thread| thread.drop_until(moment));
            }
        }
    }

    fn kept(&self) -> usize {
        self.devices.values().map(|device| device.log.len()).sum::<usize>()
            + self.threads.values().map(ThreadLog::len).sum::<usize>()
    }

    /// Explains all idle times that end before a moment.
    fn settle(&mut self, until: u64) {
        self.threads.values_mut().for_each(ThreadLog::sort);
        self.streams.sort();
        let Self {
            threads,
            devices,
            streams: logs,
            gaps: number,
            spans,
            ranges,
            no_work,
            calls,
            pageable,
            unmatched_copies,
            unshown,
            collectives,
            window,
            ..
        } = self;
        pageable.retain(|copy| {
            let (is_known, waits) = (find_call(copy, threads, *window), copy.end >= until && until != u64::MAX);
            *unmatched_copies += u64::from(!is_known && !waits);
            !is_known && waits
        });
        for index in devices.keys().copied().in_vec() {
            let Some(Device { log, streams, gaps, causes, curve }) = devices.get_mut(&index) else { continue };
            log.settle(until, &mut |settled| match settled {
                Settled::Busy { from, until, launched, began } => curve.work(from, until, launched, began),
                Settled::Began(operation) => {
                    let waited = logs.get(&operation).and_then(|log| streams.began(&operation, log));
                    logs.settled(&operation);
                    if let Some(ns) = waited
                        && let Some((thread, at)) = operation.launch
                        && at >= *window
                    {
                        let what = What { kind: CallKind::DefaultStream, function: NO_FUNCTION, code: 0 };
                        threads.row(thread).costly.push(CostlyCall { at, ns, bytes: 0, what });
                    }
                }
                Settled::Idle(gap) => {
                    *number += 1;
                    *gaps += 1;
                    let ended_by = gap.ended_by.name;
                    let mut pieces = Pieces {
                        gap: *number,
                        device: index,
                        ended_by,
                        at: gap.start,
                        pieces: Vec::new(),
                        waited: None,
                        handed_over: gap.ended_by.handed_over.zip(gap.ended_by.launch.map(|(_, at)| at)),
                    };
                    explain(&gap, threads, logs, &mut pieces);
                    for piece in pieces.pieces {
                        curve.go_on(piece.start, piece.end, |all, ns| all.causes.add(piece.cause, ns));
                        match gap.ended_by.launch {
                            Some((thread, _)) => threads.row(thread).pieces.push(piece),
                            None => {
                                causes.add(piece.cause, piece.end - piece.start);
                                collectives.idle(index, [piece.start, piece.end], NO_RANGE, piece.cause);
                                spans.row(NO_RANGE).add(&piece);
                                unshown.iter_mut().for_each(|unshown| unshown.push((None, piece)));
                            }
                        }
                    }
                }
            });
        }
        lend_range(threads);
        hand_back(threads);
        // Start of the next gap of any device; before the first operation there is none.
        let needed = devices.values().map(|device| device.log.cursor()).min().unwrap_or(until);
        let needed = if until == u64::MAX { until } else { needed };
        for number in threads.keys().copied().in_vec() {
            let mut count = |call: CostlyCall, label: u32, instance: Option<u64>| {
                let sums = calls.row((label, call.what, number));
                sums.calls += 1;
                sums.ns += call.ns;
                sums.bytes += call.bytes;
                sums.instances += u64::from(instance > sums.last);
                sums.last = instance.max(sums.last);
            };
            let mut charge = |piece: Piece, label: u32| {
                if let Some(device) = devices.get_mut(&piece.device) {
                    device.causes.add(piece.cause, piece.end - piece.start);
                }
                if piece.cause == IdleCause::NoWork {
                    no_work.push((piece.start, piece.end));
                }
                collectives.idle(piece.device, [piece.start, piece.end], label, piece.cause);
                spans.row(label).add(&piece);
                unshown.iter_mut().for_each(|unshown| unshown.push((Some(number), piece)));
            };
            if let Some(thread) = threads.get_mut(&number) {
                thread.place(until == u64::MAX, &mut charge, &mut count);
                thread.forget(needed);
            }
        }
        let waiting = threads.values().flat_map(|thread| &thread.pieces).map(|piece| piece.start).min();
        collectives.judge(until, waiting);
        let curves: Vec<&Curve> = devices.values().map(|device| &device.curve).in_vec();
        ranges.evaluate(needed, &curves);
        for device in devices.values_mut() {
            if until != u64::MAX {
                device.curve.thin(); // else the answer comes next, and asks when the work of loops ended
            }
            device.streams.forget();
        }
        logs.forget();
    }

    fn answer(&mut self, elapsed: u64, names: &Keyed<u32, (Option<String>, String)>) -> Option<GpuIdle> {
        let mut idle = GpuIdle::default();
        for (&number, device) in self.devices.iter() {
            let Some((start, end)) = device.log.known() else { continue };
            let mut row = DeviceIdle::default();
            row.device = number;
            row.before_ns = start - self.window;
            row.after_ns = elapsed.saturating_sub(end - self.window);
            row.wall_ns = end - start;
            (row.busy_ns, row.copy_ns, row.overlap_ns) = (device.log.busy, device.log.copy, device.log.overlap);
            row.turns = device.log.turns;
            row.gaps = device.gaps;
            row.causes = device.causes;
            idle.late += device.log.late;
            idle.devices.push(row);
        }
        for (label, sums) in self.spans.iter() {
            let mut row = SpanIdle::default();
            if let Some((domain, name)) = names.get(label) {
                (row.domain, row.name) = (domain.clone(), Some(name.clone()));
            }
            (row.longest_ns, row.longest_at_ns) = sums.longest;
            row.gaps = sums.gaps;
            row.causes = sums.causes;
            idle.spans.push(row);
        }
        order::by_key(&mut idle.spans, |row| (Reverse(row.causes.total_ns()), row.domain.clone(), row.name.clone()));
        let curves: Vec<&Curve> = self.devices.values().map(|device| &device.curve).in_vec();
        for (label, mut row) in self.ranges.rows(&curves, &self.no_work) {
            let Some((domain, name)) = names.get(&label) else { continue };
            (row.domain, row.name) = (domain.clone(), name.clone());
            idle.ranges.push(row);
        }
        order::by_key(&mut idle.ranges, |row| {
            (Reverse(row.steady.busy_ns + row.warm_up.busy_ns), row.domain.clone(), row.name.clone())
        });
        idle.calls = self.calls(names);
        idle.unmatched_copies = self.unmatched_copies;
        idle.dropped_calls = self.threads.values().map(|thread| thread.dropped).sum();
        let has_failed = idle.calls.iter().any(|row| row.kind == CallKind::Failed);
        (!idle.devices.is_empty() || has_failed).then_some(idle)
    }

    fn calls(&mut self, names: &Keyed<u32, (Option<String>, String)>) -> Vec<SpanCalls> {
        let mut functions: Keyed<u16, String> = Keyed::default();
        for (name, (_, number)) in std::mem::take(&mut self.functions) {
            *functions.row(number) = name;
        }
        let row = |(&(label, what, _), sums): (&(u32, What, u32), &CallSums)| {
            let mut row = SpanCalls::default();
            if let Some((domain, name)) = names.get(&label) {
                (row.domain, row.name) = (domain.clone(), Some(name.clone()));
            }
            (row.kind, row.code) = (what.kind, what.code);
            row.function = functions.get(&what.function).cloned().unwrap_or_default();
            (row.instances, row.calls, row.ns, row.bytes) = (sums.instances, sums.calls, sums.ns, sums.bytes);
            row
        };
        self.calls.iter().map(row).in_vec().joined()
    }
}

/// Whether the call of a copy is known. Counts the call if it held the host up, in this window.
fn find_call(copy: &PageableCopy, threads: &mut Keyed<u32, ThreadLog>, window: u64) -> bool {
    let Some(thread) = threads.get_mut(&copy.thread) else { return false };
    let Some(&ApiSpan { start, end, purpose, function, .. }) = thread.call(copy.at, copy.correlation) else {
        return false;
    };
    if purpose == Purpose::CopyLater && end - start >= BLOCKING_COPY && start >= window {
        let what = What { kind: CallKind::PageableCopy, function, code: 0 };
        thread.costly.push(CostlyCall { at: start, ns: end - start, bytes: copy.bytes, what });
    }
    true
}

/// If only one thread has ranges, threads without ranges work for its open range: PyTorch runs the backward pass of
/// `loss.backward()` on a thread of its own.
fn lend_range(threads: &mut Keyed<u32, ThreadLog>) {
    let with_ranges = threads.iter().filter(|(_, thread)| thread.has_ranges).map(|(&number, _)| number);
    let [lender] = with_ranges.in_vec()[..] else { return };
    let (mut pieces, mut costly) = (Vec::new(), Vec::new());
    for thread in threads.values_mut().filter(|thread| !thread.has_ranges) {
        // The lender's range at the start of a wait may be forgotten.
        thread.pieces.iter_mut().for_each(|piece| piece.waited = None);
        pieces.append(&mut thread.pieces);
        costly.append(&mut thread.costly);
    }
    if let Some(lender) = threads.get_mut(&lender) {
        lender.pieces.append(&mut pieces);
        lender.costly.append(&mut costly);
    }
}

/// Gives idle times before launches that a thread made for a range of another one to that other thread: what it did is
/// why the device had nothing to do.
fn hand_back(threads: &mut Keyed<u32, ThreadLog>) {
    let mut taken = Vec::new();
    for number in threads.keys().copied().in_vec() {
        let pieces = threads.get_mut(&number).map(ThreadLog::take_handed_over).unwrap_or_default();
        taken.extend(pieces.into_iter().map(|piece| (number, piece)));
    }
    if taken.is_empty() {
        return;
    }
    let mut waiting: Keyed<u32, Vec<(u64, u64, u32)>> = Keyed::default();
    for (&number, thread) in threads.iter() {
        for range in &thread.ranges {
            waiting.row(range.label).push((range.start, range.end, number));
        }
    }
    waiting.values_mut().for_each(|ranges| order::by_key(ranges, |range| *range));
    for (own, mut piece) in taken {
        let waits = piece.handed_over.and_then(|(labels, at)| {
            let open = |label: u32| {
                let ranges = waiting.get(&label)?;
                let begun = ranges.get(..ranges.partition_point(|range| range.0 <= at))?;
                let mut latest = begun.iter().rev().take(MOST_OPEN);
                latest.find(|(_, end, thread)| *end >= at && *thread != own).map(|range| range.2)
            };
            labels.into_iter().find_map(open)
        });
        if waits.is_some() {
            (piece.handed_over, piece.waited) = (None, None);
        }
        // Else the range has not ended yet.
        threads.row(waits.unwrap_or(own)).pieces.push(piece);
    }
}

/// Finds the causes of one gap.
fn explain(gap: &Gap, threads: &Keyed<u32, ThreadLog>, streams: &StreamLogs, pieces: &mut Pieces) {
    let Some((number, launched)) = gap.ended_by.launch else { return pieces.until(gap.end, IdleCause::Unexplained) };
    let thread = threads.get(&number);
    let call = thread.and_then(|thread| thread.call(launched, gap.ended_by.correlation));
    let (call_start, call_end) = call.map_or((launched, launched), |call| (call.start, call.end));
    if let Some(thread) = thread {
        thread.explain(call_start.min(gap.end), pieces);
    } else {
        pieces.until(call_start.min(gap.end), IdleCause::Host);
    }
    if let Some(call) = call {
        pieces.until(call_end.min(gap.end), thread::in_call(call, gap.ended_by.is_first, false));
    }
    // The device had the operation but did not begin it.
    let rest = gap.end.saturating_sub(pieces.at);
    let waited = streams.get(&gap.ended_by).is_some_and(|log| log.waited(launched));
    let cause = match (rest <= DISPATCH, call_end > gap.start) {
        (false, _) if waited => IdleCause::Event,
        (false, _) => IdleCause::Unexplained,
        (true, true) => IdleCause::Launching,
        (true, false) => IdleCause::Dispatching,
    };
    pieces.until(gap.end, cause);
    pieces.weigh_wait(gap.start);
}
