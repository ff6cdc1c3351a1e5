//! What threads waited for inside of ranges.

use super::schema::{figures, lists};
use crate::stats::order;

figures! {
    /// Time in which threads were off the CPU in one system call, by their innermost open range. A sampler looks at the
    /// threads again and again, so the times are estimates.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct OffCpuStats {
        /// NVTX domain; `None` for the default domain.
        domain: Option<String> = key;
        /// Name of the innermost open range of the thread.
        name: String = key;
        /// The system call: `read`, `futex (lock or condition)`.
        call: String = key;
        /// What is behind the descriptor of the call: `pipe`, `socket`, `eventfd`, `GPU driver`, or the path of a file.
        /// Empty where the call has no descriptor.
        what: String = key;
        /// How often a thread was seen there.
        samples: u64 = sum;
        /// The intervals that these samples stand for: each covers the time since the thread was looked at before.
        time_ns: u64 = sum;
    }
}

impl OffCpuStats {
    /// A row of a range in the default domain.
    #[must_use]
    pub fn new(name: impl Into<String>, call: impl Into<String>, samples: u64, time_ns: u64) -> Self {
        Self { name: name.into(), call: call.into(), samples, time_ns, ..Self::default() }
    }

    /// The call and what is behind its descriptor.
    ///
    /// ```
    /// use range_model::summary::OffCpuStats;
    ///
    /// let mut row = OffCpuStats::new("Module running", "read", 2_310, 23_100_000_000);
    /// row.what = "pipe".to_owned();
    /// assert_eq!(row.call_of(), "read (pipe)");
    /// ```
    #[must_use]
    pub fn call_of(&self) -> String {
        if self.what.is_empty() { self.call.clone() } else { format!("{} ({})", self.call, self.what) }
    }
}

lists! {
    OffCpuStats: |row| (row.domain.clone(), row.name.clone(), row.call.clone(), row.what.clone()),
        |rows| order::by_most(rows, |row| row.time_ns);
}
