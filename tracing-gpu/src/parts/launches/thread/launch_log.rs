//! A thread's log of its CUDA calls: in which span, and in which instance of it, each call was made.
//!
//! It is separate from the stack, so that spans without launches pay nothing. An instance gets a number at the first
//! call in it. The stack marks such instances, so that their exits note their ends.
//!
//! Lifetimes (`nvtx.lifetime`) that began on the thread surround its calls, too, whatever is on its stack. Nsight
//! Systems counts launches in a lifetime only if it also ends on that thread. The thread that ends a lifetime notes the
//! end, in the log of the thread that began it. A call is noted under the lock of the lifetimes, so that in the log it
//! is either before such an end or after it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::lifetimes::{Lifetimes, OpenLifetimes};
use super::note_line::{FirstCall, line_of};
use super::notes::Notes;
use crate::clock::Ticks;
use crate::core::chunked::Chunked;
use crate::core::record::Place;
use crate::core::session::Session;
use crate::core::session::catalog::ROOT;
use crate::core::thread::row::Row;
use crate::core::thread::rows::Rows;
use crate::core::thread::stack::{Left, Stack};
use crate::parts::launches::session::NoteRoom;
use gpu_activity::record::{Instance, InstanceId, Note};
use range_model::RangeStyle;

#[cfg(test)]
#[path = "launch_log/tests.rs"]
mod tests;

/// A thread's memory of its launches. Only that thread writes it, except `lifetimes`, and `notes`, which the collector
/// takes.
#[derive(Debug)]
// A launch in one range uses one cache line, away from rows: see `row::WRITTEN`.
#[repr(C, align(512))]
pub(crate) struct LaunchLog {
    /// The open lifetimes that began on this state.
    pub(crate) lifetimes: Mutex<Lifetimes>,
    pub(crate) notes: Notes,
    /// The next number of an instance. If it is the first of a block, the thread has not taken that block yet.
    pub(crate) next_number: AtomicU64,
    /// The number of lifetimes that contain calls, changed under their lock. The thread itself has added all those that
    /// it must see.
    pub(crate) lifetimes_with_calls: AtomicU32,
    /// The open ranges that contain calls, outermost first. The stack has their number.
    pub(crate) open: Chunked<OpenInstance, 64>,
}

/// Bytes, from the first, that launches in up to five ranges use.
#[cfg(test)]
pub(crate) const TOUCHED: usize = std::mem::offset_of!(LaunchLog, open) + 5 * size_of::<OpenInstance>();

/// The ranges around a call: those open on its thread.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    stack: &'a Stack,
    rows: &'a Rows,
    session: &'static Session,
}

impl<'a> Around<'a> {
    pub(crate) fn new(stack: &'a Stack, rows: &'a Rows, session: &'static Session) -> Self {
        Self { stack, rows, session }
    }

    fn room(&self) -> &'static NoteRoom {
        &self.session.parts.note_room
    }
}

/// A call with all that is noted of it.
pub(crate) struct AnyCall {
    pub(crate) correlation: u32,
    pub(crate) graph: bool,
    pub(crate) enqueues: bool,
    /// Its time, and the number of the span's call around it, if a timeline is written.
    pub(crate) at: Ticks,
    pub(crate) call: u64,
    /// Its node if no range is open.
    pub(crate) outside: u32,
}

/// How many numbers a thread takes at once, so that launches rarely touch the shared counter.
const NUMBERS: u64 = 1 << 12;

#[derive(Debug, Default)]
pub(crate) struct OpenInstance {
    /// Distinguishes an entry from a later one at the same height.
    start: AtomicU64,
    /// The number of the instance; for an unmeasured range that of the instance below. The lowest bit tells whether the
    /// range is measured.
    number: AtomicU64,
}

impl OpenInstance {
    #[inline]
    fn set(&self, start: Ticks, id: InstanceId, is_measured: bool) {
        self.start.store(start, Relaxed);
        self.number.store(id << 1 | u64::from(is_measured), Relaxed);
    }

    #[inline]
    fn id(&self) -> InstanceId {
        self.number.load(Relaxed) >> 1
    }

    #[inline]
    fn is_measured(&self) -> bool {
        self.number.load(Relaxed) & 1 == 1
    }

    /// Marks the instance as noted to end.
    fn end(&self) {
        self.number.store(self.id() << 1, Relaxed);
    }
}

impl LaunchLog {
    #[inline]
    fn next_instance(&self) -> InstanceId {
        static NEXT: AtomicU64 = AtomicU64::new(NUMBERS);
        let mut number = self.next_number.load(Relaxed);
        if number.is_multiple_of(NUMBERS) {
            number = NEXT.fetch_add(NUMBERS, Relaxed);
        }
        self.next_number.store(number + 1, Relaxed);
        number
    }

    /// The operating system's number of the thread that owns this log.
    pub(crate) fn thread(&self) -> u32 {
        self.notes.thread()
    }

    /// Gives the log to a thread with this number.
    pub(crate) fn set_thread(&self, thread: u32, session: &Session) {
        self.notes.set_thread(thread, &session.parts.note_room);
    }

    /// Notes a call if no range is open, or if every open range, except perhaps the innermost, has a call already, and
    /// the innermost is among the outermost 64. Otherwise, or if anything else prevents it, returns `None` and changes
    /// nothing.
    #[inline]
    pub(crate) fn note_near<'a>(
        &self,
        stack: &Stack,
        row: impl Fn(usize) -> Option<&'a Row>,
        correlation: u32,
        graph: bool,
        enqueues: bool,
    ) -> Option<()> {
        if self.lifetimes_with_calls.load(Relaxed) > 0 {
            return None;
        }
        let noted = stack.noted();
        let Some(top) = stack.depth().checked_sub(1) else {
            let called = Note::Called { correlation, node: ROOT, instance: 0, graph, at: 0, call: 0, enqueues };
            return (noted == 0 && self.notes.push_near(line_of(&called))).then_some(());
        };
        let (place, start) = stack.near(top)?;
        let node = place.node();
        if noted > top {
            let open = self.open.near(top).filter(|open| noted == top + 1 && open.start.load(Relaxed) == start)?;
            let called = Note::Called { correlation, node, instance: open.id(), graph, at: 0, call: 0, enqueues };
            return self.notes.push_near(line_of(&called)).then_some(());
        }
        let parent = match top.checked_sub(1).filter(|_| noted == top) {
            None if noted == 0 && top == 0 => 0,
            None => return None,
            Some(below) => {
                let (open, (_, start)) = (self.open.near(below)?, stack.near(below)?);
                if open.start.load(Relaxed) != start {
                    return None;
                }
                open.id()
            }
        };
        let label = row(place.row())?.label()?;
        let id = Some(self.next_number.load(Relaxed)).filter(|number| number % NUMBERS != 0)?;
        let first = FirstCall { id, parent, label, start, correlation, node, graph, enqueues }.line()?;
        let open = self.open.near(top)?;
        if !self.notes.push_near(first) {
            return None;
        }
        self.next_number.store(id + 1, Relaxed);
        open.set(start, id, true);
        stack.set_noted(top + 1);
        Some(())
    }

    /// Notes any call.
    pub(crate) fn note(&self, around: &Around<'_>, call: &AnyCall) {
        if self.lifetimes_with_calls.load(Relaxed) > 0 {
            return self.note_in_lifetimes(around, call);
        }
        self.begin_instances(around, |_| ());
        self.note_called(around, call);
    }

    #[inline(never)]
    fn note_in_lifetimes(&self, around: &Around<'_>, call: &AnyCall) {
        let mut lifetimes = self.lifetimes.lock();
        self.begin_instances(around, |start| self.begin_lifetimes(around, &mut lifetimes, start));
        self.begin_lifetimes(around, &mut lifetimes, Ticks::MAX);
        self.note_called(around, call);
    }

    #[inline]
    fn note_called(&self, around: &Around<'_>, call: &AnyCall) {
        let node = around.stack.top().map_or(call.outside, |top| top.place().node());
        let instance = self.innermost(around.stack);
        let AnyCall { correlation, graph, enqueues, at, call, .. } = *call;
        self.notes.push(&Note::Called { correlation, node, instance, graph, at, call, enqueues }, around.room());
    }

    /// The innermost instance whose begin was noted; 0 for none.
    #[inline]
    fn innermost(&self, stack: &Stack) -> InstanceId {
        let innermost = stack.noted().checked_sub(1).and_then(|index| self.open.get(index));
        innermost.map_or(0, |open| open.id())
    }

    /// Whether the innermost instance whose begin was noted has left the stack. If an entry at one height is unchanged,
    /// all below are.
    #[inline]
    fn has_left(&self, stack: &Stack) -> bool {
        let Some(index) = stack.noted().checked_sub(1) else { return false };
        let noted = self.open.get(index).map(|open| open.start.load(Relaxed));
        stack.at(index).map(|(_, start)| start) != noted
    }

    /// Notes every open range that was not noted yet, in order of begins. Calls `before` with each start.
    #[inline]
    fn begin_instances(&self, around: &Around<'_>, mut before: impl FnMut(Ticks)) {
        self.end_left(around);
        for index in around.stack.noted()..around.stack.depth() {
            let Some((place, start)) = around.stack.at(index) else { break };
            before(start);
            self.begin_instance(around, index, place, start, start);
        }
    }

    /// Begins an instance at `start`, of the range at `index`, which was entered at `entry`.
    #[inline]
    fn begin_instance(&self, around: &Around<'_>, index: usize, place: Place, entry: Ticks, start: Ticks) {
        let Some(open) = self.open.get_or_grow(index) else { return };
        let mut id = self.innermost(around.stack);
        let mut is_measured = false;
        if let Some(identity) = around.rows.identity(place) {
            let (own, label, style) = (self.next_instance(), identity.key.label, RangeStyle::PushPop);
            is_measured =
                self.notes.push(&Note::Began(Instance { id: own, parent: id, label, style, start }), around.room());
            id = if is_measured { own } else { id };
        }
        open.set(entry, id, is_measured);
        around.stack.set_noted(index + 1);
    }

    /// Notes lifetimes without a call that began before `before`. All ranges on the stack that began before them have
    /// been noted.
    fn begin_lifetimes(&self, around: &Around<'_>, lifetimes: &mut Lifetimes, before: Ticks) {
        for (id, open) in lifetimes.unnoted().into_iter().filter(|(_, lifetime)| lifetime.start < before) {
            let (parent, style) = (self.innermost_before(around.stack, open.start), RangeStyle::StartEnd);
            let start = open.start.max(around.session.window());
            open.is_noted =
                self.notes.push(&Note::Began(Instance { id, parent, label: open.label, style, start }), around.room());
        }
    }

    /// The innermost noted range on the stack that began before this.
    fn innermost_before(&self, stack: &Stack, start: Ticks) -> InstanceId {
        let open = (0..stack.noted()).rev().filter_map(|index| self.open.get(index));
        let around = open.into_iter().find(|open| open.start.load(Relaxed) <= start);
        around.map_or(0, |open| open.id())
    }

    /// Begins a lifetime on this thread, which has this name. Returns its number, by which it ends.
    pub(crate) fn begin_lifetime(
        &self,
        label: u32,
        start: Ticks,
        session: &Session,
        name: impl Fn() -> String,
    ) -> InstanceId {
        let id = self.next_instance();
        let takes_calls = session.is_collecting();
        let mut lifetimes = self.lifetimes.lock();
        lifetimes.begin(id, label, start, takes_calls, name);
        self.lifetimes_with_calls.fetch_add(u32::from(takes_calls), Relaxed);
        id
    }

    /// Ends a lifetime that began on this thread's state, at `end` if that is measured. On any thread.
    pub(crate) fn end_lifetime(&self, instance: InstanceId, end: Option<Ticks>, session: &Session) {
        let mut lifetimes = self.lifetimes.lock();
        let Some(ended) = lifetimes.end(instance) else { return };
        self.lifetimes_with_calls.fetch_sub(u32::from(ended.takes_calls), Relaxed);
        if ended.is_noted {
            let note = match end.filter(|_| ended.is_of_this_thread()) {
                Some(end) => Note::Ended { instance, end },
                None => Note::Left { instance },
            };
            self.notes.push_from_anywhere(&note, &session.parts.note_room); // under the lock, in order of the ends
        }
    }

    /// The thread has ended, so no more calls are made in its lifetimes. Their ends are still noted. Those that never
    /// end last until the end of the recording, as in Nsight.
    pub(crate) fn leave_lifetimes(&self) {
        let mut lifetimes = self.lifetimes.lock();
        lifetimes.leave_thread();
        self.lifetimes_with_calls.store(0, Relaxed);
    }

    /// Open lifetimes that began here. On any thread.
    pub(crate) fn open_lifetimes(&self) -> Vec<OpenLifetimes> {
        self.lifetimes.lock().open()
    }

    /// Notes the end, at `end`, of the instance of the innermost range, with `below` ranges below it, which is about to
    /// close. If this needs more work, returns false and changes nothing.
    #[inline]
    pub(crate) fn end_near(&self, stack: &Stack, below: usize, end: Ticks) -> bool {
        let ended = self.open.near(below).filter(|open| {
            stack.noted() == below + 1
                && open.is_measured()
                && self.notes.push_near(line_of(&Note::Ended { instance: open.id(), end }))
        });
        ended.inspect(|_| stack.set_noted(below)).is_some()
    }

    /// Notes the end of the instance with `below` ranges below it, which an exit further down closes. A later
    /// [`end_gone`](Self::end_gone) does not concern these instances.
    #[inline]
    pub(crate) fn end_at(&self, around: &Around<'_>, below: usize, end: Ticks) {
        if below >= around.stack.noted() {
            return;
        }
        if let Some(open) = self.open.get(below).filter(|open| open.is_measured()) {
            let ended = Note::Ended { instance: open.id(), end };
            self.notes.push_in_any_case(&ended, around.room());
            open.end();
        }
    }

    /// An exit further down has removed ranges from the stack, and reopened others: [`end_at`](Self::end_at) has noted
    /// the ends of their instances. Ranges of other domains above them stay open; for each of these an instance ends
    /// here, and another begins.
    #[inline]
    pub(crate) fn begin_again(&self, around: &Around<'_>, left: &Left) {
        let noted = around.stack.noted();
        if noted == 0 {
            return;
        }
        let Some(first) = (0..noted).find(|&index| left.is_closed(index)) else { return };
        let stays = |index: &usize| !left.is_closed(*index);
        let last = (first..noted).rev().find(stays).unwrap_or(first);
        let now = around.session.clock.now();
        (first..noted).rev().filter(stays).for_each(|index| self.end_at(around, index, now));
        around.stack.set_noted(first);
        for before in (first..last + 1).filter(|&index| !left.is_gone(index)) {
            let index = left.place_of(before);
            let Some((place, entry)) = around.stack.at(index) else { return };
            self.begin_instance(around, index, place, entry, if left.is_closed(before) { entry } else { now });
        }
    }

    /// Notes the ends of instances that have left the stack, if that is still to be done.
    #[inline]
    pub(crate) fn end_left(&self, around: &Around<'_>) {
        if self.has_left(around.stack) {
            self.end_gone(around, around.session.clock.now());
        }
    }

    /// Notes the end, at `end`, of the instances that are no longer on the stack. This ignores the limit, because they
    /// would otherwise stay open for ever.
    #[inline]
    pub(crate) fn end_gone(&self, around: &Around<'_>, end: Ticks) {
        if around.stack.noted() > 0 {
            self.end_noted(around, end);
        }
    }

    #[inline(never)]
    fn end_noted(&self, around: &Around<'_>, end: Ticks) {
        while self.has_left(around.stack) {
            let last = around.stack.noted() - 1;
            if let Some(open) = self.open.get(last).filter(|open| open.is_measured()) {
                let ended = Note::Ended { instance: open.id(), end };
                self.notes.push_in_any_case(&ended, around.room());
            }
            around.stack.set_noted(last);
        }
    }
}
