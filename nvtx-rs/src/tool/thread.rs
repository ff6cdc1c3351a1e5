//! The state of each thread: whether it is inside a tool, and how many ranges it has open in each domain.

use crate::abi::Handle;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

/// State of a thread. It needs no memory of its own, so it exists until the thread's end.
pub(super) struct Thread {
    is_inside: Cell<bool>,
    pub(super) depths: Depths,
}

thread_local! {
    static THREAD: Thread = const { Thread { is_inside: Cell::new(false), depths: Depths::new() } };
}

/// Whether this thread is inside a tool of this crate: also in a signal handler that interrupted one, which may then
/// hold locks.
#[must_use]
pub fn is_inside() -> bool {
    THREAD.with(|thread| thread.is_inside.get())
}

/// Number of calls that arrived while a tool was being called on their thread.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// How many NVTX calls of this process no tool received, because one was being called on their thread: the tool made
/// them, or a signal handler that interrupted it.
#[must_use]
pub fn ignored_calls() -> u64 {
    IGNORED.load(Ordering::Relaxed)
}

/// Runs `call` with this thread marked as inside a tool, so that calls made there are not received again; `None` if it
/// is inside already.
#[inline]
pub(super) fn inside<R>(call: impl FnOnce(&Thread) -> R) -> Option<R> {
    struct Mark<'a>(&'a Cell<bool>);
    impl Drop for Mark<'_> {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }
    THREAD.with(|thread| {
        if thread.is_inside.replace(true) {
            IGNORED.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let _mark = Mark(&thread.is_inside);
        Some(call(thread))
    })
}

/// Runs this in a tool's call as if no call were going on: the tool vouches that it holds no lock, and that nothing of
/// its thread is half changed.
#[doc(hidden)]
pub fn outside<R>(run: impl FnOnce() -> R) -> R {
    THREAD.with(|thread| {
        let before = thread.is_inside.replace(false);
        let result = run();
        thread.is_inside.set(before);
        result
    })
}

/// How many ranges of each domain a thread has open.
pub(super) struct Depths {
    /// Each domain has at most one slot, which is free while the domain has no open range.
    few: [Cell<(usize, i32)>; 4],
    /// Whether [`MANY`] has further domains with open ranges.
    has_more: Cell<bool>,
}

thread_local! {
    /// The domains without a slot in [`Depths`]. [`Depths`] needs no memory, and so also works for calls that a thread
    /// makes while it is being torn down.
    static MANY: Kept<BTreeMap<usize, i32>> = const { Kept::new(BTreeMap::new()) };
}

/// A value of a thread. It is released when the thread ends, but not where a signal handler ends the process inside a
/// call of a tool: the call may be changing the value, and have released parts of it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Kept<T: Default>(RefCell<T>);

impl<T: Default> Kept<T> {
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }
}

impl<T: Default> Deref for Kept<T> {
    type Target = RefCell<T>;

    #[inline]
    fn deref(&self) -> &RefCell<T> {
        &self.0
    }
}

impl<T: Default> Drop for Kept<T> {
    fn drop(&mut self) {
        if is_inside() {
            std::mem::forget(std::mem::take(self.0.get_mut()));
        }
    }
}

impl Depths {
    pub(super) const fn new() -> Self {
        Self { few: [const { Cell::new((0, 0)) }; 4], has_more: Cell::new(false) }
    }

    /// Counts a range opened. Returns how many were open before.
    #[inline]
    pub(super) fn deepen(&self, domain: Handle) -> i32 {
        let domain = domain.addr();
        if self.has_more.get()
            && let Some(depth) = self.change_many(domain, false, 1)
        {
            return depth;
        }
        let free = || self.few.iter().find(|place| place.get().1 == 0);
        let Some(place) = self.few.iter().find(|place| place.get().0 == domain).or_else(free) else {
            // A thread that is being torn down has lost these counts.
            return self.change_many(domain, true, 1).unwrap_or(0);
        };
        let (_, depth) = place.get();
        place.set((domain, depth.saturating_add(1)));
        depth
    }

    /// Counts a range closed. Returns the depth of that range, or `None` if no range was open.
    #[inline]
    pub(super) fn rise(&self, domain: Handle) -> Option<i32> {
        let domain = domain.addr();
        if self.has_more.get()
            && let Some(depth) = self.change_many(domain, false, -1)
        {
            return Some(depth - 1);
        }
        let place = self.few.iter().find(|place| place.get().0 == domain)?;
        let depth = place.get().1.checked_sub(1).filter(|depth| *depth >= 0)?;
        place.set((domain, depth));
        Some(depth)
    }

    /// The depth before the change; `None` if the domain is unknown and `add` is false.
    #[cold]
    fn change_many(&self, domain: usize, add: bool, change: i32) -> Option<i32> {
        let apply = |many: &Kept<BTreeMap<usize, i32>>| {
            let mut many = many.borrow_mut();
            let depth = if add { *many.entry(domain).or_insert(0) } else { *many.get(&domain)? };
            match depth.saturating_add(change) {
                0 => many.remove(&domain),
                changed => many.insert(domain, changed),
            };
            self.has_more.set(!many.is_empty());
            Some(depth)
        };
        MANY.try_with(apply).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn what_a_call_may_be_changing_is_not_released() {
        let value = Rc::new(());
        drop(Kept::new(vec![Rc::clone(&value)]));
        assert_eq!(Rc::strong_count(&value), 1);
        let left = inside(|_| {
            let kept = Kept::new(vec![Rc::clone(&value)]);
            std::mem::forget(kept.borrow_mut()); // as a call that was interrupted holds it
            drop(kept);
        });
        assert_eq!((left, Rc::strong_count(&value)), (Some(()), 2));
    }

    #[test]
    fn depths_of_many_domains_are_kept_apart() {
        let depths = Depths::new();
        let domain = |number: usize| std::ptr::without_provenance_mut(number);
        for round in 0..3 {
            assert!((0..20).all(|number| depths.deepen(domain(number)) == round));
        }
        // A slot becomes free. A domain without a slot stays in `MANY`.
        for depth in (0..3).rev() {
            assert_eq!(depths.rise(domain(0)), Some(depth));
        }
        assert_eq!((depths.rise(domain(0)), depths.deepen(domain(19)), depths.deepen(domain(99))), (None, 3, 0));
        assert_eq!(depths.rise(domain(19)), Some(3));
        for depth in (0..3).rev() {
            assert!((1..20).all(|number| depths.rise(domain(number)) == Some(depth)));
        }
        assert!((1..20).all(|number| depths.rise(domain(number)).is_none()));
        assert_eq!(depths.rise(domain(99)), Some(0));
    }
}
