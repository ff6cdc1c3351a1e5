//! Marks driver calls that are our own; tables leave them out.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

thread_local! {
    /// Nesting depth of our own driver code on this thread. Needs no destructor.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// See [`calls`].
#[derive(Debug)]
#[must_use]
pub struct Calls(PhantomData<*const ()>); // must be dropped on the thread that made it

/// From here until what it returns is dropped, driver calls of this thread are our own.
#[inline]
pub fn calls() -> Calls {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    Calls(PhantomData)
}

impl Drop for Calls {
    #[inline]
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get().saturating_sub(1)));
    }
}

/// Runs a closure whose driver calls are our own.
pub fn during<T>(calls_of_ours: impl FnOnce() -> T) -> T {
    let _ours = calls();
    calls_of_ours()
}

/// Marks all further calls of this thread as our own.
pub fn whole_thread() {
    DEPTH.set(1);
}

/// Runs `body` on a new thread, as our own driver calls. Returns `None` if it takes longer than `time`; it may end
/// later, or never.
pub fn within<T: Send + 'static>(time: Duration, body: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let ours = Arc::new(Mutex::new(None));
    let theirs = Arc::clone(&ours);
    run_within(time, Box::new(move || *theirs.lock() = Some(body())));
    ours.lock().take()
}

/// Compiled once, and not for each type of result.
fn run_within(time: Duration, body: Box<dyn FnOnce() + Send>) {
    let ours = Arc::new((Mutex::new(false), Condvar::new()));
    let theirs = Arc::clone(&ours);
    let start = move || {
        whole_thread();
        body();
        *theirs.0.lock() = true;
        theirs.1.notify_one();
    };
    if std::thread::Builder::new().name("tracing-gpu-end".to_owned()).spawn(start).is_ok() {
        ours.1.wait_while_for(&mut ours.0.lock(), |is_done| !*is_done, time);
    }
}

/// Whether the call that is being made on this thread is our own.
#[inline]
#[must_use]
pub fn is_own() -> bool {
    DEPTH.get() > 0
}
