//! Constructs a state in place, part by part, in mapped memory.
//!
//! A state is larger than the whole stack of many a coroutine, so it is never on a stack. Its memory is mapped:
//! untouched pages take no memory.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64};

use parking_lot::Mutex;

use super::ThreadState;
use crate::core::chunked::Chunked;
use crate::core::session::Session;
use crate::core::thread::gate::{Gate, RowsWindow};
use crate::core::thread::row::Row;
use crate::core::thread::rows::{FIRST_ROWS, Rows};
use crate::core::thread::slab::{END, Slab};
use crate::core::thread::stack::Stack;
use crate::in_place::write_fields;
use crate::parts::thread::{OfThread, PartFlags, map_state};
use crate::process;

/// Bytes of a state that may lie in a file: its open ranges, and its first rows.
const IN_FILE: usize = offset_of!(ThreadState, rows) + FIRST_ROWS * size_of::<Row>();
const _: () = assert!(offset_of!(ThreadState, stack) < offset_of!(ThreadState, rows));

impl ThreadState {
    /// A state that stays for good; `None` if there is no memory.
    pub(crate) fn new(session: &'static Session, index: u32, choose_paths: fn()) -> Option<&'static Self> {
        let place: *mut Self = process::map_zeroed(Layout::new::<Self>())?.cast();
        // SAFETY: the memory is zeroed, has room for a state, is aligned, stays, and belongs to nobody else. Each field
        // is written, here or by the two functions, or may be zero: the two caches consist of atomic numbers alone, and
        // are empty if these are 0.
        unsafe {
            map_state(session, index, (place.cast(), IN_FILE), offset_of!(Self, rows));
            write_tables(place);
            OfThread::write(&raw mut (*place).parts, session);
            write_fields!(place, ThreadState
                without (children, remembered, rows, stack, slab, parts), {
                gate: Gate::closed(),
                index: index,
                nvtx: session.nvtx,
                statistics: session.statistics,
                flags: PartFlags::new(session),
                thresholds: session.thresholds,
                session: session,
                window: RowsWindow::new(session.window()),
                known: Mutex::default(),
                told: Mutex::default(),
                name: Mutex::default(),
                choose_paths: choose_paths,
                left: AtomicU64::new(session.front_end.left()),
            });
            Some(&*place)
        }
    }
}

/// Writes the large parts, entry by entry.
///
/// # Safety
/// `place` has room for a state, and nobody reads it meanwhile.
#[inline(never)]
unsafe fn write_tables(place: *mut ThreadState) {
    // SAFETY: the caller vouches for the room.
    unsafe {
        let (rows, stack, slab) = (&raw mut (*place).rows, &raw mut (*place).stack, &raw mut (*place).slab);
        Chunked::new_at(&raw mut (*rows).rows);
        write_fields!(rows, Rows without (rows), { count: AtomicU32::new(0), });
        Chunked::new_at(&raw mut (*stack).frames);
        Chunked::new_at(&raw mut (*stack).calls);
        write_fields!(stack, Stack without (frames, calls), { depth: AtomicU32::new(0), noted: AtomicU32::new(0), });
        Chunked::new_at(&raw mut (*slab).slots);
        write_fields!(slab, Slab without (slots), {
            free: AtomicU32::new(END),
            unused: AtomicU32::new(0),
            returned: AtomicU32::new(END),
        });
    }
}
