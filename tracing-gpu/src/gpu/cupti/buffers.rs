//! Memory that CUPTI writes records to.
//!
//! CUPTI asks for buffers whenever it likes and must get one each time: libraries before CUDA 12.9 crash without. Within the budget it gets large ones,
//! kept and used again. Beyond, it gets small ones whose records are counted and thrown away, so that what stays behind is no more work.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};

use parking_lot::Mutex;

/// Bytes of a buffer within the budget, and of one beyond it.
const LARGE: usize = 4 << 20;
const SMALL: usize = 64 << 10;

/// Records begin at multiples of 8; a cache line keeps buffers of two threads apart.
const ALIGNMENT: usize = 64;

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Its records are read.
    Kept,
    /// Its records are beyond the budget.
    Scratch,
}

impl Role {
    const fn bytes(self) -> usize {
        match self {
            Self::Kept => LARGE,
            Self::Scratch => SMALL,
        }
    }
}

/// All buffers of the process: CUPTI's requests say nothing of whom they are for.
pub(crate) struct Pool(Mutex<Buffers>);

struct Buffers {
    /// Large buffers there may be, and are.
    most: usize,
    large: usize,
    /// Addresses that CUPTI does not have, and those that it has.
    idle: Vec<(usize, Role)>,
    out: Vec<(usize, Role)>,
}

impl Pool {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Buffers { most: 2, large: 0, idle: Vec::new(), out: Vec::new() }))
    }

    /// Sets the budget, of at least two large buffers.
    pub(crate) fn allow(&self, bytes: usize) {
        self.0.lock().most = (bytes / LARGE).max(2);
    }

    /// A buffer for CUPTI and its size. Null only where the system has no memory left.
    pub(crate) fn take(&self) -> (*mut u8, usize) {
        let mut buffers = self.0.lock();
        let role = if buffers.has(Role::Kept) || buffers.large < buffers.most { Role::Kept } else { Role::Scratch };
        match buffers.take(role) {
            0 => (std::ptr::with_exposed_provenance_mut(buffers.take(Role::Scratch)), SMALL),
            address => (std::ptr::with_exposed_provenance_mut(address), role.bytes()),
        }
    }

    /// What a buffer that CUPTI hands back was for, and its size; `None` for one that was not handed out here.
    pub(crate) fn role(&self, buffer: *mut u8) -> Option<(Role, usize)> {
        let buffers = self.0.lock();
        let (_, role) = buffers.out.iter().find(|(address, _)| *address == buffer.addr())?;
        Some((*role, role.bytes()))
    }

    /// Takes a buffer back, to be handed out again.
    pub(crate) fn give_back(&self, buffer: *mut u8) {
        let mut buffers = self.0.lock();
        if let Some(place) = buffers.out.iter().position(|(address, _)| *address == buffer.addr()) {
            let entry = buffers.out.swap_remove(place);
            buffers.idle.push(entry);
        }
    }

    /// Buffers that CUPTI has.
    pub(crate) fn handed_out(&self) -> usize {
        self.0.lock().out.len()
    }

    /// Returns to the system what CUPTI does not have.
    pub(crate) fn release(&self) {
        let mut buffers = self.0.lock();
        for (address, role) in std::mem::take(&mut buffers.idle) {
            buffers.large -= usize::from(role == Role::Kept);
            // SAFETY: the address came from `alloc_zeroed` with this layout in `Buffers::take`; it has just left the only list it was in,
            // and nobody holds a slice of it: those live within the callback that runs before `give_back`.
            unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address), layout(role)) };
        }
    }
}

impl Buffers {
    fn has(&self, wanted: Role) -> bool {
        self.idle.iter().any(|(_, role)| *role == wanted)
    }

    /// The address of an idle or of a new buffer; 0 where there is no memory.
    fn take(&mut self, wanted: Role) -> usize {
        let address = match self.idle.iter().rposition(|(_, role)| *role == wanted) {
            Some(place) => self.idle.swap_remove(place).0,
            None => {
                // SAFETY: the layout has a size. Zeroed, so that all of it may be read as bytes, whatever CUPTI leaves out; the
                // system hands out zeroed pages of such a size without writing them.
                let address = unsafe { alloc_zeroed(layout(wanted)) }.expose_provenance();
                self.large += usize::from(wanted == Role::Kept && address != 0);
                address
            }
        };
        if address != 0 {
            self.out.push((address, wanted));
        }
        address
    }
}

const fn layout(role: Role) -> Layout {
    // SAFETY: the alignment is a power of two, and the sizes are multiples of it far below `isize::MAX`.
    unsafe { Layout::from_size_align_unchecked(role.bytes(), ALIGNMENT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_budget_buffers_are_small_and_told_apart() {
        let pool = Pool::new();
        pool.allow(3 * LARGE);
        let taken: Vec<(*mut u8, usize)> = (0..5).map(|_| pool.take()).collect();
        let sizes: Vec<usize> = taken.iter().map(|(_, size)| *size).collect();
        assert_eq!(sizes, [LARGE, LARGE, LARGE, SMALL, SMALL]);
        assert!(taken.iter().all(|(buffer, _)| !buffer.is_null() && buffer.addr() % ALIGNMENT == 0));
        assert_eq!(pool.role(taken[0].0), Some((Role::Kept, LARGE)));
        assert_eq!(pool.role(taken[4].0), Some((Role::Scratch, SMALL)));
        assert_eq!(pool.handed_out(), 5);
        for (buffer, _) in &taken {
            pool.give_back(*buffer);
            pool.give_back(*buffer); // a second time does nothing
        }
        assert_eq!((pool.handed_out(), pool.role(taken[0].0)), (0, None));
        let again: Vec<(*mut u8, usize)> = (0..4).map(|_| pool.take()).collect();
        assert_eq!(again[3].1, SMALL);
        assert!(again.iter().all(|buffer| taken.contains(buffer)), "buffers are used again");
        pool.release();
        again.iter().for_each(|(buffer, _)| pool.give_back(*buffer));
        pool.release();
        let buffers = pool.0.lock();
        assert_eq!((buffers.large, buffers.idle.len(), buffers.out.len()), (0, 0, 0));
    }

    #[test]
    fn there_are_at_least_two_buffers() {
        let pool = Pool::new();
        pool.allow(0);
        let sizes: Vec<usize> = (0..3).map(|_| pool.take().1).collect();
        assert_eq!(sizes, [LARGE, LARGE, SMALL]);
        let stranger = std::ptr::without_provenance_mut(0x1234);
        assert_eq!(pool.role(stranger), None);
        pool.give_back(stranger);
        assert_eq!(pool.handed_out(), 3);
    }
}
