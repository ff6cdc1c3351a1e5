//! The fast paths: what a callback does where everything is warm and nothing is special.
//!
//! Each either does the whole thing, calling nothing, or has done nothing and says so; the general path is in `shard`. Between the two are the exits of ranges in
//! which calls into CUDA were made: they have to note their end, and may find more to do. Two caches
//! lead there: from (parent node, call site) to a place, and from a registry's span id to a place.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tracing_core::Metadata;

use super::row::Row;
use super::shard::Shard;
use super::site::site_key;
use crate::clock::Ticks;
use crate::record::{Ended, Place, StreamId};

/// Pairs of entries of the cache from (parent node, call site) to a place.
const PAIRS_BITS: u32 = 8;
pub(super) const PAIRS: usize = 1 << PAIRS_BITS;
/// Entries of the cache from a registry's span id to a place.
pub(super) const SPANS: usize = 1024;

/// A place that was looked up. Empty where the call site is 0.
#[derive(Debug, Default)]
pub(super) struct Child {
    site: AtomicU64,
    parent: AtomicU64,
    place: AtomicU64,
}

impl Child {
    #[inline(always)]
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

#[derive(Debug, Default)]
pub(super) struct CachedSpan {
    pub(super) id: AtomicU64,
    pub(super) place: AtomicU64,
}

/// What came of a fast exit.
pub(crate) enum NearExit {
    /// All is done.
    Done,
    /// The range is closed, and its instance is still to be counted: that takes memory.
    Uncounted(Ended),
    /// Nothing has happened: calls into CUDA were made in the range, see [`exit_noted`](Shard::exit_noted). Or there is none.
    Noted,
    /// Nothing has happened.
    Not,
}

impl Shard {
    /// Place and row of a new span under the innermost open range, if they are remembered and the span takes no more than counting.
    #[inline(always)]
    pub(crate) fn child_near(&self, metadata: &'static Metadata<'static>) -> Option<(Place, &Row)> {
        let parent = if self.stack.is_empty() { super::catalog::ROOT } else { self.stack.near_top()?.place().node() };
        let place = self.cached_child(parent, site_key(metadata)).filter(|place| !place.has_own_values())?;
        Some((place, self.rows.get_inline(place.row())?))
    }

    /// The place that is remembered for a call site, or what stands for one, under a parent.
    #[inline(always)]
    pub(super) fn cached_child(&self, parent: u32, site: u64) -> Option<Place> {
        let [first, second] = self.children_pair(parent, site);
        first.get(parent, site).or_else(|| second.get(parent, site))
    }

    /// Remembers a place; of the other two that share its entries, the one that was remembered first is forgotten.
    pub(super) fn cache_child(&self, parent: u32, site: u64, place: Place) {
        let [first, second] = self.children_pair(parent, site);
        second.set(first.parent.load(Relaxed), first.site.load(Relaxed), first.place.load(Relaxed));
        first.set(u64::from(parent), site, place.bits());
    }

    #[inline(always)]
    fn children_pair(&self, parent: u32, site: u64) -> &[Child; 2] {
        // Both numbers reach the upper bits of the product, which spreads what lies at equal distances.
        let hash = (site ^ u64::from(parent) << 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        &self.children[(hash >> (u64::BITS - PAIRS_BITS)) as usize]
    }

    /// [`enter`](Self::enter) where nothing is in the way; else false, and nothing has happened.
    #[inline(always)]
    pub(crate) fn enter_near(&self, span: u64, place: Place) -> bool {
        nvtx_rs::is_tool_absent() && self.stack.push_near(span, place, crate::clock::read_tsc())
    }

    /// [`exit`](Self::exit) where nothing is in the way.
    #[inline(always)]
    pub(crate) fn exit_near(&self, span: u64) -> NearExit {
        if !nvtx_rs::is_tool_absent() {
            return NearExit::Not;
        }
        if self.stack.is_top_noted() {
            return NearExit::Noted;
        }
        let Some(ended) = self.stack.pop_near(span, crate::clock::read_tsc()) else { return NearExit::Not };
        match self.rows.get_inline(ended.place.row()) {
            Some(row) if row.add_near(ended.duration, ended.nested) => NearExit::Done,
            _ => NearExit::Uncounted(ended),
        }
    }

    /// [`exit`](Self::exit) of a range in which calls into CUDA were made, where nothing else is in the way; else false, and nothing has happened. Only
    /// where [`exit_near`](Self::exit_near) says so.
    #[inline(always)]
    pub(crate) fn exit_noted(&self, span: u64) -> bool {
        let now = crate::clock::read_tsc();
        // Nothing is called on this way, so that nothing is saved for it.
        let Some((below, top)) = self.stack.top_near(span) else { return false };
        let Some(row) = self.rows.near(top.place().row()).filter(|_| self.end_instance_near(below, now)) else {
            return self.exit_noted_far(span, now);
        };
        let ended = self.stack.pop_top(below, top, now);
        row.add_near(ended.duration, ended.nested) || self.count(ended)
    }

    #[cold]
    #[inline(never)]
    fn exit_noted_far(&self, span: u64, now: Ticks) -> bool {
        let Some(ended) = self.stack.pop_near(span, now) else { return false };
        self.end_instances(now);
        self.count(ended)
    }

    #[cold]
    #[inline(never)]
    fn count(&self, ended: Ended) -> bool {
        self.add(ended);
        true
    }

    /// [`enter_near`](Self::enter_near) where a timeline is written or nothing is measured.
    #[inline(always)]
    pub(crate) fn enter_apart(&self, span: u64, place: Place) -> bool {
        let start = if self.statistics { crate::clock::read_tsc() } else { 0 };
        nvtx_rs::is_tool_absent() && self.stack.push_near(span, place, start)
    }

    /// [`exit`](Self::exit) where a timeline is written or nothing is measured, and nothing else is in the way; else false, and nothing has
    /// happened.
    #[inline(always)]
    pub(crate) fn exit_apart(&self, span: u64) -> bool {
        if !nvtx_rs::is_tool_absent() || self.stack.is_top_noted() {
            return false;
        }
        if !self.statistics {
            return self.stack.pop_near(span, 0).is_some();
        }
        let now = crate::clock::read_tsc();
        let Some(ended) = self.stack.pop_near(span, now) else { return false };
        self.add(ended);
        self.record_ended(ended, now, self.stack.depth());
        true
    }

    /// Counts an instance that [`exit_near`](Self::exit_near) could not.
    #[inline(never)]
    pub(crate) fn add_uncounted(&self, place: Place, duration: u64, nested: u64) {
        self.add(Ended { place, duration, nested });
    }

    /// Remembers where the span with this registry id is counted. Only for spans created on this thread: the registry gives an id
    /// again only on the thread that made it, and then this entry is written anew.
    #[inline(always)]
    pub(crate) fn remember(&self, id: u64, place: Place) {
        let entry = &self.spans[id as usize % SPANS];
        entry.id.store(id, Relaxed);
        entry.place.store(place.bits(), Relaxed);
    }

    /// Remembers the stream that a parent of the span with this registry id names, 0 for none. As [`remember`](Self::remember): from the time on
    /// that any span names a stream, for each new one; before, there is none.
    pub(crate) fn inherit_stream(&self, id: u64, stream: StreamId) {
        self.streams[id as usize % SPANS].store(stream, Relaxed);
    }

    /// The stream that a parent of a remembered span names.
    pub(crate) fn inherited_stream(&self, id: u64) -> StreamId {
        self.streams[id as usize % SPANS].load(Relaxed)
    }

    /// Where a span created on this thread is counted, if it is remembered.
    #[inline(always)]
    pub(crate) fn remembered(&self, id: u64) -> Option<Place> {
        let entry = &self.spans[id as usize % SPANS];
        (entry.id.load(Relaxed) == id).then(|| Place::from_bits(entry.place.load(Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collect::core::Core;

    #[test]
    fn two_of_one_pair_are_both_found_and_told_apart() {
        let shard = Shard::new(Core::inert(), 0);
        let pair = |parent: u32, site: u64| std::ptr::from_ref(shard.children_pair(parent, site));
        for site in [0x7fff_1230_u64, 0x7fff_12b8, 1 << 63 | 17 << 16] {
            let shared: Vec<u32> = (0..10_000).filter(|&parent| pair(parent, site) == pair(7, site)).take(3).collect();
            let [first, second, third] = shared[..] else { panic!("{} of a pair", shared.len()) };
            shard.cache_child(first, site, Place::new(1, 1));
            assert_eq!(shard.cached_child(second, site), None);
            shard.cache_child(second, site, Place::new(2, 2));
            assert_eq!(shard.cached_child(first, site), Some(Place::new(1, 1)));
            assert_eq!(shard.cached_child(second, site), Some(Place::new(2, 2)));
            assert_eq!(shard.cached_child(second, site + 8), None);
            shard.cache_child(third, site, Place::new(3, 3));
            assert_eq!(shard.cached_child(first, site), None, "the older of the two makes room");
            assert_eq!(shard.cached_child(second, site), Some(Place::new(2, 2)));
            assert_eq!(shard.cached_child(third, site), Some(Place::new(3, 3)));
        }
    }

    /// Call sites lie side by side in memory, and nodes are numbered from 1 up: that must not make some pairs full and others empty.
    #[test]
    fn call_sites_side_by_side_go_to_pairs_of_their_own() {
        for distance in [8, 104, 112, 120, 128, 136, 144, 152, 160, 4096] {
            for nodes in [0, 1, 2, 3] {
                let shard = Shard::new(Core::inert(), 0);
                let keys = (0..64_u64).map(|n| (n as u32 * nodes, 0x5555_5560_0000 + n * distance));
                keys.clone().for_each(|(parent, site)| shard.cache_child(parent, site, Place::new(parent, 1)));
                let kept = keys.filter(|&(parent, site)| shard.cached_child(parent, site).is_some()).count();
                assert!(kept >= 60, "{kept} of 64, {distance} bytes and {nodes} nodes apart");
            }
        }
    }
}
