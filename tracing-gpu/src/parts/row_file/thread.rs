//! Rows in the session's row file, which is read where the process was killed.
#![allow(unsafe_code)]

#[cfg(all(target_os = "linux", feature = "command"))]
pub(crate) mod call_row;
#[cfg(all(target_os = "linux", feature = "command"))]
pub(crate) mod durations;
#[cfg(all(target_os = "linux", feature = "command"))]
pub(crate) mod row;
#[cfg(all(target_os = "linux", feature = "command"))]
pub(crate) mod stack;
#[cfg(all(target_os = "linux", feature = "command"))]
pub(crate) mod state;

use std::ops::Range;

use crate::core::session::Session;
use crate::core::thread::row::Row;
use crate::parts::calls::thread::call_row::CallRow;
use crate::parts::row_file::file::Lost;
use crate::process;

/// Maps the first bytes of a state to the session's row file, if it has one. Its rows begin at `rows`.
///
/// # Safety
/// The memory is of whole pages, has that many bytes, and nobody uses it yet.
pub(crate) unsafe fn map_state(session: &Session, thread: u32, (place, bytes): (*mut u8, usize), rows: usize) {
    let Some(file) = &session.parts.row_file else { return };
    // SAFETY: the caller vouches for the memory.
    match unsafe { file.map_more(bytes, Some(place)) } {
        Some((offset, _)) => {
            session.log_open(thread, offset);
            session.log_rows(thread, 0, offset + rows as u64);
        }
        None => file.count(Lost::Rows),
    }
}

/// Rows with these numbers in the session's row file, if it has one.
pub(crate) fn rows_in_file(session: &Session, thread: u32, rows: Range<usize>) -> Option<&'static [Row]> {
    let (offset, rows_there) = new_in_file(session, rows.len())?;
    session.log_rows(thread, rows.start, offset);
    Some(rows_there)
}

/// Rows in that file for new kinds of calls.
pub(crate) fn call_rows_in_file(session: &Session) -> Option<&'static [CallRow]> {
    const AT_ONCE: usize = 8; // a page
    new_in_file(session, AT_ONCE).map(|(_, rows)| rows)
}

/// New rows in the file, which fill whole pages, and their offset in the file.
fn new_in_file<R: Default + 'static>(session: &Session, count: usize) -> Option<(u64, &'static [R])> {
    let file = session.parts.row_file.as_ref()?;
    // SAFETY: new memory of whole pages with room for these rows. Each row is written before it is read.
    unsafe {
        let Some((offset, memory)) = file.map_more(count * size_of::<R>(), None) else {
            file.count(Lost::Rows);
            return None;
        };
        #[cfg(unix)]
        process::show_to_leak_checker(memory.cast(), count * size_of::<R>());
        let first = memory.cast::<R>();
        (0..count).for_each(|row| first.add(row).write(R::default()));
        Some((offset, std::slice::from_raw_parts(first, count)))
    }
}
