//! Memory that CUPTI writes records to.
//!
//! CUPTI may ask for a buffer at any time and must get one: libraries before CUDA 12.9 crash otherwise. Within the
//! budget it gets large buffers, which are reused. Beyond the budget it gets small ones; their records are counted and
//! discarded, so that the backlog stays bounded. Buffers that wait to be read belong to the budget, too.
//!
//! CUPTI asks on threads that launch. New memory costs such a thread a page fault for every 19 launches. One touched
//! buffer is therefore kept ready.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

/// Bytes of a buffer within the budget (`LARGE`) and beyond it (`SMALL`).
const LARGE: usize = 4 << 20;
const SMALL: usize = 64 << 10;

/// CUPTI aligns records to 8 bytes. Buffers of two threads share no cache line.
const ALIGNMENT: usize = 64;

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Its records are read.
    Kept,
    /// Its records are counted and discarded.
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

/// All buffers of the process: a request of CUPTI does not name the profiler.
pub(crate) struct Pool(Mutex<Buffers>);

struct Buffers {
    /// The allowed number of large buffers, and the present number.
    most: usize,
    large: usize,
    /// Addresses of buffers that are free (`idle`) and that CUPTI holds (`out`).
    idle: Vec<(usize, Role)>,
    out: Vec<(usize, Role)>,
    /// Whether idle buffers are kept.
    is_in_use: bool,
}

/// A buffer that CUPTI has handed back. It returns to the pool when this value is dropped.
pub struct Filled {
    pool: &'static Pool,
    address: usize,
    role: Role,
    valid: usize,
}

impl Filled {
    pub(super) fn role(&self) -> Role {
        self.role
    }

    /// Its records.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let buffer = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: the buffer has `role.bytes()` bytes, `valid` is at most that, and every byte was zeroed at
        // allocation. CUPTI no longer writes it, and it is in no list until this value is dropped: nobody else has it
        // while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(buffer, self.valid) }
    }
}

impl std::fmt::Debug for Filled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.valid)
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        self.pool.0.lock().put_back(self.address, self.role);
    }
}

impl Pool {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Buffers { most: 2, large: 0, idle: Vec::new(), out: Vec::new(), is_in_use: true }))
    }

    /// Sets the budget, of at least two large buffers.
    pub(crate) fn allow(&self, bytes: usize) {
        let mut buffers = self.0.lock();
        buffers.most = (bytes / LARGE).max(2);
        buffers.is_in_use = true;
    }

    /// Allocates a large buffer for the next request, if the budget allows one more. Call it on a thread that nobody
    /// waits for.
    pub(crate) fn prepare(&self) {
        let lacks = |buffers: &Buffers| !buffers.has(Role::Kept) && buffers.large < buffers.most && buffers.is_in_use;
        if lacks(&self.0.lock()) {
            let address = make(Role::Kept); // without the lock: this takes a while
            let mut buffers = self.0.lock();
            buffers.large += usize::from(address != 0); // perhaps one beyond the budget, which is freed below
            let is_wanted = buffers.large <= buffers.most && buffers.is_in_use;
            match address {
                0 => {}
                address if is_wanted => buffers.idle.push((address, Role::Kept)),
                address => buffers.free(address, Role::Kept),
            }
        }
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

    /// Takes a buffer back from CUPTI, with `valid` bytes of records; `None` if the buffer was not handed out here.
    pub(crate) fn take_back(&'static self, buffer: *mut u8, valid: usize) -> Option<Filled> {
        let mut buffers = self.0.lock();
        let place = buffers.out.iter().position(|(address, _)| *address == buffer.addr())?;
        let (address, role) = buffers.out.swap_remove(place);
        Some(Filled { pool: self, address, role, valid: valid.min(role.bytes()) })
    }

    /// Number of buffers that CUPTI holds.
    pub(crate) fn handed_out(&self) -> usize {
        self.0.lock().out.len()
    }

    /// Number of those buffers that contain records. CUPTI may keep an empty buffer for ever.
    pub(crate) fn holding(&self) -> usize {
        let holds = |(address, _): &&(usize, Role)| kind_of_first(*address).load(Ordering::Relaxed) != 0;
        self.0.lock().out.iter().filter(holds).count()
    }

    /// Frees all idle buffers. Buffers that wait to be read are freed as soon as they have been read.
    pub(crate) fn release(&self) {
        let mut buffers = self.0.lock();
        buffers.is_in_use = false;
        for (address, role) in std::mem::take(&mut buffers.idle) {
            buffers.free(address, role);
        }
    }
}

impl Buffers {
    fn has(&self, wanted: Role) -> bool {
        self.idle.iter().any(|(_, role)| *role == wanted)
    }

    /// The address of an idle or new buffer; 0 if the system has no memory.
    fn take(&mut self, wanted: Role) -> usize {
        let address = match self.idle.iter().rposition(|(_, role)| *role == wanted) {
            Some(place) => self.idle.swap_remove(place).0,
            None => {
                let address = make(wanted);
                self.large += usize::from(wanted == Role::Kept && address != 0);
                address
            }
        };
        if address != 0 {
            kind_of_first(address).store(0, Ordering::Relaxed);
            self.out.push((address, wanted));
        }
        address
    }

    /// The caller has removed the address from every list.
    fn put_back(&mut self, address: usize, role: Role) {
        if self.is_in_use {
            self.idle.push((address, role));
        } else {
            self.free(address, role);
        }
    }

    /// The caller has removed the address from every list.
    fn free(&mut self, address: usize, role: Role) {
        self.large -= usize::from(role == Role::Kept);
        // SAFETY: the address came from `make` with this role. It has left its only list or its `Filled`, so nobody has
        // a slice of it.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(address), layout(role)) };
    }
}

/// The place where the first record of a buffer stores its kind. The buffer is in `out` or about to be. 0 is no kind,
/// and CUPTI zeroes a buffer before it writes a record.
fn kind_of_first<'a>(address: usize) -> &'a AtomicU32 {
    // SAFETY: the buffer is large enough and aligned; it is not freed while the caller has the lock, under which it
    // enters and leaves the list. CUPTI writes it meanwhile, as another process would.
    unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
}

/// The address of a new, zeroed buffer; 0 if the system has no memory.
fn make(role: Role) -> usize {
    // SAFETY: the layout is not empty. Zeroing makes all bytes readable, even those that CUPTI does not write.
    unsafe { alloc_zeroed(layout(role)) }.expose_provenance()
}

const fn layout(role: Role) -> Layout {
    // SAFETY: the alignment is a power of two, and the sizes are multiples of it far below `isize::MAX`.
    unsafe { Layout::from_size_align_unchecked(role.bytes(), ALIGNMENT) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(large: usize) -> &'static Pool {
        let pool: &'static Pool = Box::leak(Box::new(Pool::new()));
        pool.allow(large * LARGE);
        pool
    }

    #[test]
    fn beyond_the_budget_buffers_are_small_and_told_apart() {
        let pool = pool(3);
        let taken: Vec<(*mut u8, usize)> = (0..5).map(|_| pool.take()).collect();
        let sizes: Vec<usize> = taken.iter().map(|(_, size)| *size).collect();
        assert_eq!(sizes, [LARGE, LARGE, LARGE, SMALL, SMALL]);
        assert!(taken.iter().all(|(buffer, _)| !buffer.is_null() && buffer.addr() % ALIGNMENT == 0));
        assert_eq!(pool.handed_out(), 5);
        for (number, (buffer, _)) in taken.iter().enumerate() {
            let mut filled = pool.take_back(*buffer, SMALL + 1).expect("one that was handed out");
            let (role, bytes) = if number < 3 { (Role::Kept, SMALL + 1) } else { (Role::Scratch, SMALL) };
            assert_eq!((filled.role(), filled.bytes().len()), (role, bytes));
            assert!(pool.take_back(*buffer, 0).is_none(), "not a second time");
        }
        assert_eq!(pool.handed_out(), 0);
        let again: Vec<(*mut u8, usize)> = (0..4).map(|_| pool.take()).collect();
        assert_eq!(again[3].1, SMALL);
        assert!(again.iter().all(|buffer| taken.contains(buffer)), "buffers are used again");
        pool.release();
        again.iter().for_each(|(buffer, _)| drop(pool.take_back(*buffer, 0)));
        let buffers = pool.0.lock();
        assert_eq!((buffers.large, buffers.idle.len(), buffers.out.len()), (0, 0, 0));
    }

    #[test]
    fn what_waits_to_be_read_is_of_the_budget() {
        let pool = pool(3);
        let taken: Vec<_> = (0..3).map(|_| pool.take().0).collect();
        let mut filled: Vec<_> = taken.iter().filter_map(|buffer| pool.take_back(*buffer, 8)).collect();
        assert_eq!((pool.handed_out(), pool.take().1), (0, SMALL));
        drop(filled.pop());
        assert_eq!([pool.take().1, pool.take().1], [LARGE, SMALL]);
        pool.release();
        assert_eq!(pool.0.lock().large, 3);
        drop(filled);
        assert_eq!(pool.0.lock().large, 1, "with the session goes what was read");
    }

    #[test]
    fn one_is_ready_within_the_budget() {
        let pool = pool(2);
        let counts = || {
            let buffers = pool.0.lock();
            (buffers.idle.len(), buffers.large)
        };
        (0..2).for_each(|_| pool.prepare());
        assert_eq!(counts(), (1, 1));
        let taken = [pool.take(), pool.take()];
        pool.prepare();
        assert_eq!(counts(), (0, 2));
        taken.iter().for_each(|(buffer, _)| drop(pool.take_back(*buffer, 0)));
        pool.release();
        pool.prepare();
        assert_eq!(counts(), (0, 0), "after the end of the session");
    }

    #[test]
    fn a_buffer_that_is_out_holds_records_when_cupti_has_written_one() {
        let pool = pool(2);
        for _ in 0..2 {
            let (buffer, _) = pool.take();
            assert_eq!((pool.handed_out(), pool.holding()), (1, 0), "also where it was written before");
            kind_of_first(buffer.addr()).store(10, Ordering::Relaxed);
            assert_eq!(pool.holding(), 1);
            drop(pool.take_back(buffer, 8));
            assert_eq!(pool.holding(), 0);
        }
    }

    #[test]
    fn there_are_at_least_two_buffers() {
        let pool = pool(0);
        let sizes: Vec<usize> = (0..3).map(|_| pool.take().1).collect();
        assert_eq!(sizes, [LARGE, LARGE, SMALL]);
        assert!(pool.take_back(std::ptr::without_provenance_mut(0x1234), 0).is_none());
        assert_eq!(pool.handed_out(), 3);
    }
}
