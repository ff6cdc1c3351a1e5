//! Synchronisation objects of your own making, so that tools can show who waits for whom.

use super::domain::Domain;
use super::naming::ObjectHandle;
use super::{calls, text};
use crate::abi;
use crate::abi::program::{SLOTS, is_ready};

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
pub struct SyncObject(ObjectHandle);

macro_rules! sync_calls {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[inline]
        pub fn $name(&self) {
            if self.0.value() != 0 {
                calls::$name(self.0.to_pointer());
            }
        }
    )* };
}

impl SyncObject {
    /// Announces an object. An object created while no tool is attached stays unknown to tools.
    #[must_use]
    pub fn new(domain: Domain, name: &str) -> Self {
        if !is_ready(&SLOTS.sync[abi::sync::CREATE]) {
            return Self(0.into());
        }
        let create = |name: &_| calls::create_sync(domain.handle(), &calls::SyncUser::new(name));
        Self(text::with_c_str(name, create).into())
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
}

impl Drop for SyncObject {
    fn drop(&mut self) {
        if self.0.value() != 0 {
            calls::destroy_sync(self.0.to_pointer());
        }
    }
}
