//! The calls of live spans, by a registry's span id.
//!
//! A thread finds the call of a span here if it does not remember the span, and so does the close of a span. The
//! registry could keep the call among the span's extensions, but each of those is an allocation.

use std::sync::atomic::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use once_cell::sync::OnceCell;

use crate::core::record::CallId;

/// The entries for the spans of one thread, and the number of threads with entries of their own. A registry counts the
/// ids of a thread up from 0, and has the thread's number in the bits above. Where two live spans share an entry, the
/// second has none, and neither has a span of a thread that does not own the entries for its id.
const SPANS: usize = 4096;
const THREADS: usize = 256;
const THREAD_BITS: u32 = 38;

/// Entries that one thread at a time fills, so that a store is enough for that: an operation of a load and a store
/// would wait for all stores before it.
#[derive(Debug, Default)]
struct Table {
    /// The number of the owner's state plus one; 0 for none.
    owner: AtomicU32,
    /// 0 for none.
    calls: OnceCell<Box<[AtomicU32]>>,
}

#[derive(Debug)]
pub(crate) struct CallBySpan([Table; THREADS]);

impl CallBySpan {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Table::default()))
    }

    /// The call of the entry for this span, which may be the call of another span.
    #[inline]
    pub(crate) fn get(&self, span: u64) -> CallId {
        self.entry(span).map_or(0, |entry| entry.load(Acquire))
    }

    /// Stores the call of a span that this thread has created. False if another span has its entry, or another thread
    /// owns it.
    #[inline]
    pub(crate) fn insert(&self, thread: u32, span: u64, call: CallId) -> bool {
        let table = &self.0[Self::thread(span)];
        if table.owner.load(Relaxed) != thread + 1 && !table.claim(thread) {
            return false;
        }
        let Some(entry) = self.entry(span).filter(|entry| entry.load(Acquire) == 0) else { return false };
        entry.store(call, Release); // nobody else fills it meanwhile
        true
    }

    /// Takes the call of a span that closes; 0 if the entry has another. A span closes once, so nobody else takes it
    /// meanwhile, and while it is there, its entry is not filled.
    #[inline]
    pub(crate) fn take(&self, span: u64, is_its: impl FnOnce(CallId) -> bool) -> CallId {
        let Some(entry) = self.entry(span) else { return 0 };
        let call = entry.load(Acquire);
        if call == 0 || !is_its(call) {
            return 0;
        }
        entry.store(0, Release);
        call
    }

    /// Removes all. To be called when no span can close any more.
    pub(crate) fn take_all(&self) -> impl Iterator<Item = CallId> {
        let entries = self.0.iter().filter_map(|table| table.calls.get()).flatten();
        entries.map(|entry| entry.swap(0, AcqRel)).filter(|call| *call != 0)
    }

    /// The thread with this state has ended. The next one with spans of the same numbers may own their entries.
    pub(crate) fn leave(&self, thread: u32) {
        for table in self.0.iter().filter(|table| table.owner.load(Relaxed) == thread + 1) {
            table.owner.store(0, Release); // pairs with `claim`: the next owner sees what is filled
        }
    }

    #[inline]
    fn entry(&self, span: u64) -> Option<&AtomicU32> {
        self.0[Self::thread(span)].calls.get()?.get(span as usize % SPANS)
    }

    #[inline]
    fn thread(span: u64) -> usize {
        (span >> THREAD_BITS) as usize % THREADS
    }
}

impl Table {
    /// Makes a thread the owner, unless there is one.
    #[cold]
    #[inline(never)]
    fn claim(&self, thread: u32) -> bool {
        let is_owner = self.owner.compare_exchange(0, thread + 1, Acquire, Relaxed).is_ok();
        if is_owner {
            self.calls.get_or_init(|| (0..SPANS).map(|_| AtomicU32::new(0)).collect());
        }
        is_owner
    }
}
