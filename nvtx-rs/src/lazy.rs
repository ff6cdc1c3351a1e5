//! Handles that a tool makes at first use, once.

use crate::abi::Handle;
use crate::client::function;
use crate::slots::Slot;
use crate::tool;
use parking_lot::Mutex;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

thread_local! {
    static CREATING: Cell<bool> = const { Cell::new(false) };
}

/// A handle that is null until a tool has made one. What a tool made is kept for the life of the process, since making
/// a domain twice doubles every count in Nsight Systems.
pub(crate) struct LazyHandle {
    handle: AtomicPtr<c_void>,
    /// The function that was asked and gave null; a tool that comes later is asked anew.
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
        // A tool that makes calls of its own gets along without a handle: it would wait for itself, or refuse itself.
        let in_tool = CREATING.get() || tool::is_inside();
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
