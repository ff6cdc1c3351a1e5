//! One API call for each correlation id, because reports count an operation once for every call with its id.
//!
//! If no call was recorded, one is made up from the place of an operation's launch. Calls and operations arrive in any
//! order, and a call may arrive a second after its operation. So made-up calls wait for some flushes before they are
//! written. A made-up call that is replaced later stays in the file beside the recorded call until the end.

use std::collections::{BTreeMap, HashMap};

/// The largest number of waiting calls.
pub(super) const MOST: usize = 65_536;

/// The number of flushes for which a made-up call waits, once any call was recorded. There are 20 flushes a second.
const FLUSHES: u64 = 20;

/// The number of ids in a page, which has two bits for each.
const IDS: usize = 1 << 16;

const UNKNOWN: u64 = 0;
const MADE_UP: u64 = 1;
const RECORDED: u64 = 2;

/// A row of `CUPTI_ACTIVITY_KIND_RUNTIME`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) start: u64,
    pub(super) end: u64,
    /// 0 for a call of the runtime, 1 for one of the driver.
    pub(super) class: i64,
    pub(super) thread: i64,
    pub(super) correlation: u32,
    pub(super) name: i64,
    pub(super) result: u32,
}

/// The ids that have a call in the file: 2 bits for each id. CUDA assigns ids in ascending order.
#[derive(Debug, Default)]
pub(super) struct ApiCalls {
    pages: HashMap<u16, Box<[u64]>>,
    /// Made-up calls, each with the number of flushes before it.
    pub(super) waiting: BTreeMap<u32, (Call, u64)>,
    flushes: u64,
    /// Whether any call was recorded.
    any_recorded: bool,
    /// Ids that have more than one call in the file. The last call of each must be kept.
    pub(super) replaced: Vec<u32>,
    /// Number of ids whose call is made up.
    pub(super) made_up: u64,
}

impl ApiCalls {
    /// Notes a recorded call. Returns whether to write it: whether it is the first recorded call with its id.
    pub(super) fn recorded(&mut self, call: Call) -> bool {
        self.any_recorded = true;
        if self.written(call.correlation) == RECORDED {
            return false;
        }
        self.waiting.remove(&call.correlation);
        self.mark(call.correlation, RECORDED);
        true
    }

    /// Whether an operation's launch has no call yet.
    pub(super) fn is_missing(&self, correlation: u32) -> bool {
        self.written(correlation) == UNKNOWN && !self.waiting.contains_key(&correlation)
    }

    /// Adds a made-up call for a launch without a call.
    pub(super) fn make_up(&mut self, call: Call) {
        self.waiting.entry(call.correlation).or_insert((call, self.flushes));
    }

    /// To be called at each flush. Returns the calls that have waited for long enough, to be written.
    pub(super) fn take_due(&mut self) -> Vec<Call> {
        self.flushes += 1;
        let due = if self.any_recorded { self.flushes.saturating_sub(FLUSHES) } else { self.flushes };
        self.take(|came| came < due)
    }

    /// All waiting calls, to be written.
    pub(super) fn take_all(&mut self) -> Vec<Call> {
        self.take(|_| true)
    }

    fn take(&mut self, is_due: impl Fn(u64) -> bool) -> Vec<Call> {
        let all = std::mem::take(&mut self.waiting).into_iter();
        let (due, waiting): (BTreeMap<_, _>, BTreeMap<_, _>) = all.partition(|(_, (_, came))| is_due(*came));
        self.waiting = waiting;
        due.keys().for_each(|&correlation| self.mark(correlation, MADE_UP));
        due.into_values().map(|(call, _)| call).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn call(correlation: u32) -> Call {
        Call { start: 1, end: 1, class: 1, thread: 7, correlation, name: 3, result: 0 }
    }

    /// If calls are recorded, a made-up call waits for a second. Otherwise it is written at once, so that a killed
    /// process leaves it in its file.
    #[test]
    fn a_call_is_made_up_when_none_comes() {
        let mut calls = ApiCalls::default();
        calls.make_up(call(5));
        assert!(!calls.is_missing(5));
        assert_eq!((calls.take_due(), calls.is_missing(5)), (vec![call(5)], false));
        assert!(calls.recorded(call(6)) && !calls.recorded(call(6)));
        calls.make_up(call(7));
        calls.make_up(call(8));
        assert!((0..FLUSHES).all(|_| calls.take_due().is_empty()));
        assert!(calls.recorded(call(8)), "in time");
        assert_eq!((calls.take_due(), calls.made_up), (vec![call(7)], 2));
        assert!(calls.recorded(call(7)), "late");
        assert_eq!((&calls.replaced[..], calls.made_up), (&[7][..], 1));
        calls.make_up(call(9));
        assert_eq!(calls.take_all(), [call(9)]);
    }
}
