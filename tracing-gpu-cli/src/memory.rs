//! The allocator of this library, for programs that may have used up their allowed memory (`ulimit -v`). Rust aborts a
//! process without memory, but the program must not end because of us.
//!
//! A call that finds no memory continues with a reserve. From then on nothing is measured; earlier measurements are in
//! the row file.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The size of the reserve. It takes no memory before it is used, and no room in this program's file.
const RESERVE: usize = 8 << 20;
/// Larger requests come only from buffers of GPU records, which can do without memory.
const MOST: usize = RESERVE / 2 - 1;
/// The largest supported alignment.
const ALIGNMENT: usize = 4096;

#[repr(align(4096))]
struct Reserve(UnsafeCell<[u8; RESERVE]>);

// SAFETY: each part is given out once, to one caller.
unsafe impl Sync for Reserve {}

static SET_ASIDE: Reserve = Reserve(UnsafeCell::new([0; RESERVE]));
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The system's memory, then the reserve.
#[derive(Debug)]
pub struct Memory;

impl Memory {
    /// A zeroed part of the reserve; null if that is used up, too.
    #[cold]
    fn take(layout: Layout) -> *mut u8 {
        if layout.size() > MOST {
            return null_mut();
        }
        tracing_gpu::give_up();
        let begin = |taken: usize| taken.next_multiple_of(layout.align());
        let take = |taken: usize| begin(taken).checked_add(layout.size()).filter(|end| *end <= RESERVE);
        match TAKEN.fetch_update(Relaxed, Relaxed, take) {
            // SAFETY: the part lies inside the reserve.
            Ok(taken) if layout.align() <= ALIGNMENT => unsafe { SET_ASIDE.0.get().cast::<u8>().add(begin(taken)) },
            _ => null_mut(),
        }
    }

    fn is_set_aside(memory: *mut u8) -> bool {
        memory.addr().wrapping_sub(SET_ASIDE.0.get().addr()) < RESERVE
    }
}

// SAFETY: the system's memory is returned to the system, and each part of the reserve is given out once.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the arguments.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() { Self::take(layout) } else { memory }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller vouches for the arguments.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if memory.is_null() { Self::take(layout) } else { memory }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !Self::is_set_aside(memory) {
            // SAFETY: the caller vouches for the arguments.
            unsafe { System.dealloc(memory, layout) };
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Self::is_set_aside(memory) {
            // SAFETY: the caller vouches for the arguments.
            let moved = unsafe { System.realloc(memory, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        } else if size <= layout.size() {
            return memory;
        }
        // SAFETY: the caller promises a valid size for this alignment.
        let moved = Self::take(unsafe { Layout::from_size_align_unchecked(size, layout.align()) });
        if !moved.is_null() {
            // SAFETY: both are at least that long, and do not overlap; the old one is released once.
            unsafe {
                memory.copy_to_nonoverlapping(moved, layout.size().min(size));
                self.dealloc(memory, layout);
            }
        }
        moved
    }
}
