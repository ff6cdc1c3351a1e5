//! Whose operations made operations of others wait on a GPU.

use super::schema::{figures, lists};
use crate::stats::order;

figures! {
    /// Operations that were ready in a stream while operations of other requests ran before them there, or in another
    /// stream that theirs was told to wait for, by the spans of both. A request is the outermost call around a launch.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct InterferenceStats {
        /// Labels of the spans that launched the operations that waited, from the root of the tree down.
        waiter: Vec<String> = key;
        /// The same of the operations behind which they waited.
        by: Vec<String> = key;
        /// Operations that waited.
        operations: u64 = sum;
        /// For how long they were ready while an operation of `by` ran, in nanoseconds. A moment in which several
        /// operations of one request and stream wait counts once.
        time_ns: u64 = sum;
        /// The longest such time of one operation.
        longest_ns: u64 = most;
        /// Operations that began late although nothing before them ran, while `by` ran in other streams of the device.
        possible_operations: u64 = sum;
        /// For how long, in nanoseconds: perhaps they waited for room on the device. No part of `time_ns`.
        possible_ns: u64 = sum;
    }
}

impl InterferenceStats {
    /// A row of operations that waited in a stream.
    #[must_use]
    pub fn new(waiter: Vec<String>, by: Vec<String>, operations: u64, time_ns: u64, longest_ns: u64) -> Self {
        Self { waiter, by, operations, time_ns, longest_ns, ..Self::default() }
    }
}

lists! {
    InterferenceStats: |row| (row.waiter.clone(), row.by.clone()),
        |rows| order::by_key(rows, |row| std::cmp::Reverse((row.time_ns, row.possible_ns)));
}
