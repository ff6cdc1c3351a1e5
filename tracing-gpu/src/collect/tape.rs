//! What a thread records for a timeline: each range as it ends, and each event.
//!
//! Only while a timeline is written. Callbacks then take the general path; a record is a few words put into a list of the thread, which whoever
//! writes the files takes away. All lists of a profiler share one bound; what does not fit is counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use nvtx_rs::{Color, Payload};
use parking_lot::{Condvar, Mutex};

use super::shard::Shard;
use crate::clock::Ticks;
use crate::record::RangeKey;
use crate::timeline::Value;

/// Fields of a span that are not ours, by name.
pub(crate) type Fields = Arc<Vec<(String, Value)>>;

/// What is recorded.
#[derive(Clone, Debug)]
pub(crate) enum Record {
    /// A thread begins, under this name: what follows of its number is its.
    Thread { name: Box<str> },
    /// A range that has ended.
    Range {
        key: RangeKey,
        start: Ticks,
        end: Ticks,
        depth: u32,
        /// For start/end ranges that ended on another thread than they began on: that one.
        began_on: Option<u32>,
        cut: bool,
    },
    /// Values of the range that starts then on this thread: they come before it.
    Values { start: Ticks, color: Option<Color>, payload: Option<Payload>, fields: Fields },
    /// A new window begins at `start`, and with it what counts of the open range at this depth, which began `before`.
    Restarted { depth: u32, before: Ticks, start: Ticks },
    /// An event.
    Mark { at: Ticks, domain: Option<&'static str>, level: u8, text: Box<str> },
}

/// Records of one thread, each with the operating system's number of the thread that it is of.
#[derive(Debug, Default)]
pub(crate) struct Tape(Mutex<Log>);

#[derive(Debug, Default)]
struct Log {
    records: Vec<(u32, Record)>,
    /// Room that was taken of the bound and not used yet.
    room: usize,
    lost: u64,
}

/// What all tapes of a profiler share.
#[derive(Debug)]
pub(crate) struct TapeRoom {
    left: AtomicUsize,
    all: usize,
    /// Wakes whoever takes the records away.
    pub(crate) wake: Condvar,
}

/// Room is taken in pieces of this many records.
const PIECE: usize = 1_024;

impl TapeRoom {
    /// Room for as many records as go into `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        let all = bytes / size_of::<(u32, Record)>();
        Self { left: AtomicUsize::new(all), all, wake: Condvar::new() }
    }

    fn take_piece(&self) -> bool {
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(PIECE));
        if taken.is_ok_and(|left| left < self.all / 4 * 3) {
            self.wake.notify_one(); // a quarter is full
        }
        taken.is_ok()
    }

    /// So many records have been written.
    pub(crate) fn give_back(&self, records: usize) {
        self.left.fetch_add(records, Relaxed);
    }
}

impl Log {
    fn push(&mut self, thread: u32, record: Record, room: &TapeRoom) {
        if self.room == 0 {
            if !room.take_piece() {
                self.lost += 1;
                return;
            }
            self.room = PIECE;
        }
        self.room -= 1;
        self.records.push((thread, record));
    }
}

impl Shard {
    /// Records something of this thread, if a timeline is written.
    pub(crate) fn record(&self, record: impl FnOnce() -> Record) {
        if let Some(room) = &self.core.tape_room {
            self.tape.0.lock().push(self.thread_id(), record(), room);
        }
    }

    /// Hands over what was recorded since the last time, in place of the empty `into`. Any thread. Returns the number of records that were lost since then.
    pub(crate) fn take_records(&self, into: &mut Vec<(u32, Record)>) -> u64 {
        let mut log = self.tape.0.lock();
        std::mem::swap(&mut log.records, into);
        std::mem::take(&mut log.lost)
    }
}
