//! Constructs the parts of a thread's state in place.
#![allow(unsafe_code)]

#[cfg(feature = "cuda")]
use std::sync::atomic::AtomicU32;
use std::sync::atomic::{AtomicU64, AtomicUsize};

#[cfg(any(feature = "injection", feature = "cuda"))]
use once_cell::sync::OnceCell;
#[cfg(feature = "cuda")]
use parking_lot::Mutex;

use super::OfThread;
use crate::core::chunked::Chunked;
use crate::core::session::Session;
use crate::in_place::write_fields;
use crate::parts::calls::session::table::Spare;
use crate::parts::launches::thread::launch_log::LaunchLog;
#[cfg(feature = "cuda")]
use crate::parts::launches::thread::notes::Notes;
use crate::parts::streams::thread::open_pairs::OpenPairs;
use crate::parts::thread::CallRows;
use crate::parts::timeline::thread::numbers::Numbers;
use crate::parts::timeline::thread::tape::Tape;
use crate::parts::waits::thread::thread_waits::ThreadWaits;

impl OfThread {
    /// Writes all parts.
    ///
    /// # Safety
    /// `place` has room for them, its memory is zeroed, and nobody reads it meanwhile.
    pub(crate) unsafe fn write(place: *mut Self, session: &'static Session) {
        // SAFETY: the caller vouches for the room. The processor time consists of atomic numbers alone, and is empty if
        // these are 0.
        unsafe {
            write_logs(place);
            write_fields!(place, OfThread without (pairs, launches, cpu_time), {
                tape: Tape::new(session.parts.tape_room.as_ref()),
                numbers: session.records_numbers().then(new_numbers),
                spare_calls: Spare::default(),
                waits: ThreadWaits::default(),
                call_rows: CallRows::new(),
                #[cfg(feature = "injection")]
                openacc: OnceCell::new(),
                #[cfg(feature = "cuda")]
                helper: OnceCell::new(),
            });
        }
    }
}

/// Writes the logs of launches and of timed ranges.
///
/// # Safety
/// As for `OfThread::write`.
#[inline(never)]
unsafe fn write_logs(place: *mut OfThread) {
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
