//! Replaces `tracing-gpu/src/sync.rs` in models: atomics whose every allowed order of reads and writes is tried. A
//! mutant may weaken each of these orders.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::sync::atomic as loom_atomic;

pub(crate) const PAGE: usize = 4;
pub(crate) const RECENT: usize = 2;

/// The orders after a wait are also tried without one.
pub(crate) fn pause(_attempt: u32) {
    if RUN.with_borrow_mut(|run| run.as_mut().is_some_and(|run| std::mem::take(&mut run.is_explored))) {
        loom::stop_exploring();
    }
    loom::thread::yield_now();
}

/// The mutation of one place in the sources.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wrong {
    /// The place orders nothing: a `Relaxed` access, no fence, or a lock that excludes others but orders nothing.
    Unordered,
    /// The store is left out.
    LeftOut,
}

/// A place in the sources: file, line, column.
type Place = (&'static str, u32, u32);

pub(crate) type Mutant = (Place, Wrong);

struct Run {
    met: Arc<loom_atomic::AtomicUsize>,
    /// Threads that have read since their last write.
    reading: Vec<loom::thread::ThreadId>,
    is_explored: bool,
}

thread_local! {
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
    static MUTANT: RefCell<Option<Mutant>> = const { RefCell::new(None) };
    /// The possible mutations in all code that has run.
    static MET: RefCell<HashSet<Mutant>> = RefCell::default();
}

/// Applies this mutation on this thread from now on.
pub(crate) fn do_wrong(mutant: Option<Mutant>) {
    MUTANT.set(mutant);
}

/// Called before each access. loom tries another order of two accesses only if no access to the same object lies
/// between; a thread that reads a word before it writes it thus hides that another thread has read it, too. So all
/// threads touch one object, without ordering, before each write and the reads before it. A read may return an old
/// value, so interruptions between these add nothing.
fn meet(writes: bool) {
    let thread = loom::thread::current().id();
    let object = RUN.with_borrow_mut(|run| {
        let run = run.as_mut()?;
        let begins = !run.reading.contains(&thread);
        if begins && !writes {
            run.reading.push(thread);
        }
        Some(Arc::clone(&run.met)).filter(|_| begins)
    });
    if writes {
        has_written();
    }
    object.into_iter().for_each(|met| _ = met.fetch_add(1, Ordering::Relaxed));
}

fn has_written() {
    let thread = loom::thread::current().id();
    RUN.with_borrow_mut(|run| run.iter_mut().for_each(|run| run.reading.retain(|reading| *reading != thread)));
}

/// Begins a run.
pub(crate) fn begin() {
    RUN.set(Some(Run { met: Arc::default(), reading: Vec::new(), is_explored: true }));
}

/// The possible mutations on this thread.
pub(crate) fn take_met() -> Vec<Mutant> {
    let mut met: Vec<_> = MET.take().into_iter().collect();
    met.sort();
    met
}

fn is_wrong(at: &'static Location<'static>, wrong: Wrong) -> bool {
    let place = (at.file(), at.line(), at.column());
    MET.with_borrow_mut(|met| met.insert((place, wrong)));
    MUTANT.with_borrow(|mutant| *mutant == Some((place, wrong)))
}

#[track_caller]
fn order(ordering: Ordering) -> Ordering {
    if ordering != Ordering::Relaxed && is_wrong(Location::caller(), Wrong::Unordered) {
        Ordering::Relaxed
    } else {
        ordering
    }
}

#[track_caller]
pub(crate) fn fence(ordering: Ordering) {
    if !is_wrong(Location::caller(), Wrong::Unordered) {
        meet(true);
        loom_atomic::fence(ordering);
    }
}

macro_rules! atomics {
    ($($name:ident: $value:ty),*) => {$(
        #[derive(Debug, Default)]
        pub(crate) struct $name(loom_atomic::$name);

        #[allow(dead_code)]
        impl $name {
            pub(crate) fn new(value: $value) -> Self {
                Self(loom_atomic::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn load(&self, ordering: Ordering) -> $value {
                meet(false);
                self.0.load(order(ordering))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, ordering: Ordering) {
                if !is_wrong(Location::caller(), Wrong::LeftOut) {
                    meet(true);
                    self.0.store(value, order(ordering));
                }
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, ordering: Ordering) -> $value {
                meet(true);
                self.0.swap(value, order(ordering))
            }

            #[track_caller]
            pub(crate) fn fetch_add(&self, value: $value, ordering: Ordering) -> $value {
                meet(true);
                self.0.fetch_add(value, order(ordering))
            }

            #[track_caller]
            pub(crate) fn fetch_sub(&self, value: $value, ordering: Ordering) -> $value {
                meet(true);
                self.0.fetch_sub(value, order(ordering))
            }

            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                from: $value,
                to: $value,
                done: Ordering,
                failed: Ordering,
            ) -> Result<$value, $value> {
                meet(true);
                self.0.compare_exchange_weak(from, to, order(done), failed)
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                done: Ordering,
                failed: Ordering,
                update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                meet(true);
                self.0.fetch_update(order(done), failed, update)
            }
        }
    )*};
}

atomics!(AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize, AtomicIsize: isize);

/// A lock whose waiting and ordering belong to the model.
#[derive(Debug)]
pub(crate) struct Mutex<T> {
    order: loom::sync::Mutex<()>,
    value: parking_lot::Mutex<T>,
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

pub(crate) struct MutexGuard<'a, T> {
    // Released in this order.
    value: parking_lot::MutexGuard<'a, T>,
    _order: Option<loom::sync::MutexGuard<'a, ()>>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { order: loom::sync::Mutex::new(()), value: parking_lot::Mutex::new(value) }
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let is_unordered = is_wrong(Location::caller(), Wrong::Unordered);
        loop {
            meet(true);
            let order = if is_unordered { None } else { self.order.lock().ok() };
            if let Some(value) = self.value.try_lock() {
                return MutexGuard { value, _order: order };
            }
            drop(order);
            loom::thread::yield_now();
        }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        meet(true);
        let order = self.order.try_lock().ok()?;
        Some(MutexGuard { value: self.value.try_lock()?, _order: Some(order) })
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        has_written();
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}
