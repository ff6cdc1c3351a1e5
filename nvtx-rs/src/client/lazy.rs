//! Handles that a tool makes at first use, once.

use crate::abi::Handle;
use crate::abi::program::{function, is_inside_tool};
use crate::abi::slots::Slot;
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

thread_local! {
    static CREATING: Cell<bool> = const { Cell::new(false) };
}

/// A handle that is null until a tool has made one. It is kept for the life of the process, because creating a domain
/// twice doubles every count in Nsight Systems.
pub(crate) struct LazyHandle {
    handle: AtomicPtr<c_void>,
    /// The function that returned null; a later tool is asked again.
    refused_by: AtomicPtr<c_void>,
    creating: Mutex<()>,
}

impl LazyHandle {
    pub(crate) const fn new() -> Self {
        Self { handle: AtomicPtr::new(null_mut()), refused_by: AtomicPtr::new(null_mut()), creating: Mutex::new(()) }
    }

    /// The handle, made by `create` if there is none and a tool has filled `slot`.
    #[inline]
    pub(crate) fn get(&self, slot: &Slot, create: impl FnOnce() -> Handle) -> Handle {
        let handle = self.handle.load(Ordering::Acquire);
        if handle.is_null() { self.make(slot, create) } else { handle }
    }

    #[cold]
    fn make(&self, slot: &Slot, create: impl FnOnce() -> Handle) -> Handle {
        let Some(creator) = function(slot) else { return null_mut() };
        // A tool that makes calls itself works without a handle: otherwise it would wait for itself, or refuse itself.
        let in_tool = CREATING.get() || is_inside_tool();
        if in_tool || self.refused_by.load(Ordering::Acquire) == creator {
            return null_mut();
        }
        let _one_at_a_time = self.creating.lock();
        let mut handle = self.handle.load(Ordering::Acquire);
        if handle.is_null() && self.refused_by.load(Ordering::Acquire) != creator {
            CREATING.set(true);
            handle = create();
            CREATING.set(false);
            if handle.is_null() {
                self.refused_by.store(creator, Ordering::Release);
            } else {
                self.handle.store(handle, Ordering::Release);
            }
        }
        handle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    /// Stands for a function or a handle, which is neither called nor dereferenced here.
    fn pointer(number: usize) -> *mut c_void {
        std::ptr::without_provenance_mut(number)
    }

    #[test]
    fn a_tool_that_comes_later_is_asked_once() {
        let (slot, handle) = (Slot::new(null_mut()), LazyHandle::new());
        assert!(handle.get(&slot, || unreachable!("nobody to ask")).is_null());
        slot.store(pointer(8), Ordering::Relaxed);
        assert_eq!(handle.get(&slot, || pointer(16)), pointer(16));
        assert_eq!(handle.get(&slot, || unreachable!("asked twice")), pointer(16));
        // The same holds when the tool goes or another one comes.
        for creator in [null_mut(), pointer(24)] {
            slot.store(creator, Ordering::Relaxed);
            assert_eq!(handle.get(&slot, || unreachable!("asked twice")), pointer(16));
        }
    }

    #[test]
    fn a_refusal_is_remembered_until_another_tool_comes() {
        let (slot, handle) = (Slot::new(pointer(8)), LazyHandle::new());
        assert!(handle.get(&slot, null_mut).is_null());
        assert!(handle.get(&slot, || unreachable!("asked twice")).is_null());
        slot.store(pointer(24), Ordering::Relaxed);
        assert_eq!(handle.get(&slot, || pointer(16)), pointer(16));
    }

    #[test]
    fn a_tool_that_calls_back_is_not_waited_for() {
        let (slot, handle) = (Slot::new(pointer(8)), LazyHandle::new());
        let ask_again = || handle.get(&slot, || unreachable!("asked while being asked"));
        let create = || {
            assert!(ask_again().is_null());
            pointer(16)
        };
        assert_eq!(handle.get(&slot, create), pointer(16));
    }

    #[test]
    fn threads_ask_once() {
        static CREATED: AtomicUsize = AtomicUsize::new(0);
        let (slot, handle) = (Slot::new(pointer(8)), LazyHandle::new());
        let create = || {
            thread::yield_now();
            pointer(16 * (CREATED.fetch_add(1, Ordering::Relaxed) + 1))
        };
        thread::scope(|scope| {
            for _ in 0..32 {
                scope.spawn(|| assert_eq!(handle.get(&slot, create), pointer(16)));
            }
        });
        assert_eq!(CREATED.load(Ordering::Relaxed), 1);
    }
}
