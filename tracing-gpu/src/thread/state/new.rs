//! Constructs a state in place, part by part, in mapped memory.
//!
//! A state is larger than the whole stack of many a coroutine, so it is never on a stack. Its memory is mapped:
//! untouched pages take no memory.
#![allow(unsafe_code)]

use std::alloc::Layout;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

#[cfg(any(feature = "injection", feature = "cuda"))]
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::ThreadState;
use crate::chunked::Chunked;
use crate::parts::calls::session::table::Spare;
use crate::parts::cpu_time::thread::Credits;
use crate::parts::launches::thread::launch_log::LaunchLog;
#[cfg(feature = "cuda")]
use crate::parts::launches::thread::notes::Notes;
use crate::parts::row_file::file::Lost;
use crate::parts::streams::thread::open_pairs::OpenPairs;
use crate::parts::timeline::thread::numbers::Numbers;
use crate::parts::timeline::thread::tape::Tape;
use crate::parts::waits::thread::thread_waits::ThreadWaits;
use crate::process;
use crate::session::Session;
use crate::thread::gate::{Gate, RowsWindow};
use crate::thread::row::Row;
use crate::thread::rows::{CallRows, FIRST_ROWS, Rows};
use crate::thread::slab::{END, Slab};
use crate::thread::stack::Stack;

/// Bytes of a state in a row file: its open ranges, and its first rows.
const IN_FILE: usize = offset_of!(ThreadState, rows) + FIRST_ROWS * size_of::<Row>();
const _: () = assert!(offset_of!(ThreadState, stack) < offset_of!(ThreadState, rows));

/// Writes the fields of a struct to its place, one by one. The fields named first are written elsewhere, or keep the
/// zeros of the memory. The compiler reports a forgotten field.
macro_rules! write_fields {
    ($place:expr, $type:ident without ($($other:ident),*), {
        $($(#[$condition:meta])? $field:ident: $value:expr,)*
    }) => {{
        let place: *mut $type = $place;
        let _all_fields = |whole: &$type| {
            let $type { $($(#[$condition])? $field: _,)* $($other: _,)* } = whole;
        };
        $($(#[$condition])? (&raw mut (*place).$field).write($value);)*
    }};
}

impl ThreadState {
    /// A state that stays for good; `None` if there is no memory.
    pub(crate) fn new(session: &'static Session, index: u32, choose_paths: fn()) -> Option<&'static Self> {
        let place: *mut Self = process::map_zeroed(Layout::new::<Self>())?.cast();
        // SAFETY: the memory is zeroed, has room for a state, is aligned, stays, and belongs to nobody else. Each field
        // is written, here or by the two functions, or may be zero: the two caches and the processor time consist of
        // atomic numbers alone, and are empty if these are 0.
        unsafe {
            if let Some(file) = &session.parts.row_file {
                match file.map_more(IN_FILE, Some(place.cast())) {
                    Some((offset, _)) => {
                        session.log_open(index, offset);
                        session.log_rows(index, 0, offset + offset_of!(Self, rows) as u64);
                    }
                    None => file.count(Lost::Rows),
                }
            }
            write_tables(place);
            write_logs(place);
            write_fields!(place, ThreadState
                without (children, remembered, rows, stack, slab, pairs, launches, cpu_time), {
                gate: Gate::closed(),
                index: index,
                nvtx: session.nvtx,
                statistics: session.statistics,
                is_taped: session.parts.tape_room.is_some(),
                has_untracked: AtomicBool::new(false),
                credits: Credits::new(session.parts.on_cpu, &session.clock),
                thresholds: session.thresholds,
                session: session,
                window: RowsWindow::new(session.window()),
                known: Mutex::default(),
                told: Mutex::default(),
                tape: Tape::new(session.parts.tape_room.as_ref()),
                numbers: session.records_numbers().then(new_numbers),
                spare_calls: Spare::default(),
                woken: AtomicU64::new(0),
                waits: ThreadWaits::default(),
                has_endings: AtomicBool::new(false),
                looks_again: AtomicBool::new(false),
                call_rows: CallRows::new(),
                name: Mutex::default(),
                choose_paths: choose_paths,
                left: AtomicU64::new(session.front_end.left()),
                #[cfg(feature = "injection")]
                openacc: OnceCell::new(),
                #[cfg(feature = "cuda")]
                helper: OnceCell::new(),
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

/// Writes the logs of launches and of timed ranges.
///
/// # Safety
/// As for `write_tables`.
#[inline(never)]
unsafe fn write_logs(place: *mut ThreadState) {
    // SAFETY: the caller vouches for the room.
    unsafe {
        let (pairs, launches) = (&raw mut (*place).pairs, &raw mut (*place).launches);
        Chunked::new_at(&raw mut (*pairs).open);
        write_fields!(pairs, OpenPairs without (open), { count: AtomicUsize::new(0), });
        #[cfg(feature = "cuda")]
        {
            Chunked::new_at(&raw mut (*launches).open);
            write_fields!(launches, LaunchLog without (open), {
                lifetimes: Mutex::default(),
                notes: Notes::default(),
                next_number: AtomicU64::new(0),
                lifetimes_with_calls: AtomicU32::new(0),
            });
        }
        #[cfg(not(feature = "cuda"))]
        launches.write(LaunchLog::new());
    }
}

/// Makes the numbers for a timeline.
#[inline(never)]
fn new_numbers() -> Box<Numbers> {
    let mut place = Box::<Numbers>::new_uninit();
    let numbers = place.as_mut_ptr();
    // SAFETY: there is room for one, and all of it is written.
    unsafe {
        Chunked::new_at(&raw mut (*numbers).created);
        Chunked::new_at(&raw mut (*numbers).open);
        write_fields!(numbers, Numbers without (created, open), {
            next: AtomicU64::new(0),
            end: AtomicU64::new(0),
            owner: AtomicU64::new(0),
        });
        place.assume_init()
    }
}
