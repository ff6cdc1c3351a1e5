//! Memory that CUPTI writes records to.
//!
//! CUPTI may ask for a buffer at any time and must get one: libraries before CUDA 12.9 crash otherwise. Within the
//! budget it gets buffers whose records are read, and which are reused. Beyond the budget their records are counted and
//! discarded, so that the backlog stays bounded. Buffers that wait to be read belong to the budget, too.
//!
//! CUPTI 13 holds a buffer for each thread that makes calls (attribute 9, on by default in 13.0). So the first buffers
//! that it holds are large, and the more it holds, the smaller is the next one: the default budget is enough for a
//! thousand threads. When a thread ends, its buffer comes back with few records: these are copied, so that what waits
//! to be read takes no more memory than it needs.
//!
//! CUPTI asks on threads that launch. New memory costs such a thread a page fault for every 19 launches. One touched
//! buffer is therefore kept ready.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

/// Bytes of a buffer while CUPTI holds few of them.
const LARGE: usize = 4 << 20;
/// While it holds this number or more.
const SEVERAL: usize = 4;
const MEDIUM: usize = 512 << 10;
/// While it holds this number or more. Buffers beyond the budget are small, too.
const MANY: usize = 32;
const SMALL: usize = 64 << 10;

/// Records that fill less than this fraction of a buffer are copied.
const FEW: usize = 8;

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

/// Memory for records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffer {
    address: usize,
    bytes: usize,
    role: Role,
}

/// All buffers of the process: a request of CUPTI does not name the profiler.
pub(crate) struct Pool(Mutex<Buffers>);

struct Buffers {
    /// The allowed bytes of buffers that are read, and the present bytes.
    most: usize,
    kept: usize,
    /// Buffers that are free (`idle`) and that CUPTI holds (`out`).
    idle: Vec<Buffer>,
    out: Vec<Buffer>,
    /// Whether idle buffers are kept.
    is_in_use: bool,
}

/// A buffer that CUPTI has handed back. It returns to the pool when this value is dropped.
pub struct Filled {
    pool: &'static Pool,
    buffer: Buffer,
    valid: usize,
}

impl Filled {
    pub(super) fn role(&self) -> Role {
        self.buffer.role
    }

    /// Its records.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        let buffer = std::ptr::with_exposed_provenance_mut(self.buffer.address);
        // SAFETY: the buffer has `bytes` bytes, `valid` is at most that, and every byte was zeroed at
        // allocation. CUPTI no longer writes it, and it is in no list until this value is dropped: nobody else has it
        // while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(buffer, self.valid) }
    }

    /// Its records in memory of their size, which counts as kept already; its buffer is free again.
    fn copied(mut self) -> Self {
        let Some(copy) = make(copy_bytes(self.valid), Role::Kept) else {
            self.pool.0.lock().kept -= copy_bytes(self.valid);
            return self;
        };
        let mut copied = Self { pool: self.pool, buffer: copy, valid: self.valid };
        copied.bytes().copy_from_slice(self.bytes());
        copied
    }
}

impl std::fmt::Debug for Filled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.valid)
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        self.pool.0.lock().put_back(self.buffer);
    }
}

impl Pool {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Buffers { most: 2 * LARGE, kept: 0, idle: Vec::new(), out: Vec::new(), is_in_use: true }))
    }

    /// Sets the budget, of at least two large buffers.
    pub(crate) fn allow(&self, bytes: usize) {
        let mut buffers = self.0.lock();
        buffers.most = bytes.max(2 * LARGE);
        buffers.is_in_use = true;
    }

    /// Allocates a buffer for the next request, if the budget allows one more. Call it on a thread that nobody waits
    /// for.
    pub(crate) fn prepare(&self) {
        let bytes = {
            let mut buffers = self.0.lock();
            let bytes = buffers.next_bytes();
            if !buffers.is_in_use || buffers.idle_one(bytes).is_some() || !buffers.make_room(bytes) {
                return;
            }
            bytes
        };
        let Some(made) = make(bytes, Role::Kept) else { return }; // without the lock: this takes a while
        let mut buffers = self.0.lock();
        buffers.kept += bytes; // perhaps beyond the budget; then it is freed
        if buffers.kept <= buffers.most && buffers.is_in_use {
            buffers.idle.push(made);
        } else {
            buffers.free(made);
        }
    }

    /// A buffer for CUPTI and its size. Null only where the system has no memory left.
    pub(crate) fn take(&self) -> (*mut u8, usize) {
        let mut buffers = self.0.lock();
        let Some(taken) = buffers.take_kept().or_else(|| buffers.take_scratch()) else {
            return (std::ptr::null_mut(), 0);
        };
        kind_of_first(taken.address).store(0, Ordering::Relaxed);
        buffers.out.push(taken);
        (std::ptr::with_exposed_provenance_mut(taken.address), taken.bytes)
    }

    /// Takes a buffer back from CUPTI, with `valid` bytes of records; `None` if the buffer was not handed out here.
    pub(crate) fn take_back(&'static self, buffer: *mut u8, valid: usize) -> Option<Filled> {
        let mut buffers = self.0.lock();
        let place = buffers.out.iter().position(|out| out.address == buffer.addr())?;
        let buffer = buffers.out.swap_remove(place);
        let valid = valid.min(buffer.bytes);
        let whole = Filled { pool: self, buffer, valid };
        let kept = buffers.kept + copy_bytes(valid);
        if buffer.role == Role::Scratch || valid >= buffer.bytes / FEW || kept > buffers.most {
            return Some(whole);
        }
        buffers.kept = kept;
        drop(buffers); // copying takes a while; dropping the whole one takes the lock
        Some(whole.copied())
    }

    /// Number of buffers that CUPTI holds.
    pub(crate) fn handed_out(&self) -> usize {
        self.0.lock().out.len()
    }

    /// Number of those buffers that contain records. CUPTI may keep an empty buffer for ever.
    pub(crate) fn holding(&self) -> usize {
        let holds = |out: &&Buffer| kind_of_first(out.address).load(Ordering::Relaxed) != 0;
        self.0.lock().out.iter().filter(holds).count()
    }

    /// Frees all idle buffers. Buffers that wait to be read are freed as soon as they have been read.
    pub(crate) fn release(&self) {
        let mut buffers = self.0.lock();
        buffers.is_in_use = false;
        for idle in std::mem::take(&mut buffers.idle) {
            buffers.free(idle);
        }
    }
}

impl Buffers {
    /// Bytes of the next buffer within the budget.
    fn next_bytes(&self) -> usize {
        match self.out.len() {
            ..SEVERAL => LARGE,
            SEVERAL..MANY => MEDIUM,
            MANY.. => SMALL,
        }
    }

    /// The place of an idle buffer of this size that is read.
    fn idle_one(&self, bytes: usize) -> Option<usize> {
        self.idle.iter().rposition(|idle| idle.role == Role::Kept && idle.bytes == bytes)
    }

    /// An idle or new buffer within the budget, a small one if there is no more room.
    fn take_kept(&mut self) -> Option<Buffer> {
        let bytes = self.next_bytes();
        self.take_of(bytes).or_else(|| self.take_of(SMALL))
    }

    /// An idle or new buffer of this size.
    fn take_of(&mut self, bytes: usize) -> Option<Buffer> {
        if let Some(place) = self.idle_one(bytes) {
            return Some(self.idle.swap_remove(place));
        }
        let made = if self.make_room(bytes) { make(bytes, Role::Kept) } else { None }?;
        self.kept += bytes;
        Some(made)
    }

    /// Frees idle buffers until one of this size fits into the budget. Returns false, and frees none, if it cannot fit.
    fn make_room(&mut self, bytes: usize) -> bool {
        let is_kept = |idle: &Buffer| idle.role == Role::Kept;
        let idle: usize = self.idle.iter().filter(|idle| is_kept(idle)).map(|idle| idle.bytes).sum();
        if self.kept - idle + bytes > self.most {
            return false;
        }
        while self.kept + bytes > self.most {
            let Some(place) = self.idle.iter().position(is_kept) else { return false };
            let idle = self.idle.swap_remove(place);
            self.free(idle);
        }
        true
    }

    /// An idle or new buffer beyond the budget.
    fn take_scratch(&mut self) -> Option<Buffer> {
        match self.idle.iter().rposition(|idle| idle.role == Role::Scratch) {
            Some(place) => Some(self.idle.swap_remove(place)),
            None => make(SMALL, Role::Scratch),
        }
    }

    /// The caller has removed the buffer from every list. A copy is not used again.
    fn put_back(&mut self, buffer: Buffer) {
        if self.is_in_use && [LARGE, MEDIUM, SMALL].contains(&buffer.bytes) {
            self.idle.push(buffer);
        } else {
            self.free(buffer);
        }
    }

    /// The caller has removed the buffer from every list.
    fn free(&mut self, buffer: Buffer) {
        if buffer.role == Role::Kept {
            self.kept -= buffer.bytes;
        }
        // SAFETY: the address came from `make` with these bytes. It has left its only list or its `Filled`, so nobody
        // has a slice of it.
        unsafe { dealloc(std::ptr::with_exposed_provenance_mut(buffer.address), layout(buffer.bytes)) };
    }
}

/// The place where the first record of a buffer stores its kind. The buffer is in `out` or about to be. 0 is no kind,
/// and CUPTI zeroes a buffer before it writes a record.
fn kind_of_first<'a>(address: usize) -> &'a AtomicU32 {
    // SAFETY: the buffer is large enough and aligned; it is not freed while the caller has the lock, under which it
    // enters and leaves the list. CUPTI writes it meanwhile, as another process would.
    unsafe { AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address)) }
}

/// A new, zeroed buffer; `None` if the system has no memory.
fn make(bytes: usize, role: Role) -> Option<Buffer> {
    // SAFETY: the layout is not empty. Zeroing makes all bytes readable, even those that CUPTI does not write.
    let address = unsafe { alloc_zeroed(layout(bytes)) }.expose_provenance();
    (address != 0).then_some(Buffer { address, bytes, role })
}

/// The size of a copy of these records. No buffer for CUPTI has this size.
const fn copy_bytes(valid: usize) -> usize {
    let bytes = (valid / ALIGNMENT + 1) * ALIGNMENT;
    if bytes == MEDIUM || bytes == SMALL { bytes + ALIGNMENT } else { bytes }
}

/// The layout of a buffer or a copy. The size is a multiple of the alignment.
const fn layout(bytes: usize) -> Layout {
    // SAFETY: the alignment is a power of two, and all sizes are multiples of it far below `isize::MAX`.
    unsafe { Layout::from_size_align_unchecked(bytes, ALIGNMENT) }
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
        assert_eq!((buffers.kept, buffers.idle.len(), buffers.out.len()), (0, 0, 0));
    }

    #[test]
    fn a_thousand_threads_each_hold_one_within_the_default_budget() {
        let pool = pool(24);
        let taken: Vec<(*mut u8, usize)> = (0..1_000).map(|_| pool.take()).collect();
        let counts = [LARGE, MEDIUM, SMALL].map(|bytes| taken.iter().filter(|(_, size)| *size == bytes).count());
        assert_eq!(counts, [SEVERAL, MANY - SEVERAL, 1_000 - MANY]);
        let kept =
            |(buffer, _): &(*mut u8, usize)| pool.take_back(*buffer, 8).expect("handed out").role() == Role::Kept;
        assert!(taken.iter().all(kept));
        assert!(pool.0.lock().kept <= 24 * LARGE);
    }

    #[test]
    fn idle_buffers_make_room_for_smaller_ones() {
        let pool = pool(8);
        let first: Vec<_> = (0..MANY).map(|_| pool.take()).collect();
        first[..SEVERAL].iter().for_each(|(buffer, _)| drop(pool.take_back(*buffer, 8)));
        assert_eq!((0..100).map(|_| pool.take().1).max(), Some(MEDIUM));
        let buffers = pool.0.lock();
        assert!(buffers.out.iter().all(|out| out.role == Role::Kept) && buffers.kept <= 8 * LARGE);
    }

    #[test]
    fn after_many_threads_a_single_one_has_large_buffers_again() {
        let pool = pool(24);
        let all: Vec<_> = (0..1_000).map(|_| pool.take().0).collect();
        all.iter().for_each(|buffer| drop(pool.take_back(*buffer, 8)));
        pool.prepare();
        let backlog: Vec<_> = (0..20).filter_map(|_| pool.take_back(pool.take().0, LARGE)).collect();
        assert!(backlog.iter().all(|filled| filled.buffer.bytes == LARGE && filled.role() == Role::Kept));
    }

    #[test]
    fn the_records_of_ended_threads_wait_in_memory_of_their_size() {
        let pool = pool(24);
        let ended: Vec<Filled> = (0..5_000_u32)
            .map(|thread| {
                let (buffer, bytes) = pool.take();
                assert_eq!(bytes, LARGE);
                // SAFETY: CUPTI would write there.
                unsafe { buffer.cast::<u32>().write(thread) };
                pool.take_back(buffer, 2_000).expect("handed out")
            })
            .collect();
        assert!(ended.iter().all(|filled| filled.role() == Role::Kept));
        assert!(pool.0.lock().kept <= LARGE + ended.len() * copy_bytes(2_000));
        for (thread, mut filled) in (0..5_000_u32).zip(ended) {
            assert_eq!((filled.bytes().len(), &filled.bytes()[..4]), (2_000, &thread.to_ne_bytes()[..]));
        }
        let buffers = pool.0.lock();
        assert_eq!((buffers.kept, buffers.idle.len()), (LARGE, 1), "copies are freed");
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
        assert_eq!(pool.0.lock().kept, 3 * LARGE);
        drop(filled);
        assert_eq!(pool.0.lock().kept, LARGE, "with the session goes what was read");
    }

    #[test]
    fn one_is_ready_within_the_budget() {
        let pool = pool(2);
        let counts = || {
            let buffers = pool.0.lock();
            (buffers.idle.len(), buffers.kept / LARGE)
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
