//! What a thread notes of its calls into CUDA: which call was made in which span, and in which instance of it.
//!
//! Beside the stack, not in it, so that spans which launch nothing pay nothing: an instance gets a number when the first call is made in it, and its exit, which
//! the stack tells from others, notes when it ended.
//!
//! Lifetimes (`nvtx.lifetime`) that began on the thread are around its calls, too, wherever its stack is. Nsight Systems counts what was launched in them if
//! they also end on it, and else leaves them out: their end is noted by the thread on which they end, in the log of the one on which they began.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::note_line::{FirstCall, line_of};
use super::notes::{Dropped, Notes, Taken};
use super::row::Row;
use super::shard::Shard;
use crate::activity::{Instance, InstanceId, Note};
use crate::chunked::Chunked;
use crate::clock::Ticks;
use crate::nesting::Left;
use crate::record::Place;
use crate::summary::RangeStyle;

#[cfg(test)]
#[path = "launches/tests.rs"]
mod tests;

/// What one thread remembers of its launches. Written by that thread alone, but for `lifetimes`, and for `notes`, which whoever collects takes away.
#[derive(Debug)]
#[repr(C, align(512))] // what a launch in one range touches is in one cache line, out of the way of rows: see `row::WRITTEN`
pub(crate) struct Launches {
    /// The open lifetimes that began on the thread, the oldest first.
    lifetimes: Mutex<Vec<OpenLifetime>>,
    notes: Notes,
    /// The next number for an instance. Where that is the first of a stretch, the stretch is still to be taken.
    next_number: AtomicU64,
    /// Whether there are any lifetimes: changed under their lock. The thread has added those that it has to see.
    has_lifetimes: AtomicBool,
    /// The open ranges, outermost first, as far as calls were made in them: as many as the stack says.
    open: Chunked<OpenInstance, 64>,
}

/// Bytes from the first on that launches in up to five ranges touch.
#[cfg(test)]
pub(super) const TOUCHED: usize = std::mem::offset_of!(Launches, open) + 5 * size_of::<OpenInstance>();

#[derive(Debug, Default)]
struct OpenInstance {
    /// By which an entry is told from a later one at the same height.
    start: AtomicU64,
    /// Its number, that of the instance below where the range itself is not measured; and, in the lowest bit, whether it is.
    number: AtomicU64,
}

impl OpenInstance {
    #[inline(always)]
    fn set(&self, start: Ticks, id: InstanceId, is_measured: bool) {
        self.start.store(start, Relaxed);
        self.number.store(id << 1 | u64::from(is_measured), Relaxed);
    }

    #[inline(always)]
    fn id(&self) -> InstanceId {
        self.number.load(Relaxed) >> 1
    }

    #[inline(always)]
    fn is_measured(&self) -> bool {
        self.number.load(Relaxed) & 1 == 1
    }

    /// It has been noted to end.
    fn end(&self) {
        self.number.store(self.id() << 1, Relaxed);
    }
}

#[derive(Clone, Copy, Debug)]
struct OpenLifetime {
    id: InstanceId,
    label: u32,
    start: Ticks,
    /// Whether a call was made in it.
    is_noted: bool,
}

impl Launches {
    pub(super) fn new() -> Self {
        Self {
            open: Chunked::new(),
            next_number: AtomicU64::new(0),
            notes: Notes::default(),
            has_lifetimes: AtomicBool::new(false),
            lifetimes: Mutex::default(),
        }
    }

    #[inline]
    fn next_instance(&self) -> InstanceId {
        static NEXT: AtomicU64 = AtomicU64::new(NUMBERS);
        let mut number = self.next_number.load(Relaxed);
        if number % NUMBERS == 0 {
            number = NEXT.fetch_add(NUMBERS, Relaxed);
        }
        self.next_number.store(number + 1, Relaxed);
        number
    }

    /// Changes the lifetimes. Any thread.
    fn change_lifetimes<T>(&self, change: impl FnOnce(&mut Vec<OpenLifetime>) -> T) -> T {
        let mut lifetimes = self.lifetimes.lock();
        let result = change(&mut lifetimes);
        self.has_lifetimes.store(!lifetimes.is_empty(), Relaxed);
        result
    }
}

/// Numbers that a thread takes at once: the counter of all is on the way of no launch.
const NUMBERS: u64 = 1 << 12;

impl Shard {
    /// The operating system's number of the thread that holds this shard.
    pub(crate) fn thread_id(&self) -> u32 {
        self.launches.notes.thread()
    }

    /// A thread takes this shard.
    pub(super) fn set_thread(&self, thread: u32) {
        self.launches.notes.set_thread(thread, &self.core.note_room);
    }

    #[inline]
    fn note(&self, note: &Note) -> bool {
        self.launches.notes.push(note, &self.core.note_room)
    }

    /// Notes a call that is about to be made on this thread.
    #[inline(always)]
    pub(crate) fn note_call(&self, correlation: u32, graph: bool, enqueues: bool) {
        // Nothing is called on this way, so that nothing is saved for it.
        if self.note_call_near(correlation, graph, enqueues, |row| self.rows.near(row)).is_none() {
            self.note_call_far(correlation, graph, enqueues);
        }
    }

    #[cold]
    #[inline(never)]
    fn note_call_far(&self, correlation: u32, graph: bool, enqueues: bool) {
        if self.note_call_near(correlation, graph, enqueues, |row| self.rows.get_inline(row)).is_none() {
            self.note_any_call(correlation, graph, enqueues);
        }
    }

    /// Where calls were made in all ranges but perhaps the innermost, which is one of at most 64, and nothing else is in the way. `None` where that is not so, and then
    /// nothing has happened.
    #[inline(always)]
    fn note_call_near<'a>(
        &'a self,
        correlation: u32,
        graph: bool,
        enqueues: bool,
        row: impl Fn(usize) -> Option<&'a Row>,
    ) -> Option<()> {
        let launches = &self.launches;
        if launches.has_lifetimes.load(Relaxed) || self.is_taped {
            return None;
        }
        let (top, noted) = (self.stack.depth().checked_sub(1)?, self.stack.noted());
        let (place, start) = self.stack.near(top)?;
        let node = place.node();
        if noted > top {
            let open = launches.open.near(top).filter(|open| noted == top + 1 && open.start.load(Relaxed) == start)?;
            let called = Note::Called { correlation, node, instance: open.id(), graph, at: 0, enqueues };
            return launches.notes.push_near(line_of(&called)).then_some(());
        }
        let parent = match top.checked_sub(1).filter(|_| noted == top) {
            None if noted == 0 && top == 0 => 0,
            None => return None,
            Some(below) => {
                let (open, (_, start)) = (launches.open.near(below)?, self.stack.near(below)?);
                if open.start.load(Relaxed) != start {
                    return None;
                }
                open.id()
            }
        };
        let label = row(place.row())?.label()?;
        let id = Some(launches.next_number.load(Relaxed)).filter(|number| number % NUMBERS != 0)?;
        let first = FirstCall { id, parent, label, start, correlation, node, graph, enqueues }.line()?;
        let open = launches.open.near(top)?;
        if !launches.notes.push_near(first) {
            return None;
        }
        launches.next_number.store(id + 1, Relaxed);
        open.set(start, id, true);
        self.stack.set_noted(top + 1);
        Some(())
    }

    #[cold]
    #[inline(never)]
    fn note_any_call(&self, correlation: u32, graph: bool, enqueues: bool) {
        if self.launches.has_lifetimes.load(Relaxed) {
            return self.note_call_within(correlation, graph, enqueues);
        }
        self.begin_instances(|_| ());
        self.note_called(correlation, graph, enqueues);
    }

    #[inline(never)]
    fn note_call_within(&self, correlation: u32, graph: bool, enqueues: bool) {
        let mut lifetimes = self.launches.lifetimes.lock();
        self.begin_instances(|start| self.begin_lifetimes(&mut lifetimes, start));
        self.begin_lifetimes(&mut lifetimes, Ticks::MAX);
        self.note_called(correlation, graph, enqueues);
        let within = lifetimes.iter().filter(|lifetime| lifetime.is_noted).map(|lifetime| lifetime.id);
        if self.core.note_room.is_scarce() {
            self.launches.notes.leave_out(within.count()); // of many lifetimes there are many for each call: room is left for calls
        } else {
            within.for_each(|instance| _ = self.note(&Note::Within { correlation, instance }));
        }
    }

    #[inline]
    fn note_called(&self, correlation: u32, graph: bool, enqueues: bool) {
        let (node, instance) = (self.current_node(), self.innermost());
        let at = if self.is_taped { self.core.clock.now() } else { 0 };
        self.note(&Note::Called { correlation, node, instance, graph, at, enqueues });
    }

    /// Notes a call of our own.
    #[cold]
    #[inline(never)]
    pub(crate) fn note_own(&self, correlation: u32) {
        self.note(&Note::Own { correlation });
    }

    /// The innermost instance that was noted to begin; 0 for none.
    #[inline]
    fn innermost(&self) -> InstanceId {
        let innermost = self.stack.noted().checked_sub(1).and_then(|index| self.launches.open.get(index));
        innermost.map_or(0, |open| open.id())
    }

    /// Whether the innermost instance that was noted to begin is no longer on the stack. What is the same entry at one height is so at all heights below.
    #[inline]
    fn has_left(&self) -> bool {
        let Some(index) = self.stack.noted().checked_sub(1) else { return false };
        let noted = self.launches.open.get(index).map(|open| open.start.load(Relaxed));
        self.stack.at(index).map(|(_, start)| start) != noted
    }

    /// Notes every open range that was not noted yet, in the order of their beginnings. `before` is told of each start.
    #[inline]
    fn begin_instances(&self, mut before: impl FnMut(Ticks)) {
        self.end_left();
        for index in self.stack.noted()..self.stack.depth() {
            let Some((place, start)) = self.stack.at(index) else { break };
            before(start);
            self.begin_instance(index, place, start);
        }
    }

    #[inline]
    fn begin_instance(&self, index: usize, place: Place, start: Ticks) {
        let Some(open) = self.launches.open.get_or_grow(index) else { return };
        let mut id = self.innermost();
        let mut is_measured = false;
        if let Some(identity) = self.identity(place) {
            let (own, label, style) = (self.launches.next_instance(), identity.key.label, RangeStyle::PushPop);
            is_measured = self.note(&Note::Began(Instance { id: own, parent: id, label, style, start }));
            id = if is_measured { own } else { id };
        }
        open.set(start, id, is_measured);
        self.stack.set_noted(index + 1);
    }

    /// Notes the lifetimes that no call was made in yet and that began before that. So were the ranges on the stack.
    fn begin_lifetimes(&self, lifetimes: &mut [OpenLifetime], before: Ticks) {
        for open in lifetimes.iter_mut().filter(|lifetime| !lifetime.is_noted && lifetime.start < before) {
            let (parent, style) = (self.around(open.start), RangeStyle::StartEnd);
            let start = open.start.max(self.core.window());
            open.is_noted = self.note(&Note::Began(Instance { id: open.id, parent, label: open.label, style, start }));
        }
    }

    /// The innermost range on the stack that was noted to begin and began before this.
    fn around(&self, start: Ticks) -> InstanceId {
        let open = (0..self.stack.noted()).rev().filter_map(|index| self.launches.open.get(index));
        let around = open.into_iter().find(|open| open.start.load(Relaxed) <= start);
        around.map_or(0, |open| open.id())
    }

    /// A lifetime begins on this thread: its number, by which it ends; 0 where nobody wants to know.
    pub(crate) fn begin_lifetime(&self, label: u32, start: Ticks) -> InstanceId {
        if !self.core.is_collecting() {
            return 0;
        }
        let id = self.launches.next_instance();
        self.launches.change_lifetimes(|all| all.push(OpenLifetime { id, label, start, is_noted: false }));
        id
    }

    /// A lifetime that began on this shard has ended: at `end` on the thread that it began on, else with none. Any thread.
    pub(crate) fn end_lifetime(&self, instance: InstanceId, end: Option<Ticks>) {
        if instance == 0 {
            return;
        }
        self.launches.change_lifetimes(|all| {
            let open = all.iter().rposition(|lifetime| lifetime.id == instance);
            let open = open.map(|at| all.remove(at));
            if open.is_some_and(|lifetime| !lifetime.is_noted) {
                return;
            }
            // One that is not there was open when its thread ended, and may have been noted before.
            let ended = match end {
                Some(end) => Note::Ended { instance, end },
                None => Note::Left { instance },
            };
            self.launches.notes.push_from_anywhere(&ended, &self.core.note_room);
        });
    }

    /// The thread has ended: no more calls are made in its lifetimes. Where these end is noted still; those that never do last to the end of the recording, as in Nsight.
    pub(super) fn forget_lifetimes(&self) {
        self.launches.change_lifetimes(Vec::clear);
    }

    /// Notes the end, at `end`, of the instance of the innermost range, above so many, which is about to be closed. False where more is to be done, and then nothing
    /// has happened.
    #[inline(always)]
    pub(super) fn end_instance_near(&self, below: usize, end: Ticks) -> bool {
        let ended = self.launches.open.near(below).filter(|open| {
            self.stack.noted() == below + 1
                && open.is_measured()
                && self.launches.notes.push_near(line_of(&Note::Ended { instance: open.id(), end }))
        });
        ended.inspect(|_| self.stack.set_noted(below)).is_some()
    }

    /// Notes the end of the instance of the range with so many below it, where an exit further down closes it: each ends when it is closed, and what
    /// [`end_instances`](Self::end_instances) says afterwards is not of it.
    pub(super) fn end_instance_at(&self, below: usize, end: Ticks) {
        let open = self.launches.open.get(below).filter(|open| below < self.stack.noted() && open.is_measured());
        if let Some(open) = open {
            let ended = Note::Ended { instance: open.id(), end };
            self.launches.notes.push_in_any_case(&ended, &self.core.note_room);
            open.end();
        }
    }

    /// An exit further down has taken ranges off the stack, and opened others again: their instances have been noted to end, by
    /// [`end_instance_at`](Self::end_instance_at). Those of other domains above them go on where they are now.
    pub(super) fn move_instances(&self, left: &Left) {
        let noted = self.stack.noted();
        let Some(first) = (0..noted).find(|&index| left.is_closed(index)) else { return };
        let last = (first..noted).rev().find(|&index| !left.is_closed(index)).unwrap_or(first);
        self.stack.set_noted(first);
        for before in (first..last + 1).filter(|&index| !left.is_gone(index)) {
            let index = left.place_of(before); // at most as high, so that none is overwritten before it is read
            let (Some((place, start)), Some(open)) = (self.stack.at(index), self.launches.open.get(before)) else {
                return;
            };
            if left.is_closed(before) {
                self.begin_instance(index, place, start); // opened again, and below one that goes on
            } else {
                let (id, is_measured) = self.moved_instance(open);
                if let Some(open) = self.launches.open.get(index) {
                    open.set(start, id, is_measured);
                }
                self.stack.set_noted(index + 1);
            }
        }
    }

    /// The number of an instance that goes on above what is noted now, and whether it is its own. Where there is no room to tell of it, it ends here.
    fn moved_instance(&self, open: &OpenInstance) -> (InstanceId, bool) {
        let parent = self.innermost();
        if !open.is_measured() {
            return (parent, false);
        }
        let (from, to) = (open.id(), self.launches.next_instance());
        if self.note(&Note::Moved { from, to, parent }) {
            return (to, true);
        }
        let ended = Note::Ended { instance: from, end: self.core.clock.now() };
        self.launches.notes.push_in_any_case(&ended, &self.core.note_room);
        (parent, false)
    }

    /// Ends what is no longer on the stack, where that was not noted yet.
    #[inline]
    pub(super) fn end_left(&self) {
        if self.has_left() {
            self.end_instances(self.core.clock.now());
        }
    }

    /// Notes the end, at `end`, of the instances that are no longer on the stack. There is always room for it, or they would be open for ever.
    pub(super) fn end_instances(&self, end: Ticks) {
        while self.has_left() {
            let last = self.stack.noted() - 1;
            if let Some(open) = self.launches.open.get(last).filter(|open| open.is_measured()) {
                let ended = Note::Ended { instance: open.id(), end };
                self.launches.notes.push_in_any_case(&ended, &self.core.note_room);
            }
            self.stack.set_noted(last);
        }
    }

    /// Hands over what was noted since the last time. Any thread. Returns which notes were dropped since then.
    pub(crate) fn take_notes(&self, into: &mut Taken) -> Dropped {
        self.launches.notes.take(into, &self.core.note_room)
    }

    /// That was read.
    pub(crate) fn give_back(&self, taken: &mut Taken) {
        self.launches.notes.keep(taken.clear(&self.core.note_room));
    }
}
