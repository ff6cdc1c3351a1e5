//! What a thread notes of its calls into CUDA: which call was made in which span, and in which instance of it.
//!
//! Beside the stack, not in it, so that spans which launch nothing pay nothing: an instance gets a number when the first call is made in it, and
//! from then on exits on that thread take the general path, which notes when it ended.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use parking_lot::Mutex;

use super::shard::Shard;
use super::threads;
use crate::activity::{Instance, InstanceId, Note};
use crate::clock::Ticks;
use crate::summary::RangeStyle;

/// Notes that a thread keeps until they are collected, which is ten times a second: 40 MiB at most.
const NOTES: usize = 1 << 20;

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
    notes: Vec<(u32, Note)>,
    dropped: u64,
}

#[derive(Clone, Copy, Debug)]
struct OpenInstance {
    /// By which an entry is told from a later one at the same height.
    start: Ticks,
    /// That of the instance below where the range itself is not measured.
    id: InstanceId,
    is_measured: bool,
}

impl Log {
    fn note(&mut self, thread: u32, note: Note) {
        if self.notes.len() < NOTES {
            self.notes.push((thread, note));
        } else {
            self.dropped += 1;
        }
    }

    fn innermost(&self) -> InstanceId {
        self.open.last().map_or(0, |open| open.id)
    }

    fn end_last(&mut self, thread: u32, end: Ticks) {
        if let Some(open) = self.open.pop().filter(|open| open.is_measured) {
            self.note(thread, Note::Ended { instance: open.id, end });
        }
    }
}

fn next_instance() -> InstanceId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

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
        log.note(thread, Note::Called { correlation, node, instance, graph, at, enqueues });
        let any = !log.open.is_empty();
        drop(log);
        if any && !self.launches.any.swap(true, Relaxed) {
            threads::look_again();
        }
    }

    /// Notes a call of our own.
    pub(crate) fn note_own(&self, correlation: u32) {
        let thread = self.launches.thread.load(Relaxed);
        self.launches.log.lock().note(thread, Note::Own { correlation });
    }

    /// Gives a number to every open range that has none.
    fn begin_instances(&self, log: &mut Log, thread: u32) {
        let depth = self.stack.depth();
        let is_same = |log: &Log, index: usize| {
            self.stack.at(index).map(|(_, start)| start) == log.open.get(index).map(|open| open.start)
        };
        // From the top down: what is the same entry at one height is so at all heights below.
        while log.open.len() > depth || !log.open.is_empty() && !is_same(log, log.open.len() - 1) {
            log.end_last(thread, self.core.clock.now());
        }
        for index in log.open.len()..depth {
            let Some((place, start)) = self.stack.at(index) else { break };
            let below = log.innermost();
            let Some(identity) = self.identity(place) else {
                log.open.push(OpenInstance { start, id: below, is_measured: false });
                continue;
            };
            let id = next_instance();
            let (label, style) = (identity.key.label, RangeStyle::PushPop);
            log.note(thread, Note::Began(Instance { id, parent: below, label, style, start }));
            log.open.push(OpenInstance { start, id, is_measured: true });
        }
    }

    /// Notes the end, at `end`, of the instances that are no longer on the stack.
    pub(super) fn end_instances(&self, end: Ticks) {
        if !self.has_instances() {
            return;
        }
        let thread = self.launches.thread.load(Relaxed);
        let mut log = self.launches.log.lock();
        let gone = |log: &Log| match log.open.len().checked_sub(1) {
            Some(top) => self.stack.at(top).map(|(_, start)| start) != log.open.last().map(|open| open.start),
            None => false,
        };
        while gone(&log) {
            log.end_last(thread, end);
        }
        if log.open.is_empty() {
            drop(log);
            self.launches.any.store(false, Relaxed);
            threads::look_again();
        }
    }

    /// Hands over what was noted since the last time, with the thread that did. Any thread. Returns the number of notes that were dropped
    /// since then.
    pub(crate) fn take_notes(&self, into: &mut Vec<(u32, Note)>) -> u64 {
        into.clear();
        let mut log = self.launches.log.lock();
        std::mem::swap(&mut log.notes, into);
        std::mem::take(&mut log.dropped)
    }
}
