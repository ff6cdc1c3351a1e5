//! The calls of live spans, by a registry's span id.
//!
//! A thread finds the call of a span here if it does not remember the span, and so does the close of a span. The
//! registry could keep the call among the span's extensions, but each of those is an allocation.

use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

use once_cell::sync::OnceCell;

use crate::record::CallId;

/// The entries for the spans of one thread, and the number of threads with entries of their own. A registry counts the
/// ids of a thread up from 0, and has the thread's number in the bits above. Where two live spans share an entry, the
/// second has none.
const SPANS: usize = 4096;
const THREADS: usize = 64;
const THREAD_BITS: u32 = 38;

/// 0 for none.
type Calls = Box<[AtomicU32]>;

#[derive(Debug)]
pub(super) struct CallBySpan([OnceCell<Calls>; THREADS]);

impl CallBySpan {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| OnceCell::new()))
    }

    /// The call of the entry for this span, which may be the call of another span.
    #[inline]
    pub(super) fn get(&self, span: u64) -> CallId {
        self.entry(span).map_or(0, |entry| entry.load(Acquire))
    }

    /// Stores the call of a new span. False if another span has its entry.
    #[inline]
    pub(super) fn insert(&self, span: u64, call: CallId) -> bool {
        let new = || (0..SPANS).map(|_| AtomicU32::new(0)).collect();
        let entries = self.0[Self::thread(span)].get_or_init(new);
        entries[span as usize % SPANS].compare_exchange(0, call, AcqRel, Relaxed).is_ok()
    }

    /// Removes the call of a span. False if it was not there.
    #[inline]
    pub(super) fn remove(&self, span: u64, call: CallId) -> bool {
        self.entry(span).is_some_and(|entry| entry.compare_exchange(call, 0, AcqRel, Relaxed).is_ok())
    }

    /// Removes all.
    pub(super) fn take_all(&self) -> impl Iterator<Item = CallId> {
        let entries = self.0.iter().filter_map(OnceCell::get).flatten();
        entries.map(|entry| entry.swap(0, AcqRel)).filter(|call| *call != 0)
    }

    #[inline]
    fn entry(&self, span: u64) -> Option<&AtomicU32> {
        self.0[Self::thread(span)].get()?.get(span as usize % SPANS)
    }

    #[inline]
    fn thread(span: u64) -> usize {
        (span >> THREAD_BITS) as usize % THREADS
    }
}
