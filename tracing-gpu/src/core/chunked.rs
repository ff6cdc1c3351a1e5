//! Storage that grows and never moves: one thread appends, any thread reads.
#![allow(unsafe_code)]

use std::ops::Range;

use once_cell::sync::OnceCell;

/// Chunks after the first; each is twice as long as all before it together.
const CHUNKS: usize = 22;

/// A growable table with stable addresses. The first `N` entries are in place; later ones come in chunks that double.
///
/// Entries are shared (`&T`); mutable ones hold atomics. Reading never locks. Chunks are never freed, because the owner
/// of a table lives as long as the process.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Chunked<T: 'static, const N: usize> {
    first: [T; N],
    rest: [OnceCell<&'static [T]>; CHUNKS],
}

impl<T: Default + 'static, const N: usize> Chunked<T, N> {
    pub(crate) fn new() -> Self {
        Self { first: std::array::from_fn(|_| T::default()), rest: [const { OnceCell::new() }; CHUNKS] }
    }

    /// Makes a new table at this place, entry by entry: a whole table may be larger than the caller's stack.
    ///
    /// # Safety
    /// `place` has room for a table, and nobody reads it before this returns.
    pub(crate) unsafe fn new_at(place: *mut Self) {
        // SAFETY: the caller vouches for the room; both arrays are inside of it, and each entry is written once.
        unsafe {
            let (first, rest) = (&raw mut (*place).first, &raw mut (*place).rest);
            (0..N).for_each(|index| first.cast::<T>().add(index).write(T::default()));
            (0..CHUNKS).for_each(|chunk| rest.cast::<OnceCell<&'static [T]>>().add(chunk).write(OnceCell::new()));
        }
    }

    /// Entry `index` if it is one of the first `N`: all that the fast paths look at, so that they call nothing.
    #[inline]
    pub(crate) fn near(&self, index: usize) -> Option<&T> {
        self.first.get(index)
    }

    /// [`get`](Self::get), inlined for the fast paths: a program with more than `N` entries is then not much slower.
    #[inline]
    pub(crate) fn get_inline(&self, index: usize) -> Option<&T> {
        if let Some(entry) = self.first.get(index) {
            return Some(entry);
        }
        let (chunk, offset) = Self::place(index)?;
        self.rest.get(chunk)?.get()?.get(offset)
    }

    /// Entry `index`, if its chunk exists.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        match self.first.get(index) {
            Some(entry) => Some(entry),
            None => self.get_in_chunk(index),
        }
    }

    #[inline(never)]
    fn get_in_chunk(&self, index: usize) -> Option<&T> {
        self.get_inline(index)
    }

    /// Entry `index`, allocating its chunk if need be; `None` beyond `N << 22` entries.
    #[inline]
    pub(crate) fn get_or_grow(&self, index: usize) -> Option<&T> {
        self.get_or_grow_by(index, |_| None)
    }

    /// The same, with memory for new entries from `make` if it has any for these numbers; otherwise from the heap.
    #[inline]
    pub(crate) fn get_or_grow_by(
        &self,
        index: usize,
        make: impl FnOnce(Range<usize>) -> Option<&'static [T]>,
    ) -> Option<&T> {
        match self.first.get(index) {
            Some(entry) => Some(entry),
            None => self.grow(index, make),
        }
    }

    #[inline(never)]
    fn grow(&self, index: usize, make: impl FnOnce(Range<usize>) -> Option<&'static [T]>) -> Option<&T> {
        let (chunk, offset) = Self::place(index)?;
        let new = || (0..N << chunk).map(|_| T::default()).collect::<Box<[T]>>();
        let entries = self
            .rest
            .get(chunk)?
            .get_or_init(|| make(N << chunk..N << (chunk + 1)).unwrap_or_else(|| Box::leak(new())));
        entries.get(offset)
    }

    /// Chunk and offset of an entry beyond the first `N`: chunk `c` holds `[N << c, N << (c + 1))`.
    #[inline]
    fn place(index: usize) -> Option<(usize, usize)> {
        let chunk = (index / N).checked_ilog2()? as usize;
        Some((chunk, index - (N << chunk)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_index_has_its_own_stable_entry() {
        let table = Chunked::<AtomicUsize, 4>::new();
        assert!(table.get(4).is_none());
        let first = std::ptr::from_ref(table.get_or_grow(0).unwrap());
        for index in 0..1_000 {
            table.get_or_grow(index).unwrap().store(index + 1, Ordering::Relaxed);
        }
        for index in 0..1_000 {
            assert_eq!(table.get(index).unwrap().load(Ordering::Relaxed), index + 1);
        }
        assert_eq!(first, std::ptr::from_ref(table.get(0).unwrap()));
        assert!(table.get_or_grow(4 << CHUNKS).is_none());
    }

    #[test]
    fn one_that_is_made_in_place_is_new() {
        let mut place = Box::new(std::mem::MaybeUninit::<Chunked<AtomicUsize, 4>>::uninit());
        // SAFETY: there is room for a table, which is initialised before it is used.
        let table = unsafe {
            Chunked::new_at(place.as_mut_ptr());
            place.assume_init()
        };
        assert_eq!((0..4).map(|index| table.get(index).unwrap().load(Ordering::Relaxed)).sum::<usize>(), 0);
        assert!(table.get(4).is_none() && table.get_or_grow(4).is_some());
    }
}
