//! Services of the operating system: exit hooks, signal handlers and fork hooks, the identity of process and host, the
//! width of the terminal, and permissions to write.
//!
//! `libc` makes the calls: a crate that wraps them takes longer to build than these few wrappers.
#![allow(unsafe_code)]

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Once, OnceLock};
use std::thread::{Builder, JoinHandle};

/// Starts a thread. Compiled once, and not for each body.
pub(crate) fn spawn(name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.to_owned()).spawn(body)
}

/// The function that runs when the process exits.
static EXIT_HOOK: OnceLock<extern "C" fn()> = OnceLock::new();

/// Sets the exit hook. Only the first call counts. `hook` must do nothing when it runs a second time.
pub(crate) fn set_exit_hook(hook: extern "C" fn()) {
    let _is_set = EXIT_HOOK.set(hook);
}

/// Registers the exit hook: it runs when the process ends by `process::exit` or by returning from `main`, but not on
/// abort or a signal. Only the first call counts.
pub(crate) fn at_exit() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(at_exit_again);
}

/// Registers the exit hook once more, so that it runs before all hooks registered so far.
pub(crate) fn at_exit_again() {
    let Some(&hook) = EXIT_HOOK.get() else { return };
    // SAFETY: `atexit` takes any function without arguments; `hook` is one, lives as long as the program, and does not
    // unwind (the compiler turns a panic that reaches the edge of an `extern "C"` function into an abort).
    // If there is no memory for one more entry, nothing is printed at exit.
    let _refused = unsafe { libc::atexit(hook) };
}

/// Id of the forked child that set it, which is inherited by children of the child; 0 in a process that was not forked
/// after [`watch_forks`].
static CHILD: AtomicU32 = AtomicU32::new(0);

/// Whether this process was forked from the process with this id. False if another process has the id by now.
#[inline]
pub(crate) fn is_child_of(process: u32) -> bool {
    let child = CHILD.load(Relaxed);
    child != 0 && child != process
}

/// Sleeps for this time, less than a second, or until a signal arrives. Returns whether one arrived.
#[cfg(not(unix))]
pub(crate) fn sleep(time: std::time::Duration) -> bool {
    std::thread::sleep(time);
    false
}

/// Sleeps for this time, less than a second, or until a signal arrives. Returns whether one arrived.
#[cfg(unix)]
pub(crate) fn sleep(time: std::time::Duration) -> bool {
    let time = libc::timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    // SAFETY: reads one struct.
    let slept = unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
    slept != 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
}

/// Whether this process, or one from which it was forked, has given up measuring.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Stops all measuring, printing and writing, because there is no memory left. Safe anywhere, even in an allocator.
#[doc(hidden)]
pub fn give_up() {
    GIVEN_UP.store(true, Relaxed);
}

/// Whether memory has run out.
#[doc(hidden)]
#[inline]
pub fn has_given_up() -> bool {
    GIVEN_UP.load(Relaxed)
}

/// Lets forked children know that they are children, and registers `hook` to run at the start of each child. The hook
/// may only store values, because a thread that does not exist in the child may hold any lock. Only the first call
/// counts.
#[cfg(unix)]
pub(crate) fn watch_forks(hook: extern "C" fn()) {
    if CHILD_HOOK.set(hook).is_ok() {
        // SAFETY: the function takes no arguments, lives as long as the program, does not unwind (a panic at the edge
        // of an `extern "C"` function aborts), and makes one system call besides its stores.
        let _no_memory = unsafe { libc::pthread_atfork(None, None, Some(begin_child)) };
    }
}

/// The hook for children.
#[cfg(unix)]
static CHILD_HOOK: OnceLock<extern "C" fn()> = OnceLock::new();

/// Marks this process as a forked child. For a child that was made by the bare system call, which runs no hooks.
#[cfg(unix)]
pub extern "C" fn begin_child() {
    CHILD.store(std::process::id(), Relaxed);
    if let Some(hook) = CHILD_HOOK.get() {
        hook();
    }
}

/// This system has no forks.
#[cfg(not(unix))]
pub(crate) fn watch_forks(_hook: extern "C" fn()) {}

/// A signal handler: it gets the signal, its sender, and the interrupted state.
#[cfg(unix)]
pub(crate) type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Installs a signal handler. The function must be async-signal-safe.
#[cfg(unix)]
pub(crate) fn handle_signal(signal: i32, handler: Handler) -> io::Result<()> {
    // SAFETY: zeros are a valid `sigaction` with an empty mask. The handler has the signature for these flags and lives
    // as long as the program; our caller vouches that it is async-signal-safe.
    let refused = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_SIGINFO;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Whether a signal has its default action: nobody handles or ignores it. Async-signal-safe.
#[cfg(unix)]
pub(crate) fn takes_default_course(signal: i32) -> bool {
    handler_of(signal) == libc::SIG_DFL
}

/// Whether this function handles a signal. Async-signal-safe.
#[cfg(unix)]
pub(crate) fn is_handled_by(signal: i32, handler: Handler) -> bool {
    handler_of(signal) == handler as *const () as libc::sighandler_t
}

#[cfg(unix)]
fn handler_of(signal: i32) -> libc::sighandler_t {
    // SAFETY: zeros are a valid `sigaction`. Sets nothing, and writes one struct.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action);
        action.sa_sigaction
    }
}

/// Performs the default action of a signal now, on this thread. Async-signal-safe.
#[cfg(unix)]
pub(crate) fn take_default_course(signal: i32) {
    // SAFETY: POSIX lists all four functions as async-signal-safe. Zeros are a valid set of signals.
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

/// Whether this process sent itself the signal, by `raise` or `kill`. For a signal handler, with its argument.
#[cfg(unix)]
pub(crate) fn is_from_itself(info: *const libc::siginfo_t) -> bool {
    const BY_RAISE: i32 = -6; // `SI_TKILL` of Linux
    let is_sent = |code| matches!(code, libc::SI_USER | libc::SI_QUEUE | BY_RAISE);
    // SAFETY: null, or the system's argument of a handler. With these codes it contains the sender.
    unsafe {
        info.as_ref().is_some_and(|info| is_sent(info.si_code) && info.si_pid().cast_unsigned() == std::process::id())
    }
}

/// Blocks the calling thread for this many seconds. Async-signal-safe.
#[cfg(unix)]
pub(crate) fn sleep_in_handler(seconds: u8) {
    // SAFETY: POSIX lists the function as async-signal-safe; it writes the remaining time to the struct that it reads.
    unsafe {
        let mut left = libc::timespec { tv_sec: seconds.into(), tv_nsec: 0 };
        while libc::nanosleep(&raw const left, &raw mut left) != 0 {}
    }
}

/// Wakes a thread from a signal handler. It uses memory alone, because a program may close any descriptor.
#[cfg(unix)]
pub(crate) struct Bell(std::cell::UnsafeCell<std::mem::MaybeUninit<libc::sem_t>>);

#[cfg(unix)]
// SAFETY: a semaphore may be used by several threads.
unsafe impl Sync for Bell {}

#[cfg(unix)]
impl Bell {
    pub(crate) const fn new() -> Self {
        Self(std::cell::UnsafeCell::new(std::mem::MaybeUninit::zeroed()))
    }

    /// Must be called before the other two functions, and not at the same time.
    pub(crate) fn hang(&'static self) -> io::Result<()> {
        // SAFETY: room for a semaphore that does not move.
        match unsafe { libc::sem_init(self.0.get().cast(), 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Async-signal-safe.
    pub(crate) fn ring(&'static self) {
        // SAFETY: POSIX lists the function as async-signal-safe; `hang` has made the semaphore, which nothing destroys.
        let _too_often = unsafe { libc::sem_post(self.0.get().cast()) };
    }

    pub(crate) fn wait(&'static self) {
        // SAFETY: `hang` has made the semaphore, which nothing destroys.
        while unsafe { libc::sem_wait(self.0.get().cast()) } != 0
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
    }
}

/// Runs a closure that writes files. If a write exceeds the limit on file sizes (`ulimit -f`), it fails, and its
/// signal, which would end the program, is not delivered.
#[cfg(target_os = "linux")]
pub fn without_file_limit_signal<R>(run: impl FnOnce() -> R) -> R {
    without([libc::SIGXFSZ], run)
}

/// Runs a closure that writes to files or pipes. The signals of failed writes, which would end the program, are not
/// delivered: for the limit on file sizes, and for a pipe without a reader.
#[cfg(target_os = "linux")]
pub(crate) fn without_write_signals<R>(run: impl FnOnce() -> R) -> R {
    without([libc::SIGXFSZ, libc::SIGPIPE], run)
}

/// Runs a closure with these signals blocked in the calling thread, and discards those that arrive meanwhile.
#[cfg(target_os = "linux")]
fn without<R, const N: usize>(signals: [i32; N], run: impl FnOnce() -> R) -> R {
    // SAFETY: zeros are a valid set of signals; the mask of this thread is changed. A signal that is already pending
    // was blocked before and belongs to the program.
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
    // SAFETY: takes pending signals without waiting, and restores the former mask.
    unsafe {
        let at_once: libc::timespec = std::mem::zeroed();
        while libc::sigtimedwait(&raw const ours, std::ptr::null_mut(), &raw const at_once) > 0 {}
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
    }
    result
}

/// Runs this with all signals blocked, and so they are in threads that it starts: threads of ours must not get the
/// program's signals.
#[cfg(unix)]
#[doc(hidden)]
pub fn without_signals<R>(run: impl FnOnce() -> R) -> R {
    // SAFETY: zeros are a valid set, which is filled; this thread's mask is changed and restored.
    let before = unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    };
    let result = run();
    // SAFETY: restores the former mask.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}

/// Runs the closure: this system has no known signal for the limit on file sizes.
#[cfg(not(target_os = "linux"))]
pub fn without_file_limit_signal<R>(run: impl FnOnce() -> R) -> R {
    run()
}

/// Runs the closure: this system has no known signals for failed writes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn without_write_signals<R>(run: impl FnOnce() -> R) -> R {
    run()
}

/// The operating system's number of the calling thread; 0 if it has none.
#[cfg(target_os = "linux")]
pub(crate) fn thread_id() -> u32 {
    // SAFETY: takes no arguments. Older C libraries have no function for it.
    u32::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap_or(0)
}

/// The operating system's number of the calling thread: unknown on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_id() -> u32 {
    0
}

/// Runs a closure with system calls inside a call of the program: restores `errno` afterwards, and defers thread
/// cancellation.
#[cfg(target_os = "linux")]
pub(crate) fn undisturbed<R>(run: impl FnOnce() -> R) -> R {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: i32, old: *mut i32) -> i32;
    }
    const DISABLE: i32 = 1; // PTHREAD_CANCEL_DISABLE of glibc and musl
    let mut state = 0;
    // SAFETY: changes and restores a state of this thread; reads and writes its `errno`.
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

/// Runs the closure.
#[cfg(not(target_os = "linux"))]
pub(crate) fn undisturbed<R>(run: impl FnOnce() -> R) -> R {
    run()
}

/// Zeroed memory that stays for good and takes no pages before it is written. `None` if there is none.
#[cfg(unix)]
pub(crate) fn map_zeroed(layout: std::alloc::Layout) -> Option<*mut u8> {
    const PAGE: usize = 4096; // the smallest page size
    if layout.align() > PAGE {
        return None;
    }
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory at an address that the system chooses.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), layout.size(), access, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return None;
    }
    show_to_leak_checker(memory, layout.size());
    Some(memory.cast())
}

/// Whether this process may map so many more bytes now.
#[cfg(unix)]
pub(crate) fn has_memory(bytes: usize) -> bool {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory at an address that the system chooses, which nobody uses before it is given back.
    unsafe {
        let memory = libc::mmap(std::ptr::null_mut(), bytes, access, flags, -1, 0);
        memory != libc::MAP_FAILED && libc::munmap(memory, bytes) == 0
    }
}

/// Whether there is memory: unknown on this system.
#[cfg(not(unix))]
pub(crate) fn has_memory(_bytes: usize) -> bool {
    true
}

/// Tells LeakSanitizer, if present, that the pointers in this memory are in use. It does not scan mapped memory by
/// itself.
#[cfg(unix)]
pub(crate) fn show_to_leak_checker(memory: *const libc::c_void, bytes: usize) {
    // SAFETY: the name ends in NUL. If the sanitizer is present, its interface declares the function like this.
    let register = unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"__lsan_register_root_region".as_ptr());
        std::mem::transmute::<*mut libc::c_void, Option<unsafe extern "C" fn(*const libc::c_void, usize)>>(found)
    };
    if let Some(register) = register {
        // SAFETY: memory that stays mapped.
        unsafe { register(memory, bytes) };
    }
}

/// Zeroed memory that stays for good. `None` if there is none.
#[cfg(not(unix))]
pub(crate) fn map_zeroed(layout: std::alloc::Layout) -> Option<*mut u8> {
    // SAFETY: the layout is not empty, because it is that of a struct of the caller.
    let memory = unsafe { std::alloc::alloc_zeroed(layout) };
    (!memory.is_null()).then_some(memory)
}

/// Name of this machine; empty where it is not known.
#[cfg(unix)]
pub(crate) fn host_name() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: writes at most `name.len()` bytes.
    let refused = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let name = std::ffi::CStr::from_bytes_until_nul(&name).ok().filter(|_| refused == 0);
    name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// Name of this machine, from Windows' environment; empty if it is not known.
#[cfg(not(unix))]
pub(crate) fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// Nanoseconds of the clock that [`Instant`](std::time::Instant) reads (CLOCK_MONOTONIC). CUPTI's records have the same
/// clock.
///
/// Async-signal-safe: POSIX lists the function.
#[cfg(unix)]
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one struct; the clock exists on every Unix.
    let _always_there = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
}

/// Nanoseconds of a clock: unknown on this system.
#[cfg(not(unix))]
pub(crate) fn monotonic_ns() -> u64 {
    0
}

/// How often the calling thread has stopped running; `None` if the system does not say. Unlike
/// [`thread_cpu_ns`], this never gives up the processor.
#[cfg(target_os = "linux")]
pub(crate) fn thread_switches() -> Option<u64> {
    thread_usage().map(|usage| (usage.ru_nvcsw as u64).wrapping_add(usage.ru_nivcsw as u64))
}

#[cfg(target_os = "linux")]
fn thread_usage() -> Option<libc::rusage> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: writes one struct.
    succeeded(unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) }).ok()?;
    // SAFETY: it was written.
    Some(unsafe { usage.assume_init() })
}

/// How often the calling thread has gone to sleep; always 0 if the system does not say.
#[cfg(all(target_os = "linux", feature = "cuda"))]
pub(crate) fn thread_sleeps() -> u64 {
    thread_usage().map_or(0, |usage| usage.ru_nvcsw as u64)
}

/// How often the calling thread has gone to sleep: unknown on this system.
#[cfg(all(not(target_os = "linux"), feature = "cuda"))]
pub(crate) fn thread_sleeps() -> u64 {
    0
}

/// How long ago a thread of this process began, to a tick of the system (10 ms); `None` if the system does not say.
/// proc(5): field 22 of `stat` has ticks since the boot.
#[cfg(all(target_os = "linux", feature = "cuda"))]
pub(crate) fn thread_age(thread: u32) -> Option<std::time::Duration> {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    let began: u64 = stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()?;
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one struct.
    succeeded(unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) }).ok()?;
    // SAFETY: reads a constant of the system.
    let rate = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|rate| *rate > 0)?;
    let since_boot = |seconds: u64, ns: u64| std::time::Duration::new(seconds, ns as u32);
    let began = since_boot(began / rate, began % rate * 1_000_000_000 / rate);
    Some(since_boot(now.tv_sec as u64, now.tv_nsec as u64).saturating_sub(began))
}

/// How long ago a thread began: unknown on this system.
#[cfg(all(not(target_os = "linux"), feature = "cuda"))]
pub(crate) fn thread_age(_thread: u32) -> Option<std::time::Duration> {
    None
}

/// Whether Python knows the calling thread: Python started it, or it has run Python's code.
#[cfg(all(unix, feature = "cuda"))]
pub(crate) fn thread_runs_python() -> bool {
    // SAFETY: the name ends in NUL. If Python is present, its C API declares the function like this.
    let state = unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"PyGILState_GetThisThreadState".as_ptr());
        std::mem::transmute::<*mut libc::c_void, Option<unsafe extern "C" fn() -> *mut libc::c_void>>(found)
    };
    // SAFETY: reads a thread-local value; needs no lock, and Python allows it at any time.
    state.is_some_and(|state| !unsafe { state() }.is_null())
}

/// Whether Python knows the calling thread: unknown on this system.
#[cfg(all(not(unix), feature = "cuda"))]
pub(crate) fn thread_runs_python() -> bool {
    false
}

/// How often the calling thread has stopped running: unknown on this system.
#[cfg(not(target_os = "linux"))]
pub(crate) fn thread_switches() -> Option<u64> {
    None
}

/// Processor time of the calling thread in nanoseconds; `None` if the system does not say. In this call Linux gives the
/// processor to another thread if the slice of the calling one has run out.
#[cfg(unix)]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one struct.
    succeeded(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) }).ok()?;
    Some((now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64))
}

/// Processor time of the calling thread: unknown on this system.
#[cfg(not(unix))]
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    None
}

/// Whether this process may create files in a folder; otherwise the error that it would get.
#[cfg(unix)]
pub(crate) fn may_add_to(folder: &Path) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt as _;
    let folder = std::ffi::CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: the path ends in NUL.
    succeeded(unsafe { libc::access(folder.as_ptr(), libc::W_OK | libc::X_OK) }).map(drop)
}

/// Whether the folder exists; permissions are unknown on this system.
#[cfg(not(unix))]
pub(crate) fn may_add_to(folder: &Path) -> io::Result<()> {
    std::fs::metadata(folder).map(drop)
}

/// Makes writes to a pipe wait for room, if it was opened as non-blocking.
#[cfg(unix)]
pub(crate) fn wait_for_room(pipe: &std::fs::File) -> io::Result<()> {
    use std::os::fd::AsRawFd as _;
    // SAFETY: changes flags of an open file. It was opened for writing, without any other flag that can be set.
    succeeded(unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, 0) }).map(drop)
}

/// The same open file under a high descriptor, which `exec` closes. A program that closes all descriptors, or its
/// standard streams, opens its own files under low numbers. So neither writes to the other's files.
#[cfg(unix)]
pub(crate) fn out_of_the_way(file: &std::fs::File) -> Option<std::fs::File> {
    use std::os::fd::{AsRawFd as _, FromRawFd as _};
    // SAFETY: takes a number.
    let copy = |lowest: i32| succeeded(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) }).ok();
    let copy = [512, 128, 32, 3].into_iter().find_map(copy)?; // the limit may be low
    // SAFETY: the descriptor is new, and nobody else has it.
    Some(unsafe { std::fs::File::from_raw_fd(copy) })
}

/// The user id with which this process opens files.
#[cfg(unix)]
pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes nothing, and cannot fail.
    unsafe { libc::geteuid() }
}

/// The result of a C library function, or the system's error for -1.
#[cfg(unix)]
fn succeeded(returned: i32) -> io::Result<i32> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// Columns of the terminal at standard error (2) or standard output (1), if it is one.
#[cfg(unix)]
pub(crate) fn terminal_columns(descriptor: i32) -> Option<usize> {
    // SAFETY: zeros are a valid size.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: writes one struct if the descriptor is an open terminal.
    succeeded(unsafe { libc::ioctl(descriptor, libc::TIOCGWINSZ, &raw mut size) }).ok()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// Columns of the terminal: unknown on this system.
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
        assert!(may_add_to(Path::new("/proc/self/status")).is_err()); // neither a folder nor executable
        assert_eq!(terminal_columns(-1), None);
    }
}
