//! A forked child has none of its parent's threads, but may make calls at once: no lock may stay locked.

#![allow(unsafe_code)]

use super::handles::{DOMAINS, Index, OBJECTS, Object, STRINGS};
use super::schema::{TYPES, Type};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Once, RwLockWriteGuard};

thread_local! {
    /// The locks, while this thread forks.
    static HELD: Cell<Option<All>> = const { Cell::new(None) };
}

/// Makes each fork take the locks before, and release them afterwards in both processes.
#[cfg(unix)]
pub(super) fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // SAFETY: three functions without arguments that live as long as this library and do not unwind. If there is no
        // memory to register them, forks are unprotected.
        let _no_memory = unsafe { libc::pthread_atfork(Some(lock), Some(unlock), Some(unlock)) };
    });
}

#[cfg(not(unix))]
pub(super) fn watch() {}

#[cfg(unix)]
extern "C" fn lock() {
    // A thread that is being torn down cannot store them.
    let _gone = HELD.try_with(|held| held.set(Some(lock_all())));
}

#[cfg(unix)]
extern "C" fn unlock() {
    let _gone = HELD.try_with(Cell::take);
}

/// All locks of this folder. None is held while foreign code runs or another one is taken.
type All = (
    RwLockWriteGuard<'static, Index>,
    RwLockWriteGuard<'static, Index>,
    RwLockWriteGuard<'static, BTreeMap<usize, Object>>,
    RwLockWriteGuard<'static, BTreeMap<(usize, u64), Type>>,
);

/// Waits until no other thread holds a lock. A child forked now can drop them and take them again, because these locks
/// keep no state outside of themselves.
fn lock_all() -> All {
    (DOMAINS.lock(), STRINGS.lock(), OBJECTS.write(), TYPES.write())
}

#[cfg(all(test, unix))]
mod tests {
    use super::{DOMAINS, OBJECTS, STRINGS, TYPES};
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Threads hold each of the locks half of the time; each child takes all of them.
    #[test]
    fn a_child_finds_no_lock_taken() {
        super::watch();
        let done = AtomicBool::new(false);
        let work = |what: fn()| {
            while !done.load(Ordering::Relaxed) {
                what();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| work(|| _ = DOMAINS.make(null_mut(), "domain")));
            scope.spawn(|| work(|| _ = STRINGS.make(null_mut(), "text")));
            scope.spawn(|| work(|| drop(OBJECTS.write().insert(1, Default::default()))));
            scope.spawn(|| work(|| drop(TYPES.write().remove(&(1, 1)))));
            for _ in 0..40 {
                // SAFETY: the child only takes locks and allocates, which the C library allows.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    // SAFETY: no arguments that could be wrong. A child that waits for ever is killed.
                    unsafe { libc::alarm(30) };
                    drop(super::lock_all());
                    STRINGS.make(null_mut(), "the child's");
                    // SAFETY: no code of the parent must run in the child.
                    unsafe { libc::_exit(0) };
                }
                let mut status = -1;
                // SAFETY: the place for the status is there.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
                if status != 0 {
                    done.store(true, Ordering::Relaxed);
                }
                assert_eq!(status, 0, "the child waited for a lock");
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
