//! Services of the operating system and the C library: signals, waiting for any process, forks, the end of Python.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicPtr, AtomicU64, Ordering::Acquire, Ordering::Release, Ordering::SeqCst,
};
use std::time::{Duration, Instant};

/// The process to which signals are forwarded; 0 for none yet, and later [`ENDED`] or [`WAITED`].
static PASSED_ON_TO: AtomicI32 = AtomicI32::new(0);
/// The program has ended.
const ENDED: i32 = -1;
/// The command waits for no process any more.
const WAITED: i32 = -2;
/// The signals that arrived while there was none, one bit each.
static PENDING: AtomicU64 = AtomicU64::new(0);
/// Whether a signal to end arrived while there was no process to forward it to.
static ASKED_TO_END: AtomicBool = AtomicBool::new(false);
/// Whether one arrived while the command waited for nothing.
static ASKED_TO_STOP: AtomicBool = AtomicBool::new(false);

/// The signals that were ignored when this process began, and those that were blocked, one bit each.
static IGNORED: AtomicU64 = AtomicU64::new(0);
static BLOCKED: AtomicU64 = AtomicU64::new(0);

/// Signals that a terminal sends to its whole foreground group, including the measured program. Their sender is the
/// kernel.
const OF_TERMINAL: [c_int; 3] = [libc::SIGINT, libc::SIGQUIT, libc::SIGWINCH];
/// Signals that are not meant for the program: nobody handles them, they stop a process, they report a fault of this
/// command, or the command needs them.
const NOT_OF_PROGRAM: [c_int; 14] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGCHLD,
    libc::SIGPIPE,
    libc::SIGXFSZ,
];
/// If one of these arrives after the program has ended, the command itself should end.
const OF_COMMAND: [c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// These also stop what the command does once it waits for nothing. A terminal may close meanwhile.
const STOP: [c_int; 3] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// The signals that are meant for the program. The C library handles those between the two ranges itself.
fn of_program() -> impl Iterator<Item = c_int> {
    (1..=libc::SIGSYS).chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(|signal| !NOT_OF_PROGRAM.contains(signal))
}

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// The signals whose bits are set.
fn signals_of(bits: u64) -> impl Iterator<Item = c_int> {
    (1..=64).filter(move |signal| bits & bit(*signal) != 0)
}

/// Neutralises inherited settings that would end this command or its waiting: a limit on file sizes (a write then
/// returns an error), readers that are gone, ignored ends of children, and closed standard descriptors. Uses a handler
/// instead of "ignore", which a started program would inherit. [`spawn`] restores the signals in the program.
pub(crate) fn survive_what_is_inherited() {
    extern "C" fn nothing(_signal: c_int) {}
    open_what_is_closed();
    note_signals();
    // SAFETY: the handler has the signature for no flags and does nothing; the default action is valid.
    unsafe {
        if libc::signal(libc::SIGXFSZ, nothing as *const () as libc::sighandler_t) == libc::SIG_IGN {
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        }
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// Notes which signals are ignored, and which are blocked.
fn note_signals() {
    // SAFETY: zeros are valid values of both types, which the calls fill. Nothing is changed.
    let is_ignored = |signal: &c_int| unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(*signal, std::ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    };
    // SAFETY: as above.
    let blocked = unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut blocked);
        blocked
    };
    // SAFETY: the set is valid, and so are the numbers.
    let is_blocked = |signal: &c_int| unsafe { libc::sigismember(&raw const blocked, *signal) == 1 };
    let bits = |signals: &mut dyn Iterator<Item = c_int>| signals.map(bit).fold(0, |all, bit| all | bit);
    IGNORED.store(bits(&mut (1..=64).filter(is_ignored)), SeqCst);
    BLOCKED.store(bits(&mut (1..=64).filter(is_blocked)), SeqCst);
}

/// Forwards signals to the program from now on, except a terminal's, which the program gets directly. It uses a
/// handler also for signals that are ignored or blocked here: the program may handle them.
pub(crate) fn pass_signals_on() {
    for signal in of_program() {
        // SAFETY: zeros are a valid `sigaction`. The handler has the signature for its flag, and makes system calls and
        // atomic accesses, which are async-signal-safe.
        unsafe {
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = pass_on as *const () as libc::sighandler_t;
            new.sa_flags = libc::SA_SIGINFO;
            libc::sigfillset(&raw mut new.sa_mask); // one after another, which keeps their order
            libc::sigaction(signal, &raw const new, std::ptr::null_mut());
        }
    }
    // SAFETY: the set is valid; the mask of this thread alone changes.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &set_of(of_program()), std::ptr::null_mut()) };
}

/// Starts the program with what this process inherited and its child would not: the signals that are ignored (a handled
/// signal has its default action in a started program, and so Rust's `SIGPIPE`) or blocked, and variables that name the
/// process that they are for.
pub(crate) fn spawn(program: &mut Command) -> io::Result<Child> {
    use std::os::unix::process::CommandExt as _;
    let (ignored, blocked) = (IGNORED.load(SeqCst), BLOCKED.load(SeqCst));
    let address = addressed(program);
    if ignored | blocked == 0 && address.is_none() {
        return program.spawn();
    }
    let restore = move || {
        // SAFETY: valid signals, actions and sets.
        unsafe {
            of_program().for_each(|signal| _ = libc::signal(signal, libc::SIG_DFL));
            signals_of(ignored).for_each(|signal| _ = libc::signal(signal, libc::SIG_IGN));
            libc::pthread_sigmask(libc::SIG_SETMASK, &set_of(signals_of(blocked)), std::ptr::null_mut());
        }
        address.as_ref().map_or(Ok(()), |execute| Err(execute()))
    };
    // SAFETY: it makes system calls. If it allocates, this process has no other thread yet.
    unsafe { program.pre_exec(restore) };
    // Until then, a handler in the child would take a signal from the program.
    tracing_gpu::without_signals(|| program.spawn())
}

/// Variables with the id of the process that they are for, which systemd sets.
const OF_PROCESS: [&CStr; 3] = [c"LISTEN_PID", c"WATCHDOG_PID", c"SYSTEMD_EXEC_PID"];

/// If such variables are for this process, what executes the program with variables that are for the calling process.
/// It returns only an error.
fn addressed(program: &Command) -> Option<impl Fn() -> io::Error + Send + Sync + use<>> {
    let own = std::process::id().to_string();
    let is_own = |name: &CStr| std::env::var_os(OsStr::from_bytes(name.to_bytes())).is_some_and(|of| of == *own);
    let of_process: Vec<&CStr> = OF_PROCESS.into_iter().filter(|name| is_own(name)).collect();
    if of_process.is_empty() {
        return None;
    }
    let text = |text: &OsStr| CString::new(text.as_bytes()).ok();
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let words: Vec<CString> = words.filter_map(text).collect();
    let variable = |(name, value): (&OsStr, Option<&OsStr>)| Some((text(name)?, value.and_then(text)));
    let changes: Vec<(CString, Option<CString>)> = program.get_envs().filter_map(variable).collect();
    Some(move || {
        let own = CString::new(std::process::id().to_string()).unwrap_or_default();
        let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
        pointers.push(std::ptr::null());
        // SAFETY: texts that end in NUL, and a list of them that ends in null. No other thread reads the environment.
        unsafe {
            for (name, value) in &changes {
                match value {
                    Some(value) => libc::setenv(name.as_ptr(), value.as_ptr(), 1),
                    None => libc::unsetenv(name.as_ptr()),
                };
            }
            of_process.iter().for_each(|name| _ = libc::setenv(name.as_ptr(), own.as_ptr(), 1));
            libc::execvp(pointers[0], pointers.as_ptr());
        }
        io::Error::last_os_error()
    })
}

/// Forwards signals to this process from now on, including those that arrived before it existed.
pub(crate) fn pass_on_to(process: i32) {
    PASSED_ON_TO.store(process, SeqCst);
    let pending = PENDING.swap(0, SeqCst);
    signals_of(pending).for_each(send);
}

/// Sends a signal to the process to which signals are forwarded.
pub(crate) fn send(signal: c_int) {
    let process = PASSED_ON_TO.load(SeqCst);
    if process > 0 {
        // SAFETY: sends a signal to our own child, which is not reaped before this number becomes 0.
        let _gone = unsafe { libc::kill(process, signal) };
    }
}

/// Whether the command itself should end, and the program has ended.
pub(crate) fn is_asked_to_end() -> bool {
    ASKED_TO_END.load(SeqCst) && PASSED_ON_TO.load(SeqCst) < 0
}

/// To be called once the command waits for no process any more.
pub(crate) fn waiting_is_over() {
    PASSED_ON_TO.store(WAITED, SeqCst);
}

/// Whether somebody asked the command to end since then.
pub(crate) fn is_asked_to_stop() -> bool {
    ASKED_TO_STOP.load(SeqCst)
}

/// Ends the waiting as soon as the program has ended.
pub(crate) fn ask_to_end() {
    ASKED_TO_END.store(true, SeqCst);
    // SAFETY: sends a signal to this process, which handles it and so interrupts the waiting.
    let _ignored = unsafe { libc::kill(libc::getpid(), libc::SIGTERM) };
}

extern "C" fn pass_on(signal: c_int, info: *mut libc::siginfo_t, _context: *mut c_void) {
    // SAFETY: with this flag the system calls a handler with information that is valid until it returns. A process that
    // sends a signal is in it, with a value if there is one.
    let (code, sender, value) = unsafe { ((*info).si_code, (*info).si_pid(), (*info).si_value()) };
    let program = PASSED_ON_TO.load(SeqCst);
    // Signals that are not forwarded: the terminal has sent it to the program, too; it reports our own processor time;
    // or we have sent it, or the program, to its whole group or to us.
    let is_by_kernel = (OF_TERMINAL.contains(&signal) || signal == libc::SIGXCPU) && code == libc::SI_KERNEL;
    // SAFETY: it takes nothing, cannot fail, and is async-signal-safe.
    let is_own = code <= 0 && sender == unsafe { libc::getpid() };
    let is_for_us = is_by_kernel || is_own || program > 0 && code <= 0 && sender == program;
    let is_asked = |signals: &[c_int]| signals.contains(&signal) && IGNORED.load(SeqCst) & bit(signal) == 0;
    match program {
        WAITED if is_asked(&STOP) && !is_own => ASKED_TO_STOP.store(true, SeqCst),
        ..0 if is_asked(&OF_COMMAND) => ASKED_TO_END.store(true, SeqCst),
        0 if !is_for_us => drop(PENDING.fetch_or(bit(signal), SeqCst)),
        // SAFETY: sends a signal to our own child, as `send` does.
        1.. if !is_for_us && code == libc::SI_QUEUE => drop(unsafe { libc::sigqueue(program, signal, value) }),
        1.. if !is_for_us => send(signal),
        _ => {}
    }
}

/// Makes this process the parent of processes that its children leave behind.
pub(crate) fn adopt_descendants() {
    // SAFETY: sets an attribute of this process; the unused arguments are 0.
    let _older_kernel = unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Keeps the signal that a child has ended for [`wait_for_any`]. To be called before other threads start: one that does
/// not block it would take it.
pub(crate) fn keep_ends(is_on: bool) {
    let how = if is_on { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is valid; the mask of this thread alone changes.
    unsafe { libc::pthread_sigmask(how, &set_of([libc::SIGCHLD]), std::ptr::null_mut()) };
}

fn set_of(signals: impl IntoIterator<Item = c_int>) -> libc::sigset_t {
    // SAFETY: zeros are a valid set, to which the calls add valid signals.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        signals.into_iter().for_each(|signal| _ = libc::sigaddset(&raw mut set, signal));
        set
    }
}

/// Why [`wait_for_any`] returns.
pub(crate) enum Waited {
    /// This process has ended. No signal is forwarded to the program once it is reaped.
    Ended(i32, ExitStatus),
    Due,
    /// There is no child, or a signal has arrived that asks us to end.
    Over,
}

/// Waits for any child to end, but not longer than until `due`.
pub(crate) fn wait_for_any(program: i32, due: Option<Instant>) -> Waited {
    use std::os::unix::process::ExitStatusExt as _;
    loop {
        if is_asked_to_end() {
            return Waited::Over;
        }
        // SAFETY: zeros are a valid `siginfo_t`, which the call fills. The child is not reaped yet.
        let (refused, process) = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let refused = libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOWAIT | libc::WNOHANG);
            (refused, info.si_pid())
        };
        if refused != 0 {
            match io::Error::last_os_error().raw_os_error() {
                Some(libc::EINTR) => continue,
                _ => return Waited::Over,
            }
        }
        if process == 0 {
            match is_signalled_until(due) {
                true => continue,
                false => return Waited::Due,
            }
        }
        if process == program {
            PASSED_ON_TO.store(ENDED, SeqCst);
        }
        let mut status = 0;
        // SAFETY: fills one number; the child has ended and is ours.
        if unsafe { libc::waitpid(process, &raw mut status, 0) } == process {
            return Waited::Ended(process, ExitStatus::from_raw(status));
        }
    }
}

/// Waits for a signal, until this moment. Returns whether one has arrived.
fn is_signalled_until(moment: Option<Instant>) -> bool {
    let left = moment.map(|moment| {
        let left = moment.saturating_duration_since(Instant::now());
        let seconds = libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX);
        libc::timespec { tv_sec: seconds, tv_nsec: left.subsec_nanos().into() }
    });
    let left = left.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the set is valid, and so is the time or its absence. No information is asked for.
    let refused = unsafe { libc::sigtimedwait(&set_of([libc::SIGCHLD]), std::ptr::null_mut(), left) } < 0;
    !refused || io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN)
}

/// Whether the bytes contain this text. The crate `memchr` asks the processor what it can do, which takes as long as 30
/// system calls in a virtual machine.
pub(crate) fn contains(bytes: &[u8], text: &[u8]) -> bool {
    // SAFETY: both are valid for their lengths, and the call only reads them.
    !unsafe { libc::memmem(bytes.as_ptr().cast(), bytes.len(), text.as_ptr().cast(), text.len()) }.is_null()
}

/// What the children that have ended took, with their own that they waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) user: Duration,
    pub(crate) system: Duration,
    /// The most memory that one of them had, in bytes.
    pub(crate) memory: u64,
}

/// `None` where the system does not say.
pub(crate) fn taken_by_children() -> Option<Taken> {
    // SAFETY: zeros are a valid `rusage`, and the call fills it.
    let (refused, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage), usage)
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            + Duration::from_micros(u64::try_from(time.tv_usec).unwrap_or(0))
    };
    let memory = u64::try_from(usage.ru_maxrss).unwrap_or(0) << 10;
    (refused == 0).then(|| Taken { user: time(usage.ru_utime), system: time(usage.ru_stime), memory })
}

/// Whether there is any child, dead or alive.
pub(crate) fn has_children() -> bool {
    // SAFETY: zeros are a valid `siginfo_t`, which the call fills. It neither waits nor reaps.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WEXITED | libc::WNOWAIT | libc::WNOHANG) == 0
    }
}

/// Ends this process by the program's signal, without a second core file. Returns if the signal does not end a process.
pub(crate) fn die_by(signal: c_int) {
    // SAFETY: zeros are a valid set of signals and "no core"; each call changes only this process, which is about to
    // end.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        let none: libc::rlimit = std::mem::zeroed();
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::signal(signal, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set_of([signal]), std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Whether this process runs a statically linked program that has loaded this library all the same: then its
/// thread-local storage does not exist. This function uses none.
pub(crate) fn is_in_static_program() -> bool {
    const SIZE: usize = size_of::<libc::Elf64_Phdr>();
    // SAFETY: these entries always exist, so not even `errno` is written.
    let [table, count, size] =
        [libc::AT_PHDR, libc::AT_PHNUM, libc::AT_PHENT].map(|entry| unsafe { libc::getauxval(entry) } as usize);
    if table == 0 || size != SIZE {
        return false;
    }
    // SAFETY: the system, or the dynamic loader if it was called by name, states that this many program headers are
    // there. They have this type on all 64-bit machines, and stay.
    let headers = unsafe { std::slice::from_raw_parts(table as *const libc::Elf64_Phdr, count) };
    headers.iter().all(|header| header.p_type != libc::PT_INTERP)
}

/// The exit status of the main thread, if it and all other threads except ours have ended: the process would have ended
/// with this status.
pub(crate) fn status_without_us() -> Option<c_int> {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    // The state of the main thread follows the name in brackets; the last field is its status, as for `waitpid`.
    let main = text("/proc/self/stat");
    let main = main.rsplit_once(") ")?.1.trim_end();
    if !main.starts_with('Z') {
        return None;
    }
    let is_ours = |task: std::fs::DirEntry| {
        let number = task.file_name().to_string_lossy().into_owned();
        number == std::process::id().to_string()
            || text(&format!("/proc/self/task/{number}/comm")).starts_with("tracing-gpu")
    };
    let are_ours = std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.flatten().all(is_ours));
    let ended = main.rsplit(' ').next().and_then(|word| word.parse().ok());
    are_ours.then(|| libc::WEXITSTATUS(ended.unwrap_or(0)))
}

/// Ends the process without its `atexit` handlers.
pub(crate) fn end_at_once(status: c_int) -> ! {
    // SAFETY: the call ends the process.
    unsafe { libc::_exit(status) }
}

/// A thread in seccomp's strict mode faults when it reads the time-stamp counter. From now on it reads 0 instead,
/// unless the program handles faults itself.
#[cfg(target_arch = "x86_64")]
pub(crate) fn survive_strict_mode() {
    const RDTSC: [u8; 2] = [0x0f, 0x31];
    extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: these are the system's arguments of a handler with these flags. The program counter points to an
        // instruction that was about to run, so it can be read; its second byte is read only if it has one. All calls
        // are async-signal-safe.
        unsafe {
            let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
            let at = std::ptr::with_exposed_provenance::<u8>(registers[libc::REG_RIP as usize] as usize);
            if (*info).si_code == libc::SI_KERNEL && *at == RDTSC[0] && *at.add(1) == RDTSC[1] {
                registers[libc::REG_RIP as usize] += RDTSC.len() as i64;
                registers[libc::REG_RAX as usize] = 0;
                registers[libc::REG_RDX as usize] = 0;
                return;
            }
            // It is the program's own signal: a fault happens again, and a sent signal is sent again.
            libc::signal(signal, libc::SIG_DFL);
            if (*info).si_code <= 0 {
                libc::raise(signal);
            }
        }
    }
    // SAFETY: zeros are a valid `sigaction`, and the handler has the signature for its flags.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGSEGV, std::ptr::null(), &raw mut now);
        if now.sa_sigaction == libc::SIG_DFL {
            let mut new: libc::sigaction = std::mem::zeroed();
            new.sa_sigaction = handle as *const () as libc::sighandler_t;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(libc::SIGSEGV, &raw const new, std::ptr::null_mut());
        }
    }
}

/// On this system any thread may read the clock.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn survive_strict_mode() {}

/// Registers functions to be called at every fork of this process: in the parent before, in the parent after, and in
/// the child. They must allocate nothing and take no lock that another thread may hold in the child.
pub(crate) fn at_fork(before: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) {
    // SAFETY: functions without arguments that live as long as this library, which is never unloaded.
    let _no_memory = unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
}

/// A number that is 0 in each child, however the child was made; null before [`mark_process`].
static MARK: AtomicPtr<u32> = AtomicPtr::new(std::ptr::null_mut());

/// Lets children recognise themselves by [`is_unmarked`], even those of the system call `clone`.
pub(crate) fn mark_process() {
    let mark = MARK.load(Acquire);
    if !mark.is_null() {
        // SAFETY: the page below, which stays. A child has one thread at this time.
        return unsafe { mark.write_volatile(1) };
    }
    // SAFETY: a new page, which stays mapped, and is written before anybody else knows of it. A system without this
    // advice leaves the mark in children, as if there were no mark.
    unsafe {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), size_of::<u32>(), access, flags, -1, 0);
        if page != libc::MAP_FAILED {
            libc::madvise(page, size_of::<u32>(), libc::MADV_WIPEONFORK);
            page.cast::<u32>().write(1);
            MARK.store(page.cast(), Release);
        }
    }
}

/// Whether this process is a child of a marked process and has not been marked itself.
#[inline]
pub(crate) fn is_unmarked() -> bool {
    let mark = MARK.load(Acquire);
    // SAFETY: null, or the page of `mark_process`, which only the single thread of a child writes.
    !mark.is_null() && unsafe { mark.read_volatile() } == 0
}

unsafe extern "C" {
    /// In glibc this function is in the part that is linked into every library.
    safe fn at_quick_exit(function: extern "C" fn()) -> c_int;
}

/// Registers a function for `quick_exit`.
pub(crate) fn before_quick_exit(end: extern "C" fn()) {
    let _no_memory = at_quick_exit(end);
}

/// Registers a function for the end of Python, if this process runs Python. After a KeyboardInterrupt, Python ends
/// itself by a signal, and no `atexit` handler runs.
pub(crate) fn after_python(end: extern "C" fn()) {
    const NAME: &CStr = c"Py_AtExit";
    // SAFETY: the name ends in NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr()) };
    if !found.is_null() {
        // SAFETY: Python's documentation declares the function of that name like this. It stores the pointer.
        let register =
            unsafe { std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(extern "C" fn()) -> c_int>(found) };
        // SAFETY: we are inside a call by Python, or Python has not started a thread yet that could register.
        let _no_room = unsafe { register(end) };
    }
}

/// Whether this process may write to a file, or create files in a folder.
pub(crate) fn may_write(path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a text that ends in NUL.
    match unsafe { libc::access(path.as_ptr(), libc::W_OK) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Which of standard input and output were closed when this process began.
static CLOSED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// Opens `/dev/null` for standard descriptors that are closed: otherwise a file would get the number of one.
fn open_what_is_closed() {
    for descriptor in 0..=2 {
        // SAFETY: reads flags of a descriptor, if there is one.
        let is_closed = unsafe { libc::fcntl(descriptor, libc::F_GETFD) } < 0;
        if is_closed {
            // SAFETY: a text that ends in NUL. The new descriptor is the lowest that is free: this one.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        }
        if let Some(closed) = CLOSED.get(descriptor as usize) {
            closed.store(is_closed, SeqCst);
        }
    }
}

/// Closes them in the program, too. Standard error stays open: otherwise our lines could go to a file that the program
/// opens under its number.
pub(crate) fn close_what_was_closed(program: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    for (descriptor, _) in (0..).zip(&CLOSED).filter(|(_, closed)| closed.load(SeqCst)) {
        let close = move || {
            // SAFETY: closes the `/dev/null` of this command, in the child.
            unsafe { libc::close(descriptor) };
            Ok(())
        };
        // SAFETY: it makes one system call, and allocates nothing.
        unsafe { program.pre_exec(close) };
    }
}
