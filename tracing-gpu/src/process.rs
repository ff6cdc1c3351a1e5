//! What only the operating system can do: call us at exit and in handlers of signals, and tell how wide the terminal is and where we may write.
#![allow(unsafe_code)]

use std::io;
use std::path::Path;
use std::sync::{Once, OnceLock};

/// What runs when the process exits.
static EXIT_HOOK: OnceLock<extern "C" fn()> = OnceLock::new();

/// Sets what runs when the process exits. The first call counts. `hook` must do nothing the second time it runs.
pub(crate) fn set_exit_hook(hook: extern "C" fn()) {
    let _is_set = EXIT_HOOK.set(hook);
}

/// Registers the exit hook: it runs when the process ends by `process::exit` or by returning from `main`, and not on abort or a signal.
/// The first call counts.
pub(crate) fn at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(at_exit_again);
}

/// Registers the exit hook once more, so that it runs before everything that is registered so far.
pub(crate) fn at_exit_again() {
    let Some(&hook) = EXIT_HOOK.get() else { return };
    // SAFETY: `atexit` takes any function without arguments; `hook` is one, lives as long as the program, and does not
    // unwind (the compiler turns a panic that reaches the edge of an `extern "C"` function into an abort).
    let _refused = unsafe { libc::atexit(hook) }; // where there is no memory for one more entry, nothing is printed at exit
}

/// Has a signal take its default course where `condition` says so, which must itself be safe in a handler of signals.
#[cfg(feature = "signals")]
pub(crate) fn take_default_course_if(condition: fn() -> bool, signal: i32) -> io::Result<()> {
    let action = move || {
        if condition() {
            let _ends_it = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    // SAFETY: the action may run between any two instructions of the program. It calls the condition, of which there is one: it reads and writes
    // atomics, the process's number and a clock; and what is documented as safe there. None of it allocates, takes a lock or panics.
    unsafe { signal_hook::low_level::register(signal, action) }.map(drop)
}

/// The operating system's number of the calling thread; 0 where it has none.
#[cfg(target_os = "linux")]
pub(crate) fn thread_id() -> u32 {
    // SAFETY: takes nothing and returns a number.
    u32::try_from(unsafe { libc::gettid() }).unwrap_or(0)
}

/// The operating system's number of the calling thread: not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_id() -> u32 {
    0
}

/// Name of this machine; empty where it is not known.
#[cfg(unix)]
pub(crate) fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: `gethostname` writes at most as many bytes as it is told there are, into an array that is live; the last one is kept from it, so that a name
    // that fills the rest still ends in a zero.
    let answered = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) } == 0;
    let length = name.iter().position(|&byte| byte == 0).unwrap_or(0);
    if answered { String::from_utf8_lossy(&name[..length]).into_owned() } else { String::new() }
}

/// Name of this machine, as Windows tells it; empty where it is not known.
#[cfg(not(unix))]
pub(crate) fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Nanoseconds of the clock that [`Instant`](std::time::Instant) reads (CLOCK_MONOTONIC), which CUPTI's records are stamped with.
#[cfg(unix)]
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one struct; the clock exists on every Unix.
    let _always_there = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Nanoseconds of a clock: not known here.
#[cfg(not(unix))]
pub(crate) fn monotonic_ns() -> u64 {
    0
}

/// Whether this process may make files in a folder, by the error that it would meet.
#[cfg(unix)]
pub(crate) fn may_add_to(folder: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: `access` reads a text that ends in a zero, which is live; it changes nothing.
    match unsafe { libc::access(folder.as_ptr(), libc::W_OK | libc::X_OK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether there is such a folder: more is not known here.
#[cfg(not(unix))]
pub(crate) fn may_add_to(folder: &Path) -> io::Result<()> {
    std::fs::metadata(folder).map(drop)
}

/// Has writes to a pipe wait until there is room, where it was opened so as not to wait for its reader.
#[cfg(unix)]
pub(crate) fn wait_for_room(pipe: &std::fs::File) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: changes the flags of a descriptor that is open for as long as `pipe` lives; it was opened for writing alone, without others that can be set.
    match unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Columns of the terminal that standard error (2) or standard output (1) is, if it is one.
#[cfg(unix)]
pub(crate) fn terminal_columns(descriptor: i32) -> Option<usize> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: TIOCGWINSZ writes one `winsize` through the pointer, which is to a live one; on a descriptor that is not a terminal,
    // or not open, it fails and writes nothing.
    let answered = unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size) } == 0;
    (answered && size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Columns of the terminal: not known here.
#[cfg(not(unix))]
pub(crate) fn terminal_columns(_descriptor: i32) -> Option<usize> {
    None
}
