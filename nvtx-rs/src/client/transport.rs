//! Sends the calls through NVIDIA's own crate instead of this crate's client (feature `nvidia`).
//!
//! The API stays the same. This is for comparing the two, and for programs whose C parts link a tool statically, which
//! only NVIDIA's client finds. Building it takes a C compiler and libclang.

#![allow(unsafe_code)]

use crate::abi::environment::variable;
use crate::abi::loading::{State, load_library};
use crate::abi::program::{SLOTS, initialize};
use crate::abi::{self, module};
use nvtx::sys::ffi;
use std::error::Error;
use std::ffi::c_void;
use std::fmt;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

/// Why the transport could not be set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportError {
    /// An NVTX call was made before, or a tool was attached in the process: the choice is made once.
    TooLate,
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLate => f.write_str("the transport can be chosen only before the first NVTX call of the process"),
        }
    }
}

impl Error for TransportError {}

/// Sends all further calls through NVIDIA's crate `nvtx`.
///
/// [`is_tool_attached`](crate::is_tool_attached) is true if the library in `NVTX_INJECTION64_PATH` can be loaded and
/// has an entry point. Unlike this crate's client, NVIDIA's does not report whether the entry point then failed.
///
/// # Errors
/// If an NVTX call was made before.
///
/// ```
/// use nvtx_rs::transport::{TransportError, use_nvidia};
/// use_nvidia()?;
/// drop(nvtx_rs::range!("through NVIDIA's crate"));
/// assert_eq!(use_nvidia(), Err(TransportError::TooLate));
/// # Ok::<(), TransportError>(())
/// ```
pub fn use_nvidia() -> Result<(), TransportError> {
    if initialize(load) { Ok(()) } else { Err(TransportError::TooLate) }
}

fn load() -> State {
    // SAFETY: accepts null, and needs nothing else.
    unsafe { ffi::nvtxInitialize(std::ptr::null()) };
    let state = match variable(abi::INJECTION_PATH) {
        Some(path) => match load_library(path.into()) {
            Ok((library, _entry)) => {
                library.keep();
                State::Attached
            }
            Err(state) => state,
        },
        // Only NVIDIA's client finds a tool linked into the program. An unhandled pop shows that there is none; a
        // handled one closes nothing, because this thread has opened nothing. SAFETY: null stands for the default
        // domain.
        None if unsafe { ffi::nvtxDomainRangePop(null_mut()) } == abi::NO_PUSH_POP_TRACKING => State::NotSet,
        None => State::Attached,
    };
    if state == State::Attached {
        for (module, id, function) in functions() {
            if let Some(slot) = SLOTS.of(module).get(id) {
                slot.store(function, Ordering::Release);
            }
        }
    }
    state
}

/// NVIDIA's functions for the calls of this crate. By the interface they have the types of the slots.
fn functions() -> [(i32, usize, *mut c_void); 24] {
    use crate::abi::{core, core2, cuda, cudart, sync};
    [
        (module::CORE2, core2::MARK_EX, ffi::nvtxDomainMarkEx as *mut c_void),
        (module::CORE2, core2::RANGE_START_EX, ffi::nvtxDomainRangeStartEx as *mut c_void),
        (module::CORE2, core2::RANGE_END, ffi::nvtxDomainRangeEnd as *mut c_void),
        (module::CORE2, core2::RANGE_PUSH_EX, ffi::nvtxDomainRangePushEx as *mut c_void),
        (module::CORE2, core2::RANGE_POP, ffi::nvtxDomainRangePop as *mut c_void),
        (module::CORE2, core2::RESOURCE_CREATE, ffi::nvtxDomainResourceCreate as *mut c_void),
        (module::CORE2, core2::RESOURCE_DESTROY, ffi::nvtxDomainResourceDestroy as *mut c_void),
        (module::CORE2, core2::NAME_CATEGORY_A, ffi::nvtxDomainNameCategoryA as *mut c_void),
        (module::CORE2, core2::REGISTER_STRING_A, ffi::nvtxDomainRegisterStringA as *mut c_void),
        (module::CORE2, core2::DOMAIN_CREATE_A, ffi::nvtxDomainCreateA as *mut c_void),
        (module::CORE, core::NAME_OS_THREAD_A, ffi::nvtxNameOsThreadA as *mut c_void),
        (module::CUDA, cuda::DEVICE_A, ffi::nvtxNameCuDeviceA as *mut c_void),
        (module::CUDA, cuda::CONTEXT_A, ffi::nvtxNameCuContextA as *mut c_void),
        (module::CUDA, cuda::STREAM_A, ffi::nvtxNameCuStreamA as *mut c_void),
        (module::CUDA, cuda::EVENT_A, ffi::nvtxNameCuEventA as *mut c_void),
        (module::CUDART, cudart::DEVICE_A, ffi::nvtxNameCudaDeviceA as *mut c_void),
        (module::CUDART, cudart::STREAM_A, ffi::nvtxNameCudaStreamA as *mut c_void),
        (module::CUDART, cudart::EVENT_A, ffi::nvtxNameCudaEventA as *mut c_void),
        (module::SYNC, sync::CREATE, ffi::nvtxDomainSyncUserCreate as *mut c_void),
        (module::SYNC, sync::DESTROY, ffi::nvtxDomainSyncUserDestroy as *mut c_void),
        (module::SYNC, sync::ACQUIRE_START, ffi::nvtxDomainSyncUserAcquireStart as *mut c_void),
        (module::SYNC, sync::ACQUIRE_FAILED, ffi::nvtxDomainSyncUserAcquireFailed as *mut c_void),
        (module::SYNC, sync::ACQUIRE_SUCCESS, ffi::nvtxDomainSyncUserAcquireSuccess as *mut c_void),
        (module::SYNC, sync::RELEASING, ffi::nvtxDomainSyncUserReleasing as *mut c_void),
    ]
}
