//! Two lock-free caches of places for callbacks: by call site and parent, and by a registry's span id.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::core::record::{CallId, Inherited, Place};

/// The number of entry pairs of [`Children`], as a power of two.
const PAIRS_BITS: u32 = 8;
const PAIRS: usize = 1 << PAIRS_BITS;
/// The number of entries of [`Remembered`].
const SPANS: usize = 1024;

/// Places by parent node and call site (or a stand-in for one).
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Children([[Child; 2]; PAIRS]);

/// A cached place. Empty if the call site is 0.
#[derive(Debug, Default)]
struct Child {
    site: AtomicU64,
    parent: AtomicU64,
    place: AtomicU64,
}

impl Child {
    #[inline]
    fn get(&self, parent: u32, site: u64) -> Option<Place> {
        let known = self.site.load(Relaxed) == site && self.parent.load(Relaxed) == u64::from(parent);
        known.then(|| Place::from_bits(self.place.load(Relaxed)))
    }

    fn set(&self, parent: u64, site: u64, place: u64) {
        self.site.store(site, Relaxed);
        self.parent.store(parent, Relaxed);
        self.place.store(place, Relaxed);
    }
}

impl Children {
    /// All zeros, as in a new state.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| Default::default()))
    }

    #[inline]
    pub(crate) fn get(&self, parent: u32, site: u64) -> Option<Place> {
        let [first, second] = self.pair(parent, site);
        first.get(parent, site).or_else(|| second.get(parent, site))
    }

    /// Caches a place. Of the two in its pair, the older one is dropped.
    pub(crate) fn insert(&self, parent: u32, site: u64, place: Place) {
        let [first, second] = self.pair(parent, site);
        second.set(first.parent.load(Relaxed), first.site.load(Relaxed), first.place.load(Relaxed));
        first.set(u64::from(parent), site, place.bits());
    }

    #[inline]
    fn pair(&self, parent: u32, site: u64) -> &[Child; 2] {
        // Both numbers affect the upper bits of the product, which spreads equidistant values.
        let hash = (site ^ u64::from(parent) << 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        &self.0[(hash >> (u64::BITS - PAIRS_BITS)) as usize]
    }
}

/// By a registry's span id: the place of the span, and what it inherits.
///
/// Only for spans created on this thread: the registry reuses an id only on the thread that made it, and its entry is
/// then rewritten.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Remembered {
    spans: [Span; SPANS],
    /// Read only once any span has named a number to inherit.
    inherited: [AtomicU32; SPANS],
    /// Read only if the place has the flag for a call.
    calls: [AtomicU32; SPANS],
}

#[derive(Debug, Default)]
struct Span {
    id: AtomicU64,
    place: AtomicU64,
}

impl Remembered {
    /// All zeros, as in a new state.
    #[cfg(test)]
    pub(crate) fn new() -> Self {
        Self {
            spans: std::array::from_fn(|_| Span::default()),
            inherited: std::array::from_fn(|_| AtomicU32::new(0)),
            calls: std::array::from_fn(|_| AtomicU32::new(0)),
        }
    }

    /// Where this span is counted, if it is remembered.
    #[inline]
    pub(crate) fn place(&self, id: u64) -> Option<Place> {
        let entry = &self.spans[id as usize % SPANS];
        (entry.id.load(Relaxed) == id).then(|| Place::from_bits(entry.place.load(Relaxed)))
    }

    #[inline]
    pub(crate) fn insert(&self, id: u64, place: Place) {
        let entry = &self.spans[id as usize % SPANS];
        entry.id.store(id, Relaxed);
        entry.place.store(place.bits(), Relaxed);
    }

    /// What a cached span inherits.
    pub(crate) fn inherited(&self, id: u64) -> Inherited {
        self.inherited[id as usize % SPANS].load(Relaxed)
    }

    /// Stores what each new span inherits, once any span has named a number. Before, all are 0.
    pub(crate) fn inherit(&self, id: u64, number: Inherited) {
        self.inherited[id as usize % SPANS].store(number, Relaxed);
    }

    /// The call of a cached span whose place has the flag for one.
    #[inline]
    pub(crate) fn call(&self, id: u64) -> CallId {
        self.calls[id as usize % SPANS].load(Relaxed)
    }

    pub(crate) fn set_call(&self, id: u64, call: CallId) {
        self.calls[id as usize % SPANS].store(call, Relaxed);
    }

    pub(crate) fn clear(&self) {
        for entry in &self.spans {
            entry.id.store(0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_of_one_pair_are_both_found_and_told_apart() {
        let children = Children::new();
        let pair = |parent: u32, site: u64| std::ptr::from_ref(children.pair(parent, site));
        for site in [0x7fff_1230_u64, 0x7fff_12b8, 1 << 63 | 17 << 16] {
            let shared: Vec<u32> = (0..10_000).filter(|&parent| pair(parent, site) == pair(7, site)).take(3).collect();
            let [first, second, third] = shared[..] else { panic!("{} of a pair", shared.len()) };
            children.insert(first, site, Place::new(1, 1));
            assert_eq!(children.get(second, site), None);
            children.insert(second, site, Place::new(2, 2));
            assert_eq!(children.get(first, site), Some(Place::new(1, 1)));
            assert_eq!(children.get(second, site), Some(Place::new(2, 2)));
            assert_eq!(children.get(second, site + 8), None);
            children.insert(third, site, Place::new(3, 3));
            assert_eq!(children.get(first, site), None, "the older of the two makes room");
            assert_eq!(children.get(second, site), Some(Place::new(2, 2)));
            assert_eq!(children.get(third, site), Some(Place::new(3, 3)));
        }
    }

    /// Call sites are adjacent in memory, and nodes are numbered from 1 up. The hash must still fill pairs evenly.
    #[test]
    fn call_sites_side_by_side_go_to_pairs_of_their_own() {
        for distance in [8, 104, 112, 120, 128, 136, 144, 152, 160, 4096] {
            for nodes in [0, 1, 2, 3] {
                let children = Children::new();
                let keys = (0..64_u64).map(|n| (n as u32 * nodes, 0x5555_5560_0000 + n * distance));
                keys.clone().for_each(|(parent, site)| children.insert(parent, site, Place::new(parent, 1)));
                let kept = keys.filter(|&(parent, site)| children.get(parent, site).is_some()).count();
                assert!(kept >= 60, "{kept} of 64, {distance} bytes and {nodes} nodes apart");
            }
        }
    }

    #[test]
    fn a_span_is_remembered_until_another_has_its_entry() {
        let remembered = Remembered::new();
        let other = 5 + SPANS as u64;
        remembered.insert(5, Place::new(1, 2));
        assert_eq!((remembered.place(5), remembered.place(other)), (Some(Place::new(1, 2)), None));
        remembered.insert(other, Place::new(3, 4));
        assert_eq!((remembered.place(5), remembered.place(other)), (None, Some(Place::new(3, 4))));
        remembered.inherit(other, 7);
        assert_eq!((remembered.inherited(other), remembered.inherited(6)), (7, 0));
        remembered.clear();
        assert_eq!(remembered.place(other), None);
    }
}
