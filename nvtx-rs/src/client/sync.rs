//! Synchronisation objects of your own making, so that tools can show who waits for whom.

use super::domain::Domain;
use super::{calls, text};
use crate::abi::program::{SLOTS, is_ready};
use crate::abi::{self, Handle};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A lock, queue or barrier that the operating system does not know, announced to the tool.
///
/// Call [`acquire_start`](Self::acquire_start) before waiting, then report the result, and call
/// [`releasing`](Self::releasing) before the release.
///
/// ```
/// use nvtx_rs::{Domain, SyncObject};
/// let spin = SyncObject::new(Domain::DEFAULT, "spin lock");
/// spin.acquire_start();
/// // .. wait ..
/// spin.acquire_success();
/// // .. work ..
/// spin.releasing();
/// ```
#[derive(Debug)]
pub struct SyncObject(AtomicPtr<c_void>);

macro_rules! sync_calls {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[inline]
        pub fn $name(&self) {
            let handle = self.handle();
            if !handle.is_null() {
                calls::$name(handle);
            }
        }
    )* };
}

impl SyncObject {
    /// Announces an object. An object created while no tool is attached stays unknown to tools.
    #[must_use]
    pub fn new(domain: Domain, name: &str) -> Self {
        if !is_ready(&SLOTS.sync[abi::sync::CREATE]) {
            return Self(AtomicPtr::new(null_mut()));
        }
        let create = |name: &_| calls::create_sync(domain.handle(), &calls::SyncUser::new(name));
        Self(AtomicPtr::new(text::with_c_str(name, create)))
    }

    sync_calls! {
        /// This thread begins to wait for the object.
        acquire_start;
        /// This thread gave up waiting.
        acquire_failed;
        /// This thread has the object.
        acquire_success;
        /// This thread is about to let the object go.
        releasing;
    }

    fn handle(&self) -> Handle {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for SyncObject {
    fn drop(&mut self) {
        let handle = self.handle();
        if !handle.is_null() {
            calls::destroy_sync(handle);
        }
    }
}
