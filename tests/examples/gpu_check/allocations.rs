//! Counts what the threads allocate.
#![allow(unsafe_code)] // an allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::{AddAssign, Sub};

/// Bytes of a page of a duration histogram. A page is allocated, at any time, for the first duration of a row in an
/// octave.
const PAGE: usize = 2_048;

/// Allocations of a thread.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allocations {
    /// Allocations with the size of a histogram's page.
    pub(crate) pages: u64,
    pub(crate) others: u64,
}

thread_local! {
    static OF_THIS_THREAD: Cell<Allocations> = const { Cell::new(Allocations { pages: 0, others: 0 }) };
}

impl Allocations {
    pub(crate) fn of_this_thread() -> Self {
        OF_THIS_THREAD.get()
    }
}

impl Sub for Allocations {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self { pages: self.pages - earlier.pages, others: self.others - earlier.others }
    }
}

impl AddAssign for Allocations {
    fn add_assign(&mut self, more: Self) {
        self.pages += more.pages;
        self.others += more.others;
    }
}

struct Counting;

// SAFETY: every call goes on to the system's allocator with unchanged arguments; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let is_page = layout.size() == PAGE;
        let mut all = OF_THIS_THREAD.get();
        all += Allocations { pages: u64::from(is_page), others: u64::from(!is_page) };
        OF_THIS_THREAD.set(all);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
