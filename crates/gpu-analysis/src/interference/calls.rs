//! Calls of spans, and the request that each belongs to: the outermost call around it.

use range_model::stats::{Keyed, Lean};

/// Number of calls at which the older half is forgotten.
const MOST_CALLS: usize = 1 << 18;
/// The largest number of calls around one another that are followed.
const MOST_LEVELS: usize = 64;

#[derive(Clone, Copy, Default)]
struct CallLog {
    parent: u64,
    end: u64,
    /// Instances of a call that has not been closed; 0 for one that has.
    instances: u32,
}

/// Calls that have ended, by number.
#[derive(Default)]
pub(super) struct Calls {
    calls: Keyed<u64, CallLog>,
    /// The latest end of a call that was forgotten.
    forgotten: u64,
}

impl Calls {
    /// An instance of a call ended. Most calls have only one.
    pub(super) fn instance(&mut self, call: u64, parent: u64, end: u64) {
        if call != 0 {
            let log = self.calls.row(call);
            let is_closed = log.end > 0 && log.instances == 0;
            (log.parent, log.end) = (parent, log.end.max(end));
            log.instances += u32::from(!is_closed);
        }
    }

    /// A call of several instances was closed.
    pub(super) fn closed(&mut self, call: u64, parent: u64, end: u64) {
        if call != 0 {
            self.calls.insert(call, CallLog { parent, end, instances: 0 });
        }
    }

    /// The outermost call around a launch in `call`, inside of so many spans. 0 while a call between the two is open,
    /// since only the end of a call tells what is around it.
    pub(super) fn request(&self, call: u64, spans: usize) -> u64 {
        let mut at = call;
        for level in 1..=MOST_LEVELS {
            match self.calls.get(&at) {
                Some(log) if log.parent == 0 => return at,
                Some(log) => at = log.parent,
                None if level == spans => return at,
                None => break,
            }
        }
        0
    }

    /// Whether a request, in which something was launched at `launched`, was over at a moment. One that may have been
    /// forgotten counts as over.
    pub(super) fn is_over(&self, request: u64, launched: u64, at: u64) -> bool {
        self.calls.get(&request).map_or(launched <= self.forgotten, |log| log.instances <= 1 && log.end <= at)
    }

    /// Whether some have to be forgotten.
    pub(super) fn are_many(&self) -> bool {
        self.calls.len() > MOST_CALLS
    }

    /// Forgets the older half.
    pub(super) fn forget(&mut self) {
        let mut ends: Vec<u64> = self.calls.rows().iter().map(|log| log.end).in_vec();
        let middle = ends.len() / 2;
        self.forgotten = self.forgotten.max(*ends.select_nth_unstable(middle).1);
        self.calls.retain(|_, log| log.end > self.forgotten);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_the_outermost_call() {
        let mut calls = Calls::default();
        calls.instance(3, 2, 10);
        assert_eq!((calls.request(3, 3), calls.request(3, 2), calls.request(9, 1)), (0, 2, 9), "2 is open");
        assert!(!calls.is_over(2, 5, 10), "it is open");
        calls.instance(2, 1, 20);
        calls.instance(1, 0, 30);
        assert_eq!((calls.request(3, 7), calls.request(1, 7)), (1, 1), "the spans are counted only for open calls");
        assert!(calls.is_over(1, 5, 30) && !calls.is_over(1, 5, 29));
        calls.instance(1, 0, 40);
        assert!(!calls.is_over(1, 5, 90), "who knows whether it is entered again");
        calls.closed(1, 0, 60);
        assert!(calls.is_over(1, 5, 60) && !calls.is_over(1, 5, 59));
        for call in 0..2 * MOST_CALLS as u64 {
            calls.instance(10 + call, 0, 100 + call);
            if calls.are_many() {
                calls.forget();
            }
        }
        assert!(calls.calls.len() <= MOST_CALLS + 1);
        assert!(calls.is_over(11, 90, 95) && !calls.is_over(u64::MAX, u64::MAX, 95), "forgotten, and never ended");
    }
}
