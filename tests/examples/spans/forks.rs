//! Forks while another thread is in the middle of something: at each of its allocations, with whatever locks it holds
//! there.
#![allow(unsafe_code)] // an allocator, and fork

use crate::stage::Tier;
use crate::{Outcome, Scenario};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write as _;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tracing::span::EnteredSpan;
use tracing::{Span, info, info_span};
use tracing_gpu::{Output, Profiler, Report};

pub(crate) const ALL: &[Scenario] = &[("fork-anywhere", fork_anywhere)];

/// Seconds that a child may take to exit, less than it would wait for a lock that nobody releases.
const SECONDS: u32 = 4;

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    Working,
    /// The thread waits inside an allocation.
    Allocating,
    Over,
}

static TURN: Mutex<Turn> = Mutex::new(Turn::Working);
static CHANGED: Condvar = Condvar::new();

thread_local! {
    /// Whether this thread waits at each of its allocations.
    static WAITS: Cell<bool> = const { Cell::new(false) };
    /// If allocations of this thread are counted: `GIVEN` is how many remain, `REFUSED` how many were refused.
    static GIVEN: Cell<Option<u64>> = const { Cell::new(None) };
    static REFUSED: Cell<u64> = const { Cell::new(0) };
}

/// Runs `body` with memory for `given` allocations of this thread. Returns how many further ones were refused.
pub(crate) fn with_allocations(given: u64, body: impl FnOnce()) -> u64 {
    REFUSED.set(0);
    GIVEN.set(Some(given));
    body();
    GIVEN.set(None);
    REFUSED.get()
}

/// A page of a histogram, which a row gets with the first duration in its octave.
const PAGE: usize = 2048;

/// Whether this thread may get no further block.
fn is_refused(bytes: usize) -> bool {
    let Ok(Some(given)) = GIVEN.try_with(Cell::get) else { return false };
    if bytes == PAGE {
        return false;
    }
    match given.checked_sub(1) {
        Some(left) => GIVEN.set(Some(left)),
        None => REFUSED.set(REFUSED.get() + 1),
    }
    given == 0
}

fn turn() -> MutexGuard<'static, Turn> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait_until(is_it: impl Fn(Turn) -> bool) -> Turn {
    *CHANGED.wait_while(turn(), |turn| !is_it(*turn)).unwrap_or_else(PoisonError::into_inner)
}

fn is_now(next: Turn) {
    *turn() = next;
    CHANGED.notify_all();
}

struct Waiting;

// SAFETY: every call goes on to the system's allocator with unchanged arguments, or is refused by a null pointer.
// Waiting and counting allocate nothing.
unsafe impl GlobalAlloc for Waiting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if WAITS.try_with(Cell::get).unwrap_or(false) {
            is_now(Turn::Allocating);
            wait_until(|turn| turn == Turn::Working);
        }
        if is_refused(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Waiting = Waiting;

/// Spans with new names, and others. The call sites are known before, because `tracing` has a lock for new ones.
fn spans(name: &str, kept: Option<Span>) {
    for number in 0..3 {
        let span = info_span!("new", nvtx.name = format!("{name} {number}"), nvtx.lifetime = true);
        span.in_scope(|| info_span!("work").in_scope(|| info!("event")));
        span.record("nvtx.name", "recorded");
    }
    if let Some(kept) = kept {
        kept.in_scope(|| ());
        kept.record("nvtx.name", name);
    }
}

/// A child that ends the span around it, makes others and exits. Returns how it ended.
fn forked(around: &mut Option<EnteredSpan>, kept: &Span, profiler: &Profiler) -> i32 {
    // SAFETY: the child arms a timer, makes spans and exits, which runs destructors of thread-locals and exit hooks, as
    // the test requires.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the signal ends the process.
        unsafe { libc::alarm(SECONDS) };
        drop(around.take());
        spans("child", Some(kept.clone()));
        profiler.reset();
        assert!(profiler.summary().ranges.is_empty());
        // SAFETY: `exit` takes any number.
        unsafe { libc::exit(0) };
    }
    let mut status = 0;
    // SAFETY: `child` is a child of this process that nobody else waits for, and `status` is a live `c_int`.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    status
}

/// The other thread makes its first span, and then enough profilers to make their list grow.
fn fork_anywhere(tier: Tier) -> Outcome {
    let profiler = Profiler::builder().report([Report::Ranges]).build()?;
    tier.install(&profiler)?;
    spans("parent", None);
    let kept = info_span!("kept", nvtx.name = "kept", nvtx.lifetime = true);
    let (mut around, shared) = (Some(info_span!("around").entered()), kept.clone());
    let other = std::thread::spawn(move || {
        WAITS.set(true);
        info_span!("there").in_scope(|| ());
        spans("there", Some(shared));
        let built: Vec<_> = (0..8).map(|_| Profiler::builder().output(Output::None).build()).collect();
        WAITS.set(false);
        is_now(Turn::Over);
        built.into_iter().try_for_each(|built| built.map(drop))
    });
    let (mut forks, mut stuck) = (0, Vec::new());
    while wait_until(|turn| turn != Turn::Working) == Turn::Allocating {
        match forked(&mut around, &kept, &profiler) {
            0 => {}
            status => stuck.push((forks, status)),
        }
        forks += 1;
        is_now(Turn::Working);
    }
    drop(around);
    other.join().map_err(|_| "the thread panicked")??;
    writeln!(std::io::stdout(), "{} of the children are stuck: {stuck:?}", stuck.len())?;
    if forks < 20 {
        return Err(format!("only {forks} forks").into());
    }
    Ok(())
}
