//! The runtime's calls: from the C structures to the rows of the calling thread.
//!
//! A runtime that does not name the source (GCC's) was called from the place in question: the stack is walked up to the
//! first frame outside of the runtime. With GCC 12 and glibc 2.35 or later that takes no lock.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::ops::Range;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use once_cell::sync::OnceCell;

use super::abi::{Event, Info, Moment, OpenAccCallback, REGISTER, events, kind_of};
use super::source::Object;
use crate::thread::engine::Engine;
use crate::thread::openacc::{Key, Site};

/// Who gets the events; null as long as nobody does.
static RECEIVER: AtomicPtr<Engine> = AtomicPtr::new(ptr::null_mut());

/// Where the code of the runtime is; empty where it cannot be told from that of the program.
static RUNTIME: OnceCell<Range<usize>> = OnceCell::new();

/// Frames that are looked at.
const DEEPEST: usize = 64;

pub(super) fn take_over(engine: &'static Engine) {
    RECEIVER.store(ptr::from_ref(engine).cast_mut(), Release); // pairs with `receive`
}

/// Asks a runtime for all events that have rows.
pub(super) fn register(register: extern "C" fn(c_int, OpenAccCallback, c_int)) {
    RUNTIME.get_or_init(|| {
        let is_program =
            |object: &Object| std::env::current_exe().is_ok_and(|program| program == Path::new(&object.path));
        Object::at(register as usize).filter(|object| !is_program(object)).map_or(0..0, |object| object.range)
    });
    events().for_each(|event| register(event, receive, REGISTER));
}

/// # Safety
///
/// The first two arguments point to the structures of `acc_prof.h`, or are null, for the time of the call.
unsafe extern "C" fn receive(info: *const c_void, event: *const c_void, _api: *const c_void) {
    // SAFETY: null, or an engine that lives as long as the process.
    let Some(engine) = (unsafe { RECEIVER.load(Acquire).as_ref::<'static>() }) else { return };
    let now = engine.session.clock.now();
    // SAFETY: as the caller says; the structure begins with its event and its valid bytes.
    let number = unsafe { field::<c_int>(info, offset_of!(Info, event)) };
    let Some((kind, is_detailed, moment)) = number.and_then(kind_of) else { return };
    let Some(thread) = engine.thread() else {
        if engine.session.is_running() {
            engine.session.losses.openacc_unfollowed.fetch_add(1, Relaxed);
        }
        return;
    };
    let session = thread.session;
    if !session.statistics {
        return;
    }
    let log = thread.openacc.get_or_init(Box::default);
    if moment == Moment::End {
        log.end(kind, now, &session.budget);
        return;
    }
    // SAFETY: as the caller says.
    let (site, detail) = unsafe { (site(info), is_detailed.then(|| text(event, offset_of!(Event, name))).flatten()) };
    let key = Key { kind, site, detail: detail.map(Cow::Borrowed) };
    match moment {
        Moment::Instant => log.instant(&key, &session.budget),
        Moment::Start | Moment::End => log.start(&key, || session.clock.now()),
    }
}

/// # Safety
///
/// That of [`receive`]; what is returned is read before its end.
unsafe fn site<'a>(info: *const c_void) -> Site<'a> {
    // SAFETY: as the caller says.
    let named = unsafe { (text(info, offset_of!(Info, source_file)), field::<c_int>(info, offset_of!(Info, line))) };
    match named {
        (Some(file), Some(line)) if line > 0 => Site::Line(Cow::Borrowed(file), line.unsigned_abs()),
        _ => caller().map_or(Site::Unknown, Site::Code),
    }
}

/// Where the call of the runtime that we are in returns to.
fn caller() -> Option<usize> {
    let runtime = RUNTIME.get().filter(|runtime| !runtime.is_empty())?;
    let (mut left, mut inside, mut found) = (DEEPEST, false, None);
    // SAFETY: the crate asks for a lock where the system's walk of the stack is not safe for threads, which is on
    // Windows. The closure only reads and writes what is above.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            let address = frame.ip() as usize;
            if runtime.contains(&address) {
                inside = true;
            } else if inside {
                found = Some(address);
            }
            left -= 1;
            found.is_none() && left > 0
        });
    }
    found
}

/// A text that a field points to; `None` where it is empty.
///
/// # Safety
///
/// That of [`field`], of a field that is null or points to a text which outlives what is returned.
unsafe fn text<'a>(structure: *const c_void, offset: usize) -> Option<&'a CStr> {
    // SAFETY: as the caller says.
    let text = unsafe { field::<*const c_char>(structure, offset) }.filter(|text| !text.is_null())?;
    // SAFETY: as the caller says.
    Some(unsafe { CStr::from_ptr(text) }).filter(|text| !text.is_empty())
}

/// A field of a structure that the runtime has filled so far; `None` where it has not, and of a null pointer.
///
/// # Safety
///
/// `structure` is null, or points to a structure of the interface. It begins with two numbers, and the second one
/// says how many bytes of it are there. At the offset it has a `T`, which is a number or a pointer.
unsafe fn field<T: Copy>(structure: *const c_void, offset: usize) -> Option<T> {
    const VALID_BYTES: usize = offset_of!(Info, valid_bytes);
    const { assert!(VALID_BYTES == offset_of!(Event, valid_bytes)) };
    if structure.is_null() {
        return None;
    }
    // SAFETY: as the caller says, every such structure has this number.
    let valid_bytes = unsafe { structure.byte_add(VALID_BYTES).cast::<c_int>().read() };
    let is_there = usize::try_from(valid_bytes).is_ok_and(|valid| valid >= offset + size_of::<T>());
    // SAFETY: within what the runtime has filled, as `valid_bytes` says; aligned, since a C compiler placed it.
    is_there.then(|| unsafe { structure.byte_add(offset).cast::<T>().read() })
}
