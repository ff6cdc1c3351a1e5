//! Keeps SQLite's descriptors apart from the program's. A program may close all descriptors, as daemons do, and open
//! files of its own, which get the same numbers: SQLite would write its pages into them.
//!
//! SQLite opens the files of the database through [`vfs`], which gives them high numbers and remembers the file of each
//! number. Each write and each close first checks the number. If it is now that of another file, nothing happens to
//! that file. SQLite has one table of system calls for all databases of the process, so the calls here also serve
//! databases of a Rust program that links the same SQLite: they pass on calls with other descriptors.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering::Relaxed};

use rusqlite::ffi;

/// The lowest number that a descriptor of a database gets.
const HIGH: c_int = 512;
/// A place whose descriptor is not open yet.
const OPENING: c_int = -1;
/// A place that is free.
const FREE: c_int = -2;

/// SQLite's own file layer, from which ours is derived.
const UNIX: &CStr = c"unix";
const OURS: &CStr = c"tracing-gpu";

/// The open files of databases, two for each database. Without a free place a file is not opened. There is no lock,
/// because a fork may happen in the middle of any call.
static FILES: [OpenFile; 64] = [const { OpenFile::new() }; 64];

struct OpenFile {
    descriptor: AtomicI32,
    /// While it is opened: the address of the path that SQLite passes to the system.
    path: AtomicPtr<c_char>,
    device: AtomicU64,
    inode: AtomicU64,
}

impl OpenFile {
    const fn new() -> Self {
        Self {
            descriptor: AtomicI32::new(FREE),
            path: AtomicPtr::new(null_mut()),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
        }
    }

    /// Whether its descriptor still is that of its file.
    fn is_there(&self) -> bool {
        let found = identity(self.descriptor.load(Relaxed));
        found == Some((self.device.load(Relaxed), self.inode.load(Relaxed)))
    }
}

/// The name by which SQLite opens files under numbers of their own.
pub(super) fn vfs() -> &'static str {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(register);
    // SAFETY: a text that ends in NUL.
    let name = if unsafe { ffi::sqlite3_vfs_find(OURS.as_ptr()) }.is_null() { UNIX } else { OURS };
    name.to_str().unwrap_or_default()
}

/// Whether the program has closed the descriptor of a database that is open.
pub(super) fn any_was_closed() -> bool {
    FILES.iter().any(|place| place.descriptor.load(Relaxed) >= 0 && !place.is_there())
}

fn register() {
    // SAFETY: a text that ends in NUL.
    let Some(unix) = (unsafe { ffi::sqlite3_vfs_find(UNIX.as_ptr()).as_ref() }) else { return };
    let Some(replace) = unix.xSetSystemCall else { return };
    let calls: [(&CStr, *const ()); 6] = [
        (c"open", open as *const ()),
        (c"close", close as *const ()),
        (c"write", write as *const ()),
        (c"pwrite", pwrite as *const ()),
        (c"pwrite64", pwrite as *const ()),
        (c"ftruncate", ftruncate as *const ()),
    ];
    for (name, call) in calls {
        // SAFETY: each function has the signature by which SQLite calls that of this name (`off_t` has 64 bits here),
        // and does the same for descriptors that are not ours. The method takes any VFS of the kind `unix`.
        unsafe {
            let call = std::mem::transmute::<*const (), ffi::sqlite3_syscall_ptr>(call);
            replace(std::ptr::from_ref(unix).cast_mut(), name.as_ptr(), call);
        }
    }
    let ours = ffi::sqlite3_vfs { zName: OURS.as_ptr(), pNext: null_mut(), xOpen: Some(open_file), ..*unix };
    // SAFETY: it lives as long as the process. All its other methods are those of `unix`, with the data that these use.
    let _not_registered = unsafe { ffi::sqlite3_vfs_register(Box::leak(Box::new(ours)), 0) };
}

/// Opens a file of a database as `unix` does, in a place of its own.
///
/// # Safety
/// SQLite calls it as the method `xOpen`.
unsafe extern "C" fn open_file(
    vfs: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    opened_flags: *mut c_int,
) -> c_int {
    // SAFETY: `path` is null or a text. `unix` was there when this method was registered, and stays.
    let unix = unsafe {
        (*file).pMethods = null(); // until it is open
        ffi::sqlite3_vfs_find(UNIX.as_ptr()).as_ref()
    };
    let Some(open) = unix.and_then(|unix| unix.xOpen) else { return ffi::SQLITE_CANTOPEN };
    let free = |place: &&OpenFile| place.descriptor.compare_exchange(FREE, OPENING, Relaxed, Relaxed).is_ok();
    let Some(place) = FILES.iter().find(free) else { return ffi::SQLITE_CANTOPEN };
    place.path.store(path.cast_mut(), Relaxed);
    // SAFETY: the arguments are SQLite's own; `vfs` is `unix` but for its name and this method.
    let result = unsafe { open(vfs, path, file, flags, opened_flags) };
    place.path.store(null_mut(), Relaxed);
    let _not_opened = place.descriptor.compare_exchange(OPENING, FREE, Relaxed, Relaxed);
    result
}

/// SQLite's `open`.
///
/// # Safety
/// `path` is a text that ends in NUL.
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let low = unsafe { libc::open(path, flags, mode) };
    let is_ours = |place: &&OpenFile| std::ptr::eq(place.path.load(Relaxed), path);
    let Some(place) = FILES.iter().find(is_ours).filter(|_| low >= 0) else { return low };
    // SAFETY: makes a descriptor of the one that was opened above.
    let moved = |lowest: c_int| unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, lowest) };
    let descriptor = [HIGH, 3].into_iter().map(moved).find(|moved| *moved >= 0).unwrap_or(low);
    if descriptor != low {
        // SAFETY: opened above. No lock is lost: the file was not locked since.
        unsafe { libc::close(low) };
    }
    if let Some((device, inode)) = identity(descriptor) {
        place.device.store(device, Relaxed);
        place.inode.store(inode, Relaxed);
    }
    place.descriptor.store(descriptor, Relaxed);
    descriptor
}

/// SQLite's `close`. Leaves a descriptor of ours open if it now belongs to another file.
extern "C" fn close(descriptor: c_int) -> c_int {
    if let Some(place) = place(descriptor) {
        let is_there = place.is_there();
        place.descriptor.store(FREE, Relaxed);
        if !is_there {
            return 0;
        }
    }
    // SAFETY: the caller's descriptor.
    unsafe { libc::close(descriptor) }
}

/// SQLite's `write`.
///
/// # Safety
/// `bytes` points to `count` bytes.
unsafe extern "C" fn write(descriptor: c_int, bytes: *const c_void, count: usize) -> isize {
    // SAFETY: the caller's promise.
    if may_change(descriptor) { unsafe { libc::write(descriptor, bytes, count) } } else { -1 }
}

/// SQLite's `pwrite`.
///
/// # Safety
/// `bytes` points to `count` bytes.
unsafe extern "C" fn pwrite(descriptor: c_int, bytes: *const c_void, count: usize, at: libc::off_t) -> isize {
    // SAFETY: the caller's promise.
    if may_change(descriptor) { unsafe { libc::pwrite(descriptor, bytes, count, at) } } else { -1 }
}

/// SQLite's `ftruncate`.
extern "C" fn ftruncate(descriptor: c_int, length: libc::off_t) -> c_int {
    // SAFETY: the caller's descriptor.
    if may_change(descriptor) { unsafe { libc::ftruncate(descriptor, length) } } else { -1 }
}

/// The place of the database file with this descriptor.
fn place(descriptor: c_int) -> Option<&'static OpenFile> {
    FILES.iter().find(|place| descriptor >= 0 && place.descriptor.load(Relaxed) == descriptor)
}

/// Whether the descriptor is none of ours, or still that of our file. If neither holds, sets `errno`.
fn may_change(descriptor: c_int) -> bool {
    let may = place(descriptor).is_none_or(OpenFile::is_there);
    if !may {
        // SAFETY: the calling thread's own number.
        unsafe { *libc::__errno_location() = libc::EBADF };
    }
    may
}

/// The file of a descriptor; `None` where it is closed.
fn identity(descriptor: c_int) -> Option<(u64, u64)> {
    // SAFETY: zeros are a valid `stat`, which the call fills.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        (libc::fstat(descriptor, &raw mut found) == 0).then_some((found.st_dev, found.st_ino))
    }
}
