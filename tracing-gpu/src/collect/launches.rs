//! What a thread notes of its calls into CUDA: which call was made in which span, and in which instance of it.
//!
//! Beside the stack, not in it, so that spans which launch nothing pay nothing: an instance gets a number when the first call is made in it, and
//! from then on exits on that thread take the general path, which notes when it ended.
//!
//! Lifetimes (`nvtx.lifetime`) that began on the thread are around its calls, too, wherever its stack is. Nsight Systems counts what was launched in them if
//! they also end on it, and else leaves them out: their end is noted by the thread on which they end, in the log of the one on which they began.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::notes::{NoteRoom, Notes, Taken};
use super::shard::Shard;
use super::threads;
use crate::activity::{Instance, InstanceId, Note};
use crate::clock::Ticks;
use crate::summary::RangeStyle;

#[cfg(test)]
#[path = "launches/tests.rs"]
mod tests;

/// Notes of one thread. The lock is taken by that thread, and now and then by whoever collects.
#[derive(Debug, Default)]
pub(crate) struct Launches {
    /// Whether an instance with a number is open.
    any: AtomicBool,
    /// The operating system's number of the thread.
    thread: AtomicU32,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    /// The open ranges, outermost first, as far as calls were made in them.
    open: Vec<OpenInstance>,
    /// The open lifetimes that began on the thread, the oldest first.
    lifetimes: Vec<OpenLifetime>,
    notes: Notes,
    /// Numbers for instances, of which nobody else has any.
    numbers: Range<InstanceId>,
}

#[derive(Clone, Copy, Debug)]
struct OpenInstance {
    /// By which an entry is told from a later one at the same height.
    start: Ticks,
    /// That of the instance below where the range itself is not measured.
    id: InstanceId,
    is_measured: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenLifetime {
    id: InstanceId,
    label: u32,
    start: Ticks,
    /// Whether a call was made in it.
    is_noted: bool,
}

impl Log {
    /// Notes that a call is made in all lifetimes that are open.
    fn note_within(&mut self, thread: u32, correlation: u32, room: &NoteRoom) {
        for at in 0..self.lifetimes.len() {
            if let Some(instance) = self.lifetimes.get(at).filter(|it| it.is_noted).map(|it| it.id) {
                self.notes.push((thread, Note::Within { correlation, instance }), room);
            }
        }
    }

    fn next_instance(&mut self) -> InstanceId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        self.numbers.next().unwrap_or_else(|| {
            let first = NEXT.fetch_add(NUMBERS, Relaxed);
            self.numbers = first + 1..first + NUMBERS;
            first
        })
    }

    fn innermost(&self) -> InstanceId {
        self.open.last().map_or(0, |open| open.id)
    }

    /// There is always room for the end of an instance that was noted to begin, or it would be open for ever.
    fn end_last(&mut self, thread: u32, end: Ticks, room: &NoteRoom) {
        if let Some(open) = self.open.pop().filter(|open| open.is_measured) {
            self.notes.push_in_any_case((thread, Note::Ended { instance: open.id, end }), room);
        }
    }

    /// The innermost range on the stack that began before this.
    fn around(&self, start: Ticks) -> InstanceId {
        self.open.iter().rfind(|open| open.start <= start).map_or(0, |open| open.id)
    }
}

/// Numbers that a thread takes at once: the counter of all is on the way of no launch.
const NUMBERS: u64 = 1 << 12;

impl Shard {
    /// Whether an exit has to be noted.
    pub(super) fn has_instances(&self) -> bool {
        self.launches.any.load(Relaxed)
    }

    /// The operating system's number of the thread that holds this shard.
    pub(crate) fn thread_id(&self) -> u32 {
        self.launches.thread.load(Relaxed)
    }

    /// A thread takes this shard.
    pub(super) fn set_thread(&self, thread: u32) {
        self.launches.thread.store(thread, Relaxed);
    }

    /// Notes a call that is about to be made on this thread.
    pub(crate) fn note_call(&self, correlation: u32, graph: bool, enqueues: bool) {
        let thread = self.launches.thread.load(Relaxed);
        let mut log = self.launches.log.lock();
        self.begin_instances(&mut log, thread);
        let (node, instance) = (self.current_node(), log.innermost());
        let at = if self.core.tape_room.is_some() { self.core.clock.now() } else { 0 };
        let room = &self.core.note_room;
        log.notes.push((thread, Note::Called { correlation, node, instance, graph, at, enqueues }), room);
        log.note_within(thread, correlation, room);
        let any = !log.open.is_empty();
        drop(log);
        if any && !self.has_instances() {
            self.launches.any.store(true, Relaxed); // by this thread alone
            threads::look_again();
        }
    }

    /// Notes a call of our own.
    pub(crate) fn note_own(&self, correlation: u32) {
        let thread = self.launches.thread.load(Relaxed);
        self.launches.log.lock().notes.push((thread, Note::Own { correlation }), &self.core.note_room);
    }

    /// Notes every open range and lifetime that was not noted yet, in the order of their beginnings.
    fn begin_instances(&self, log: &mut Log, thread: u32) {
        let depth = self.stack.depth();
        let is_same = |log: &Log, index: usize| {
            self.stack.at(index).map(|(_, start)| start) == log.open.get(index).map(|open| open.start)
        };
        // From the top down: what is the same entry at one height is so at all heights below.
        while log.open.len() > depth || !log.open.is_empty() && !is_same(log, log.open.len() - 1) {
            log.end_last(thread, self.core.clock.now(), &self.core.note_room);
        }
        for index in log.open.len()..depth {
            let Some((place, start)) = self.stack.at(index) else { break };
            self.begin_lifetimes(log, thread, start);
            let below = log.innermost();
            let Some(identity) = self.identity(place) else {
                log.open.push(OpenInstance { start, id: below, is_measured: false });
                continue;
            };
            let id = log.next_instance();
            let (label, style) = (identity.key.label, RangeStyle::PushPop);
            let began = Note::Began(Instance { id, parent: below, label, style, start });
            let is_measured = log.notes.push((thread, began), &self.core.note_room);
            log.open.push(OpenInstance { start, id: if is_measured { id } else { below }, is_measured });
        }
        self.begin_lifetimes(log, thread, Ticks::MAX);
    }

    /// Notes the lifetimes that no call was made in yet and that began before that. So were the ranges on the stack.
    #[inline]
    fn begin_lifetimes(&self, log: &mut Log, thread: u32, before: Ticks) {
        if !log.lifetimes.is_empty() {
            self.begin_open_lifetimes(log, thread, before);
        }
    }

    #[inline(never)]
    fn begin_open_lifetimes(&self, log: &mut Log, thread: u32, before: Ticks) {
        for at in 0..log.lifetimes.len() {
            let open = log.lifetimes.get(at).filter(|lifetime| !lifetime.is_noted && lifetime.start < before);
            let Some(&OpenLifetime { id, label, start, .. }) = open else { continue };
            let (parent, style) = (log.around(start), RangeStyle::StartEnd);
            let start = start.max(self.core.window());
            let began = Note::Began(Instance { id, parent, label, style, start });
            let is_noted = log.notes.push((thread, began), &self.core.note_room);
            if let Some(lifetime) = log.lifetimes.get_mut(at) {
                lifetime.is_noted = is_noted;
            }
        }
    }

    /// A lifetime begins on this thread: its number, by which it ends; 0 where nobody wants to know.
    pub(crate) fn begin_lifetime(&self, label: u32, start: Ticks) -> InstanceId {
        if !self.core.is_collecting() {
            return 0;
        }
        let mut log = self.launches.log.lock();
        let id = log.next_instance();
        log.lifetimes.push(OpenLifetime { id, label, start, is_noted: false });
        id
    }

    /// A lifetime that began on this shard has ended: at `end` on the thread that it began on, else with none. Any thread.
    pub(crate) fn end_lifetime(&self, instance: InstanceId, end: Option<Ticks>) {
        if instance == 0 {
            return;
        }
        let thread = self.launches.thread.load(Relaxed);
        let mut log = self.launches.log.lock();
        let open = log.lifetimes.iter().rposition(|lifetime| lifetime.id == instance);
        let open = open.map(|at| log.lifetimes.remove(at));
        if open.is_some_and(|lifetime| !lifetime.is_noted) {
            return;
        }
        // One that is not there was open when its thread ended, and may have been noted before.
        let ended = match end {
            Some(end) => Note::Ended { instance, end },
            None => Note::Left { instance },
        };
        log.notes.push_in_any_case((thread, ended), &self.core.note_room);
    }

    /// The thread has ended: no more calls are made in its lifetimes. Where these end is noted still; those that never do last to the end of the recording, as in Nsight.
    pub(super) fn forget_lifetimes(&self) {
        self.launches.log.lock().lifetimes.clear();
    }

    /// Notes the end, at `end`, of the instances that are no longer on the stack.
    #[inline]
    pub(super) fn end_instances(&self, end: Ticks) {
        if self.has_instances() {
            self.end_noted_instances(end);
        }
    }

    #[inline(never)]
    fn end_noted_instances(&self, end: Ticks) {
        let thread = self.launches.thread.load(Relaxed);
        let mut log = self.launches.log.lock();
        let gone = |log: &Log| match log.open.len().checked_sub(1) {
            Some(top) => self.stack.at(top).map(|(_, start)| start) != log.open.last().map(|open| open.start),
            None => false,
        };
        while gone(&log) {
            log.end_last(thread, end, &self.core.note_room);
        }
        if log.open.is_empty() {
            drop(log);
            self.launches.any.store(false, Relaxed);
            threads::look_again();
        }
    }

    /// Hands over what was noted since the last time. Any thread. Returns the number of notes that were dropped since then.
    pub(crate) fn take_notes(&self, into: &mut Taken) -> u64 {
        self.launches.log.lock().notes.take(into, &self.core.note_room)
    }

    /// That was read.
    pub(crate) fn give_back(&self, taken: &mut Taken) {
        let pieces = taken.clear(&self.core.note_room);
        if !pieces.is_empty() {
            self.launches.log.lock().notes.keep(pieces);
        }
    }
}
