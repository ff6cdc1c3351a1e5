//! What an OpenACC runtime did, as it reported to a profiling library.

use super::schema::{figures, lists};
use super::times::Times;
use crate::stats::order;

figures! {
    /// The events of one kind at one place of a program with OpenACC.
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct OpenAccStats {
        /// What the runtime did, as nvprof named it: `acc_wait`, `acc_enqueue_upload`.
        event: String = key;
        /// Where the program asked for it: file and line (`layers_acc.c:53`). Without debugging information the
        /// function or the file of the program, and the offset in it (`forward+0x4d`). `None` where it is not known.
        place: Option<String> = key;
        /// The kernel of a launch, the variable of an upload or download.
        detail: Option<String> = key;
        /// The events' own durations: without the events inside them on the same thread. Events that have no duration,
        /// such as `acc_alloc`, count with 0.
        times: Times = joined;
    }
}

lists! {
    OpenAccStats: |row| (row.event.clone(), row.place.clone(), row.detail.clone()),
        |rows| order::by_most(rows, |row| row.times.total_ns);
}

impl OpenAccStats {
    /// The events of one kind whose place is not known. Other fields can be set afterwards.
    #[must_use]
    pub fn new(event: impl Into<String>, times: Times) -> Self {
        Self { event: event.into(), times, ..Self::default() }
    }

    /// The row's name, as nvprof printed it.
    #[must_use]
    pub fn label(&self) -> String {
        let mut label = self.event.clone();
        for (before, part, after) in [("@", &self.place, ""), (" (", &self.detail, ")")] {
            if let Some(part) = part {
                label.extend([before, part, after]);
            }
        }
        label
    }
}
