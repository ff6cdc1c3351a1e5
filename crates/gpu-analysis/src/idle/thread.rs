//! States of one thread over time: its calls of the CUDA API, and its ranges.

use std::cmp::Reverse;

use range_model::stats::order;
use range_model::summary::{CallKind, IdleCause};

use super::functions::{BETWEEN_LAUNCHES, BLOCKING_COPY, Purpose};
use super::pieces::{Piece, Pieces};

/// Stands for no range in place of a label.
pub(super) const NO_RANGE: u32 = u32::MAX;

/// A call that may load code, as the first launch of a kernel, has done so if it took this time, in nanoseconds.
const LOADING_CALL: u64 = 200_000;
/// The largest number of pieces of one thread that wait for a range around them.
const MOST_WAITING: usize = 1 << 20;

/// A call of the CUDA API.
#[derive(Clone, Copy)]
pub(super) struct ApiSpan {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) correlation: u32,
    pub(super) purpose: Purpose,
    pub(super) function: u16,
    /// How many captures its thread has begun before, and not ended. Known once the calls are sorted.
    pub(super) open_captures: u8,
}

impl ApiSpan {
    fn is_of_graph(&self) -> bool {
        matches!(self.purpose, Purpose::BuildGraph | Purpose::BeginCapture | Purpose::EndCapture)
    }

    /// Whether what is around it tells what it is for.
    fn is_aside(&self) -> bool {
        matches!(self.purpose, Purpose::Other | Purpose::Prepare | Purpose::MayLoad)
    }

    /// Whether a device that runs dry meanwhile does so because the host is in this call. An asynchronous copy blocks
    /// if it takes long, or if the program waits for it next, as in PyTorch's `.item()`.
    fn waits<'a>(&self, next: impl FnOnce() -> Option<&'a Self>) -> bool {
        match self.purpose {
            Purpose::Wait | Purpose::Copy => true,
            Purpose::CopyLater => {
                self.end - self.start >= BLOCKING_COPY || next().is_some_and(|next| next.purpose == Purpose::Wait)
            }
            _ => false,
        }
    }

    fn enqueues(&self) -> bool {
        matches!(self.purpose, Purpose::Launch | Purpose::CopyLater | Purpose::Copy)
    }

    /// How many are open behind it.
    fn open_behind(&self) -> u8 {
        match self.purpose {
            Purpose::BeginCapture => self.open_captures.saturating_add(1),
            Purpose::EndCapture => self.open_captures.saturating_sub(1),
            _ => self.open_captures,
        }
    }
}

/// A call that costs more than a launch, or failed.
#[derive(Clone, Copy)]
pub(super) struct CostlyCall {
    pub(super) at: u64,
    pub(super) ns: u64,
    pub(super) bytes: u64,
    pub(super) what: What,
}

/// Kind, function and result of costly calls, which are summed by these.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct What {
    pub(super) kind: CallKind,
    pub(super) function: u16,
    pub(super) code: u32,
}

/// An instance of a range.
#[derive(Clone, Copy)]
pub(super) struct OpenSpan {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) label: u32,
}

/// A time in which a range was the innermost one.
#[derive(Clone, Copy)]
struct Part {
    start: u64,
    end: u64,
    label: u32,
    /// When that instance of the range began.
    instance: u64,
}

#[derive(Default)]
pub(super) struct ThreadLog {
    pub(super) calls: Vec<ApiSpan>,
    pub(super) ranges: Vec<OpenSpan>,
    /// Whether the thread ever had a range.
    pub(super) has_ranges: bool,
    /// Idle time without a range so far.
    pub(super) pieces: Vec<Piece>,
    /// Calls that have no range yet.
    pub(super) costly: Vec<CostlyCall>,
    /// Calls that were dropped.
    pub(super) dropped: u64,
    /// Captures that are open before the first of these calls. Those that end on another thread stay open.
    open_captures: u8,
}

/// The cause of idle time in a call. `is_first`: it launches a kernel for the first time. `is_captured`: nothing that
/// it launches runs.
pub(super) fn in_call(call: &ApiSpan, is_first: bool, is_captured: bool) -> IdleCause {
    let duration = call.end - call.start;
    match call.purpose {
        Purpose::BuildGraph | Purpose::BeginCapture | Purpose::EndCapture => IdleCause::BuildingGraphs,
        Purpose::MayLoad if duration >= LOADING_CALL => IdleCause::Loading,
        _ if is_captured && (call.is_aside() || matches!(call.purpose, Purpose::Launch | Purpose::CopyLater)) => {
            IdleCause::BuildingGraphs
        }
        Purpose::Launch if is_first && duration >= LOADING_CALL => IdleCause::Loading,
        Purpose::CopyLater if duration >= BLOCKING_COPY => IdleCause::Copying,
        Purpose::Launch | Purpose::CopyLater => IdleCause::Launching,
        Purpose::Copy => IdleCause::Copying,
        Purpose::Wait | Purpose::Poll => IdleCause::Synchronising,
        Purpose::Allocate => IdleCause::Allocating,
        Purpose::Load => IdleCause::Loading,
        // Queries of a device, a stream or an attribute belong to the code around them.
        Purpose::Prepare => IdleCause::Launching,
        Purpose::MayLoad | Purpose::Other | Purpose::Slight => between(duration, Purpose::Other, Purpose::Other),
    }
}

/// The cause of idle time in the code between two calls. It depends on the length of the code, not on where the idle
/// time begins.
fn between(duration: u64, before: Purpose, next: Purpose) -> IdleCause {
    match (before, next) {
        // Inside a launch: waiting for another thread's lock may take milliseconds here.
        (Purpose::Prepare, Purpose::Launch) => IdleCause::Launching,
        _ if duration >= BETWEEN_LAUNCHES => IdleCause::Host,
        (Purpose::BuildGraph, Purpose::BuildGraph) => IdleCause::BuildingGraphs,
        (_, Purpose::Wait | Purpose::Poll) => IdleCause::Synchronising, // for example a loop that polls an event
        _ => IdleCause::Launching,
    }
}

impl ThreadLog {
    pub(super) fn len(&self) -> usize {
        self.calls.len() + self.ranges.len()
    }

    /// Forgets what was before a moment. Returns idle times that waited for a range around them.
    pub(super) fn restart(&mut self, at: u64) -> Vec<Piece> {
        self.costly.retain(|call| call.at >= at);
        self.dropped = 0;
        self.has_ranges = false; // an open range sets it at its end
        std::mem::take(&mut self.pieces)
    }

    pub(super) fn sort(&mut self) {
        order::by_key(&mut self.calls, |call| (call.start, call.end));
        let mut open = self.open_captures;
        for call in &mut self.calls {
            call.open_captures = open;
            open = call.open_behind();
        }
    }

    /// The call of a launch at this moment with this correlation id.
    pub(super) fn call(&self, at: u64, correlation: u32) -> Option<&ApiSpan> {
        const NEAR: usize = 8;
        let after = self.calls.partition_point(|call| call.start <= at);
        let near = self.calls.get(after.saturating_sub(NEAR)..(after + NEAR).min(self.calls.len()))?;
        near.iter().find(|call| call.correlation == correlation)
    }

    /// Adds the causes of the time up to the start of a launch.
    pub(super) fn explain(&self, until: u64, pieces: &mut Pieces) {
        let begin = pieces.at;
        let first = self.calls.partition_point(|call| call.end <= begin);
        let last = first.checked_sub(1).and_then(|last| self.calls.get(last));
        let mut before = last.map_or((0, Purpose::Other), |call| (call.end, call.purpose));
        let (past, calls) = self.calls.split_at_checked(first).unwrap_or_default();
        let parts = graph_parts(past, calls, until);
        for (at, call) in calls.iter().enumerate() {
            let part = parts.get(at).copied().unwrap_or_default();
            let code = call.start.saturating_sub(before.0);
            let between = match part {
                GraphPart::Captured => IdleCause::BuildingGraphs,
                GraphPart::Between => between(code, Purpose::BuildGraph, Purpose::BuildGraph),
                GraphPart::None => between(code, before.1, call.purpose),
            };
            pieces.until(call.start.min(until), between);
            if call.start >= until {
                return;
            }
            let cause = match in_call(call, false, part == GraphPart::Captured) {
                IdleCause::Launching if part == GraphPart::Between && call.is_aside() => IdleCause::BuildingGraphs,
                cause => cause,
            };
            let next = || calls.get(at + 1..).into_iter().flatten().find(|call| !call.is_aside());
            if call.start < begin && call.waits(next) {
                pieces.waited = Some(call.start);
            } else if call.enqueues() {
                pieces.waited = None; // its work is not what ends the gap: it runs on another device, or failed
            }
            pieces.until(call.end.min(until), cause);
            before = (call.end, call.purpose);
        }
        pieces.until(until, between(until.saturating_sub(before.0), before.1, Purpose::Launch));
    }

    /// Charges pieces to the innermost range around them, and counts calls there, with the start of that instance. A
    /// piece or call without a range waits, because its range may not have ended. At the end nothing waits.
    pub(super) fn place(
        &mut self,
        is_end: bool,
        charge: &mut dyn FnMut(Piece, u32),
        count: &mut dyn FnMut(CostlyCall, u32, Option<u64>),
    ) {
        let innermost = flatten(&mut self.ranges);
        self.place_costly(&innermost, is_end, count);
        order::by_key(&mut self.pieces, |piece| piece.start);
        let mut next = 0;
        let mut waiting = Vec::new();
        for mut piece in std::mem::take(&mut self.pieces) {
            if let Some(moment) = piece.waited {
                let at = innermost.partition_point(|part| part.end <= moment);
                match innermost.get(at).filter(|part| part.start <= moment) {
                    Some(part) => charge(piece, part.label),
                    None => waiting.push(piece),
                }
                continue;
            }
            while innermost.get(next).is_some_and(|part| part.end <= piece.start) {
                next += 1;
            }
            let mut at = next;
            while piece.start < piece.end {
                let Some(part) = innermost.get(at).filter(|part| part.start < piece.end) else {
                    waiting.push(piece);
                    break;
                };
                if piece.start < part.start {
                    waiting.push(Piece { end: part.start, ..piece });
                }
                let (start, end) = (piece.start.max(part.start), piece.end.min(part.end));
                if start < end {
                    charge(Piece { start, end, ..piece }, part.label);
                }
                piece.start = end.max(piece.start);
                at += 1;
            }
        }
        let outside = if is_end { waiting.len() } else { waiting.len().saturating_sub(MOST_WAITING) };
        for mut piece in waiting.drain(..outside) {
            if is_end && self.has_ranges && piece.cause == IdleCause::Host {
                piece.cause = IdleCause::NoWork;
            }
            charge(piece, NO_RANGE);
        }
        self.pieces = waiting;
    }

    /// Takes the idle times for which a range of another thread waited, where none of this thread was open.
    pub(super) fn take_handed_over(&mut self) -> Vec<Piece> {
        if self.pieces.iter().all(|piece| piece.handed_over.is_none()) {
            return Vec::new();
        }
        let innermost = flatten(&mut self.ranges);
        let (mut taken, mut kept) = (Vec::new(), Vec::new());
        for piece in std::mem::take(&mut self.pieces) {
            if piece.handed_over.is_none() {
                kept.push(piece);
                continue;
            }
            let mut start = piece.start;
            let first = innermost.partition_point(|part| part.end <= start);
            for part in innermost.get(first..).into_iter().flatten().take_while(|part| part.start < piece.end) {
                if start < part.start {
                    taken.push(Piece { start, end: part.start, ..piece });
                }
                let (from, end) = (start.max(part.start), piece.end.min(part.end));
                kept.push(Piece { start: from, end, ..piece });
                start = end;
            }
            if start < piece.end {
                taken.push(Piece { start, ..piece });
            }
        }
        self.pieces = kept;
        taken
    }

    fn place_costly(&mut self, innermost: &[Part], is_end: bool, count: &mut dyn FnMut(CostlyCall, u32, Option<u64>)) {
        order::by_key(&mut self.costly, |call| call.at);
        let mut next = 0;
        let mut waiting = Vec::new();
        for call in std::mem::take(&mut self.costly) {
            while innermost.get(next).is_some_and(|part| part.end <= call.at) {
                next += 1;
            }
            match innermost.get(next).filter(|part| part.start <= call.at) {
                Some(part) => count(call, part.label, Some(part.instance)),
                None => waiting.push(call),
            }
        }
        let outside = if is_end { waiting.len() } else { waiting.len().saturating_sub(MOST_WAITING) };
        waiting.drain(..outside).for_each(|call| count(call, NO_RANGE, None));
        self.costly = waiting;
    }

    /// Forgets calls and ranges that gaps from this moment on do not need.
    pub(super) fn forget(&mut self, moment: u64) {
        let past = self.calls.partition_point(|call| call.end <= moment);
        let old = past - kept_behind(self.calls.get(..past).unwrap_or_default());
        if let Some(last) = self.calls.drain(..old).next_back() {
            self.open_captures = last.open_behind();
        }
        self.ranges.retain(|range| range.end > moment);
    }

    /// Drops records that ended before a moment, even useful ones.
    pub(super) fn drop_until(&mut self, moment: u64) {
        let before = self.calls.len();
        let mut open = self.open_captures;
        self.calls.retain(|call| {
            let is_kept = call.end > moment;
            if !is_kept {
                open = call.open_behind();
            }
            is_kept
        });
        self.open_captures = open;
        self.dropped += (before - self.calls.len()) as u64;
        self.ranges.retain(|range| range.end > moment);
    }
}

/// What a call, and the code before it, is for a graph.
#[derive(Clone, Copy, Default, PartialEq)]
enum GraphPart {
    #[default]
    None,
    /// In a capture that has ended since.
    Captured,
    /// Between two calls that are about graphs, with nothing between them but what is aside.
    Between,
}

/// How many of the last calls are needed: up to one that is not aside, but only so many.
fn kept_behind(past: &[ApiSpan]) -> usize {
    const NEAR: usize = 8;
    let aside = past.iter().rev().take(NEAR).take_while(|call| call.is_aside()).count();
    (aside + 1).min(past.len())
}

/// Of calls that begin before a moment, with those that were before them; empty if none is about a graph.
fn graph_parts(past: &[ApiSpan], calls: &[ApiSpan], before: u64) -> Vec<GraphPart> {
    let calls = calls.get(..calls.partition_point(|call| call.start < before)).unwrap_or_default();
    if !calls.iter().any(ApiSpan::is_of_graph) {
        return Vec::new();
    }
    let (mut ends, mut is_before_graph) = (0_u32, false);
    let mut parts = vec![GraphPart::None; calls.len()];
    for (part, call) in parts.iter_mut().zip(calls).rev() {
        match call.purpose {
            Purpose::EndCapture => ends += u32::from(call.open_captures > 0), // else another thread began it
            Purpose::BeginCapture => ends = ends.saturating_sub(1),
            _ => {}
        }
        if !call.is_aside() {
            is_before_graph = call.is_of_graph();
        }
        if ends > 0 {
            *part = GraphPart::Captured;
        } else if is_before_graph {
            *part = GraphPart::Between;
        }
    }
    let is_end = |call: &ApiSpan| matches!(call.purpose, Purpose::BuildGraph | Purpose::EndCapture);
    let mut is_behind_graph = past.get(past.len() - kept_behind(past)).is_some_and(is_end);
    for (part, call) in parts.iter_mut().zip(calls) {
        if *part == GraphPart::Between && !is_behind_graph {
            *part = GraphPart::None;
        }
        if !call.is_aside() {
            is_behind_graph = is_end(call);
        }
    }
    parts
}

/// The innermost range at each moment at which any range is open, in order and without overlaps. Ranges of one thread
/// nest.
fn flatten(ranges: &mut [OpenSpan]) -> Vec<Part> {
    order::by_key(ranges, |range| (range.start, Reverse(range.end)));
    let mut parts = Vec::with_capacity(ranges.len());
    let mut add = |start: u64, end: u64, range: OpenSpan| {
        if start < end {
            parts.push(Part { start, end, label: range.label, instance: range.start });
        }
    };
    let mut around: Vec<OpenSpan> = Vec::new();
    let mut at = 0;
    for &range in ranges.iter() {
        while let Some(outer) = around.pop_if(|outer| outer.end <= range.start) {
            add(at.max(outer.start), outer.end, outer);
            at = at.max(outer.end);
        }
        if let Some(outer) = around.last() {
            add(at.max(outer.start), range.start, *outer);
        }
        at = at.max(range.start);
        around.push(range);
    }
    while let Some(outer) = around.pop() {
        add(at.max(outer.start), outer.end, outer);
        at = at.max(outer.end);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::gaps::Name;
    use super::*;

    /// A training that is one range from its start to its end: all idle times and calls are in it, however many.
    #[test]
    fn what_is_directly_in_a_long_range_waits_for_its_end() {
        const MANY: u64 = 300_000;
        let mut thread = ThreadLog { has_ranges: true, ..ThreadLog::default() };
        let what = What { kind: CallKind::Wait, function: 0, code: 0 };
        let (mut charged, mut counted) = ([0, 0], [0, 0]);
        for is_end in [false, true] {
            for gap in (0..MANY).filter(|_| !is_end) {
                let (start, end, ended_by) = (10 * gap, 10 * gap + 5, Name::Kernel(0));
                thread.pieces.push(Piece {
                    start,
                    end,
                    cause: IdleCause::Host,
                    gap,
                    device: 0,
                    ended_by,
                    waited: None,
                    handed_over: None,
                });
                thread.costly.push(CostlyCall { at: start, ns: 1, bytes: 0, what });
            }
            thread.ranges.extend(is_end.then_some(OpenSpan { start: 0, end: 10 * MANY, label: 7 }));
            let mut charge = |piece: Piece, label| {
                charged[usize::from(label == 7 && piece.cause == IdleCause::Host)] += 1;
            };
            thread.place(is_end, &mut charge, &mut |_, label, _| counted[usize::from(label == 7)] += 1);
        }
        assert_eq!((charged, counted), ([0, MANY], [0, MANY]));
    }
}
