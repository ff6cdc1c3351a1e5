//! One API call for each correlation id: the reports count an operation once for every call that has its id.
//!
//! A call of the runtime is preferred to the call of the driver inside it, and that to one that is made up from where
//! an operation was launched. Calls and operations come in any order. What may still be replaced waits until the next
//! flush. What is replaced later than that is in the file twice until the end.

use std::collections::{BTreeMap, HashMap};

/// Calls that wait, at most.
const MOST: usize = 65_536;

/// Ids in a page of two bits each.
const IDS: usize = 1 << 16;

const UNKNOWN: u64 = 0;
const MADE_UP: u64 = 1;
const DRIVER: u64 = 2;
const RUNTIME: u64 = 3;

/// A row of `CUPTI_ACTIVITY_KIND_RUNTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) start: u64,
    pub(super) end: u64,
    /// 0 the runtime's, 1 the driver's.
    pub(super) class: i64,
    pub(super) thread: i64,
    pub(super) correlation: u32,
    pub(super) name: i64,
    pub(super) result: u32,
}

/// Which ids have a call in the file: 2 bits for each id that CUDA gave out, which it does in order.
#[derive(Debug, Default)]
pub(super) struct ApiCalls {
    pages: HashMap<u16, Box<[u64]>>,
    waiting: BTreeMap<u32, (Call, u64)>,
    replaced: Vec<u32>,
    made_up: u64,
}

impl ApiCalls {
    /// Whether the call must be written now.
    pub(super) fn recorded(&mut self, call: Call) -> bool {
        let rank = if call.class == 0 { RUNTIME } else { DRIVER };
        if self.written(call.correlation) >= rank {
            return false;
        }
        if rank == RUNTIME {
            self.waiting.remove(&call.correlation);
            self.mark(call.correlation, rank);
            return true;
        }
        if self.waiting.get(&call.correlation).is_none_or(|(_, waiting)| *waiting < rank) {
            self.waiting.insert(call.correlation, (call, rank));
        }
        false
    }

    /// Whether an operation's launch has no call yet.
    pub(super) fn is_missing(&self, correlation: u32) -> bool {
        self.written(correlation) == UNKNOWN && !self.waiting.contains_key(&correlation)
    }

    /// A call that there must have been.
    pub(super) fn made_up(&mut self, call: Call) {
        self.waiting.entry(call.correlation).or_insert((call, MADE_UP));
    }

    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= MOST
    }

    /// What waits, to be written.
    pub(super) fn take(&mut self) -> Vec<Call> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting
            .into_iter()
            .map(|(correlation, (call, rank))| {
                self.mark(correlation, rank);
                call
            })
            .collect()
    }

    /// Ids that have more than one call in the file; the last is the one to keep.
    pub(super) fn replaced(&self) -> &[u32] {
        &self.replaced
    }

    /// Ids whose call is made up.
    pub(super) const fn count_made_up(&self) -> u64 {
        self.made_up
    }

    fn written(&self, correlation: u32) -> u64 {
        let (page, word, shift) = place(correlation);
        self.pages.get(&page).and_then(|page| page.get(word)).map_or(UNKNOWN, |word| word >> shift & 3)
    }

    fn mark(&mut self, correlation: u32, rank: u64) {
        let before = self.written(correlation);
        if before != UNKNOWN {
            self.replaced.push(correlation);
        }
        self.made_up += u64::from(rank == MADE_UP);
        self.made_up -= u64::from(before == MADE_UP);
        let (page, word, shift) = place(correlation);
        let page = self.pages.entry(page).or_insert_with(|| vec![0; IDS / 32].into());
        if let Some(word) = page.get_mut(word) {
            *word = *word & !(3 << shift) | rank << shift;
        }
    }
}

const fn place(correlation: u32) -> (u16, usize, u32) {
    let within = correlation as usize % IDS;
    ((correlation >> 16) as u16, within / 32, (within % 32) as u32 * 2)
}
