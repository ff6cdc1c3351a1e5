//! What the parts keep for a thread.

pub(crate) mod choice;
pub(crate) mod general;
pub(crate) mod known;
mod lookups;
mod new;
mod windows;

use std::sync::atomic::{AtomicBool, AtomicU64};

#[cfg(any(feature = "injection", feature = "cuda"))]
use once_cell::sync::OnceCell;

pub(crate) use crate::parts::calls::thread::call_rows::CallRows;
pub(crate) use crate::parts::row_file::thread::{map_state, rows_in_file};
pub(crate) use crate::parts::values::span::values::SpanValues;

use crate::core::session::Session;
use crate::parts::calls::session::table::Spare;
use crate::parts::cpu_time::thread::{CpuTime, Credits};
#[cfg(feature = "cuda")]
use crate::parts::launches::thread::helper::Helper;
use crate::parts::launches::thread::launch_log::LaunchLog;
#[cfg(feature = "injection")]
use crate::parts::openacc::thread::OpenAccLog;
use crate::parts::streams::thread::open_pairs::OpenPairs;
use crate::parts::timeline::thread::numbers::Numbers;
use crate::parts::timeline::thread::tape::Tape;
use crate::parts::waits::thread::thread_waits::ThreadWaits;

/// Flags that the fast paths read, in the head of a thread's state. Only the thread writes them.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct PartFlags {
    /// Whether a timeline is written.
    pub(crate) is_taped: bool,
    /// Whether foreign ranges are open that are not on the stack: see `parts/foreign/thread.rs`.
    pub(crate) has_untracked: AtomicBool,
    /// Whether what ends on this thread is noted, also after a poll.
    pub(crate) has_endings: AtomicBool,
    /// Whether one more look at the last wait is to come.
    pub(crate) looks_again: AtomicBool,
    pub(crate) credits: Credits,
    /// When the future that is polled now was woken; 0 where it is not known, or
    /// [`BY_TASK`](crate::parts::waits::thread::woken::BY_TASK).
    pub(crate) woken: AtomicU64,
}

impl PartFlags {
    pub(crate) fn new(session: &Session) -> Self {
        Self {
            is_taped: session.records_ranges(),
            has_untracked: AtomicBool::new(false),
            has_endings: AtomicBool::new(false),
            looks_again: AtomicBool::new(false),
            credits: Credits::new(session.parts.on_cpu, &session.clock),
            woken: AtomicU64::new(0),
        }
    }
}

/// What the parts keep for one thread. For the order see `row::WRITTEN`.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct OfThread {
    pub(crate) pairs: OpenPairs,
    pub(crate) launches: LaunchLog,
    pub(crate) tape: Tape,
    /// Present if a timeline is written.
    pub(crate) numbers: Option<Box<Numbers>>,
    pub(crate) spare_calls: Spare,
    pub(crate) waits: ThreadWaits,
    pub(crate) call_rows: CallRows,
    /// Present after the first event.
    #[cfg(feature = "injection")]
    pub(crate) openacc: OnceCell<Box<OpenAccLog>>,
    /// Present after the first call outside of ranges, if others have them.
    #[cfg(feature = "cuda")]
    pub(crate) helper: OnceCell<Box<Helper>>,
    /// The last part, because many a thread does not touch it.
    pub(crate) cpu_time: CpuTime,
}
