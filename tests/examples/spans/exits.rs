//! Every way a program can end.
#![allow(unsafe_code)] // fork and the like

use crate::stage::{Tier, on_thread};
use crate::{Outcome, Scenario};
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use tracing::info_span;
use tracing_gpu::{Profiler, Report};

pub(crate) const ALL: &[Scenario] = &[
    ("guard", guard),
    ("finish", finish),
    ("panic", panic),
    ("panic-in-thread", panic_in_thread),
    ("leaked-process-exit", leaked_process_exit),
    ("leaked-process-exit-in-span", leaked_process_exit_in_span),
    ("leaked-process-exit-in-thread", leaked_process_exit_in_thread),
    ("leaked-return", leaked_return),
    ("static-return", static_return),
    ("returned-error", returned_error),
    ("abort", abort),
    ("signal-meets-end", signal_meets_end),
    ("wait-for-signal", wait_for_signal),
    ("wait-for-signal-leaked", wait_for_signal_leaked),
    ("wait-for-signal-locked", wait_for_signal_locked),
    ("fork", fork),
    ("fork-signalled", fork_signalled),
    ("init-signalled", init_signalled),
    ("init-handles-signal", init_handles_signal),
    ("handles-signal-init", handles_signal_init),
    ("install-twice", install_twice),
    ("init-guard", init_guard),
    ("init-leaked-process-exit", init_leaked_process_exit),
    ("init-twice", init_twice),
    ("init-again", init_again),
    ("init-beside-another", init_beside_another),
    ("install-beside-another", install_beside_another),
    ("build-beside-another", build_beside_another),
];

/// A profiler that prints ranges to standard error.
fn start(tier: Tier) -> Result<Profiler, Box<dyn std::error::Error>> {
    let profiler = Profiler::builder().report([Report::Ranges]).build()?;
    tier.install(&profiler)?;
    Ok(profiler)
}

fn work() {
    info_span!("work").in_scope(|| info_span!("step").in_scope(|| ()));
}

fn guard(tier: Tier) -> Outcome {
    let _profiler = start(tier)?;
    work();
    Ok(())
}

fn finish(tier: Tier) -> Outcome {
    let profiler = start(tier)?;
    work();
    profiler.finish()?;
    Ok(())
}

fn panic(tier: Tier) -> Outcome {
    let _profiler = start(tier)?;
    work();
    let _open = info_span!("unwound").entered();
    panic!("on purpose");
}

fn panic_in_thread(tier: Tier) -> Outcome {
    let _profiler = start(tier)?;
    work();
    let ended = crate::stage::thread("worker", || {
        let _open = info_span!("unwound").entered();
        panic!("on purpose");
    })?
    .join();
    assert!(ended.is_err());
    Ok(())
}

fn leaked_process_exit(tier: Tier) -> Outcome {
    std::mem::forget(start(tier)?);
    work();
    std::process::exit(7);
}

fn leaked_process_exit_in_span(tier: Tier) -> Outcome {
    let _profiler = start(tier)?;
    work();
    let _open = info_span!("open").entered();
    std::process::exit(7);
}

fn leaked_process_exit_in_thread(tier: Tier) -> Outcome {
    let _profiler = start(tier)?;
    work();
    let _open = info_span!("open").entered();
    on_thread("worker", || -> () {
        let _there = info_span!("there").entered();
        std::process::exit(7);
    });
    Ok(())
}

fn leaked_return(tier: Tier) -> Outcome {
    std::mem::forget(start(tier)?);
    work();
    Ok(())
}

fn static_return(tier: Tier) -> Outcome {
    static PROFILER: OnceLock<Profiler> = OnceLock::new();
    assert!(PROFILER.set(start(tier)?).is_ok());
    work();
    Ok(())
}

fn returned_error(tier: Tier) -> Outcome {
    let _profiler = start(tier)?;
    work();
    Err("on purpose".into())
}

fn abort(tier: Tier) -> Outcome {
    let _profiler = start(tier)?;
    work();
    std::process::abort();
}

/// Reports that it is ready, and waits to be killed.
fn wait_to_be_killed() -> ! {
    let open = info_span!("open").entered();
    let said = writeln!(std::io::stdout(), "ready");
    assert!(said.is_ok());
    loop {
        std::hint::black_box(&open);
        std::thread::park();
    }
}

/// A report longer than a pipe holds; `main` ends with its standard input.
fn signal_meets_end(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().report([Report::Ranges]).rows(usize::MAX).on_signal(true).build()?;
    tier.install(&profiler)?;
    for name in 0..4_000 {
        info_span!("span", nvtx.name = format!("span {name}")).in_scope(|| ());
    }
    writeln!(std::io::stdout(), "ready")?;
    std::io::read_to_string(std::io::stdin())?;
    drop(profiler);
    Ok(())
}

fn wait_for_signal(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().report([Report::Ranges]).on_signal(true).build()?;
    tier.install(&profiler)?;
    work();
    wait_to_be_killed()
}

/// Holds the lock of standard error.
fn wait_for_signal_locked(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().report([Report::Ranges]).on_signal(true).build()?;
    tier.install(&profiler)?;
    let _locked = std::io::stderr().lock();
    wait_to_be_killed()
}

/// Signals are not enabled, so the default action follows at once.
fn wait_for_signal_leaked(tier: Tier) -> Outcome {
    let profiler = start(tier)?;
    work();
    std::mem::forget(profiler);
    wait_to_be_killed()
}

/// The child ends by returning from `main`, with its guard dropped and the exit hook run; then the parent ends.
fn fork(tier: Tier) -> Outcome {
    let profiler = start(tier)?;
    work();
    // SAFETY: the child makes spans, drops the profiler and returns from `main`. The only other thread of this process
    // sleeps, and holds no lock during the fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        work();
        drop(profiler);
        writeln!(std::io::stdout(), "child")?;
        return Ok(());
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process that nobody else waits for, and `status` is a live `c_int`.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    writeln!(std::io::stdout(), "parent")?;
    Ok(())
}

/// Two children, each sent SIGTERM: one that waits, and one that measures for itself and reports when it is ready.
/// Prints how they ended.
fn fork_signalled(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().report([Report::Ranges]).on_signal(true).build()?;
    tier.install(&profiler)?;
    work();
    for measures in [false, true] {
        let (mut ready, says) = std::os::unix::net::UnixStream::pair()?;
        // SAFETY: the child makes at most a profiler, and waits to be killed. The other threads of this process sleep,
        // and hold no lock during the fork.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let own = Profiler::builder().report([Report::Ranges]).on_signal(true);
            let own = if measures { Some(own.build()?) } else { None };
            // SAFETY: if nothing handles the signal, it ends the child all the same.
            unsafe { libc::alarm(20) };
            drop(says);
            loop {
                std::hint::black_box(&own);
                std::thread::park();
            }
        }
        drop(says);
        std::io::Read::read(&mut ready, &mut [0])?; // end of file: the child has closed its side
        let mut status = 0;
        // SAFETY: `child` is a child of this process that nobody else waits for, and `status` is a live `c_int`.
        let waited = unsafe {
            libc::kill(child, libc::SIGTERM);
            libc::waitpid(child, &raw mut status, 0)
        };
        assert_eq!(waited, child);
        let signal = if libc::WIFSIGNALED(status) { libc::WTERMSIG(status) } else { 0 };
        writeln!(std::io::stdout(), "ended by {signal}")?;
    }
    drop(profiler);
    Ok(())
}

/// Signals are not enabled, and nobody else handles them.
fn init_signalled(_: Tier) -> Outcome {
    let _profile = tracing_gpu::init();
    work();
    wait_to_be_killed()
}

/// How often the program's own handler ran.
static HANDLED: AtomicU32 = AtomicU32::new(0);
/// The former handler of the signal.
static BEFORE: AtomicUsize = AtomicUsize::new(0);

/// Calls the former handler, then counts, as tokio's handler does.
extern "C" fn handled(signal: i32) {
    let before = BEFORE.load(Relaxed);
    if before != libc::SIG_DFL {
        // SAFETY: it was installed without `SA_SIGINFO`, so it is a function of this signature.
        unsafe { std::mem::transmute::<usize, extern "C" fn(i32)>(before)(signal) };
    }
    HANDLED.fetch_add(1, Relaxed);
}

fn handle_signal() {
    // SAFETY: the handler reads and writes atomics, and calls another handler.
    BEFORE.store(unsafe { libc::signal(libc::SIGINT, handled as *const () as usize) }, Relaxed);
}

/// Ends in its own way after a signal.
fn end_gracefully() -> Outcome {
    writeln!(std::io::stdout(), "ready")?;
    while HANDLED.load(Relaxed) == 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    info_span!("graceful").in_scope(|| std::thread::sleep(std::time::Duration::from_millis(50)));
    Ok(())
}

fn init_handles_signal(_: Tier) -> Outcome {
    let _profile = tracing_gpu::init();
    handle_signal();
    work();
    end_gracefully()
}

fn handles_signal_init(_: Tier) -> Outcome {
    handle_signal();
    let _profile = tracing_gpu::init();
    work();
    end_gracefully()
}

fn install_twice(_: Tier) -> Outcome {
    let too_small = Profiler::builder().sample_budget(1).install();
    let first = Profiler::builder().report([Report::Ranges]).install()?;
    let second = Profiler::builder().install();
    work();
    drop(first);
    let third = Profiler::builder().install();
    for refused in [too_small, second, third] {
        writeln!(std::io::stdout(), "{}", refused.err().map(|error| format!("{error:?}")).unwrap_or_default())?;
    }
    Ok(())
}

fn init_guard(_: Tier) -> Outcome {
    let _profile = tracing_gpu::init();
    work();
    Ok(())
}

fn init_leaked_process_exit(_: Tier) -> Outcome {
    std::mem::forget(tracing_gpu::init());
    work();
    std::process::exit(7);
}

fn init_twice(_: Tier) -> Outcome {
    let first = tracing_gpu::init();
    let second = tracing_gpu::init();
    writeln!(std::io::stdout(), "{} {}", first.profiler().is_some(), second.profiler().is_some())?;
    work();
    drop(second);
    work();
    Ok(())
}

/// After the first guard was dropped.
fn init_again(_: Tier) -> Outcome {
    let first = tracing_gpu::init();
    work();
    drop(first);
    let _inert = tracing_gpu::init();
    work();
    Ok(())
}

fn init_beside_another(_: Tier) -> Outcome {
    tracing::subscriber::set_global_default(tracing_subscriber::registry())?;
    let inert = tracing_gpu::init();
    writeln!(std::io::stdout(), "{}", inert.profiler().is_some())?;
    work();
    Ok(())
}

fn install_beside_another(_: Tier) -> Outcome {
    tracing::subscriber::set_global_default(tracing_subscriber::registry())?;
    let _profile = Profiler::builder().install()?;
    Ok(())
}

/// `tracing` refuses the second subscriber; the profiler continues and reports that no span arrived.
fn build_beside_another(tier: Tier) -> Outcome {
    let first = start(tier)?;
    let second = Profiler::builder().report([Report::Ranges]).build()?;
    assert!(tier.install(&second).is_err());
    work();
    second.finish()?;
    first.finish()?;
    Ok(())
}
