//! Names for threads and for CUDA objects, which tools show instead of numbers.
//!
//! An object's handle is passed on as a number: neither this crate nor, by the interface's contract, a tool
//! dereferences it. Name an object while it lives.

use super::{calls, text};
use crate::abi::program::{SLOTS, is_set};
use crate::abi::{self, Handle};

/// Names this thread. Does nothing if its number is unknown; finding it needs `/proc`.
///
/// ```
/// std::thread::spawn(|| nvtx_rs::naming::name_current_thread("loader")).join().unwrap();
/// ```
pub fn name_current_thread(name: &str) {
    if is_set(&SLOTS.core[abi::core::NAME_OS_THREAD_A])
        && let Some(id) = current_thread_id()
    {
        name_thread(id, name);
    }
}

/// Names the thread with this number; on Linux the kernel's (`gettid`).
pub fn name_thread(id: u32, name: &str) {
    text::with_c_str(name, |name| calls::name_thread(id, name));
}

/// The kernel's number of this thread, if it can be determined.
///
/// ```
/// let main = nvtx_rs::naming::current_thread_id();
/// let other = std::thread::spawn(nvtx_rs::naming::current_thread_id).join().unwrap();
/// assert!(main.is_none() || main != other);
/// ```
#[must_use]
pub fn current_thread_id() -> Option<u32> {
    // The link reads "<process>/task/<thread>".
    let link = std::fs::read_link("/proc/thread-self").ok()?;
    link.file_name()?.to_str()?.parse().ok()
}

/// The handle of a context, stream or event, as a number that is never dereferenced.
///
/// ```
/// use nvtx_rs::naming::ObjectHandle;
/// let stream: *mut std::ffi::c_void = std::ptr::null_mut();
/// assert_eq!(ObjectHandle::from(stream), ObjectHandle::from(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ObjectHandle(usize);

impl ObjectHandle {
    /// The handle's value.
    #[must_use]
    pub fn value(self) -> usize {
        self.0
    }

    pub(super) fn to_pointer(self) -> Handle {
        std::ptr::with_exposed_provenance_mut(self.0)
    }
}

impl From<usize> for ObjectHandle {
    fn from(value: usize) -> Self {
        Self(value)
    }
}

impl<T> From<*mut T> for ObjectHandle {
    fn from(pointer: *mut T) -> Self {
        Self(pointer.expose_provenance())
    }
}

macro_rules! name_object {
    ($(#[$doc:meta])* $name:ident => $call:ident) => {
        $(#[$doc])*
        pub fn $name(object: impl Into<ObjectHandle>, name: &str) {
            let object = object.into();
            text::with_c_str(name, |name| calls::$call(object.to_pointer(), name));
        }
    };
}

/// Names for objects of the CUDA driver interface.
pub mod driver {
    use super::{ObjectHandle, calls, text};

    /// Names a device (`CUdevice`).
    pub fn name_device(device: i32, name: &str) {
        text::with_c_str(name, |name| calls::name_cu_device(device, name));
    }

    name_object! {
        /// Names a context (`CUcontext`).
        name_context => name_cu_context
    }
    name_object! {
        /// Names a stream (`CUstream`).
        ///
        /// ```
        /// # let stream: *mut std::ffi::c_void = std::ptr::null_mut();
        /// nvtx_rs::naming::driver::name_stream(stream, "copy");
        /// ```
        name_stream => name_cu_stream
    }
    name_object! {
        /// Names an event (`CUevent`).
        name_event => name_cu_event
    }
}

/// Names for objects of the CUDA runtime interface.
pub mod runtime {
    use super::{ObjectHandle, calls, text};

    /// Names a device by its ordinal.
    pub fn name_device(device: i32, name: &str) {
        text::with_c_str(name, |name| calls::name_cuda_device(device, name));
    }

    name_object! {
        /// Names a stream (`cudaStream_t`).
        name_stream => name_cuda_stream
    }
    name_object! {
        /// Names an event (`cudaEvent_t`).
        name_event => name_cuda_event
    }
}
