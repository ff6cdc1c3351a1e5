//! From a callback to the stack and the row: the path `counting`, and where all paths count an instance.

use super::{CountingExit, TOLD, ThreadState};
use crate::clock::read_counter;
use crate::core::record::{CallId, Ended, Place};
use crate::core::span::site::site_key;

impl ThreadState {
    /// Path `counting`. Returns false, and changes nothing, if it does not apply.
    #[inline(always)]
    pub(crate) fn enter_counting(&self, span: u64, place: Place) -> bool {
        self.lacks_tool() && self.stack.is_under_top(place) && self.stack.push_near(span, place, self.start_fast())
    }

    /// Path `counting`.
    #[inline(always)]
    pub(crate) fn exit_counting(&self, span: u64) -> CountingExit {
        if !self.lacks_tool() {
            return CountingExit::Not;
        }
        if self.stack.is_top_noted() {
            return CountingExit::Noted;
        }
        let Some(ended) = self.stack.pop_near(span, read_counter()) else { return CountingExit::Not };
        match self.rows.get_inline(ended.place.row_without_call()) {
            Some(row) if row.add_near(ended.duration, ended.nested, self.thresholds.long) => CountingExit::Done,
            _ => CountingExit::Uncounted(ended),
        }
    }

    /// Counts the instance that has just left the top of the stack.
    pub(crate) fn add(&self, ended: Ended) {
        let below = self.stack.depth();
        let call = if ended.place.is_called() { self.stack.call_of(below) } else { 0 };
        self.add_of_call(ended, call, below);
    }

    /// Counts an instance of this call (0 for none), with `below` ranges below it.
    pub(crate) fn add_of_call(&self, ended: Ended, call: CallId, below: usize) {
        if self.statistics {
            self.rows.add(ended, &self.session.budget);
            self.add_to_parts(&ended, call, below);
        }
    }

    /// Counts a misnested exit for two call sites: of the exited range, and of the range above it, which is still open.
    /// The guard of either may be held too long; the report finds out which.
    pub(crate) fn count_misnested(&self, exited_and_above: &[Place]) {
        let sites = exited_and_above.iter().filter_map(|place| self.identity(*place)?.metadata);
        let mut counted = None;
        for metadata in sites {
            if counted != Some(site_key(metadata)) {
                self.session.losses.misnested.count(metadata, |site| site.exits += 1);
            }
            counted = Some(site_key(metadata));
        }
    }

    /// Tells this thread that a range open on it was exited elsewhere. The thread reads this at its next out-of-order
    /// exit.
    pub(crate) fn tell(&self, span: u64) {
        let mut told = self.told.lock();
        if told.len() < TOLD {
            told.push((span, self.now()));
        }
    }
}
