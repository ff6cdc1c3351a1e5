//! Who ended the waits of calls.

use super::schema::{figures, lists};
use crate::stats::order;

figures! {
    /// Waits of calls, by the span that ended them.
    ///
    /// Told, of futures that are followed (`tracing_gpu::follow`): the innermost open span on the thread that woke the
    /// call, followed back to the head of a queue of waiters. A wait behind several spans, one after the other, has a
    /// part for each.
    ///
    /// Inferred, of other futures, with [`of_waits`](Self::of_waits): nearly all waits end right after a range of this
    /// name does, far more often than by chance.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct WaitStats {
        /// Label of the calls that waited: `domain:name`, or the bare name in the default domain.
        waiter: String = key;
        /// Label of the span that ended the waits. `None` where the call was woken from no span: by a timer, a device,
        /// the end of a task.
        by: Option<String> = key;
        /// What the span held, where that is known: [`WORKER`](Self::WORKER), if it ran on a thread for which the call
        /// was ready.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resource: Option<String> = key;
        /// A field and its value, as `uri=/big`, of the calls of `by` that ended most of the waits, where few of the
        /// calls that waited have it: known where calls wait for others of their own name, or spans inside of them do.
        /// The figures of an inferred row are those of these calls alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by_value: Option<String> = key;
        /// Told: waits of which the largest part is owed to it. Inferred: waits that ended right after it.
        waits: u64 = sum;
        /// All parts of waits that are owed to it. Of an inferred row whose span mostly held the thread of the waiter,
        /// and began after the wait: how much longer these waits took than the others of these calls; 0 where there
        /// are too few others. Where two spans fit, they share the time.
        time_ns: u64 = sum;
        /// The longest part of a wait that is owed to it.
        longest_ns: u64 = most;
        /// Of an inferred row: all waits of these calls that are no shorter than `over_ns` and were looked at, which
        /// takes at most 0.8 % of a thread's time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of_waits: Option<u64> = sum;
        /// Of an inferred row: how many of them would end right after it by chance.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by_chance: Option<u64> = sum;
        /// Of an inferred row: the length of the shortest waits.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        over_ns: Option<u64> = least;
        /// Of an inferred row: how soon after it they ended at most.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within_ns: Option<u64> = most;
        /// Of an inferred row: how long before its end they ended at most, if that counts: it lets go before it ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before_ns: Option<u64> = most;
        /// The part of `waits` that is owed to calls with `by_value`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value_waits: Option<u64> = sum;
        /// The part of `time_ns` that is owed to them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value_time_ns: Option<u64> = sum;
        /// Of a row that was told: the 99th percentile of the latencies of all calls of `waiter`, if each were shorter
        /// by what it owes to `by`, with an error below 1 %. The latest six parts of a call's waits count. Of several
        /// processes the largest: that of all their calls is at most this.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        p99_without_ns: Option<u64> = most;
    }
}

impl WaitStats {
    /// A thread that polls futures, as [`resource`](Self::resource).
    pub const WORKER: &str = "worker thread";

    /// A row that was told.
    #[must_use]
    pub fn new(waiter: impl Into<String>, by: Option<String>, waits: u64, time_ns: u64, longest_ns: u64) -> Self {
        Self { waiter: waiter.into(), by, waits, time_ns, longest_ns, ..Self::default() }
    }
}

lists! {
    WaitStats: |row| {
        let names = (row.waiter.clone(), row.by.clone(), row.by_value.clone());
        (names, row.resource.clone(), row.of_waits.is_some())
    }, |rows| order::by_most(rows, |row| row.time_ns);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::schema::Join as _;

    #[test]
    fn rows_of_one_pair_of_names_are_one() {
        let row = |waiter: &str, by: Option<&str>, figures: [u64; 3]| {
            WaitStats::new(waiter, by.map(str::to_owned), figures[0], figures[1], figures[2])
        };
        let rows = vec![
            row("b", Some("x"), [1, 5, 5]),
            row("b", None, [1, 5, 5]),
            row("a", Some("x"), [3, 40, 30]),
            row("b", Some("y"), [9, 90, 20]),
            row("a", Some("x"), [1, 50, 9]),
            row("a", Some("y"), [1, 5, 5]),
        ];
        let expected = [
            row("a", Some("x"), [4, 90, 30]),
            row("b", Some("y"), [9, 90, 20]),
            row("a", Some("y"), [1, 5, 5]),
            row("b", None, [1, 5, 5]),
            row("b", Some("x"), [1, 5, 5]),
        ];
        assert_eq!(rows.joined(), expected);
    }
}
