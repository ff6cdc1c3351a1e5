//! What only the operating system can do: call us at exit, in handlers of signals and after a fork, and tell who and
//! where we are, how wide the terminal is and where we may write.
//!
//! `libc` makes the calls: a crate that wraps them takes longer to build than these few wrappers.
#![allow(unsafe_code)]

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Once, OnceLock};

/// What runs when the process exits.
static EXIT_HOOK: OnceLock<extern "C" fn()> = OnceLock::new();

/// Sets what runs when the process exits. The first call counts. `hook` must do nothing the second time it runs.
pub(crate) fn set_exit_hook(hook: extern "C" fn()) {
    let _is_set = EXIT_HOOK.set(hook);
}

/// Registers the exit hook: it runs when the process ends by `process::exit` or by returning from `main`, and not on
/// abort or a signal. The first call counts.
pub(crate) fn at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(at_exit_again);
}

/// Registers the exit hook once more, so that it runs before everything that is registered so far.
pub(crate) fn at_exit_again() {
    let Some(&hook) = EXIT_HOOK.get() else { return };
    // SAFETY: `atexit` takes any function without arguments; `hook` is one, lives as long as the program, and does not
    // unwind (the compiler turns a panic that reaches the edge of an `extern "C"` function into an abort).
    // Where there is no memory for one more entry, nothing is printed at exit.
    let _refused = unsafe { libc::atexit(hook) };
}

/// The process that was forked off last on the way to this one, where [`watch_forks`] was called before; 0 in others.
static CHILD: AtomicU32 = AtomicU32::new(0);

/// Whether this process was forked off the one that has this id. If another process has the id by now, it was not.
#[inline]
pub(crate) fn is_child_of(process: u32) -> bool {
    let child = CHILD.load(Relaxed);
    child != 0 && child != process
}

/// Sleeps for so long, less than a second, or until a signal comes. Whether one came.
#[cfg(not(unix))]
pub(crate) fn sleep(time: std::time::Duration) -> bool {
    std::thread::sleep(time);
    false
}

/// Sleeps for so long, less than a second, or until a signal comes. Whether one came.
#[cfg(unix)]
pub(crate) fn sleep(time: std::time::Duration) -> bool {
    let time = libc::timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    // SAFETY: reads one struct.
    let slept = unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
    slept != 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
}

/// Whether this process, or one that it was forked off, has given up measuring.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// From now on nothing is measured, printed or written: there is no memory left. Safe anywhere, even in an allocator.
#[doc(hidden)]
pub fn give_up() {
    GIVEN_UP.store(true, Relaxed);
}

/// Whether there was no memory left.
#[doc(hidden)]
#[inline]
pub fn has_given_up() -> bool {
    GIVEN_UP.load(Relaxed)
}

/// From now on a forked child knows that it is one, and calls `hook` before it goes on, which may do nothing but store:
/// any lock may be held by a thread that does not exist in the child. The first call counts.
#[cfg(unix)]
pub(crate) fn watch_forks(hook: extern "C" fn()) {
    if CHILD_HOOK.set(hook).is_ok() {
        // SAFETY: the function takes no arguments, lives as long as the program, does not unwind (a panic at the edge
        // of an `extern "C"` function aborts), and makes one system call besides its stores.
        let _no_memory = unsafe { libc::pthread_atfork(None, None, Some(begin_child)) };
    }
}

/// What a child calls.
#[cfg(unix)]
static CHILD_HOOK: OnceLock<extern "C" fn()> = OnceLock::new();

/// This process is a child of one that watches forks. For one that was made by the system call alone,
/// which calls nothing.
#[cfg(unix)]
pub extern "C" fn begin_child() {
    CHILD.store(std::process::id(), Relaxed);
    if let Some(hook) = CHILD_HOOK.get() {
        hook();
    }
}

/// There are no forks here.
#[cfg(not(unix))]
pub(crate) fn watch_forks(_hook: extern "C" fn()) {}

/// What handles a signal: it gets the signal, who sent it, and what was interrupted.
#[cfg(all(unix, feature = "signals"))]
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Has this function handle a signal. The function must be safe in a handler of signals.
#[cfg(all(unix, feature = "signals"))]
pub(crate) fn handle_signal(signal: i32, handler: Handler) -> io::Result<()> {
    // SAFETY: zeros are a valid `sigaction`, whose mask is empty. The handler has the signature that goes with these
    // flags, lives as long as the program, and is safe in a handler: our caller promises it.
    let refused = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_SIGINFO;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a signal takes its default course: nobody handles or ignores it. A handler of signals may ask.
#[cfg(all(unix, feature = "signals"))]
pub(crate) fn takes_default_course(signal: i32) -> bool {
    handler_of(signal) == libc::SIG_DFL
}

/// Whether this function is what handles a signal. A handler of signals may ask.
#[cfg(all(unix, feature = "signals"))]
pub(crate) fn is_handled_by(signal: i32, handler: Handler) -> bool {
    handler_of(signal) == handler as *const () as libc::sighandler_t
}

#[cfg(all(unix, feature = "signals"))]
fn handler_of(signal: i32) -> libc::sighandler_t {
    // SAFETY: zeros are a valid `sigaction`. Nothing is set, and one struct is written.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        action.sa_sigaction
    }
}

/// Has a signal take its default course now, on this thread. A handler of signals may call this.
#[cfg(all(unix, feature = "signals"))]
pub(crate) fn take_default_course(signal: i32) {
    // SAFETY: POSIX lists all four functions as safe in a handler. Zeros are a valid set of signals.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
        // A handler runs with its signal blocked.
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// Whether this process sent itself the signal, by `raise` or `kill`. For a handler of signals, with what it got.
#[cfg(all(unix, feature = "signals"))]
pub(crate) fn is_from_itself(info: *const libc::siginfo_t) -> bool {
    const BY_RAISE: i32 = -6; // `SI_TKILL` of Linux
    let is_sent = |code| matches!(code, libc::SI_USER | libc::SI_QUEUE | BY_RAISE);
    // SAFETY: null, or what the system gives a handler. With these codes the sender is in it.
    unsafe {
        info.as_ref().is_some_and(|info| is_sent(info.si_code) && info.si_pid().cast_unsigned() == std::process::id())
    }
}

/// Holds up the calling thread. A handler of signals may call this.
#[cfg(all(unix, feature = "signals"))]
pub(crate) fn sleep_in_handler(seconds: u8) {
    // SAFETY: POSIX lists the function as safe in a handler; it writes what is left to where it reads.
    unsafe {
        let mut left = libc::timespec { tv_sec: seconds.into(), tv_nsec: 0 };
        while libc::nanosleep(&raw const left, &raw mut left) != 0 {}
    }
}

/// Has a thread sleep until a handler of signals rings. It is memory alone: a program may close any descriptor.
#[cfg(all(unix, feature = "signals"))]
pub(crate) struct Bell(std::cell::UnsafeCell<std::mem::MaybeUninit<libc::sem_t>>);

#[cfg(all(unix, feature = "signals"))]
// SAFETY: a semaphore is for several threads.
unsafe impl Sync for Bell {}

#[cfg(all(unix, feature = "signals"))]
impl Bell {
    pub(crate) const fn new() -> Self {
        Self(std::cell::UnsafeCell::new(std::mem::MaybeUninit::zeroed()))
    }

    /// Is called before the other two, and while nobody is inside of them.
    pub(crate) fn hang(&'static self) -> io::Result<()> {
        // SAFETY: room for a semaphore that stays where it is.
        match unsafe { libc::sem_init(self.0.get().cast(), 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A handler of signals may call this.
    pub(crate) fn ring(&'static self) {
        // SAFETY: POSIX lists the function as safe in a handler; `hang` has made the semaphore, which nothing destroys.
        let _too_often = unsafe { libc::sem_post(self.0.get().cast()) };
    }

    pub(crate) fn wait(&'static self) {
        // SAFETY: `hang` has made the semaphore, which nothing destroys.
        while unsafe { libc::sem_wait(self.0.get().cast()) } != 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

/// Runs what writes files. Where a limit on their size is in the way (`ulimit -f`), the write fails: its signal, which
/// would end the program, is not delivered.
#[cfg(target_os = "linux")]
pub fn without_file_limit_signal<R>(run: impl FnOnce() -> R) -> R {
    without([libc::SIGXFSZ], run)
}

/// Runs what writes to files or to pipes. The signals by which a write that fails would end the program are not
/// delivered: that of a limit on the size of files, and that of a pipe that nobody reads.
#[cfg(target_os = "linux")]
pub(crate) fn without_write_signals<R>(run: impl FnOnce() -> R) -> R {
    without([libc::SIGXFSZ, libc::SIGPIPE], run)
}

/// Runs this with these signals blocked in the calling thread, and takes away those that came meanwhile.
#[cfg(target_os = "linux")]
fn without<R, const N: usize>(signals: [i32; N], run: impl FnOnce() -> R) -> R {
    // SAFETY: zeros are a valid set of signals; the mask of this thread is changed. A signal that waits already is
    // blocked, and is the program's.
    let (ours, before) = unsafe {
        let (mut ours, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigpending(&raw mut before);
        for signal in signals {
            if libc::sigismember(&raw const before, signal) == 0 {
                libc::sigaddset(&raw mut ours, signal);
            }
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const ours, &raw mut before);
        (ours, before)
    };
    let result = run();
    // SAFETY: takes what came meanwhile without waiting, and puts back the mask that was there.
    unsafe {
        let at_once: libc::timespec = std::mem::zeroed();
        while libc::sigtimedwait(&raw const ours, std::ptr::null_mut(), &raw const at_once) > 0 {}
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    result
}

/// Runs this: what a limit on the size of files does is not known here.
#[cfg(not(target_os = "linux"))]
pub fn without_file_limit_signal<R>(run: impl FnOnce() -> R) -> R {
    run()
}

/// Runs this: the signals of writes that fail are not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn without_write_signals<R>(run: impl FnOnce() -> R) -> R {
    run()
}

/// The operating system's number of the calling thread; 0 where it has none.
#[cfg(target_os = "linux")]
pub(crate) fn thread_id() -> u32 {
    // SAFETY: takes nothing, and has no function in older C libraries.
    u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap_or(0)
}

/// The operating system's number of the calling thread: not known here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_id() -> u32 {
    0
}

/// Runs what calls the system on the way of a call of the program: that finds `errno` as it was, and no thread is
/// cancelled in the middle of it.
#[cfg(target_os = "linux")]
pub(crate) fn undisturbed<R>(run: impl FnOnce() -> R) -> R {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: i32, old: *mut i32) -> i32;
    }
    const DISABLE: i32 = 1; // PTHREAD_CANCEL_DISABLE, of glibc and of musl
    let mut state = 0;
    // SAFETY: a state of this thread is changed and put back; its `errno` is read and written.
    let before = unsafe {
        pthread_setcancelstate(DISABLE, &raw mut state);
        *libc::__errno_location()
    };
    let result = run();
    // SAFETY: as above.
    unsafe {
        *libc::__errno_location() = before;
        pthread_setcancelstate(state, std::ptr::null_mut());
    }
    result
}

/// Runs this.
#[cfg(not(target_os = "linux"))]
pub(crate) fn undisturbed<R>(run: impl FnOnce() -> R) -> R {
    run()
}

/// Zeroed memory that stays for good and takes none before it is written to. `None` where there is none.
#[cfg(unix)]
pub(crate) fn map_zeroed(layout: std::alloc::Layout) -> Option<*mut u8> {
    const PAGE: usize = 4096; // at least
    if layout.align() > PAGE {
        return None;
    }
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, where the system likes.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), layout.size(), access, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return None;
    }
    show_to_leak_checker(memory, layout.size());
    Some(memory.cast())
}

/// In a program with LeakSanitizer: what this memory points to is in use. It does not look into mapped memory itself.
#[cfg(unix)]
pub(crate) fn show_to_leak_checker(memory: *const libc::c_void, bytes: usize) {
    // SAFETY: the name ends in NUL. Where the sanitizer is in the program, this is how its interface declares the
    // function.
    let register = unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"__lsan_register_root_region".as_ptr());
        std::mem::transmute::<*mut libc::c_void, Option<unsafe extern "C" fn(*const libc::c_void, usize)>>(found)
    };
    if let Some(register) = register {
        // SAFETY: memory that stays mapped.
        unsafe { register(memory, bytes) };
    }
}

/// Zeroed memory that stays for good. `None` where there is none.
#[cfg(not(unix))]
pub(crate) fn map_zeroed(layout: std::alloc::Layout) -> Option<*mut u8> {
    // SAFETY: the caller's struct has a size.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    (!memory.is_null()).then_some(memory)
}

/// Name of this machine; empty where it is not known.
#[cfg(unix)]
pub(crate) fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: writes at most so many bytes.
    let refused = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let name = std::ffi::CStr::from_bytes_until_nul(&name).ok().filter(|_| refused == 0);
    name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Name of this machine, as Windows tells it; empty where it is not known.
#[cfg(not(unix))]
pub(crate) fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Nanoseconds of the clock that [`Instant`](std::time::Instant) reads (CLOCK_MONOTONIC), which CUPTI's records are
/// stamped with.
///
/// A signal handler calls this: POSIX lists the function as safe there.
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
    // SAFETY: the path ends in NUL.
    succeeded(unsafe { libc::access(folder.as_ptr(), libc::W_OK | libc::X_OK) }).map(drop)
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
    // SAFETY: changes flags of an open file. It was opened for writing alone, without others that can be set.
    succeeded(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, 0) }).map(drop)
}

/// The same open file under a number from this one on, closed by `exec`.
#[cfg(unix)]
pub(crate) fn duplicate(file: &std::fs::File, lowest: i32) -> io::Result<std::fs::File> {
    use std::os::fd::{AsRawFd as _, FromRawFd as _};
    // SAFETY: takes a number.
    let copy = succeeded(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) })?;
    // SAFETY: it is new, and nobody else's.
    Ok(unsafe { std::fs::File::from_raw_fd(copy) })
}

/// The user by whose rights this process opens files.
#[cfg(unix)]
pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes nothing, and cannot fail.
    unsafe { libc::geteuid() }
}

/// What a function of the C library returned, where that is not -1.
#[cfg(unix)]
fn succeeded(returned: i32) -> io::Result<i32> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// Columns of the terminal that standard error (2) or standard output (1) is, if it is one.
#[cfg(unix)]
pub(crate) fn terminal_columns(descriptor: i32) -> Option<usize> {
    // SAFETY: zeros are a size.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: writes one struct, where the descriptor is open and a terminal.
    succeeded(unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size) }).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// Columns of the terminal: not known here.
#[cfg(not(unix))]
pub(crate) fn terminal_columns(_descriptor: i32) -> Option<usize> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn what_linux_says_of_this_thread_and_machine() {
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        assert_eq!(thread.file_name().and_then(|name| name.to_str()), Some(thread_id().to_string().as_str()));
        assert_eq!(std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim_end(), host_name());
    }

    #[test]
    fn where_files_can_be_made_is_known() {
        let missing = may_add_to(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!((missing.kind(), missing.raw_os_error()), (io::ErrorKind::NotFound, Some(libc::ENOENT)));
        assert!(may_add_to(&std::env::temp_dir()).is_ok());
        assert!(may_add_to(Path::new("/proc/self/status")).is_err()); // not a folder, and not to be executed
        assert_eq!(terminal_columns(-1), None);
    }
}
