//! Converts the runtime's calls from C structures to rows of the calling thread.
//!
//! GCC's runtime does not name the source, but its caller is the place in question: the stack is walked up to the first
//! frame outside of the runtime. With GCC 12 and glibc 2.35 or later the walk takes no lock.
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
use crate::core::thread::engine::Engine;
use crate::parts::openacc::thread::{Key, Site};

/// The receiver of events; null while there is none.
static RECEIVER: AtomicPtr<Engine> = AtomicPtr::new(ptr::null_mut());

/// Addresses of the runtime's code; empty if it cannot be distinguished from the program's.
static RUNTIME: OnceCell<Range<usize>> = OnceCell::new();

/// The largest number of frames that are examined.
const DEEPEST: usize = 64;

pub(crate) fn take_over(engine: &'static Engine) {
    RECEIVER.store(ptr::from_ref(engine).cast_mut(), Release); // pairs with `receive`
}

/// Asks a runtime for all events that have rows.
pub(crate) fn register(register: extern "C" fn(c_int, OpenAccCallback, c_int)) {
    RUNTIME.get_or_init(|| {
        let is_program =
            |object: &Object| std::env::current_exe().is_ok_and(|program| program == Path::new(&object.path));
        Object::at(register as usize).filter(|object| !is_program(object)).map_or(0..0, |object| object.range)
    });
    events().for_each(|event| register(event, receive, REGISTER));
}

/// # Safety
///
/// For the time of the call, the first two arguments point to structures of `acc_prof.h` or are null.
unsafe extern "C" fn receive(info: *const c_void, event: *const c_void, _api: *const c_void) {
    // SAFETY: null, or an engine that lives as long as the process.
    let Some(engine) = (unsafe { RECEIVER.load(Acquire).as_ref::<'static>() }) else { return };
    let now = engine.session.clock.now();
    // SAFETY: the caller vouches for `info`. The structure begins with its event and its valid bytes.
    let number = unsafe { field::<c_int>(info, offset_of!(Info, event)) };
    let Some((kind, is_detailed, moment)) = number.and_then(kind_of) else { return };
    let Some(thread) = engine.thread() else {
        if engine.session.is_running() {
            engine.session.parts.openacc_unfollowed.fetch_add(1, Relaxed);
        }
        return;
    };
    let session = thread.session;
    if !session.statistics {
        return;
    }
    let log = thread.parts.openacc.get_or_init(Box::default);
    if moment == Moment::End {
        log.end(kind, now, &session.budget);
        return;
    }
    // SAFETY: the caller vouches for both pointers.
    let (site, detail) = unsafe { (site(info), is_detailed.then(|| text(event, offset_of!(Event, name))).flatten()) };
    let key = Key { kind, site, detail: detail.map(Cow::Borrowed) };
    match moment {
        Moment::Instant => log.instant(&key, &session.budget),
        Moment::Start | Moment::End => log.start(&key, || session.clock.now()),
    }
}

/// # Safety
///
/// As for [`receive`]. The result must be read before the call ends.
unsafe fn site<'a>(info: *const c_void) -> Site<'a> {
    // SAFETY: the caller vouches for `info`.
    let named = unsafe { (text(info, offset_of!(Info, source_file)), field::<c_int>(info, offset_of!(Info, line))) };
    match named {
        (Some(file), Some(line)) if line > 0 => Site::Line(Cow::Borrowed(file), line.unsigned_abs()),
        _ => caller().map_or(Site::Unknown, Site::Code),
    }
}

/// The return address of the present call of the runtime.
fn caller() -> Option<usize> {
    let runtime = RUNTIME.get().filter(|runtime| !runtime.is_empty())?;
    let (mut left, mut inside, mut found) = (DEEPEST, false, None);
    // SAFETY: a walk of the stack needs a lock only where the system's walk is not thread-safe, which is on Windows.
    // The closure only accesses the variables above.
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

/// The text to which a field points; `None` if it is empty.
///
/// # Safety
///
/// As for [`field`]. The field is null, or points to a text that outlives the result.
unsafe fn text<'a>(structure: *const c_void, offset: usize) -> Option<&'a CStr> {
    // SAFETY: the caller vouches for the field.
    let text = unsafe { field::<*const c_char>(structure, offset) }.filter(|text| !text.is_null())?;
    // SAFETY: the caller vouches for the text.
    Some(unsafe { CStr::from_ptr(text) }).filter(|text| !text.is_empty())
}

/// A field of a structure; `None` if the runtime has not filled it, or if the pointer is null.
///
/// # Safety
///
/// `structure` is null, or points to a structure of the interface. It begins with two numbers, and the second one is
/// the number of valid bytes. At `offset` it has a `T`, which is a number or a pointer.
unsafe fn field<T: Copy>(structure: *const c_void, offset: usize) -> Option<T> {
    const VALID_BYTES: usize = offset_of!(Info, valid_bytes);
    const { assert!(VALID_BYTES == offset_of!(Event, valid_bytes)) };
    if structure.is_null() {
        return None;
    }
    // SAFETY: the caller vouches that every such structure has this number.
    let valid_bytes = unsafe { structure.byte_add(VALID_BYTES).cast::<c_int>().read() };
    let is_there = usize::try_from(valid_bytes).is_ok_and(|valid| valid >= offset + size_of::<T>());
    // SAFETY: `valid_bytes` says that the runtime has filled it. It is aligned, because a C compiler placed it.
    is_there.then(|| unsafe { structure.byte_add(offset).cast::<T>().read() })
}
