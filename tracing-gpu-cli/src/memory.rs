//! What this library allocates, where a program may have used up all the memory it is allowed (`ulimit -v`). Rust ends
//! a process that has no memory; the program must not end for our sake.
//!
//! The call that finds no memory is finished with some that was set aside. From then on nothing is measured: what was
//! until then is in the file of the rows.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What is set aside. It takes no memory before it is used, and no room in the file of this program.
const RESERVE: usize = 8 << 20;
/// More than this is not asked for by what must have it but by buffers of the GPU's records, which can do without.
const MOST: usize = RESERVE / 2 - 1;
/// The strictest alignment that is asked for.
const ALIGNMENT: usize = 4096;

#[repr(align(4096))]
struct Reserve(UnsafeCell<[u8; RESERVE]>);

// SAFETY: each part is given out once, to one caller.
unsafe impl Sync for Reserve {}

static SET_ASIDE: Reserve = Reserve(UnsafeCell::new([0; RESERVE]));
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The system's memory, and what is set aside when there is none.
#[derive(Debug)]
pub struct Memory;

impl Memory {
    /// A part of what is set aside, all zeros; null where that is used up, too.
    #[cold]
    fn take(layout: Layout) -> *mut u8 {
        if layout.size() > MOST {
            return null_mut();
        }
        tracing_gpu::give_up();
        let begin = |taken: usize| taken.next_multiple_of(layout.align());
        let take = |taken: usize| begin(taken).checked_add(layout.size()).filter(|end| *end <= RESERVE);
        match TAKEN.fetch_update(Relaxed, Relaxed, take) {
            // SAFETY: the part lies inside.
            Ok(taken) if layout.align() <= ALIGNMENT => unsafe { SET_ASIDE.0.get().cast::<u8>().add(begin(taken)) },
            _ => null_mut(),
        }
    }

    fn is_set_aside(memory: *mut u8) -> bool {
        memory.addr().wrapping_sub(SET_ASIDE.0.get().addr()) < RESERVE
    }
}

// SAFETY: what the system gives is given back to it, and parts of what is set aside are given out once.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let memory = unsafe { System.alloc(layout) };
        if memory.is_null() { Self::take(layout) } else { memory }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if memory.is_null() { Self::take(layout) } else { memory }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if !Self::is_set_aside(memory) {
            // SAFETY: the caller's promise is passed on.
            unsafe { System.dealloc(memory, layout) };
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if !Self::is_set_aside(memory) {
            // SAFETY: the caller's promise is passed on.
            let moved = unsafe { System.realloc(memory, layout, size) };
            if !moved.is_null() {
                return moved;
            }
        } else if size <= layout.size() {
            return memory;
        }
        // SAFETY: the caller promises a size that is valid with this alignment.
        let moved = Self::take(unsafe { Layout::from_size_align_unchecked(size, layout.align()) });
        if !moved.is_null() {
            // SAFETY: both are at least that long, and do not overlap; the old one is given back once.
            unsafe {
                memory.copy_to_nonoverlapping(moved, layout.size().min(size));
                self.dealloc(memory, layout);
            }
        }
        moved
    }
}
