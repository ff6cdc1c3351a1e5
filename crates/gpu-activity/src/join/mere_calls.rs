//! API calls without work on a GPU, remembered until their records or details have arrived.
//!
//! A program may make a hundred of them for each launch. So an entry is small, and they have a limit of their own: they
//! never push out a launch.

use rustc_hash::FxHashMap;

use super::pending_call::{DRAINS, Expected, Fate, PendingCall, Recorded};
use crate::fold::{Launch, NO_SLOT};
use crate::record::Ticks;
use range_model::stats::Lean;

/// Number of calls in a table at the limit. Its 65,536 places are then nearly full, whatever the limit is: a table has
/// a power of two of places, and grows where 7/8 of them are taken. A table that grows is there twice for a moment, and
/// the others are not.
pub(super) const TABLE: usize = 50_000;

/// A call without any record for this many drains, at least fifty minutes, is forgotten.
const MOST_DRAINS: u16 = 1 << 15;

/// An entry takes 32 bytes with its id, and 33 in a table: 44 for each call at the limit.
#[derive(Clone, Copy, Debug)]
#[repr(C, packed(4))]
pub(super) struct MereCall {
    at: Ticks,
    call: u64,
    thread: u32,
    node: u32,
    /// The drain of its last news.
    heard: u16,
    recorded: Recorded,
    is_past: bool,
}

/// Remembered calls by correlation id.
#[derive(Debug, Default)]
pub(super) struct MereCalls {
    limit: usize,
    pub(super) tables: Vec<FxHashMap<u32, MereCall>>,
    pub(super) len: usize,
    drain: u16,
    /// Whether this drain has already made room.
    has_made_room: bool,
    /// Number of calls of this window that were dropped before any record.
    pub(super) forgotten: u64,
}

impl MereCalls {
    pub(super) fn new(limit: usize) -> Self {
        let limit = limit.max(1);
        let tables = vec![FxHashMap::default(); limit.div_ceil(TABLE)];
        Self { limit, tables, len: 0, drain: 0, has_made_room: false, forgotten: 0 }
    }

    fn index(&self, id: u32) -> usize {
        let hash = u64::from(id.wrapping_mul(0x9e37_79b9)); // spreads ids in a row evenly
        ((hash * self.tables.len() as u64) >> 32) as usize
    }

    fn table_mut(&mut self, id: u32) -> Option<&mut FxHashMap<u32, MereCall>> {
        let index = self.index(id);
        self.tables.get_mut(index)
    }

    pub(super) fn get(&self, id: u32) -> Option<PendingCall> {
        self.tables.get(self.index(id))?.get(&id).map(MereCall::pending)
    }

    /// Remembers a call. If there is no room, older calls are forgotten, or this one. `is_again`: its thread has noted
    /// this call before, for example by a driver call inside it.
    pub(super) fn insert(&mut self, id: u32, launch: Launch, is_again: bool) {
        if self.len >= self.limit {
            self.make_room();
        }
        if self.len >= self.limit {
            self.forgotten += u64::from(!is_again);
            return;
        }
        let Launch { thread, node, at, call } = launch;
        let (heard, recorded) = (self.drain, Recorded::No);
        let entry = MereCall { at, call, thread, node, heard, recorded, is_past: false };
        let before = self.table_mut(id).and_then(|table| table.insert(id, entry));
        self.len += usize::from(before.is_none());
    }

    pub(super) fn remove(&mut self, id: u32) {
        let removed = self.table_mut(id).and_then(|table| table.remove(&id));
        self.len -= usize::from(removed.is_some());
    }

    /// The call waits for two drains from this one on.
    pub(super) fn hear(&mut self, id: u32, recorded: Recorded) {
        let drain = self.drain;
        if let Some(call) = self.table_mut(id).and_then(|table| table.get_mut(&id)) {
            (call.heard, call.recorded) = (drain, recorded.max(call.recorded));
        }
    }

    /// Forgets the older half of the time since the oldest news. At most once a drain, because this looks at each call.
    fn make_room(&mut self) {
        let drain = self.drain;
        if !std::mem::replace(&mut self.has_made_room, true) {
            let ages = self.tables.iter().flat_map(FxHashMap::values).map(|call| call.age(drain));
            let oldest = ages.largest();
            self.retain(|_, call| call.age(drain) <= oldest / 2);
        }
    }

    fn retain(&mut self, mut keeps: impl FnMut(u32, &MereCall) -> bool) {
        for table in &mut self.tables {
            table.retain(|&id, call| {
                let is_kept = keeps(id, call);
                let is_lost = !is_kept && call.recorded == Recorded::No && !call.is_past;
                self.forgotten += u64::from(is_lost);
                is_kept
            });
            table.shrink_to(4 * table.len().max(250)); // nothing, unless that halves the table
        }
        self.len = self.tables.iter().map(FxHashMap::len).sum();
    }

    /// Ends a counting drain: forgets calls with a record, but without news in the last two drains. `runs`: whether the
    /// call of this thread and id may still run.
    pub(super) fn drained(&mut self, runs: impl Fn(u32, u32) -> bool) {
        let drain = self.drain;
        if self.len > 0 {
            self.retain(|id, call| match call.recorded {
                Recorded::No => call.age(drain) < MOST_DRAINS,
                _ => usize::from(call.age(drain)) < DRAINS || runs(call.thread, id),
            });
        }
        self.drain = self.drain.wrapping_add(1);
        self.has_made_room = false;
    }

    /// Moves all calls to an older window.
    pub(super) fn clear(&mut self) {
        self.tables.iter_mut().flat_map(FxHashMap::values_mut).for_each(|call| call.is_past = true);
        self.forgotten = 0;
    }
}

impl MereCall {
    const fn age(&self, drain: u16) -> u16 {
        drain.wrapping_sub(self.heard)
    }

    fn pending(&self) -> PendingCall {
        let Self { at, call, thread, node, recorded, is_past, .. } = *self;
        let fate = if is_past { Fate::Past } else { Fate::Counted };
        let launch = Launch { thread, node, at, call };
        PendingCall { fate, recorded, ..PendingCall::new(launch, NO_SLOT, Expected::Record) }
    }
}
