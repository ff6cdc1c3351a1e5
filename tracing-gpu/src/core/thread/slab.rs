//! Spans of the subscriber without a registry: one slab a thread. An id names the thread and slot of its span.
//!
//! The thread that owns a slab creates spans in it without any read-modify-write. Any thread may clone, enter and close
//! them; a slot closed elsewhere comes back to its owner through a lock-free stack.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use parking_lot::Mutex;
use tracing_core::span::Id;

use crate::core::chunked::Chunked;
use crate::core::record::{CallId, Inherited, Place};
use crate::parts::thread::SpanValues;
use crate::sync::{AtomicU32, AtomicU64};

const SLOT_BITS: u32 = 24;
const THREAD_BITS: u32 = 16;
const GENERATION_BITS: u32 = 64 - SLOT_BITS - THREAD_BITS;
/// The last generation before generations repeat: the id of all ones belongs to no span.
const LAST_GENERATION: u32 = (1 << GENERATION_BITS) - 2;
/// The number of threads that an id can name.
pub(crate) const MAX_THREADS: usize = 1 << THREAD_BITS;
/// End of a list of slots.
pub(crate) const END: u32 = u32::MAX;

/// The parts of a span id: generation, thread and slot. The generation is never 0, so neither is the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanRef {
    generation: u32,
    pub(crate) thread: u32,
    slot: u32,
}

impl SpanRef {
    #[inline]
    pub(crate) fn from_id(id: u64) -> Self {
        Self {
            generation: (id >> (SLOT_BITS + THREAD_BITS)) as u32,
            thread: (id >> SLOT_BITS) as u32 & ((1 << THREAD_BITS) - 1),
            slot: id as u32 & ((1 << SLOT_BITS) - 1),
        }
    }

    #[inline]
    pub(crate) fn id(self) -> u64 {
        u64::from(self.generation) << (SLOT_BITS + THREAD_BITS)
            | u64::from(self.thread) << SLOT_BITS
            | u64::from(self.slot)
    }

    /// The id for the caller of a subscriber.
    #[inline]
    pub(crate) fn to_id(self) -> Id {
        // It is never 0; a panic here would cost instructions for each span.
        NonZeroU64::new(self.id()).map_or_else(untracked, Id::from_non_zero_u64)
    }
}

/// The id of spans that are not followed. No slab uses it.
pub(crate) fn untracked() -> Id {
    Id::from_u64(u64::MAX)
}

#[derive(Debug, Default)]
pub(crate) struct Slot {
    /// Generation in the upper half, number of handles in the lower; a slot without handles is free.
    state: AtomicU64,
    place: AtomicU64,
    /// The next free slot, if this one is free; else the call of the span, if its place has the flag for one.
    link: AtomicU32,
    /// What the span inherits. Valid only once any span has named a number; then it is written at creation.
    inherited: AtomicU32,
    values: Mutex<Option<Arc<SpanValues>>>,
}

impl Slot {
    /// Adds a handle of this generation, which was live when `state` was read. The last handle may disappear meanwhile,
    /// because `Span::current()` clones an id on a thread that holds none. Then the slot stays free.
    fn add_handle(&self, generation: u32, mut state: u64) {
        while Self::is_live(state, generation) {
            match self.state.compare_exchange_weak(state, state + 1, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
    }

    /// Begins the next generation, with one handle.
    fn start(&self) -> u32 {
        let last = (self.state.load(Relaxed) >> 32) as u32;
        let generation = if last >= LAST_GENERATION { 1 } else { last + 1 };
        self.state.store(u64::from(generation) << 32 | 1, Release);
        generation
    }

    /// Whether a slot of this state is of this generation, and has handles.
    #[inline]
    fn is_live(state: u64, generation: u32) -> bool {
        // The subtraction maps 1 handle of this generation to 0, and so on. The next generation's states are above the
        // limit, and a state of this generation without handles wraps around.
        state.wrapping_sub(u64::from(generation) << 32).wrapping_sub(1) < u64::from(u32::MAX)
    }
}

/// The spans created on one thread.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slab {
    /// The first free slot. Only for the owner.
    pub(crate) free: AtomicU32,
    /// The first slot that was never used. Only for the owner.
    pub(crate) unused: AtomicU32,
    pub(crate) slots: Chunked<Slot, 64>,
    /// Slots that other threads closed. A push (`Release`) pairs with the owner's swap (`Acquire`).
    pub(crate) returned: AtomicU32,
}

/// The result of closing one handle of a span.
pub(crate) enum Closed {
    /// There are other handles, or the id is not that of a live span.
    No,
    /// That was the last handle.
    Yes { values: Option<Arc<SpanValues>>, call: CallId },
}

impl Slab {
    /// For tests and models: a state makes its own in place.
    #[allow(dead_code)]
    pub(crate) fn new() -> Self {
        Self {
            slots: Chunked::new(),
            free: AtomicU32::new(END),
            unused: AtomicU32::new(0),
            returned: AtomicU32::new(END),
        }
    }

    /// [`create`](Self::create) of a span without values of its own if a slot is free. Otherwise returns `None` and
    /// changes nothing.
    #[inline]
    pub(crate) fn create_near(&self, thread: u32, place: Place) -> Option<SpanRef> {
        let index = self.free.load(Relaxed);
        let slot = self.slots.get_inline(index as usize)?;
        let generation = (slot.state.load(Relaxed) >> 32) as u32 + 1;
        if generation > LAST_GENERATION {
            return None;
        }
        self.free.store(slot.link.load(Relaxed), Relaxed);
        slot.place.store(place.bits(), Relaxed);
        slot.state.store(u64::from(generation) << 32 | 1, Release);
        Some(SpanRef { generation, thread, slot: index })
    }

    /// [`place`](Self::place) without a call. Any thread.
    #[inline]
    pub(crate) fn near_place(&self, span: SpanRef) -> Option<Place> {
        let slot = self.slots.get_inline(span.slot as usize)?;
        Slot::is_live(slot.state.load(Acquire), span.generation).then(|| Place::from_bits(slot.place.load(Relaxed)))
    }

    /// Closes a span that has one handle and neither values of its own nor a call. For any other returns false and
    /// changes nothing. Only for the owner.
    #[inline]
    pub(crate) fn close_near(&self, span: SpanRef) -> bool {
        let Some(slot) = self.slots.get_inline(span.slot as usize) else { return false };
        let one_handle = u64::from(span.generation) << 32 | 1;
        if slot.state.load(Acquire) != one_handle || !Place::from_bits(slot.place.load(Relaxed)).is_plain() {
            return false;
        }
        slot.state.store(one_handle - 1, Release);
        slot.link.store(self.free.load(Relaxed), Relaxed);
        self.free.store(span.slot, Relaxed);
        true
    }

    /// A new span with one handle. Only for the owner. `None` if the slab is full.
    #[inline(never)]
    pub(crate) fn create(
        &self,
        thread: u32,
        place: Place,
        values: Option<Arc<SpanValues>>,
        call: CallId,
    ) -> Option<SpanRef> {
        let free = self.free.load(Relaxed);
        let (index, slot) = match self.slots.get(free as usize) {
            Some(slot) => {
                self.free.store(slot.link.load(Relaxed), Relaxed);
                (free, slot)
            }
            None => self.refill()?,
        };
        slot.place.store(place.bits(), Relaxed);
        if place.has_own_values() && !place.is_none() {
            *slot.values.lock() = values;
        }
        if place.is_called() && !place.is_none() {
            slot.link.store(call, Relaxed);
        }
        Some(SpanRef { generation: slot.start(), thread, slot: index })
    }

    #[inline(never)]
    fn refill(&self) -> Option<(u32, &Slot)> {
        let returned = self.returned.swap(END, Acquire);
        if let Some(slot) = self.slots.get(returned as usize) {
            self.free.store(slot.link.load(Relaxed), Relaxed);
            return Some((returned, slot));
        }
        let index = self.unused.load(Relaxed);
        if index >= (1 << SLOT_BITS) - 1 {
            return None;
        }
        let slot = self.slots.get_or_grow(index as usize)?;
        self.unused.store(index + 1, Relaxed);
        Some((index, slot))
    }

    #[inline]
    fn live(&self, span: SpanRef) -> Option<(&Slot, u64)> {
        let slot = self.slots.get(span.slot as usize)?;
        let state = slot.state.load(Acquire);
        Slot::is_live(state, span.generation).then_some((slot, state))
    }

    /// Where a live span is counted. Any thread.
    #[inline]
    pub(crate) fn place(&self, span: SpanRef) -> Option<Place> {
        self.live(span).map(|(slot, _)| Place::from_bits(slot.place.load(Acquire)))
    }

    /// The values of a live span that has its own. On any thread.
    pub(crate) fn values(&self, span: SpanRef) -> Option<Arc<SpanValues>> {
        self.live(span).and_then(|(slot, _)| slot.values.lock().clone())
    }

    /// The call of a live span whose place has the flag for one. On any thread.
    #[inline]
    pub(crate) fn call(&self, span: SpanRef) -> CallId {
        self.live(span).map_or(0, |(slot, _)| slot.link.load(Relaxed))
    }

    /// Lets a call follow a live span without values of its own. Only for the owner.
    pub(crate) fn keep_call(&self, span: SpanRef, call: CallId) -> bool {
        let Some((slot, _)) = self.live(span) else { return false };
        slot.link.store(call, Relaxed);
        let place = Place::from_bits(slot.place.load(Relaxed)).with_call();
        slot.place.store(place.bits(), Release); // pairs with `place`: who sees the flag finds the call
        true
    }

    /// What a live span inherits. On any thread.
    pub(crate) fn inherited(&self, span: SpanRef) -> Inherited {
        self.live(span).map_or(0, |(slot, _)| slot.inherited.load(Relaxed))
    }

    /// Sets what a new span inherits. Only for the owner.
    pub(crate) fn inherit(&self, span: SpanRef, number: Inherited) {
        if let Some((slot, _)) = self.live(span) {
            slot.inherited.store(number, Relaxed);
        }
    }

    /// Adds a handle. On any thread.
    pub(crate) fn add_handle(&self, span: SpanRef) {
        if let Some((slot, state)) = self.live(span) {
            slot.add_handle(span.generation, state);
        }
    }

    /// Drops one handle. `owner` says whether the calling thread owns this slab.
    #[inline]
    pub(crate) fn drop_handle(&self, span: SpanRef, owner: bool) -> Closed {
        let Some((slot, state)) = self.live(span) else { return Closed::No };
        // A last handle needs no read-modify-write: a thread that clones it meanwhile holds none itself, and gets a
        // dead id.
        if state as u32 != 1 && slot.state.fetch_sub(1, AcqRel) as u32 != 1 {
            return Closed::No;
        }
        let place = Place::from_bits(slot.place.load(Relaxed));
        let values = if place.has_own_values() && !place.is_none() { slot.values.lock().take() } else { None };
        let call = if place.is_called() && !place.is_none() { slot.link.load(Relaxed) } else { 0 };
        slot.state.store(u64::from(span.generation) << 32, Release);
        if owner {
            slot.link.store(self.free.load(Relaxed), Relaxed);
            self.free.store(span.slot, Relaxed);
        } else {
            self.give_back(span.slot, slot);
        }
        Closed::Yes { values, call }
    }

    #[inline(never)]
    fn give_back(&self, index: u32, slot: &Slot) {
        let mut head = self.returned.load(Relaxed);
        loop {
            slot.link.store(head, Relaxed);
            match self.returned.compare_exchange_weak(head, index, Release, Relaxed) {
                Ok(_) => return,
                Err(newer) => head = newer,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn create(slab: &Slab) -> SpanRef {
        slab.create(3, Place::new(1, 2), None, 0).unwrap()
    }

    fn is_closed(slab: &Slab, span: SpanRef, owner: bool) -> bool {
        matches!(slab.drop_handle(span, owner), Closed::Yes { .. })
    }

    #[test]
    fn an_id_survives_the_round_trip_and_is_never_zero() {
        let slab = Slab::new();
        let span = create(&slab);
        assert_eq!(SpanRef::from_id(span.id()), span);
        assert_ne!(span.id(), 0);
        assert_eq!(slab.place(span), Some(Place::new(1, 2)));
    }

    #[test]
    fn a_closed_id_names_nothing_even_when_its_slot_is_used_again() {
        let slab = Slab::new();
        let first = create(&slab);
        assert!(is_closed(&slab, first, true));
        let second = create(&slab);
        assert_eq!((first.slot, slab.place(first)), (second.slot, None));
        assert!(!is_closed(&slab, first, true), "a second close of an old id does nothing");
        assert!(slab.place(second).is_some());
        assert!(slab.place(SpanRef::from_id(u64::MAX)).is_none());
    }

    #[test]
    fn only_handles_of_its_own_generation_make_a_slot_live() {
        let state = |generation: u64, handles: u32| generation << 32 | u64::from(handles);
        for generation in [1, 2, 7, LAST_GENERATION] {
            for other in (u64::from(generation) - 1)..=u64::from(generation) + 1 {
                for handles in [0, 1, 2, u32::MAX - 1, u32::MAX] {
                    let live = other == u64::from(generation) && handles > 0;
                    assert_eq!(
                        Slot::is_live(state(other, handles), generation),
                        live,
                        "{generation} {other} {handles}"
                    );
                }
            }
        }
        assert!(!Slot::is_live(0, 0), "a slot that was never used, and an id that no slab gave");
    }

    #[test]
    fn generations_begin_anew_where_they_end() {
        let slab = Slab::new();
        let first = create(&slab);
        assert!(is_closed(&slab, first, true));
        let slot = slab.slots.get(first.slot as usize).unwrap();
        slot.state.store(u64::from(LAST_GENERATION - 1) << 32, Relaxed);
        let last = slab.create_near(3, Place::new(1, 2)).unwrap();
        assert_eq!((last.generation, last.slot), (LAST_GENERATION, first.slot));
        assert!(slab.close_near(last) && slab.place(last).is_none());
        assert!(slab.create_near(3, Place::new(1, 2)).is_none(), "is left to the general path");
        let again = create(&slab);
        assert_eq!((again.generation, again.slot), (1, first.slot));
        assert!(slab.place(last).is_none() && slab.place(again).is_some());
    }

    #[test]
    fn the_last_of_many_handles_closes() {
        let slab = Slab::new();
        let span = create(&slab);
        slab.add_handle(span);
        slab.add_handle(span);
        assert!(!is_closed(&slab, span, true));
        assert!(!is_closed(&slab, span, false));
        assert!(is_closed(&slab, span, false));
    }

    #[test]
    fn a_clone_that_comes_too_late_leaves_a_free_slot_free() {
        let slab = Slab::new();
        let span = create(&slab);
        let (slot, seen) = slab.live(span).unwrap();
        assert!(is_closed(&slab, span, true));
        slot.add_handle(span.generation, seen); // as if the close had come between its load and its exchange
        assert!(slab.place(span).is_none());
        assert!(!is_closed(&slab, span, true), "it is free already");
        assert_ne!(create(&slab).slot, create(&slab).slot);
    }

    #[test]
    fn slots_closed_on_other_threads_come_back() {
        let slab = Slab::new();
        for _ in 0..100 {
            let spans: Vec<SpanRef> = (0..200).map(|_| create(&slab)).collect();
            std::thread::scope(|scope| {
                for half in spans.chunks(100) {
                    let slab = &slab;
                    scope.spawn(move || half.iter().for_each(|&span| assert!(is_closed(slab, span, false))));
                }
            });
        }
        assert_eq!(slab.unused.load(Relaxed), 200, "slots are used again, not taken anew");
    }
}
