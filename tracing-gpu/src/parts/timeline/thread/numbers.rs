//! Numbers of spans and of their calls, while a timeline is written. With them a reader finds one request in a file.
//!
//! A span gets its number at creation, from a block that its thread has taken, so that threads use the shared counter
//! only once in [`BLOCK`] spans. Its first call has the same number, and each further call its own. The data of a span
//! stays with the thread that created it; other threads find it by the span's id.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::core::chunked::Chunked;
use crate::core::record::{Place, RangeNumbers};
use crate::core::thread::stack::{Frame, Left, Stack};

/// How many numbers a thread takes at once.
const BLOCK: u64 = 256;
/// The largest number of live spans of one thread; beyond it, two share an entry, and the later one wins.
const SPANS: u64 = 1 << 20;

/// A span, kept with its creating thread. Other threads may enter it, and then write the last two words.
#[derive(Debug, Default)]
pub(crate) struct Created {
    id: AtomicU64,
    /// The owner of the state that created it.
    owner: AtomicU64,
    /// Its number; 0 if the span is not measured.
    span: AtomicU64,
    /// The call in which it was created.
    parent: AtomicU64,
    /// The address of its call site, by which the recorder finds its fields; 0 if it has none.
    site: AtomicU64,
    /// Its last call (0 before the first entry), and the call around that one.
    call: AtomicU64,
    under: AtomicU64,
}

/// Data of a new span.
#[derive(Clone, Copy, Default)]
pub(crate) struct NewSpan {
    pub(crate) span: u64,
    pub(crate) parent: u64,
    pub(crate) site: u64,
}

impl NewSpan {
    /// The numbers of its first call.
    pub(crate) fn numbers(&self) -> RangeNumbers {
        RangeNumbers { span: self.span, call: self.span, parent: self.parent, has_fields: self.site != 0 }
    }
}

impl Created {
    /// The call around spans that are created in it now.
    pub(crate) fn call(&self) -> u64 {
        match (self.call.load(Relaxed), self.span.load(Relaxed)) {
            (0, 0) => self.parent.load(Relaxed),
            (0, span) => span,
            (call, _) => call,
        }
    }

    pub(crate) fn parent(&self) -> u64 {
        self.parent.load(Relaxed)
    }

    /// The owner that created it. If two spans have one id, the one with the higher owner is alive: a registry reuses
    /// the ids of an ended thread on another thread, which took its state later.
    pub(crate) fn owner(&self) -> u64 {
        self.owner.load(Relaxed)
    }

    /// Its number and its call site, if it has fields.
    pub(crate) fn with_fields(&self) -> Option<(u64, u64)> {
        let site = self.site.load(Relaxed);
        (site != 0).then(|| (self.span.load(Relaxed), site))
    }

    /// The call of an entry in the call `under`: the last call, unless that ran in another one.
    #[inline]
    fn enter(&self, under: u64, next: impl FnOnce() -> u64) -> RangeNumbers {
        let span = self.span.load(Relaxed);
        let has_fields = self.site.load(Relaxed) != 0;
        let call = match self.call.load(Relaxed) {
            0 => span,
            last if self.under.load(Relaxed) == under => {
                return RangeNumbers { span, call: last, parent: under, has_fields };
            }
            _ => next(),
        };
        self.call.store(call, Relaxed);
        self.under.store(under, Relaxed);
        RangeNumbers { span, call, parent: under, has_fields }
    }
}

/// A thread's data about the spans that it created, and about its open ranges.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) next: AtomicU64,
    pub(crate) end: AtomicU64,
    /// The thread that owns this, by a number that is unique among owners.
    pub(crate) owner: AtomicU64,
    pub(crate) created: Chunked<Created, 64>,
    /// Open ranges by their place on the stack.
    pub(crate) open: Chunked<OpenNumbers, 64>,
}

#[derive(Debug, Default)]
pub(crate) struct OpenNumbers {
    /// The lowest bit tells whether it has fields.
    span: AtomicU64,
    call: AtomicU64,
    parent: AtomicU64,
}

impl Numbers {
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        let word = || AtomicU64::new(0);
        Self { next: word(), end: word(), owner: word(), created: Chunked::new(), open: Chunked::new() }
    }

    /// Gives this to another thread.
    pub(crate) fn begin_thread(&self) {
        static OWNERS: AtomicU64 = AtomicU64::new(1);
        self.owner.store(OWNERS.fetch_add(1, Relaxed), Relaxed);
    }

    /// A new number, unique among the spans and calls of this process.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        let number = self.next.load(Relaxed);
        if number == self.end.load(Relaxed) {
            return self.next_block();
        }
        self.next.store(number + 1, Relaxed);
        number
    }

    #[inline(never)]
    fn next_block(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(BLOCK, Relaxed);
        self.next.store(number + 1, Relaxed);
        self.end.store(number + BLOCK, Relaxed);
        number
    }

    /// Keeps what is known of a new span of this thread.
    #[inline]
    pub(crate) fn keep(&self, id: u64, new: NewSpan) {
        let Some(created) = self.created.get_or_grow((id % SPANS) as usize) else { return };
        created.id.store(id, Relaxed);
        created.owner.store(self.owner.load(Relaxed), Relaxed);
        created.span.store(new.span, Relaxed);
        created.parent.store(new.parent, Relaxed);
        created.site.store(new.site, Relaxed);
        created.call.store(0, Relaxed);
        created.under.store(0, Relaxed);
    }

    /// A live span that this thread created. On any thread: a thread that has its id got it after this entry was
    /// written.
    #[inline]
    pub(crate) fn created(&self, id: u64) -> Option<&Created> {
        self.created.get_inline((id % SPANS) as usize).filter(|created| created.id.load(Relaxed) == id)
    }

    /// [`created`](Self::created) for the thread that owns this now.
    #[inline]
    pub(crate) fn created_by_owner(&self, id: u64) -> Option<&Created> {
        self.created(id).filter(|created| created.owner() == self.owner.load(Relaxed))
    }

    /// The call of the innermost of `depth` open ranges; 0 where none is open.
    #[inline]
    pub(crate) fn innermost(&self, depth: usize) -> u64 {
        let open = depth.checked_sub(1).and_then(|top| self.open.get_inline(top));
        open.map_or(0, |open| open.call.load(Relaxed))
    }

    /// The numbers of an open range.
    #[inline]
    pub(crate) fn of(&self, range: usize) -> RangeNumbers {
        let Some(open) = self.open.get_inline(range) else { return RangeNumbers::default() };
        let span = open.span.load(Relaxed);
        let (call, parent) = (open.call.load(Relaxed), open.parent.load(Relaxed));
        RangeNumbers { span: span >> 1, call, parent, has_fields: span & 1 == 1 }
    }

    #[inline]
    pub(crate) fn set(&self, range: usize, numbers: RangeNumbers) {
        let Some(open) = self.open.get_or_grow(range) else { return };
        open.span.store(numbers.span << 1 | u64::from(numbers.has_fields), Relaxed);
        open.call.store(numbers.call, Relaxed);
        open.parent.store(numbers.parent, Relaxed);
    }

    /// The numbers of an entry in the call `under`, with those of the span if it is known; otherwise the range lacks
    /// its fields.
    #[inline]
    pub(crate) fn enter(
        &self,
        created: Option<&Created>,
        under: u64,
        has_fields: impl FnOnce() -> bool,
    ) -> RangeNumbers {
        match created {
            Some(created) => created.enter(under, || self.next()),
            None => RangeNumbers { has_fields: has_fields(), ..self.alone(under) },
        }
    }

    /// Numbers the innermost range of a stack, for a span with this place by creation.
    pub(crate) fn enter_any(
        &self,
        stack: &Stack,
        home: Place,
        created: Option<&Created>,
        by_creation: bool,
        has_fields: impl FnOnce() -> bool,
    ) -> RangeNumbers {
        let Some(top) = stack.depth().checked_sub(1) else { return RangeNumbers::default() };
        let created_in = || created.map_or(0, Created::parent);
        let under = match top.checked_sub(1).and_then(|below| stack.frame(below)) {
            None => created_in(),
            Some(below) => {
                let entered = stack.top().map_or(home, Frame::place);
                let stays = entered.node() == home.node() && below.place().node() != home.parent();
                if stays || by_creation { created_in() } else { self.innermost(top) }
            }
        };
        let own = match home.is_stand_in() {
            true => RangeNumbers { call: under, ..RangeNumbers::default() },
            false => self.enter(created, under, has_fields),
        };
        self.set(top, own);
        own
    }

    /// Moves the numbers after an exit below the innermost of `depth` ranges, like the ranges that remain.
    pub(crate) fn follow(&self, depth: usize, left: &Left) {
        for before in (left.base()..depth).filter(|&range| !left.is_gone(range)) {
            self.set(left.place_of(before), self.of(before));
        }
    }

    /// The numbers of a range without a span.
    pub(crate) fn alone(&self, parent: u64) -> RangeNumbers {
        let number = self.next();
        RangeNumbers { span: number, call: number, parent, has_fields: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_is_given_twice() {
        let all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let numbers = Numbers::new();
                        (0..3 * BLOCK + 7).map(|_| numbers.next()).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let apart: std::collections::HashSet<u64> = all.iter().copied().collect();
        assert!(apart.len() == all.len() && !apart.contains(&0));
    }

    #[test]
    fn a_span_that_is_entered_in_another_call_begins_a_call() {
        let numbers = Numbers::new();
        numbers.keep(7, NewSpan { span: 1_000_000, parent: 5, site: 0 });
        let created = numbers.created(7);
        assert_eq!(created.unwrap().call(), 1_000_000, "before it is entered");
        let calls = [5, 5, 9, 9, 5].map(|under| numbers.enter(created, under, || false));
        assert!(calls.iter().all(|call| call.span == 1_000_000));
        assert_eq!((calls[0].call, calls[1].call), (1_000_000, 1_000_000));
        assert_eq!((calls[2].parent, calls[3].call), (9, calls[2].call));
        assert!(calls[2].call != 1_000_000 && ![calls[0].call, calls[2].call].contains(&calls[4].call));
        assert_eq!(created.unwrap().call(), calls[4].call);
        numbers.keep(7 + SPANS, NewSpan { span: 3, parent: 0, site: 1 });
        assert!(numbers.created(7).is_none());
        assert_eq!(numbers.created(7 + SPANS).unwrap().with_fields(), Some((3, 1)));
        numbers.keep(8, NewSpan { span: 0, parent: 4, site: 0 });
        assert_eq!(numbers.created(8).unwrap().call(), 4, "of one that is not measured, that of its parent");
    }
}
